"""A bucket in memory that answers as S3 does, and once in a while as a test wants."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

CONFLICT = (
    b"<?xml version='1.0' encoding='UTF-8'?><Error><Code>ConditionalRequestConflict</Code>"
    b"<Message>The conditional request cannot succeed due to a conflicting operation against this"
    b" resource.</Message></Error>"
)


class Answer(NamedTuple):
    """What is answered in the place of the bucket."""

    status: int
    body: bytes = b""


class Stub:
    """The objects by key, the puts that came, and `instead`: what answers a put first, if it does.

    `instead` is given its key; None lets the bucket answer.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.puts: list[str] = []
        self.instead: Callable[[str], Answer | None] = lambda _: None
        self.url = ""
        self.lock = threading.Lock()

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
        }

    def put(self, key: str, data: bytes, *, only_if_absent: bool) -> Answer:
        with self.lock:
            self.puts.append(key)
        if answer := self.instead(key):
            return answer
        with self.lock:
            if only_if_absent and key in self.objects:
                return Answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
            self.objects[key] = data
        return Answer(200)


@contextmanager
def serving() -> Iterator[Stub]:
    """Serve a bucket on a free port of the loopback interface."""
    stub = Stub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            absent = self.headers.get("If-None-Match") == "*"
            self.answer(*stub.put(self.path, data, only_if_absent=absent))

        def do_GET(self) -> None:
            found = stub.objects.get(self.path)
            self.answer(404 if found is None else 200, found or b"")

        do_HEAD = do_GET

        def answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", '"etag"')
            self.send_header("Last-Modified", "Sat, 14 Mar 2026 12:00:00 GMT")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    stub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
