"""The local stack with other things on the machine: proxies, taken ports, other demos, `make`."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import obstore
import pytest
from obstore.store import from_url
from pyarrow import fs

import tidegate
from tidegate.lake import s3_buckets as s3_client
from tidegate.launch.file_lock import hold_lock
from tidegate_local import demo, environment, ports, proxies, s3, stack
from tidegate_local.airflow_api import AirflowApi
from tidegate_local.home import state_file

PROJECT = Path(__file__).parents[3]


# make clean


@pytest.mark.parametrize(("tidegate", "kept"), [("exit 3", True), ("exit 0", False), (None, True)])
def test_clean_removes_no_home_whose_stack_may_run(
    tmp_path: Path, tidegate: str | None, kept: bool
) -> None:
    """`down` failed, or there is no `tidegate` to end the stack with: nothing is removed."""
    shutil.copy(PROJECT / "Makefile", tmp_path)
    (tmp_path / ".tidegate/lake").mkdir(parents=True)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    if tidegate:
        program = tmp_path / ".venv/bin/tidegate"
        program.write_text(f"#!/bin/sh\n{tidegate}\n")
        program.chmod(0o755)
    done = subprocess.run(["make", "clean"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode != 0) == kept
    assert (tmp_path / ".tidegate/lake").exists() == kept
    assert (tmp_path / ".venv").exists() == kept
    assert ("nothing was removed" in done.stderr) == kept


def test_clean_where_nothing_is(tmp_path: Path) -> None:
    """No home, no .venv: done."""
    shutil.copy(PROJECT / "Makefile", tmp_path)
    assert subprocess.run(["make", "clean"], cwd=tmp_path).returncode == 0


# Two demos


def test_two_demos_at_once_are_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sends what the topic lacks."""
    inside, go_on, said, most = threading.Semaphore(0), threading.Event(), [], []

    def show(*_: Any, **__: Any) -> None:
        most.append(len(most) + 1)
        inside.release()
        assert go_on.wait(10)

    monkeypatch.setattr(demo, "show_result", show)
    demos = [threading.Thread(target=demo.demo, args=(tmp_path / "h", said.append)) for _ in "ab"]
    demos[0].start()
    assert inside.acquire(timeout=10)
    demos[1].start()
    assert not inside.acquire(timeout=0.3)
    assert said == ["waiting for another demo to end"]
    go_on.set()
    for each in demos:
        each.join(10)
    assert most == [1, 2]
    assert (tmp_path / "h").stat().st_mode & 0o777 == 0o700


# Pages


def test_the_dags_of_all_pages_are_listed() -> None:
    """Airflow returns at most 100 per page."""
    names = [f"tidegate__p{n:03}" for n in range(230)]

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/auth/token":
            return httpx.Response(201, json={"access_token": "t"})
        query = request.url.params
        start = int(query.get("offset", 0))
        page = names[start : start + min(100, int(query["limit"]))]
        dags = [{"dag_id": name, "last_parsed_time": "2026-03-14T00:00:00+00:00"} for name in page]
        return httpx.Response(200, json={"dags": dags, "total_entries": len(names)})

    api = AirflowApi("http://airflow", user="u", password="p")
    api._http = httpx.Client(base_url="http://airflow", transport=httpx.MockTransport(answer))
    assert sorted(api.dags()) == names
    names.clear()
    assert api.dags() == {}


# Proxies


@pytest.fixture
def server() -> Iterator[str]:
    """An S3 server of one object on the loopback address."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            for name, value in (
                ("Content-Length", "2"), ("ETag", '"e"'),
                ("Last-Modified", "Sat, 14 Mar 2026 00:00:00 GMT"),
            ):  # fmt: skip
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(b"hi")

        do_HEAD = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


def test_the_python_api_finds_the_local_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the command line does; what the environment has is kept."""
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    state_file(tmp_path).touch()
    found = {"TIDEGATE_LAKE": "/local", "AIRFLOW_CONN_KAFKA_DEFAULT": "{}"}
    monkeypatch.setattr(stack, "environment", lambda _: found)
    monkeypatch.setattr(proxies, "without_loopback", dict)
    monkeypatch.setenv("TIDEGATE_LAKE", "/mine")
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", "to be put back")
    monkeypatch.delenv("AIRFLOW_CONN_KAFKA_DEFAULT")
    assert callable(tidegate.files)
    assert os.environ["AIRFLOW_CONN_KAFKA_DEFAULT"] == "{}"
    assert os.environ["TIDEGATE_LAKE"] == "/mine"


