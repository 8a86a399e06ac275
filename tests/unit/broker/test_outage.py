"""What counts as an outage: no broker of the cluster answers a probe in the time that it has."""

import contextlib
import socket
import socketserver
import ssl
import struct
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.certificates import Authority
from tidegate.broker import outage
from tidegate.broker.client_settings import KafkaSettings
from tidegate.broker.outage import BrokerWatch, is_answered
from tidegate.errors import BrokerUnreachable

ANSWER = b"\0\0\0\4\0\0\0\0"


@contextmanager
def broker(delay: float = 0.0, *, answer: bytes = ANSWER) -> Iterator[tuple[str, int]]:
    """Yield the address of what answers each request after a delay."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            if self.request.recv(100) and answer:
                time.sleep(delay)
                self.request.sendall(answer)
            self.request.recv(100)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server.server_address[:2]
        server.shutdown()


@contextmanager
def nobody() -> Iterator[tuple[str, int]]:
    """Yield an address that refuses connections."""
    with socket.socket() as silent:  # bound, and never listening
        silent.bind(("127.0.0.1", 0))
        yield silent.getsockname()


UNCHECKED = KafkaSettings(
    "k", {"bootstrap.servers": "b:1", "security.protocol": "SSL"}
).unchecked_context()
AUTHORITY = Authority.create()


def one_answers(*brokers: tuple[str, int], tls: ssl.SSLContext | None = None) -> bool:
    return is_answered(brokers, tls=tls, patience=10)


def none_answers(*brokers: tuple[str, int], tls: ssl.SSLContext | None = None) -> bool:
    return not is_answered(brokers, tls=tls, patience=0.3)


def test_one_broker_that_answers_is_enough() -> None:
    """Of three, one has crashed and one is paused: connections to it open and get no answer."""
    with broker() as alive, nobody() as crashed, broker(answer=b"") as paused:
        assert one_answers(crashed, paused, alive)
        assert none_answers(crashed, paused)
        assert none_answers(crashed)
        assert none_answers(paused)


def test_an_answer_within_the_patience_is_one() -> None:
    with broker(0.2) as slow:
        assert one_answers(slow)
    with broker(2.0) as too_slow:
        assert none_answers(too_slow)


def test_a_broker_that_starts_meanwhile_is_not_out() -> None:
    with nobody() as address:
        pass
    server = socket.create_server(address)
    server.close()
    threading.Timer(0.2, lambda: _serve_once(address)).start()
    assert one_answers(address)


def _serve_once(address: tuple[str, int]) -> None:
    with socket.create_server(address) as server:
        connection, _ = server.accept()
        connection.sendall(ANSWER)
        connection.close()


def test_what_refuses_a_handshake_answers() -> None:
    """It is a matter of the settings, which Spark's own client names."""
    with broker(answer=b"HTTP/1.1 400 Bad Request\r\n\r\n") as no_tls, nobody() as crashed:
        assert one_answers(no_tls, tls=UNCHECKED)
        assert none_answers(crashed, tls=UNCHECKED)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_what_demands_a_client_certificate_answers(tmp_path: Path, version: ssl.TLSVersion) -> None:
    """The connection's own is shown, so that the broker logs no failure; it refuses none, or that
    of another authority, and that is an answer as well.
    """
    served: list[bytes] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*AUTHORITY.server(["elsewhere"]).write(tmp_path, "server"))
    context.load_verify_locations(cadata=AUTHORITY.pem)
    context.verify_mode, context.maximum_version = ssl.CERT_REQUIRED, version

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError):
                connection = context.wrap_socket(self.request, server_side=True)
                served.append(connection.recv(100))
                connection.sendall(ANSWER)

    server = {"bootstrap.servers": "b:1", "security.protocol": "SSL", "ssl.ca.pem": AUTHORITY.pem}
    clients: list[dict[str, str]] = [{}]
    for client in (Authority.create("Other").client("alice"), AUTHORITY.client("alice")):
        clients.append({"ssl.certificate.pem": client.chain_pem, "ssl.key.pem": client.key_pem()})
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as demanding:
        demanding.daemon_threads = True
        threading.Thread(target=demanding.serve_forever, args=(0.01,), daemon=True).start()
        for client in clients:
            tls = KafkaSettings("k", {**server, **client}).unchecked_context()
            assert served == []
            assert one_answers(demanding.server_address[:2], tls=tls)
        assert served == [outage._REQUEST]
        demanding.shutdown()


@pytest.mark.parametrize("abruptly", [False, True])
@pytest.mark.parametrize("tls", [None, UNCHECKED], ids=["plain", "TLS"])
def test_what_accepts_and_closes_answers(tls: ssl.SSLContext | None, abruptly: bool) -> None:
    """As a broker with too many connections of one address. A paused process closes nothing."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            if abruptly:
                self.request.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        assert is_answered([server.server_address[:2]], tls=tls, patience=10)
        server.shutdown()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten all times; the cluster names no brokers but those of the connection."""
    times = {
        "PATIENCE": 0.9,
        "LOOKS_APART": 0.05,
        "SHORT_WAIT": 0.2,
        "LAST_WAIT": 0.5,
        "RETRY_AFTER": 0.05,
    }
    for name, seconds in times.items():
        monkeypatch.setattr(outage, name, seconds)
    monkeypatch.setattr(outage, "Cluster", _unreachable)


def _unreachable(_: KafkaSettings) -> None:
    raise BrokerUnreachable("no broker answered")


