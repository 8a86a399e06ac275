"""The doctor on this machine and on a lake: healthy, and with one planted fault for each check."""

import threading
import time
from datetime import date
from pathlib import Path
from typing import ClassVar

import pyspark
import pytest

from support.doctor_checks import commit, overwrite, states_and_text
from support.handed_in import HERE
from tidegate import faults
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.broker.retention import Retention
from tidegate.core import layout
from tidegate.core.cursor import Watermarks
from tidegate.core.entries import Gap
from tidegate.doctor import lake, machine, pipeline_checks
from tidegate.doctor.check import Check, ok, run_checks
from tidegate.errors import ConfigurationError, LakeUnsafe
from tidegate.lake.ledger import Appended, Ledger
from tidegate.lake.store import LocalStore
from tidegate.launch import jars
from tidegate.runs.run import Run

KAFKA = KafkaCluster("kafka_default", {"bootstrap.servers": "nowhere:1"})
HOUR = 3_600_000
DAY = Retention(24 * HOUR, None)
TWO_HOURS = Retention(2 * HOUR, None)
MARKS = Watermarks(0, 20, 20)


# This machine


def test_a_healthy_machine():
    """All checks are ok in a set-up environment; lines keep the order of the checks."""
    started = time.monotonic()
    found = run_checks(machine.machine_checks()).to_json()
    names = [each["check"] for each in found["checks"]]
    assert names == ["pyspark", "java", "jars", "provider", "disk", "clock"]
    assert found["failures"] == 0
    assert time.monotonic() - started < 5


def test_two_versions_of_pyspark(monkeypatch):
    versions = {"pyspark": "4.0.4", "pyspark-client": "4.1.0"}
    monkeypatch.setattr(machine, "version", versions.__getitem__)
    states, text = states_and_text(machine.pyspark_pair())
    assert states == [("pyspark", "failure")]
    assert "install pyspark-client==4.0.4" in text


def test_pyspark_without_airflows_provider(monkeypatch):
    """The client comes with the provider; without it there is nothing to compare."""

    def version(name):
        if name == "pyspark-client":
            raise machine.PackageNotFoundError(name)
        return "4.0.4"

    monkeypatch.setattr(machine, "version", version)
    assert states_and_text(machine.pyspark_pair())[0] == [("pyspark", "ok")]


def test_no_pyspark(monkeypatch):
    def missing(name):
        raise machine.PackageNotFoundError(name)

    monkeypatch.setattr(machine, "version", missing)
    states, text = states_and_text(machine.pyspark_pair())
    assert states == [("pyspark", "failure")]
    assert "pip install 'tidegate[spark]'" in text


def test_jars_without_pyspark(monkeypatch):
    """The line of PySpark reports that; of the jars nothing is wrong."""

    def missing(name):
        raise machine.PackageNotFoundError(name)

    monkeypatch.setattr(machine, "version", missing)
    (line,) = machine.spark_jars()
    assert line.state == "ok"
    assert "kafka-clients" in line.says


@pytest.mark.parametrize(
    ("version", "state"),
    [
        ('openjdk version "17.0.9" 2023-10-17', "ok"),
        ('openjdk version "21" 2023-09-19', "ok"),
        ('java version "1.8.0_392"', "failure"),
        ('openjdk version "11.0.2"', "failure"),
        ("nonsense", "failure"),
    ],
)
def test_java(tmp_path, monkeypatch, version, state):
    java = tmp_path / "bin/java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{version}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert states_and_text(machine.java())[0] == [("java", state)]


def test_java_inherits_no_connection(tmp_path, monkeypatch):
    java = tmp_path / "bin/java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\necho "openjdk version \\"17$AIRFLOW_CONN_KAFKA\\""\n')
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA", ".hunter2")
    states, text = states_and_text(machine.java())
    assert states == [("java", "ok")]
    assert "hunter2" not in text


def test_no_java(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (line,) = run_checks([Check("java", machine.java)]).to_json()["checks"]
    assert (line["state"], "install Java 17 or 21" in line["says"]) == ("failure", True)


def test_a_truncated_jar(tmp_path, monkeypatch):
    """A truncated and a missing jar are named, with the command that fetches them again."""
    known = jars.lock_paths("spark-kafka")
    (tmp_path / "jars").mkdir()
    for path in known[1:]:
        (tmp_path / "jars" / path.name).write_bytes(path.read_bytes())
    (tmp_path / "jars" / known[1].name).write_bytes(b"PK")
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path))
    states, text = states_and_text(machine.spark_jars())
    assert states == [("jars", "failure")]
    assert known[0].name in text
    assert known[1].name in text
    assert "run `tidegate jars`" in text