def test_a_local_stack_that_is_down_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the error of its broker, and of no other."""
    monkeypatch.setattr(stack, "read", lambda _: SimpleNamespace(kafka="127.0.0.1:5"))
    down = "Kafka at 127.0.0.1:5 (kafka_default): no broker answered"
    hint = environment.hint(down)
    assert str(hint).endswith("`tidegate local up`")
    assert environment.hint("Kafka at 127.0.0.1:6 (kafka_default): no broker answered") is None
    monkeypatch.setattr(ports, "is_free", lambda port: port != 5)
    assert environment.hint(down) is None
    monkeypatch.setattr(stack, "read", lambda _: None)
    assert environment.hint("Kafka at 127.0.0.1:5: no broker answered") is None


def test_no_proxy_is_used_for_this_machine(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By no client of the demo: a proxy would not find the servers of the local stack."""
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    keys = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_ALLOW_HTTP": "true"}
    for name, value in {**keys, "AWS_ENDPOINT_URL": server}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    for name in ("NO_PROXY", "no_proxy"):  # put back afterwards
        monkeypatch.setenv(name, "")
    environment.use()
    urllib.request.urlopen(f"{server}/healthz", timeout=5).close()
    assert s3_client.s3_client().get_object(Bucket="b", Key="k")["Body"].read() == b"hi"
    assert bytes(obstore.get(from_url("s3://b"), "k").bytes()) == b"hi"
    bucket = fs.S3FileSystem(access_key="k", secret_key="s", endpoint_override=server, region="r")
    with bucket.open_input_stream("b/k") as file:
        assert file.read() == b"hi"


@pytest.mark.parametrize(
    ("given", "then"),
    [
        ({}, "127.0.0.1,localhost"),
        ({"NO_PROXY": "corp, 127.0.0.1"}, "corp,127.0.0.1,localhost"),
        ({"no_proxy": "a, c", "NO_PROXY": "b,a"}, "a,c,b,127.0.0.1,localhost"),
        ({"no_proxy": "a", "NO_PROXY": "*"}, "*"),
        ({"NO_PROXY": "*"}, "*"),
    ],
)
def test_given_hosts_without_a_proxy_are_kept(given: dict[str, str], then: str) -> None:
    """In both spellings, with the hosts of both: some clients read only one."""
    assert proxies.without_loopback(given) == {"NO_PROXY": then, "no_proxy": then}
    again = proxies.without_loopback(proxies.without_loopback(given))
    assert again == {"NO_PROXY": then, "no_proxy": then}


# Ports


def test_s3_takes_other_ports_where_its_own_are_taken(tmp_path: Path) -> None:
    """Another process took some of its ports while it was down."""
    ports = s3._configure(tmp_path, None)
    with socket.socket() as other, socket.socket() as another:
        for taken, name in ((other, "master"), (another, "filer.grpc")):
            taken.bind(("127.0.0.1", ports[name]))
            taken.listen()
        now = s3._configure(tmp_path, None)
    changed = {name for name in ports if now[name] != ports[name]}
    assert changed == {"master", "filer.grpc"}
    assert len(set(now.values())) == len(now)
    assert json.loads((tmp_path / "ports.json").read_text()) == now


def test_the_stack_says_that_it_waits_for_another_command(tmp_path: Path) -> None:
    said: list[str] = []
    ended = threading.Event()

    def second() -> None:
        stack.down(tmp_path, say=said.append)
        ended.set()

    with hold_lock(tmp_path / "lock"):
        thread = threading.Thread(target=second)
        thread.start()
        assert not ended.wait(0.3)
    thread.join(10)
    assert said == ["waiting for another `tidegate local up` or `down` to end"]


def test_a_python_in_which_the_setup_cannot_run(tmp_path):
    """One line, not what it raises there: Python 3.6 is `python3` of some systems."""
    shutil.copy(PROJECT / "Makefile", tmp_path)
    old = tmp_path / "python3"
    before = "import sys; sys.version_info = (3, 6, 15); exec(sys.argv[1])"
    old.write_text(f"#!/bin/sh\nshift\nexec {sys.executable} -c '{before}' \"$@\"\n")
    old.chmod(0o755)
    done = subprocess.run(
        ["make", "setup", f"PYTHON={old}"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode != 0
    says, *_ = done.stderr.splitlines()
    assert says.startswith(f"tidegate: {old} is Python 3.6; install Python 3.11, 3.12 or 3.13")
    assert "make PYTHON=python3.11" in says
