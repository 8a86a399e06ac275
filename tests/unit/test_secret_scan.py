"""The scan for secrets finds one that was planted, in each kind of place and in each form."""

import base64
import contextlib
import gzip
import http.server
import json
import os
import secrets
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from support.secret_scan import HOLDERS, Scan, key_secrets, keytab_secrets, secrets_of, wait_for

# Of this process alone: all processes of the machine are looked at.
SECRET = f'canary "of\\this" & <test> {secrets.token_hex(4)}'
CONTROL = "control-11"


@pytest.fixture
def scan() -> Scan:
    made = Scan(CONTROL)
    made.add(password=SECRET)
    return made


@contextlib.contextmanager
def process(argument: str = "", variable: str = "") -> Iterator[None]:
    """Run one that sleeps, and whose name is that of a holder."""
    command = ["sh", "-c", "sleep 60 & wait", "a-holder", argument]
    env = {"TEST": variable, "PATH": os.defpath}
    with subprocess.Popen(command, env=env, start_new_session=True) as child:
        try:
            yield
        finally:
            os.killpg(child.pid, signal.SIGKILL)


def look_at_processes(scan: Scan, is_holder: Callable[[bytes], bool]) -> None:
    rounds: list[int] = []
    with scan.processes(is_holder, lambda: rounds.append(1)):
        wait_for(lambda: len(rounds) > 1)


def in_command_line(scan: Scan, tmp_path: Path) -> None:
    with process(argument=f"x{SECRET}x"):
        look_at_processes(scan, lambda argv: b"a-holder" in argv)


def in_environment(scan: Scan, tmp_path: Path) -> None:
    with process(variable=json.dumps({"password": SECRET})):
        look_at_processes(scan, lambda _: False)


def in_environment_of_a_child(scan: Scan, tmp_path: Path) -> None:
    scan.allowed[HOLDERS] = ("password",)
    with process(variable=SECRET):
        look_at_processes(scan, lambda argv: b"a-holder" in argv)