def test_versions_of_the_jars():
    """Connector and Kafka's client as in the lock, Spark as PySpark says."""
    locked = {jar.artifact: jar.version for jar in jars.read_lock("spark-kafka")}
    connector, client = locked["spark-sql-kafka-0-10_2.13"], locked["kafka-clients"]
    (line,) = machine.spark_jars()
    says = f"connector {connector}, kafka-clients {client}, Spark {pyspark.__version__}"
    assert line == ok("jars", says)


def test_jars_of_another_spark(monkeypatch):
    monkeypatch.setattr(machine, "version", lambda _: "4.2.0")
    states, text = states_and_text(machine.spark_jars())
    assert (states, "their minor versions differ" in text) == ([("jars", "failure")], True)


@pytest.mark.parametrize(("free", "state"), [(6, "ok"), (3, "warning"), (0.1, "failure")])
def test_disk(monkeypatch, free, state):
    class Usage:
        def __init__(self, _):
            self.free = int(free * (1 << 30))

    monkeypatch.setattr(machine.shutil, "disk_usage", Usage)
    assert states_and_text(machine.disk("disk", "/"))[0] == [("disk", state)]


def test_a_clock_that_was_never_set(monkeypatch):
    assert states_and_text(machine.clock())[0] == [("clock", "ok")]
    monkeypatch.setattr(machine.time, "time", lambda: 1000.0)
    assert states_and_text(machine.clock())[0] == [("clock", "failure")]


def test_a_check_that_fails_stops_no_other():
    """By a TidegateError or another exception; the checks around it run, in their order."""

    def refuses():
        yield ok("a", "first")
        raise ConfigurationError("broken; mend it")

    def breaks():
        raise ZeroDivisionError("oops")

    def lists():
        raise ConfigurationError("connection:\n  - no host; no port\n  - no user")
        yield

    well = Check("c", lambda: iter([ok("c", "")]))
    found = run_checks(
        [Check("a", refuses), Check("b", breaks, "p"), well, Check("d", lists)]
    ).to_json()
    assert [(each["check"], each["state"], each["fix"]) for each in found["checks"]] == [
        ("a", "ok", None),
        ("a", "failure", "mend it"),
        ("b", "failure", "report it, with the log"),
        ("c", "ok", None),
        ("d", "failure", "correct what is listed"),
    ]
    assert (found["failures"], found["warnings"]) == (3, 0)
    assert found["checks"][-1]["says"] == "connection:\n  - no host; no port\n  - no user"


# The lake


def test_a_healthy_lake(spec, store):
    """The checks leave no file behind."""
    before = [each.path for each in store.objects("")]
    states, _ = states_and_text(lake.check_lake(spec))
    checks = ["ledger", "lake disk", "lake", "lake clock"]
    assert states == [(check, "ok") for check in checks]
    assert [each.path for each in store.objects("")] == before


def test_a_lake_that_is_not_mounted(spec):
    """The check does not create it."""
    states, text = states_and_text(lake.check_lake(spec))
    assert (states, "mount it" in text) == ([("lake", "warning")], True)
    assert not Path(spec.lake).exists()


@pytest.mark.parametrize("lake_that_is_missing", ["/sys/no/lake", "/etc/hostname/lake"])
def test_a_lake_that_no_run_can_create(spec, lake_that_is_missing):
    """It is not there, and nothing can be written where it would be made."""
    check, *_ = pipeline_checks.checks(
        spec.model_copy(update={"lake": lake_that_is_missing}), None, None
    )
    lines = run_checks([check]).to_json()["checks"]
    assert [(each["check"], each["state"]) for each in lines] == [("lake", "failure")]


def test_commits_that_are_not_in_place(spec, store, monkeypatch):
    monkeypatch.setenv(faults.VARIABLE, "publish.committed:raise")
    with pytest.raises(faults.FaultInjected):
        commit(store, 10, 20)
    monkeypatch.delenv(faults.VARIABLE)
    states, text = states_and_text(lake.check_lake(spec))
    assert ("ledger", "warning") in states
    assert "not all files of 1 commit are in place (#4) → `tidegate repair p`" in text


