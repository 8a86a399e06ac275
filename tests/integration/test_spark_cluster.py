"""Runs on a real Spark cluster: executors in other processes, killed ones, bare Pythons."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from support import oracle_client, spark_cluster, topic_reader, topic_records
from support.cli_user import Terminal
from support.process_list import command_line
from support.spark_cluster import Cluster
from tidegate.core.offsets import OffsetRange
from tidegate.core.parquet_settings import ParquetSettings
from tidegate.launch import jars, job_zip
from tidegate.spark.ingest_job import Chunk, IngestJob
from tidegate_local.kafka import Broker

JOBS = Path(__file__).parents[2] / "spark_jobs"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with spark_cluster.running(tmp_path_factory.mktemp("spark")) as running:
        yield running


@pytest.fixture
def terminal(broker: Broker, spark: Cluster, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path, broker.bootstrap, environ=spark.environment)


@pytest.mark.slow
def test_a_whole_run(terminal: Terminal, spark: Cluster, broker: Broker) -> None:
    """The executors are child processes of the worker, and the lake equals an independent
    consumer's records.
    """
    with topic_records.fill(broker.bootstrap, "on-a-cluster", records=5_000):
        pass
    terminal.pipeline("on-a-cluster", ["on-a-cluster"], max_records=4_000)
    process = terminal.start("run", "on-a-cluster", "--json")
    seen: set[int] = set()
    while process.poll() is None:
        seen |= set(spark.executors())
        time.sleep(0.05)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert seen
    report = json.loads(out)
    assert len(report["commits"]) > 1
    oracle_client.agree(broker.bootstrap, terminal.lake, "on-a-cluster", ["on-a-cluster"])
    assert spark.executors() == []
    checks = terminal.json("doctor", "on-a-cluster")["checks"]
    (line,) = (each for each in checks if each["check"] == "spark")
    assert line["says"] == f"master {spark.master.removeprefix('spark://')} answers"


@pytest.mark.slow
def test_a_connection_limits_the_cores(terminal: Terminal, spark: Cluster, broker: Broker) -> None:
    """`spark.cores.max` in its `extra`: of the worker's two cores a run's executor gets one."""
    terminal.pipeline("one-core", ["one-core"])
    given: dict[str, str] = {}
    for number, extra in enumerate(({}, {"conf": {"spark.cores.max": 1}})):
        topic_records.numbers(broker.bootstrap, "one-core", 200, partitions=2, first=200 * number)
        form = {"conn_type": "spark", "host": spark.master, "extra": extra}
        terminal.environ["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps(form)
        process = terminal.start("run", "one-core")
        while process.poll() is None:
            for pid in spark.executors():  # at the start, the last run's may not have ended yet
                if of_app := re.search(r"--cores (\d+) --app-id (\S+)", command_line(pid)):
                    given[of_app[2]] = of_app[1]
            time.sleep(0.05)
        assert process.returncode == 0, process.communicate()
    assert list(given.values()) == ["2", "1"]


@pytest.mark.faults
def test_an_executor_is_killed(terminal: Terminal, spark: Cluster, broker: Broker) -> None:
    """kill -9 with a part of the rows staged: Spark or the run's retry reruns the tasks; no row is
    duplicated or lost.
    """
    topic_records.numbers(broker.bootstrap, "killed-executor", 60_000)
    terminal.pipeline("killed-executor", ["killed-executor"], max_records=5_000)
    process = terminal.start("run", "killed-executor", "--run-id", "r", "--json")
    staging = terminal.lake / "killed-executor/_tidegate/staging"
    while not list(staging.glob("*/*/*/_done.json")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    (victim, *_) = spark.executors()
    os.kill(victim, signal.SIGKILL)
    _, err = process.communicate(timeout=180)
    assert process.returncode in (0, 4), err
    report = terminal.json("run", "killed-executor", "--run-id", "r")
    assert report["rows"] == 60_000
    oracle_client.agree(broker.bootstrap, terminal.lake, "killed-executor", ["killed-executor"])


@pytest.mark.slow
def test_a_zip_is_all_that_a_python_needs(spark: Cluster, broker: Broker, tmp_path: Path) -> None:
    """A driver on a Python without this package, and with only Spark's own PySpark, stages a chunk
    with a zip of core, errors, faults, settings and spark.
    """
    python = spark_cluster.bare_python()
    alone = subprocess.run([python, "-I", "-c", "import tidegate"], capture_output=True)
    assert b"ModuleNotFoundError" in alone.stderr
    topic_records.numbers(broker.bootstrap, "zipped", 300, partitions=2)
    window = (OffsetRange("zipped", 0, 10, 150), OffsetRange("zipped", 1, 0, 150))
    options = {
        "kafka.bootstrap.servers": broker.bootstrap, "kafka.isolation.level": "read_committed",
    }  # fmt: skip
    job = IngestJob(
        "f00d", (Chunk(0, window, str(tmp_path / "out")),), ParquetSettings("zstd", 1, 1_000_000),
        app_name="zip", options=options, records=sum(map(len, window)),
    )  # fmt: skip
    job.write(tmp_path / "job.json")
    done = subprocess.run(
        [
            spark_cluster.spark_home() / "bin/spark-submit", "--master", spark.master,
            "--jars", ",".join(map(str, jars.lock_paths("spark-kafka"))),
            "--py-files", job_zip.build_zip(), JOBS / "ingest.py", tmp_path / "job.json",
        ],
        env={
            **{k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYTHON"))},
            "SPARK_HOME": str(spark_cluster.spark_home()),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": str(python),
        },
        capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    done_json = json.loads((tmp_path / "out/_done.json").read_text())
    assert done_json["rows"] == 290
    written = [pq.read_metadata(tmp_path / "out" / file).num_rows for file in done_json["files"]]
    assert sum(written) == 290


@pytest.mark.slow
def test_csv_is_read_by_any_python_of_the_workers(
    spark: Cluster, broker: Broker, tmp_path: Path
) -> None:
    """Executors make records of CSV with a Python that has no package but Spark's own, and with
    timestamps that the rows say.
    """
    connection = {
        "conn_type": "spark",
        "host": spark.master,
        "extra": json.dumps({"python": str(spark_cluster.bare_python())}),
    }
    environ = {**spark.environment, "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connection)}
    terminal = Terminal(tmp_path, broker.bootstrap, environ=environ)
    (terminal.home / "in").mkdir()
    (terminal.home / "in/a.csv").write_bytes(b'id,text\r\n1,"two\r\nlines"\r\n2,""\r\n')
    source = {
        "path": str(terminal.home / "in"),
        "format": "csv",
        "columns": "id STRING, text STRING",
    }
    columns = {"key": "id", "value": "text", "partition": "0", "timestamp": "bigint(id)"}
    target = {"topic": "from-csv", "partitions": 1}
    target |= {"timestamps": "source", "accept_expiry": True}
    terminal.egress("csv", source=source, columns=columns, target=target)
    report = terminal.json("run", "csv")
    assert (report["rows"], report["duplicates"]) == (2, 0)
    found = topic_reader.read(broker.bootstrap, "from-csv")
    assert [(each.key, each.value, each.timestamp) for each in found] == [
        (b"1", b"two\r\nlines", 1), (b"2", b"", 2),
    ]  # fmt: skip


@pytest.mark.slow
def test_200_topics_in_one_application(terminal: Terminal, spark: Cluster, broker: Broker) -> None:
    """Topics of a pattern: one plan, one application, one commit; each topic is complete."""
    names = [f"many.{i:03d}" for i in range(200)]
    for name in names:
        topic_records.numbers(broker.bootstrap, name, 40, partitions=2)
    terminal.pipeline("many", [], pattern=r"many\.\d{3}")
    started = time.monotonic()
    done = terminal.run("run", "many", "--json")
    seconds = time.monotonic() - started
    report = json.loads(done.stdout)
    assert report["rows"] == 8_000
    assert len(report["commits"]) == 1
    assert sorted(report["commits"][0]["topics"]) == names
    print(f"200 topics of 2 partitions, 8,000 rows: {seconds:.1f} s")
    oracle_client.agree(broker.bootstrap, terminal.lake, "many", names)
