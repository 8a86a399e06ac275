"""A real Trino server with a catalog `hive`, whose metastore is a bucket; it needs Java 25.

Its archive, 820 MB, is fetched once into the cache of Tidegate.
"""

import hashlib
import json
import os
import subprocess
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from support import matrix
from tidegate.launch import jars
from tidegate_local.ports import free_port
from tidegate_local.s3 import Server

VERSION = "476"
_SHA256 = "cfd5accde17e8ebd251eeeb78aed1f490e77bb3a164d95a0f454bf8a7c1cbd3f"
_PATIENCE = 180.0

Query = Callable[[str], list[list[Any]]]


@contextmanager
def server(home: Path, s3: Server, bucket: str) -> Iterator[Query]:
    """Run a server in an empty directory; give what runs one statement in the schema `default`.

    matrix.Missing without Java 25; AssertionError for what Trino refuses.
    """
    java, distribution, port = matrix.java("25"), _distribution(), free_port()
    _configure(home, s3, bucket, port)
    command = [distribution / "bin/launcher", "run"]
    command += [f"--etc-dir={home}/etc", f"--data-dir={home}/data"]
    env = {**os.environ, "JAVA_HOME": str(java), "PATH": f"{java}/bin:{os.environ['PATH']}"}
    with (
        (home / "log").open("wb") as log,
        subprocess.Popen(command, env=env, stdout=log, stderr=log) as process,
    ):
        try:
            _await(process, home / "log", port)
            session: dict[str, str] = {}
            yield lambda sql: _answered(port, sql, session)
        finally:
            process.kill()


def _distribution() -> Path:
    home = matrix.cache_dir() / f"trino-server-{VERSION}"
    if not home.is_dir():
        with tempfile.TemporaryDirectory(dir=home.parent) as temporary:
            archive = _fetched(Path(temporary))
            with archive.open("rb") as file:
                assert hashlib.file_digest(file, "sha256").hexdigest() == _SHA256
            with tarfile.open(archive) as tar:
                tar.extractall(temporary, filter="data")
            (Path(temporary) / home.name).rename(home)
    return home


def _fetched(into: Path) -> Path:
    """Fetch the archive by PySpark's Ivy, as jars are; no lock can name what is no jar."""
    settings, module = into / "settings.xml", into / "ivy.xml"
    settings.write_text(jars._IVY_SETTINGS)
    module.write_text(
        '<ivy-module version="2.0"><info organisation="tests" module="trino"/>'
        '<configurations><conf name="it"/></configurations><dependencies>'
        f'<dependency org="io.trino" name="trino-server" rev="{VERSION}" conf="it->default" '
        'transitive="false"><artifact name="trino-server" type="tar.gz" ext="tar.gz"/>'
        "</dependency></dependencies></ivy-module>"
    )
    command = [jars.find_java(), "-jar", jars._ivy_jar(None), "-settings", settings, "-ivy", module]
    command += ["-confs", "it", "-cache", into / "cache"]
    command += ["-retrieve", into / "[artifact].[ext]"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return into / "trino-server.tar.gz"


def _configure(home: Path, s3: Server, bucket: str, port: int) -> None:
    (home / "etc/catalog").mkdir(parents=True)
    (home / "etc/node.properties").write_text("node.environment=test\nnode.id=one\n")
    (home / "etc/jvm.config").write_text("-Xmx2G\n-XX:+UseSerialGC\n")
    (home / "etc/config.properties").write_text(
        "coordinator=true\nnode-scheduler.include-coordinator=true\n"
        f"http-server.http.port={port}\ndiscovery.uri=http://127.0.0.1:{port}\n"
    )
    env = s3.environment
    (home / "etc/catalog/hive.properties").write_text(
        "connector.name=hive\nhive.metastore=file\nfs.native-s3.enabled=true\n"
        f"hive.metastore.catalog.dir=s3://{bucket}/metastore\ns3.path-style-access=true\n"
        f"s3.endpoint={env['AWS_ENDPOINT_URL']}\ns3.region={env['AWS_REGION']}\n"
        f"s3.aws-access-key={env['AWS_ACCESS_KEY_ID']}\n"
        f"s3.aws-secret-key={env['AWS_SECRET_ACCESS_KEY']}\n"
    )


def _await(process: subprocess.Popen[bytes], log: Path, port: int) -> None:
    """Wait until it runs queries: it knows of itself as a node only after it has started."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        with suppress(OSError, AssertionError):
            _answer(port, "SELECT 1", {})
            return
        said = log.read_text(errors="replace")[-2000:]
        assert process.poll() is None, said
        assert time.monotonic() < deadline, said
        time.sleep(0.5)


def _answered(port: int, sql: str, session: dict[str, str]) -> list[list[Any]]:
    """Run a statement; a catalog learns of its nodes a while after the server has started."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return _answer(port, sql, session)
        except AssertionError as error:
            if "No nodes available" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def _answer(port: int, sql: str, session: dict[str, str]) -> list[list[Any]]:
    """Run a statement; the rows, with times as text. Settings of the session are kept."""
    headers = {
        "X-Trino-User": "test", "X-Trino-Catalog": "hive", "X-Trino-Schema": "default",
        "X-Trino-Time-Zone": "UTC", "X-Trino-Client-Capabilities": "PARAMETRIC_DATETIME",
        "X-Trino-Session": ",".join(f"{name}={value}" for name, value in session.items()),
    }  # fmt: skip
    call = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/statement", data=sql.encode(), headers=headers
    )
    rows = []
    while True:
        with urllib.request.urlopen(call) as response:
            form = json.load(response)
            if setting := response.headers.get("X-Trino-Set-Session"):
                name, _, value = setting.partition("=")
                session[name] = value
        assert "error" not in form, form["error"]["message"]
        rows += form.get("data", ())
        if "nextUri" not in form:
            return rows
        call = urllib.request.Request(form["nextUri"], headers=headers)
