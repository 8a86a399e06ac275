"""One live address among several is found, whatever the others do."""

import socket
import threading
from collections.abc import Iterator

import pytest

from tidegate.broker import bootstrap_servers
from tidegate.broker.client_settings import KafkaSettings
from tidegate.broker.cluster import Cluster
from tidegate.errors import BrokerUnreachable


def servers(text: str) -> str:
    """Return what kafka-python gets."""
    given = bootstrap_servers.bootstrap_arguments(KafkaSettings("k", {"bootstrap.servers": text}))
    return str(given["bootstrap_servers"])


@pytest.fixture
def live() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def refusing() -> Iterator[str]:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


def test_an_address_that_refuses_or_has_no_name_is_left_out(live: str, refusing: str) -> None:
    assert servers(f"{refusing},{live}") == live
    assert servers(f"no-such-host.invalid:1, {live}") == live


def test_an_address_that_is_silent_is_left_out(live: str) -> None:
    """As that of a host that is down: it has no time of the others'."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.socket() for _ in range(3)]
        for each in waiting:  # Linux answers no more connections than are waited for
            each.setblocking(False)
            each.connect_ex(full.getsockname())
        assert servers(f"127.0.0.1:{full.getsockname()[1]},{live}") == live
        for each in waiting:
            each.close()


def test_all_are_tried_if_none_is_alive(refusing: str) -> None:
    both = f"{refusing},no-such-host.invalid:1"
    assert servers(both) == both


def test_one_address_is_not_tried_first(refusing: str) -> None:
    assert servers(refusing) == refusing
    assert servers("[::1]:9092") == "[::1]:9092"


def test_a_broker_that_comes_back_is_found_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """kafka-python alone waits twice as long after each failure, up to 30 s."""
    monkeypatch.setattr(bootstrap_servers, "TIMEOUT_MS", 3_000)
    tries = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def close_each() -> None:
            while True:
                try:
                    accepted, _ = listening.accept()
                except OSError:
                    return
                tries.append(accepted.close())

        threading.Thread(target=close_each, daemon=True).start()
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(BrokerUnreachable):
            Cluster(KafkaSettings("k", {"bootstrap.servers": address}))
        listening.shutdown(socket.SHUT_RDWR)
    assert len(tries) > 8  # of 12; alone: 7
