"""What a server of buckets answers, as an error: terminal, or to be tried again."""

import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tidegate.errors import LakeReadOnly, LakeUnavailable
from tidegate.lake import buckets
from tidegate.lake.store import open_store

KEY = "c2VjcmV0LW9mLWEtdGVzdA=="
ENVIRONMENTS = {
    "s3://lakes": {
        "AWS_ENDPOINT_URL": "{}", "AWS_ALLOW_HTTP": "true", "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": KEY,
    },
    "gs://lakes": {
        "GOOGLE_BASE_URL": "{}", "GOOGLE_ALLOW_HTTP": "true", "GOOGLE_BEARER_TOKEN": KEY,
    },
    "abfss://lakes@account.dfs.core.windows.net": {
        "AZURE_STORAGE_ENDPOINT": "{}/account", "AZURE_ALLOW_HTTP": "true",
        "AZURE_STORAGE_ACCOUNT_KEY": KEY,
    },
}  # fmt: skip


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    status, asked = 200, 0


class _Answers(BaseHTTPRequestHandler):
    """The status of the server, to everything."""

    server: _Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked += 1
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_PUT = do_HEAD = do_POST = do_DELETE = do_GET

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[_Server]:
    with _Server(("127.0.0.1", 0), _Answers) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


@pytest.mark.parametrize("place", ENVIRONMENTS)
@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, LakeReadOnly),
        (403, LakeReadOnly),
        (404, LakeUnavailable),
        (429, LakeUnavailable),
        (503, LakeUnavailable),
    ],
)
def test_a_status(
    server: _Server,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    status: int,
    error: type[Exception],
) -> None:
    """401 and 403 are asked once; others as often as the retries allow. No key is told."""
    for name, value in ENVIRONMENTS[place].items():
        monkeypatch.setenv(name, value.format(f"http://127.0.0.1:{server.server_port}"))
    few = {"max_retries": 2, "retry_timeout": timedelta(seconds=1)}
    monkeypatch.setattr(buckets, "RETRIES", few)
    server.status = status
    store = open_store(f"{place}/lake", "p")
    for ask in (lambda: store.create("a", b"1"), lambda: store.objects("")):
        server.asked, began = 0, time.monotonic()
        with pytest.raises(error) as raised:
            ask()
        assert KEY not in str(raised.value)
        if error is LakeReadOnly:
            assert server.asked == 1
            assert place.partition(":")[0] != "abfss" or "AZURE_" in str(raised.value)
        assert time.monotonic() - began < 60
