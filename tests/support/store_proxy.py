"""A port before an object store: it records the requests, in their order, and slows them down.

Bytes are forwarded as they are: the signature of a request covers the host that the client was
given, and the server checks it against the same header.
"""

import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

ENDPOINTS = {"s3": "AWS_ENDPOINT_URL", "gs": "GOOGLE_BASE_URL", "abfss": "AZURE_STORAGE_ENDPOINT"}
"""By scheme, the variable that names a server of its own."""
_REQUEST = re.compile(
    rb"(GET|HEAD|PUT|POST|PATCH|DELETE) (\S+) HTTP/1\.1\r\n(.*?)\r\n\r\n", re.DOTALL
)  # fmt: skip
_MOST = 1 << 16  # bytes of the beginning of a request
_CLIENTS = {
    "aws-sdk-java": "spark", "hadoop": "spark", "gcs-connector": "spark", "apn/": "spark",
    "object_store": "obstore", "boto": "botocore",
}  # fmt: skip
_LISTS = re.compile(r"[?&](list-type|delimiter|comp=list|prefix|versions|uploads)")


class Recorded(NamedTuple):
    """A request: seconds since the proxy was started, method, client, and key with query."""

    at: float
    method: str
    client: str
    target: str
    range: str
    is_copy: bool

    @property
    def kind(self) -> str:
        """What a store bills: its method, COPY or LIST."""
        if self.is_copy:
            return "COPY"
        return "LIST" if self.method == "GET" and _LISTS.search(self.target) else self.method


class StoreProxy:
    """A port of this machine that forwards to a store, at most at `bytes_per_second` each way."""

    def __init__(self, endpoint: str, bytes_per_second: float = 0) -> None:
        server = urlsplit(endpoint)
        self._server = (server.hostname, server.port)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._began = time.monotonic()
        self._seconds_per_byte = 1 / bytes_per_second if bytes_per_second else 0.0
        self._up, self._down = _Line(), _Line()
        self.requests: list[Recorded] = []
        address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.endpoint = server._replace(netloc=address).geturl()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def sent(self) -> int:
        """Bytes from clients to the store."""
        return self._up.carried

    @property
    def received(self) -> int:
        """Bytes from the store to clients."""
        return self._down.carried

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(self._server)
                except OSError:
                    client.close()
                    continue
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for source, target in ((client, server), (server, client)):
                    threading.Thread(
                        target=self._forward, args=(source, target, source is client), daemon=True
                    ).start()

    def _forward(self, source: socket.socket, target: socket.socket, is_asking: bool) -> None:
        seen, line = b"", self._up if is_asking else self._down
        with suppress(OSError):
            while data := source.recv(_MOST):
                if is_asking:
                    seen = self._record(seen + data)
                line.carry(len(data), self._seconds_per_byte)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def _record(self, seen: bytes) -> bytes:
        """Record the requests whose heads are whole; return what may begin another one."""
        end = 0
        for found in _REQUEST.finditer(seen):
            end = found.end()
            heads = found[3].decode("latin-1").lower()
            client = next((name for sign, name in _CLIENTS.items() if sign in heads), "?")
            part = re.search(r"^range: bytes=(\S+)", heads, re.MULTILINE)
            target = unquote(found[2].decode())
            self.requests.append(
                Recorded(
                    time.monotonic() - self._began, found[1].decode(), client, target,
                    part[1] if part else "", "copy-source:" in heads or "/rewriteTo/" in target,
                )
            )  # fmt: skip
        return seen[end:][-_MOST:]


class _Line:
    """What all connections of one direction share: it is free again at a time."""

    def __init__(self) -> None:
        self._lock, self._free, self.carried = threading.Lock(), 0.0, 0

    def carry(self, size: int, seconds_per_byte: float) -> None:
        """Return once these bytes have passed."""
        with self._lock:
            now = time.monotonic()
            self.carried += size
            self._free = max(self._free, now) + size * seconds_per_byte
            wait = self._free - now
        if seconds_per_byte:
            time.sleep(wait)


@contextmanager
def before(
    scheme: str, variables: Mapping[str, str], bytes_per_second: float = 0
) -> Iterator[tuple[dict[str, str], StoreProxy]]:
    """Start a proxy of the server that these variables name; yield the variables for it as well."""
    named = ENDPOINTS[scheme]
    started = StoreProxy(variables[named], bytes_per_second)
    try:
        yield {**variables, named: started.endpoint}, started
    finally:
        started.close()
