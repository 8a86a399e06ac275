"""What the local stack decides before it starts anything: addresses, settings, secrets."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tidegate.errors import ConfigurationError, JavaMissing
from tidegate_local import airflow, buckets, gcs, stack
from tidegate_local.home import default_home, default_homes
from tidegate_local.postgres import Postgres

NAMED = "TIDEGATE_TEST_PORT"


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def environment(home: Path, **changes: Any) -> dict[str, str]:
    given = {"bootstrap": "127.0.0.1:9", "lake": str(home / "lake"), **changes}
    database = Postgres(home / "a b", pid=1)
    return airflow.environment(home, database=database, port=8, **given)


def test_status_of_nothing(tmp_path: Path) -> None:
    """`status` changes nothing, and creates no home."""
    home = tmp_path / "home"
    state = stack.status(home)
    assert (state["format"], state["up"], state["dags"]) == (1, False, [])
    assert {service["pid"] for service in state["services"].values()} == {None}
    json.dumps(state)
    assert not home.exists()
    assert not stack.down(home)
    assert not home.exists()


def test_a_kept_port_is_used_again_unless_it_is_taken(taken: int) -> None:
    """Addresses stay from one `up` to the next as long as they can."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    assert stack._port(NAMED, kept=free, used=None) == free
    assert stack._port(NAMED, kept=taken, used=None) != taken
    assert stack._port(NAMED, kept=free, used=taken) == taken  # our own server listens there


def test_a_given_port_that_is_taken_is_refused(taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other port is used silently."""
    monkeypatch.setenv(NAMED, str(taken))
    assert stack._port(NAMED, kept=None, used=taken) == taken
    with pytest.raises(stack.PortTaken) as refusal:
        stack._port(NAMED, kept=None, used=None)
    assert refusal.value.numbers == {"port": taken}
    for wrong in ("0", "65536", "http", "-1"):
        monkeypatch.setenv(NAMED, wrong)
        with pytest.raises(ConfigurationError):
            stack._port(NAMED, kept=None, used=None)


def test_the_environment_belongs_to_this_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another Airflow or Spark in the caller's environment stays out; its connections pass."""
    monkeypatch.setenv("AIRFLOW_HOME", "/elsewhere")
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    monkeypatch.setenv("AIRFLOW__CELERY__BROKER_URL", "redis://elsewhere")
    monkeypatch.setenv("SPARK_HOME", "/elsewhere")
    monkeypatch.setenv("AIRFLOW_CONN_MINE", "mine")
    env = environment(tmp_path)
    assert not {value for value in env.values() if "elsewhere" in value}
    assert env["AIRFLOW__CORE__EXECUTOR"] == "LocalExecutor"
    assert env["AIRFLOW_CONN_MINE"] == "mine"
    assert env["AIRFLOW__CORE__SENSITIVE_VAR_CONN_NAMES"] == "ssl_key_pem"
    assert json.loads(env["AIRFLOW_CONN_KAFKA_DEFAULT"])["extra"] == {
        "bootstrap.servers": "127.0.0.1:9"
    }
    assert env["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].endswith("/a%20b")


def test_keys_of_another_s3_stay_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the stack has an S3 server; otherwise the caller's keys are those of the lake."""
    monkeypatch.setenv("AWS_SESSION_TOKEN", "elsewhere")
    assert environment(tmp_path)["AWS_SESSION_TOKEN"] == "elsewhere"
    own = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_SECRET_ACCESS_KEY": "key"}
    env = environment(tmp_path, store_variables=own)
    assert {name: value for name, value in env.items() if name.startswith("AWS_")} == own
    assert airflow.fingerprint(env) != airflow.fingerprint(environment(tmp_path))


def test_a_terminal_uses_the_store_of_the_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no other of its kind, whatever its caller has set. Airflow is started again with it."""
    monkeypatch.setattr(
        os, "environ", {"GOOGLE_APPLICATION_CREDENTIALS": "/own", "AWS_REGION": "x"}
    )
    server = gcs.Server("http://127.0.0.1:9", 1)
    kind = replace(buckets.KINDS["gcs"], find=lambda _: server)
    monkeypatch.setattr(buckets, "KINDS", {**buckets.KINDS, "gcs": kind})
    stack._write(tmp_path, stack.Stack("127.0.0.1:9", "http://127.0.0.1:8", kind.lake, store="gcs"))
    stack.use_store(tmp_path)
    assert os.environ == {"AWS_REGION": "x", **server.environment}
    env = environment(tmp_path, store_variables=server.environment)
    moved = environment(tmp_path, store_variables=gcs.Server("http://127.0.0.1:7", 1).environment)
    assert airflow.fingerprint(env) != airflow.fingerprint(moved)


def test_a_stack_with_a_bucket_has_a_home_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless one is given; a stack whose lake is a directory never moves into a bucket."""
    monkeypatch.delenv("TIDEGATE_HOME", raising=False)
    homes = default_homes()
    assert [each.name for each in homes] == [".tidegate", ".tidegate-s3", ".tidegate-gcs"]
    assert homes == [default_home(), default_home("s3"), default_home("gcs")]
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))
    assert default_homes() == [default_home("s3")] == [tmp_path]
    stack._write(tmp_path, stack.Stack("127.0.0.1:9", "http://127.0.0.1:8", "/lake"))
    with pytest.raises(ConfigurationError, match="its lake in /lake: unset"):
        stack.up(tmp_path, say=print, store="s3")
    assert not (tmp_path / "s3").exists()


def test_the_fingerprint_tells_whether_settings_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Running processes are kept only while their settings are what `up` would give them now."""
    same = airflow.fingerprint(environment(tmp_path))
    assert airflow.fingerprint(environment(tmp_path)) == same
    assert airflow.fingerprint(environment(tmp_path, lake="s3://lake")) != same
    assert airflow.fingerprint(environment(tmp_path, bootstrap="127.0.0.1:10")) != same
    monkeypatch.setenv("JAVA_HOME", "/another")  # tasks would go on with the first one
    assert airflow.fingerprint(environment(tmp_path)) != same


def test_without_java_nothing_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said in one line, also when the rest of the set-up was done long ago."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    said: list[str] = []
    with pytest.raises(JavaMissing, match="no java in JAVA_HOME"):
        stack.up(tmp_path, say=said.append)
    assert said == []
    assert not (tmp_path / "postgres").exists()


def test_secrets_are_created_once_and_are_private(tmp_path: Path) -> None:
    """Two homes never share a secret, one home never changes its own."""
    assert airflow.password(tmp_path) == airflow.password(tmp_path)
    assert airflow.password(tmp_path) != airflow.password(tmp_path / "other")
    key = "AIRFLOW__API_AUTH__JWT_SECRET"
    assert environment(tmp_path)[key] == environment(tmp_path)[key]
    for file in (tmp_path / "airflow").iterdir():
        assert file.stat().st_mode & 0o777 == 0o600
