"""Record the requests that pass to an S3 server: method, key, client, in their order.

It forwards bytes as they are: the signature of a request covers the host that the client was
given, and the server checks it against the same header.
"""

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

_REQUEST = re.compile(
    rb"(GET|HEAD|PUT|POST|DELETE) (\S+) HTTP/1\.1\r\n(.*?)\r\n\r\n", re.DOTALL
)  # fmt: skip
_MOST = 1 << 16  # bytes of the beginning of a request
_CLIENTS = {"aws-sdk-java": "s3a", "hadoop": "s3a", "object_store": "obstore", "boto": "botocore"}


class Recorded(NamedTuple):
    """A request: seconds since the recorder was started, method, client, and key with query."""

    at: float
    method: str
    client: str
    target: str
    range: str


class Recorder:
    """A port of this machine that forwards to an S3 server."""

    def __init__(self, endpoint: str) -> None:
        server = urlsplit(endpoint)
        self._server = (server.hostname, server.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._began = time.monotonic()
        self.requests: list[Recorded] = []
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for source, target in ((client, server), (server, client)):
                    threading.Thread(
                        target=self._forward, args=(source, target, source is client), daemon=True
                    ).start()

    def _forward(self, source: socket.socket, target: socket.socket, is_asking: bool) -> None:
        seen = b""
        with suppress(OSError):
            while data := source.recv(_MOST):
                if is_asking:
                    seen = self._record(seen + data)
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
            self.requests.append(
                Recorded(
                    time.monotonic() - self._began, found[1].decode(), client,
                    unquote(found[2].decode()), part[1] if part else "",
                )
            )  # fmt: skip
        return seen[end:][-_MOST:]


@contextmanager
def recorder(endpoint: str) -> Iterator[Recorder]:
    """Start a recorder in front of an S3 server."""
    started = Recorder(endpoint)
    try:
        yield started
    finally:
        started.close()
