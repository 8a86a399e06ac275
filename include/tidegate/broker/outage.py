"""An outage of the brokers while Spark runs: its clients would retry for 90 seconds, unnamed."""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Self

from tidegate.broker.client_settings import KafkaSettings
from tidegate.broker.cluster import Cluster

PATIENCE = 20.0
"""Seconds: a broker that answers one probe in this time is not out."""
_INTERVAL = 2.0  # seconds between probes
_SHORT = 2.0  # the patience, in seconds, of a probe whose failure decides nothing alone
_LAST = 5.0  # the patience, in seconds, when Spark has failed: on a busy machine answers are late
_RETRY = 0.5  # seconds after a refused connection
# ApiVersions, version 0: a broker of any version answers it, and before a login.
_REQUEST = struct.pack(">ihhih", 10, 18, 0, 0, -1)

Address = tuple[str, int]


class BrokerWatch:
    """Probes the brokers while a block runs, and calls `stop` once if it is an outage.

    It is one when none of the cluster's brokers, whichever the connection names, has answered any
    probe for PATIENCE. What a broker answers does not matter: partitions without a leader and
    refused logins are left to Spark.
    """

    def __init__(self, kafka: KafkaSettings, stop: Callable[[], object]) -> None:
        self._kafka, self._stop = kafka, stop
        self._brokers = _bootstrap(kafka)
        self._tls = kafka.extra.get("security.protocol", "").endswith("SSL")
        self._ended = threading.Event()
        self._stopped = False

    def __enter__(self) -> Self:
        threading.Thread(target=self._watch, name="tidegate-broker-watch", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def outage(self) -> str | None:
        """Return what to say if the block was stopped, or if no broker answers now; else None."""
        if self._stopped:
            return f"no broker has answered for {PATIENCE:.0f} s, and Spark was stopped"
        if not answers(self._brokers, tls=self._tls, patience=_LAST):
            return "no broker answers, and Spark has failed"
        return None

    def _watch(self) -> None:
        # Whatever the client throws: the brokers that the connection names are known.
        with contextlib.suppress(Exception), Cluster(self._kafka) as cluster:
            self._brokers = sorted({*self._brokers, *cluster.brokers()})
        while not self._ended.wait(_INTERVAL):
            if not self._is_out() or self._ended.is_set():
                continue
            self._stopped = True
            self._stop()
            return

    def _is_out(self) -> bool:
        if answers([random.choice(self._brokers)], tls=self._tls, patience=_SHORT):
            return False
        if answers(self._brokers, tls=self._tls, patience=PATIENCE):
            return False
        # This process may have been paused, and missed the answers: ask once more.
        return not answers(self._brokers, tls=self._tls, patience=_SHORT)


def answers(brokers: Sequence[Address], *, tls: bool, patience: float) -> bool:
    """Return whether one of the brokers answers within `patience` seconds."""
    return asyncio.run(_one_answers(brokers, tls, patience))


async def _one_answers(brokers: Sequence[Address], tls: bool, patience: float) -> bool:
    context = None
    if tls:  # nothing is sent that a certificate would have to protect
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    asked = [asyncio.create_task(_answer(*broker, context)) for broker in brokers]
    done, _ = await asyncio.wait(asked, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
    return bool(done)


async def _answer(host: str, port: int, context: ssl.SSLContext | None) -> None:
    """Return when this broker has answered a request, or refused a TLS handshake."""
    while True:
        try:
            reader, writer = await asyncio.open_connection(host, port, ssl=context)
            try:
                writer.write(_REQUEST)
                await reader.readexactly(4)
                return
            finally:
                writer.transport.abort()
        except ssl.SSLError:
            return
        except (OSError, EOFError):
            await asyncio.sleep(_RETRY)


def _bootstrap(kafka: KafkaSettings) -> list[Address]:
    addresses = []
    for each in filter(None, map(str.strip, kafka.bootstrap_servers.split(","))):
        host, _, port = each.rpartition(":")
        addresses.append((host.strip("[]"), int(port)))
    return addresses