def in_a_file(scan: Scan, tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/log").write_bytes(b"\xff" + SECRET.encode())
    scan.look_at_tree("files", tmp_path)


def in_the_name_of_a_file(scan: Scan, tmp_path: Path) -> None:
    (tmp_path / f"log-{SECRET}").touch()
    scan.look_at_tree("files", tmp_path)


def in_a_compressed_file(scan: Scan, tmp_path: Path) -> None:
    (tmp_path / "log.gz").write_bytes(gzip.compress(SECRET.encode()))
    scan.look_at_tree("files", tmp_path)


def in_a_text(scan: Scan, tmp_path: Path) -> None:
    scan.look_at("stderr", "run", f"RuntimeError: {SECRET}")


def in_a_row(scan: Scan, tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE xcom (key, value)")
        database.execute("INSERT INTO xcom VALUES (1, ?)", (json.dumps([SECRET]).encode(),))
        scan.look_at_rows("rows", database.execute("SELECT * FROM xcom"))


class Page(http.server.BaseHTTPRequestHandler):
    """A Spark with one application; what it answers is its server's."""

    def do_GET(self) -> None:
        applications = self.path.endswith("/applications")
        body = [{"id": "a-1"}] if applications else self.server.shown.get(self.path)  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        pass


def in_a_page(path: str) -> Callable[[Scan, Path], None]:
    def look(scan: Scan, tmp_path: Path) -> None:
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
            server.shown = {path: [SECRET]}  # type: ignore[attr-defined]
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
            scan.look_at_spark(f"http://127.0.0.1:{server.server_port}")
            server.shutdown()

    return look


PLACES = {
    "command lines": in_command_line,
    "environment": in_environment,
    "environment, of a child": in_environment_of_a_child,
    "files": in_a_file,
    "files, their names": in_the_name_of_a_file,
    "files, compressed": in_a_compressed_file,
    "stderr": in_a_text,
    "rows": in_a_row,
    "Spark's UI": in_a_page("/environment/"),
    "Spark's REST API": in_a_page("/api/v1/applications/a-1/environment"),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_planted_secret_is_found(scan: Scan, tmp_path: Path, place: str) -> None:
    PLACES[place](scan, tmp_path)
    assert {(hit.place, hit.secret) for hit in scan.hits()} == {
        (place.partition(",")[0], "password")
    }
    assert SECRET not in str(scan.hits()) + scan.report(scan.hits()) + repr(scan)
    with pytest.raises(AssertionError, match="password"):
        scan.nothing_found(seen=())


FORMS = {
    "plain": SECRET,
    "JSON": json.dumps({"a": SECRET}),
    "JSON in JSON": json.dumps(json.dumps({"a": SECRET})),
    "URL": f"?a={quote(SECRET, safe='')}",
    "HTML": f"<td>canary &quot;of\\this&quot; &amp; &lt;test&gt; {SECRET[-8:]}</td>",
    "hex": SECRET.encode().hex(),
    "HEX": SECRET.encode().hex().upper(),
    "UTF-16": f"a{SECRET}".encode("utf-16-le"),
    "base64, 0": base64.b64encode(f"bob{SECRET}x".encode()),
    "base64, 1": base64.b64encode(f"bob:{SECRET}".encode()),
    "base64, 2": base64.b64encode(f"alice{SECRET}xy".encode()),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_found(scan: Scan, form: str) -> None:
    scan.look_at("text", "here", FORMS[form])
    assert form in [hit.form for hit in scan.hits()]


def test_base64_for_urls_is_found() -> None:
    scan = Scan(CONTROL)
    scan.add(key=b"\xfb\xef\xbe\xff\xfe" * 3)
    scan.look_at("text", "here", base64.urlsafe_b64encode(scan.secrets["key"]))
    assert [hit.form for hit in scan.hits()] == ["base64 for URLs, 0"]


def test_nothing_is_found_where_nothing_is(scan: Scan, tmp_path: Path) -> None:
    """A place in which not even the control is seen was not looked at."""
    (tmp_path / "log").write_text(f"{CONTROL}: user bob, password ***")
    scan.look_at_tree("files", tmp_path)
    with process(argument=CONTROL):
        look_at_processes(scan, lambda _: False)
    scan.nothing_found(seen=("files", "command lines"))
    with pytest.raises(AssertionError, match="environment"):
        scan.nothing_found(seen=("files", "environment"))
    assert "files: 2 contents" in scan.report([])


def test_what_becomes_known_later_is_found_in_what_was_seen_before(scan: Scan) -> None:
    scan.look_at("log", "spark", 'required username="alice" password="0123456789abcdef";')
    scan.add(**secrets_of({"kafka.ssl.keystore.password": "0123456789abcdef", "kafka.x": "abc"}))
    assert [hit.secret for hit in scan.hits()] == ["kafka.ssl.keystore.password"]


def test_what_holders_may_have_is_no_hit(scan: Scan) -> None:
    scan.add(other="another secret")
    scan.allowed[HOLDERS] = ("password",)
    scan.look_at(HOLDERS, "tidegate", f"A={SECRET} B=another secret")
    assert [hit.secret for hit in scan.hits()] == ["other"]


def test_keys(tmp_path: Path) -> None:
    """A private key is found as PEM and as DER, a Kerberos key by its end."""
    der = bytes(range(256))
    pem = "-----BEGIN PRIVATE KEY-----\n" + base64.encodebytes(der).decode() + "-----END"
    scan = Scan(CONTROL)
    scan.add(**key_secrets(pem))
    scan.look_at("text", "PEM", json.dumps(pem))
    scan.look_at("text", "DER", der)
    assert {hit.where for hit in scan.hits()} == {"PEM", "DER"}
    keytab = tmp_path / "keytab"
    entries = [b"name" * 9 + key * 32 + bytes(4) for key in (b"A", b"B")]
    keytab.write_bytes(b"\5\2" + b"".join(len(e).to_bytes(4, "big") + e for e in entries))
    assert list(keytab_secrets(keytab).values()) == [b"A" * 8, b"B" * 8]


def test_places_may_be_looked_at_while_they_are_searched(scan: Scan) -> None:
    """As by `processes`, whose block is still open when the hits are asked for."""
    scan.look_at("a page", "first", SECRET)
    for number in range(5_000):
        scan.look_at("a page", f"page {number}", f"{CONTROL} {number}")
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.001):
            scan.look_at("a page", "another", secrets.token_bytes(8))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(5):
            assert [hit.where for hit in scan.hits()] == ["first"]
            assert scan.places()["a page"][0] > 5_000
    finally:
        over.set()
        looking.join()
