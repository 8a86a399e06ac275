"""How a client finds its first broker: an address that answers, among several."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from typing import Any

from tidegate.broker.client_errors import TIMEOUT_MS
from tidegate.broker.client_settings import KafkaSettings

Address = tuple[str, int]

_PATIENCE = 2.0  # seconds for an address to accept a connection
_TOGETHER = 0.05  # seconds after the first for others that are as near
_BACKOFF_MS = 250


def parse_addresses(kafka: KafkaSettings) -> list[Address]:
    """Return the hosts and ports of `bootstrap.servers`."""
    found = []
    for each in filter(None, map(str.strip, kafka.bootstrap_servers.split(","))):
        host, _, port = each.rpartition(":")
        found.append((host.strip("[]"), int(port)))
    return found


def bootstrap_arguments(kafka: KafkaSettings) -> dict[str, Any]:
    """Return the arguments of a kafka-python client by which it finds a broker.

    It draws one address after another. Without limits a silent address would take all of the time,
    and the wait for an address that refuses would double with each refusal.
    """
    return {
        "bootstrap_servers": ",".join(
            f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            for host, port in _alive(parse_addresses(kafka))
        ),
        "bootstrap_timeout_ms": TIMEOUT_MS,
        "reconnect_backoff_max_ms": _BACKOFF_MS,
    }


def _alive(several: list[Address]) -> list[Address]:
    """Return those of several addresses that accept a connection. If none does, all."""
    if len(several) < 2:
        return several
    tried: queue.SimpleQueue[tuple[Address, bool]] = queue.SimpleQueue()
    for each in several:
        threading.Thread(target=_try, args=(each, tried), daemon=True).start()
    alive: list[Address] = []
    with contextlib.suppress(queue.Empty):
        for _ in several:
            address, accepts = tried.get(timeout=_TOGETHER if alive else _PATIENCE)
            alive += [address] if accepts else []
    return alive or several


def _try(address: Address, tried: queue.SimpleQueue[tuple[Address, bool]]) -> None:
    accepts = False
    with contextlib.suppress(OSError, UnicodeError):
        socket.create_connection(address, timeout=_PATIENCE).close()
        accepts = True
    tried.put((address, accepts))
