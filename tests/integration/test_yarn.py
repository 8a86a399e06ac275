"""Cluster mode on a real YARN: what reaches the driver, what stays behind, and what proves its end.

Drivers and executors run with a Python that has neither Tidegate nor PySpark.
"""

import hashlib
import json
import os
import secrets
import signal
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest

import tidegate
from support import spark_cluster, topic_records, yarn_cluster
from support.secret_scan import Scan
from support.yarn_cluster import Cluster
from tidegate.core.offsets import OffsetRange
from tidegate.errors import StageFailed
from tidegate.launch import application_state, cluster_mode, spark_submit
from tidegate.launch.spark_submit import Submission
from tidegate.spark.ingest_job import Chunk, IngestJob, ParquetSettings
from tidegate.spark.yarn_container import Container
from tidegate_local.kafka import Broker

PACKAGE = Path(tidegate.__file__).parent
CONTROL = "no-secret-but-seen"
APP = """\
import signal
from tidegate.spark.parent_death import end_with_parent
end_with_parent(signal.SIGKILL)
import hashlib, json, sys, time
from pathlib import Path
from pyspark.sql import SparkSession
from tidegate.spark import yarn_container
job = json.loads(Path(sys.argv[1]).read_text())
spark = SparkSession.builder.getOrCreate()
assert spark.range(1000).count() == 1000
given = yarn_container.secrets(spark.sparkContext._jvm)
answer = {
    "driver": yarn_container.own().to_json(),
    "digest": hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest(),
}
Path(job["answer"] + ".new").write_text(json.dumps(answer))
Path(job["answer"] + ".new").rename(job["answer"])
while not Path(job["end"]).exists():
    time.sleep(0.1)
spark.stop()
"""


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with yarn_cluster.running(tmp_path_factory.mktemp("yarn")) as running:
        yield running


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("modules") / "tidegate.zip"
    with zipfile.ZipFile(path, "w") as archive:
        sources = [PACKAGE / f"{name}.py" for name in ("__init__", "errors", "faults")]
        for room in ("core", "settings", "spark"):
            sources += (PACKAGE / room).glob("*.py")
        for source in sources:
            archive.write(source, source.relative_to(PACKAGE.parent))
    return path


@dataclass
class Started:
    """An application that was submitted, by a thread; it ends when `end` is called."""

    home: Path
    tag: str
    thread: threading.Thread
    failure: list[Exception]

    def driver(self) -> Container:
        """Wait until the driver has named its container; return that."""
        wait(lambda: (self.home / "answer").exists() or not self.thread.is_alive(), 180)
        assert not self.failure, self.failure
        return Container.from_json(self.answer()["driver"])

    def answer(self) -> dict[str, dict[str, str]]:
        form: dict[str, dict[str, str]] = json.loads((self.home / "answer").read_text())
        return form

    def end(self) -> None:
        (self.home / "end").touch()
        self.thread.join(180)
        assert not self.thread.is_alive()


def wait(until: Callable[[], object], limit: float) -> float:
    """Wait; return the seconds that it took."""
    started = time.monotonic()
    while not until():
        assert time.monotonic() < started + limit
        time.sleep(0.02)
    return time.monotonic() - started


def described(
    yarn: Cluster, modules: Path, job_file: Path, attempt: str, given: dict[str, str]
) -> Submission:
    """Return the ingest application for a job file, in cluster mode, with secrets."""
    conf = {
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.instances": "1",
        "spark.yarn.jars": f"local:{spark_cluster.spark_home()}/jars/*",
        "spark.yarn.stagingDir": f"file://{yarn.home}/staging",
        # This machine's name need not resolve.
        "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
        "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
    }
    client = spark_submit.submission(job_file, conf, 300, name=f"test {attempt}")
    cluster = cluster_mode.for_yarn(
        client, attempt=attempt, modules=modules, python=str(spark_cluster.bare_python()),
        secrets=given,
    )  # fmt: skip
    return replace(cluster, env={**cluster.env, "SPARK_LOCAL_IP": "127.0.0.1"})


@pytest.fixture
def start(
    yarn: Cluster, modules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Started]:
    """Return a function that submits an application which waits for its end."""

    def start(attempt: str, given: dict[str, str], on: Cluster = yarn) -> Started:
        monkeypatch.setenv("HADOOP_CONF_DIR", str(on.conf))
        home = tmp_path / attempt
        home.mkdir(mode=0o700)
        job = {"answer": f"{home}/answer", "end": f"{home}/end", "control": CONTROL}
        (home / "job.json").write_text(json.dumps(job))
        (home / "app.py").write_text(APP)
        ours = described(on, modules, home / "job.json", attempt, given)
        application = replace(ours, application=str(home / "app.py"))
        failure: list[Exception] = []

        def run() -> None:
            try:
                spark_submit.submit(application, master="yarn", log=print)
            except Exception as error:
                failure.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return Started(home, cluster_mode.tag(attempt), thread, failure)

    return start


def ask() -> application_state.Ask:
    return application_state.client(spark_cluster.spark_home())


def submitting(started: Started) -> psutil.Process:
    """Return the JVM of spark-submit; the driver's directory is another."""
    (found,) = [
        child
        for child in psutil.Process().children(recursive=True)
        if started.tag in " ".join(child.cmdline()) and "java" in child.name()
    ]
    return found


