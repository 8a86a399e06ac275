"""A connection to a broker that never answers, watched with little patience."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pytest

from tidegate.broker import outage
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.errors import BrokerUnreachable

_SECONDS = {
    "PATIENCE": 0.4,
    "LOOKS_APART": 0.05,
    "SHORT_WAIT": 0.1,
    "LAST_WAIT": 0.5,
    "RETRY_AFTER": 0.05,
}


@contextmanager
def unreachable(monkeypatch: pytest.MonkeyPatch) -> Iterator[KafkaCluster]:
    """Yield the connection; the watch gives up after less than a second."""
    for name, seconds in _SECONDS.items():
        monkeypatch.setattr(outage, name, seconds)
    monkeypatch.setattr(outage, "Cluster", mock.Mock(side_effect=BrokerUnreachable("none")))
    with socket.socket() as silent:  # bound, and never listening
        silent.bind(("127.0.0.1", 0))
        servers = f"127.0.0.1:{silent.getsockname()[1]}"
        yield KafkaCluster("kafka_default", {"bootstrap.servers": servers})