def watching(*brokers: tuple[str, int]) -> tuple[BrokerWatch, list[float]]:
    """Return a watch of these brokers, and when it stopped what it watches over."""
    servers = ",".join(f"{host}:{port}" for host, port in brokers)
    stopped: list[float] = []
    kafka = KafkaSettings("k", {"bootstrap.servers": servers})
    return BrokerWatch(kafka, lambda: stopped.append(time.monotonic())), stopped


def test_a_watch_shows_the_certificate_of_the_connection() -> None:
    """And checks none, for it connects to addresses."""
    client = AUTHORITY.client("alice")
    extra = {"bootstrap.servers": "b:1", "security.protocol": "SSL"}
    texts = {"ssl.certificate.pem": client.chain_pem, "ssl.key.pem": client.key_pem()}
    watch = BrokerWatch(KafkaSettings("k", extra | texts), lambda: None)
    assert watch._tls is not None
    assert watch._tls.verify_mode is ssl.CERT_NONE
    assert BrokerWatch(KafkaSettings("k", {"bootstrap.servers": "b:1"}), lambda: None)._tls is None


@pytest.mark.usefixtures("quick")
def test_an_outage_stops_once() -> None:
    with nobody() as crashed:
        watch, stopped = watching(crashed)
        began = time.monotonic()
        with watch:
            while not stopped:
                assert time.monotonic() - began < 30
                time.sleep(0.01)
            time.sleep(0.5)
        assert len(stopped) == 1
        assert stopped[0] - began >= 0.9
        assert watch.outage() == "no broker has answered for 1 s, and Spark was stopped"


@pytest.mark.usefixtures("quick")
def test_a_live_cluster_is_never_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """One broker answers late, always; another one is down."""
    monkeypatch.setattr(outage, "PATIENCE", 10)
    with broker(0.5) as slow, nobody() as crashed:
        watch, stopped = watching(slow, crashed)
        with watch:
            time.sleep(2.5)
        assert stopped == []


@pytest.mark.usefixtures("quick")
def test_brokers_that_the_connection_does_not_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The named one is down; those that the cluster named before are not."""

    class Cluster:
        def __init__(self, _: KafkaSettings) -> None: ...
        def __enter__(self) -> "Cluster":
            return self

        def __exit__(self, *_: object) -> None: ...
        def brokers(self) -> list[tuple[str, int]]:
            return [other]

    monkeypatch.setattr(outage, "Cluster", Cluster)
    monkeypatch.setattr(outage, "PATIENCE", 1.5)
    with broker() as other, nobody() as crashed:
        watch, stopped = watching(crashed)
        with watch:
            time.sleep(3.0)
        assert stopped == []


@pytest.mark.usefixtures("quick")
def test_a_process_that_was_paused_asks_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its patience has run out while it could not hear the answer."""
    asked: list[float] = []

    def missed(brokers: Collection[tuple[str, int]], *, patience: float, **_: object) -> bool:
        if set(brokers) != {("127.0.0.1", 1)}:
            return True  # the watch of an earlier test, which ends with its probe
        asked.append(patience)
        return len(asked) > 3

    monkeypatch.setattr(outage, "is_answered", missed)
    watch, stopped = watching(("127.0.0.1", 1))
    with watch:
        time.sleep(0.5)
    assert asked[:4] == pytest.approx([0.2, 0.2, 0.3, 0.2])
    assert sum(asked[:4]) == pytest.approx(outage.PATIENCE)
    assert stopped == []


@pytest.mark.usefixtures("quick")
def test_an_outage_is_named_although_spark_was_first() -> None:
    with nobody() as crashed:
        watch, stopped = watching(crashed)
        with watch:
            pass
        assert watch.outage() == "no broker answers, and Spark has failed"
        time.sleep(1.2)
        assert stopped == [], "what has ended is not stopped"
    with broker() as alive:
        watch, _ = watching(alive)
        with watch:
            pass
        assert watch.outage() is None


@pytest.fixture
def names(quick: None, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the names of hosts that are resolved; the lookup of `hangs…` takes a second."""
    known: dict[str, str] = {}
    theirs: Callable[..., list[object]] = socket.getaddrinfo

    def resolve(host: str, *others: object, **more: object) -> list[object]:
        if host.startswith("hangs"):
            time.sleep(1)
        if host not in known:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return theirs(known[host], *others, **more)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return known


def test_a_live_cluster_whose_names_are_lost_is_not_stopped(names: dict[str, str]) -> None:
    """Spark's clients keep their connections, and so do the addresses of the start."""
    with broker() as (host, port):
        names["kafka"] = host
        watch, stopped = watching(("kafka", port))
        with watch:
            time.sleep(0.2)
            names.clear()
            time.sleep(2.5)
        assert stopped == []
        assert watch.outage() is None


def test_brokers_that_have_moved_are_found(names: dict[str, str]) -> None:
    with broker() as (host, port):
        names["kafka"] = "127.0.0.2"  # nothing listens there
        watch, stopped = watching(("kafka", port))
        with watch:
            time.sleep(0.2)
            names["kafka"] = host
            time.sleep(2.5)
        assert stopped == []


def test_names_that_hang_hold_up_no_other(names: dict[str, str]) -> None:
    with broker() as (host, port):
        names["kafka"] = host
        watch, stopped = watching(*((f"hangs{i}", 1) for i in range(40)), ("kafka", port))
        began = time.monotonic()
        with watch:
            assert time.monotonic() - began < 5
            time.sleep(2.5)
        assert stopped == []
        assert watch.outage() is None