def proven(started: Started, driver: Container, yarn: Cluster) -> float:
    """Return the seconds until the end is proven; no process may be there at that time."""

    def is_proven() -> bool:
        why = application_state.not_ended(started.tag, driver, ask())
        print(why)
        if why is None:
            assert yarn.processes(driver.id) == []
        return why is None

    return wait(is_proven, 60)


@pytest.mark.slow
def test_secrets_reach_the_driver_and_nothing_of_them_stays(
    yarn: Cluster, start: Callable[..., Started], tmp_path: Path
) -> None:
    given = {"kafka.sasl.jaas.config": f'password="{secrets.token_hex(150)}"'}
    scan = Scan(CONTROL)
    scan.add(password=given["kafka.sasl.jaas.config"])
    with scan.processes(lambda _: False):
        started = start("secrets", given)
        driver = started.driver()
        assert "is RUNNING" in (application_state.not_ended(started.tag, driver, ask()) or "")
        started.end()
    assert started.failure == []
    expected = hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()
    assert started.answer()["digest"] == expected
    print(f"proven {proven(started, driver, yarn):.1f} s after the end of spark-submit")
    for place in ("containers", "container-logs", "staging"):
        scan.look_at_tree(place, yarn.home / place)
    for name in ("manager.log", "node.log"):
        scan.look_at("logs of YARN", name, (yarn.home / name).read_bytes())
    scan.nothing_found(seen={"containers"})


@pytest.mark.slow
def test_the_ingest_job_runs_in_a_container(
    yarn: Cluster, modules: Path, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(yarn.conf))
    topic_records.numbers(broker.bootstrap, "on-yarn", 300, partitions=2)
    window = (OffsetRange("on-yarn", 0, 10, 150), OffsetRange("on-yarn", 1, 0, 150))
    options = {"kafka.bootstrap.servers": broker.bootstrap}
    job = IngestJob("f00d", "on yarn", options, (Chunk(0, window, str(tmp_path / "out")),),
              ParquetSettings("zstd", 1, 1_000_000))  # fmt: skip
    job.write(tmp_path / "job.json")
    began = time.monotonic()
    application = described(yarn, modules, tmp_path / "job.json", "ingest", {})
    spark_submit.submit(application, master="yarn", log=print)
    print(f"{time.monotonic() - began:.1f} s")
    assert json.loads((tmp_path / "out/_done.json").read_text())["rows"] == 290
    (listed,) = application_state.tagged(cluster_mode.tag("ingest"), ask())
    assert (listed.state, listed.final) == ("FINISHED", "SUCCEEDED")


@pytest.mark.faults
def test_a_killed_driver_is_not_run_again_and_its_end_is_proven(
    yarn: Cluster, start: Callable[..., Started]
) -> None:
    """kill -9 of the application master: spark-submit fails, and a new attempt is accepted."""
    started = start("killed", {"a": "12345678"})
    driver = started.driver()
    os.kill(yarn.driver_jvm(driver.id), signal.SIGKILL)
    seconds = proven(started, driver, yarn)
    started.thread.join(120)
    (failure,) = started.failure
    assert isinstance(failure, StageFailed)
    (listed,) = application_state.tagged(started.tag, ask())
    assert listed.state == "FAILED"
    print(f"proven after {seconds:.1f} s; {failure}")
    again = start("killed-again", {"a": "12345678"})
    again.driver()
    again.end()
    assert again.failure == []


@pytest.mark.faults
def test_the_end_of_spark_submit_ends_nothing_and_kill_does(
    yarn: Cluster, start: Callable[..., Started]
) -> None:
    started = start("orphan", {"a": "12345678"})
    driver = started.driver()
    submitting(started).kill()
    started.thread.join(60)
    time.sleep(5)
    assert "is RUNNING" in (application_state.not_ended(started.tag, driver, ask()) or "")
    assert yarn.processes(driver.id)
    began = time.monotonic()
    assert len(application_state.kill(started.tag, ask())) == 1
    print(f"killed after {time.monotonic() - began:.1f} s")
    print(f"proven {proven(started, driver, yarn):.1f} s later")
    (listed,) = application_state.tagged(started.tag, ask())
    assert listed.state == "KILLED"
    assert application_state.kill(started.tag, ask()) == []


@pytest.mark.faults
def test_without_its_node_manager_the_end_of_a_driver_is_not_proven(
    start: Callable[..., Started], tmp_path: Path
) -> None:
    """The state is KILLED, whether the driver runs or not; so it is not taken for dead."""
    with yarn_cluster.running(tmp_path / "yarn") as yarn:
        started = start("lost", {"a": "12345678"}, on=yarn)
        driver = started.driver()
        psutil.Process(yarn.node).kill()
        application_state.kill(started.tag, ask())
        wait(lambda: application_state.tagged(started.tag, ask())[0].state == "KILLED", 60)
        alive = bool(yarn.processes(driver.id))
        why = application_state.not_ended(started.tag, driver, ask())
        print(f"KILLED, and the driver runs: {alive}: {why}")
        assert why is not None
        assert "cannot be asked" in why
        gone = wait(lambda: not yarn.processes(driver.id), 120)
        print(f"its processes ended {gone:.1f} s later")
        started.thread.join(60)