def test_a_ledger_that_takes_long_to_open(spec, store, monkeypatch):
    monkeypatch.setattr(lake, "LONG_LEDGER", 2)
    states, text = states_and_text(lake.check_lake(spec))
    assert states[0] == ("ledger", "warning")
    assert "3 entries, 1 live commit, 3 since the last checkpoint" in text


def test_a_lake_that_cannot_be_written(spec):
    """/sys is written by nobody, root included."""
    check, *_ = pipeline_checks.checks(spec.model_copy(update={"lake": "/sys"}), None, None)
    lines = run_checks([check]).to_json()["checks"]
    assert [(each["check"], each["state"]) for each in lines][-1] == ("lake", "failure")
    assert "not permitted" in lines[-1]["says"] or "read-only" in lines[-1]["says"].lower()


class LocksPerConnection(LocalStore):
    """As some S3 servers behind several endpoints: each checks and writes under its own lock."""

    def __init__(self, root):
        super().__init__(root)
        self.lock = threading.Lock()

    def create(self, path, data):
        with self.lock:
            if self.get(path) is not None:
                return False
            time.sleep(0.002)
            return overwrite(self, path, data)


class SometimesNotAtomic(LocalStore):
    """For every seventh name create-if-absent checks before the upload; else it is atomic."""

    names: ClassVar[list[str]] = []

    def create(self, path, data):
        if path not in self.names:
            self.names.append(path)
        if self.names.index(path) % 7 != 6 or self.get(path) is not None:
            return super().create(path, data)
        time.sleep(0.02)
        return overwrite(self, path, data)


def test_a_store_that_ignores_create_if_absent(spec, store, monkeypatch):
    """As some S3 servers do: all rivals succeed, in the first round."""
    monkeypatch.setattr(LocalStore, "create", overwrite)
    states, text = states_and_text(lake.check_create_if_absent(spec.lake, "p"))
    assert states == [("lake", "failure")]
    assert "8 of 8 rivals" in text


@pytest.mark.parametrize("kind", [LocksPerConnection, SometimesNotAtomic])
def test_a_store_that_fails_some_races(spec, store, monkeypatch, kind):
    """Detected by several connections in many rounds; only the record of it is left behind."""
    SometimesNotAtomic.names.clear()
    before = [each.path for each in store.objects("")]
    monkeypatch.setattr(lake, "open_store", lambda lake, name: kind(Path(lake, name)))
    states, text = states_and_text(lake.check_create_if_absent(spec.lake, "p"))
    assert states == [("lake", "failure")]
    assert "rivals created the same name" in text
    assert [each.path for each in store.objects("")] == sorted([*before, layout.UNSAFE_STORE])


def test_a_run_refuses_a_store_that_the_doctor_saw_fail(spec, store, monkeypatch):
    """No plan, no entry; readers read on. A round that passes later does not end it, an operator
    who deletes the record does.
    """
    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "create", overwrite)
        list(lake.check_create_if_absent(spec.lake, "p"))
    before = store.objects("")
    run = Run(spec, KAFKA, dag_id="d", run_id="r", window_date=date(2024, 5, 1), **HERE)
    with pytest.raises(LakeUnsafe, match="unsafe-store"):
        run.ledger(store)
    with pytest.raises(LakeUnsafe):
        commit(store, 10, 20)
    ledger = Ledger(store, "p")
    with pytest.raises(LakeUnsafe):
        ledger.append(Gap("t", "id-t", 0, 10, 20, "test", by="me"), run="r")
    assert ledger.fold.n == 3
    added = {each.path for each in store.objects("")} - {each.path for each in before}
    assert all(path.startswith((layout.STAGING, "_tidegate/manifests/")) for path in added)
    states, text = states_and_text(lake.check_create_if_absent(spec.lake, "p"))
    assert (states, "failed this test before" in text) == ([("lake", "failure")], True)
    store.delete(layout.UNSAFE_STORE)
    assert states_and_text(lake.check_create_if_absent(spec.lake, "p"))[0] == [("lake", "ok")]
    assert Ledger(store, "p").append(
        Gap("t", "id-t", 0, 10, 20, "test", by="me"), run="r"
    ) == Appended(4)


@pytest.mark.parametrize(("skew", "state"), [(20, "ok"), (300, "warning"), (-7200, "failure")])
def test_clocks_that_differ(store, monkeypatch, skew, state):
    monkeypatch.setattr(LocalStore, "modified", lambda *_: time.time() + skew)
    assert states_and_text(lake.check_clock(store))[0] == [("lake clock", state)]
