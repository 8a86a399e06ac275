"""An outage of the brokers while Spark runs: its clients would retry for 90 seconds, unnamed."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Self

from tidegate.broker import bootstrap_servers
from tidegate.broker.bootstrap_servers import Address
from tidegate.broker.client_settings import KafkaSettings
from tidegate.broker.cluster import Cluster

PATIENCE = 20.0
"""Seconds: if no broker has answered any probe for so long, all are out."""
LOOKS_APART = 2.0  # seconds between probes
SHORT_WAIT = 2.0  # the patience, in seconds, of a probe whose failure decides nothing alone
LAST_WAIT = (
    5.0  # the patience, in seconds, when Spark has failed: on a busy machine answers are late
)
RETRY_AFTER = 0.5  # seconds after a refused connection, and between looks at new addresses
# ApiVersions, version 0: a broker of any version answers it, and before a login.
_REQUEST = struct.pack(">ihhih", 10, 18, 0, 0, -1)


class BrokerWatch:
    """Probes the brokers while a block runs, and calls `stop` once if it is an outage.

    It is one when none of the cluster's brokers, whichever the connection names, has answered any
    probe for PATIENCE. What a broker answers does not matter: partitions without a leader and
    refused logins are left to Spark, and so are brokers that close connections at once. Names are
    resolved at the start, and again only when all known addresses are silent.
    """

    def __init__(self, kafka: KafkaSettings, stop: Callable[[], object]) -> None:
        self._kafka, self._stop = kafka, stop
        self._addresses = Addresses(bootstrap_servers.parse_addresses(kafka))
        self._tls = kafka.unchecked_context()
        self._ended = threading.Event()
        self._stopped = False

    def __enter__(self) -> Self:
        self._addresses.resolve()
        threading.Thread(target=self._watch, name="tidegate-broker-watch", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def outage(self) -> str | None:
        """Return what to say if the block was stopped, or if no broker answers now; else None."""
        if self._stopped:
            return f"no broker has answered for {PATIENCE:.0f} s, and Spark was stopped"
        self._addresses.resolve()
        if not is_answered(self._addresses.known, tls=self._tls, patience=LAST_WAIT):
            return "no broker answers, and Spark has failed"
        return None

    def _watch(self) -> None:
        # Whatever the client throws: the brokers that the connection names are known.
        with contextlib.suppress(Exception), Cluster(self._kafka) as cluster:
            self._addresses.resolve(cluster.brokers())
        while not self._ended.wait(LOOKS_APART):
            if not self._is_out() or self._ended.is_set():
                continue
            self._stopped = True
            self._stop()
            return

    def _is_out(self) -> bool:
        known = self._addresses.known
        if known and is_answered([random.choice(tuple(known))], tls=self._tls, patience=SHORT_WAIT):
            return False
        if known and is_answered(known, tls=self._tls, patience=SHORT_WAIT):
            return False
        self._addresses.resolve()
        if is_answered(known, tls=self._tls, patience=PATIENCE - 3 * SHORT_WAIT):
            return False
        # This process may have been paused, and missed the answers: ask once more.
        return not is_answered(known, tls=self._tls, patience=SHORT_WAIT)


class Addresses:
    """The addresses of brokers, in `known` as soon as their names are resolved."""

    def __init__(self, brokers: Sequence[Address]) -> None:
        self.known: set[Address] = set()
        self._brokers = set(brokers)
        self._asked: set[Address] = set()

    def resolve(self, others: Sequence[Address] = ()) -> None:
        """Begin to resolve all names, or those of `others`, and return. Failures add nothing.

        Each in a thread of its own: a name whose lookup hangs holds up no other.
        """
        self._brokers.update(others)
        for broker in set(others or self._brokers) - self._asked:
            self._asked.add(broker)
            threading.Thread(target=self._resolve, args=(broker,), daemon=True).start()

    def _resolve(self, broker: Address) -> None:
        with contextlib.suppress(OSError, UnicodeError):
            found = socket.getaddrinfo(*broker, type=socket.SOCK_STREAM)
            self.known.update((str(each[4][0]), broker[1]) for each in found)
        self._asked.discard(broker)


def is_answered(
    brokers: Collection[Address], *, tls: ssl.SSLContext | None, patience: float
) -> bool:
    """Return whether one of the addresses answers within `patience` seconds.

    Those that are added meanwhile are asked, too.
    """
    return asyncio.run(_one_answers(brokers, tls, patience))


async def _one_answers(
    brokers: Collection[Address], tls: ssl.SSLContext | None, patience: float
) -> bool:
    ends = time.monotonic() + patience
    asked: dict[Address, asyncio.Task[None]] = {}
    while not any(task.done() for task in asked.values()):
        if (left := ends - time.monotonic()) <= 0:
            return False
        for broker in set(brokers) - asked.keys():
            asked[broker] = asyncio.create_task(_answer(*broker, tls))
        pause = asyncio.create_task(asyncio.sleep(min(left, RETRY_AFTER)))
        await asyncio.wait([pause, *asked.values()], return_when=asyncio.FIRST_COMPLETED)
    return True


async def _answer(host: str, port: int, tls: ssl.SSLContext | None) -> None:
    """Return when this broker has answered a request, or closed a connection that it accepted.

    It closes those above its limit for each address, and those whose client certificate it
    refuses. A paused process closes none.
    """
    while True:
        try:
            reader, writer = await asyncio.open_connection(host, port, ssl=tls)
            try:
                writer.write(_REQUEST)
                await reader.readexactly(4)
                return
            finally:
                writer.transport.abort()
        except (EOFError, ConnectionResetError, BrokenPipeError, ssl.SSLError):
            return
        except OSError:
            await asyncio.sleep(RETRY_AFTER)
