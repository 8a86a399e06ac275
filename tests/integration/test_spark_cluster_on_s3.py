"""Runs on a Spark cluster with the lake in a bucket: as in docker-compose.yaml, no shared disk."""

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from support import (
    buckets,
    oracle_client,
    secured_broker,
    spark_cluster,
    topic_reader,
    topic_records,
)
from support.cli_user import Terminal
from support.doc_pages import fenced, page
from support.process_list import CommandLines
from support.secured_broker import SecuredBroker
from support.spark_cluster import Cluster
from support.topic_reader import Record
from tidegate_local.kafka import Broker
from tidegate_local.s3 import Server

SLOWLY = {"batch.size": 2_000, "linger.ms": 0, "max.in.flight.requests.per.connection": 1}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with spark_cluster.running(tmp_path_factory.mktemp("spark")) as running:
        yield running


@pytest.fixture
def lake(request: pytest.FixtureRequest) -> str:
    """Return the URL of a lake for one test."""
    return f"s3://{buckets.BUCKET}/{request.function.__name__}/lake"


@pytest.fixture
def terminal(broker: Broker, spark: Cluster, s3: Server, tmp_path: Path, lake: str) -> Terminal:
    environ = {**s3.environment, **spark.environment}
    return Terminal(tmp_path, broker.bootstrap, environ=environ, url=lake)


def content(records: list[Record]) -> list[Any]:
    """Return what an egress of a lake keeps of records, in their order."""
    return [(record.partition, record.content) for record in records]


def finished(process: subprocess.Popen[str], spark: Cluster) -> tuple[str, dict[int, set[str]]]:
    """Wait for a run's good end; return its output, and the variables of each executor, by pid."""
    seen: dict[int, set[str]] = {}
    while process.poll() is None:
        for pid in set(spark.executors()) - set(seen):
            with contextlib.suppress(psutil.NoSuchProcess):
                seen[pid] = set(psutil.Process(pid).environ())
        time.sleep(0.05)
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out, seen


def killed_executor(
    process: subprocess.Popen[str], spark: Cluster, until: Callable[[], object]
) -> tuple[int, list[int]]:
    """Kill -9 an executor once `until` is true, and await the run's end.

    Returns the run's exit code, and the other executors that it had afterwards.
    """
    deadline = time.monotonic() + 120
    while not until():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    (victim, *_) = spark.executors()
    os.kill(victim, signal.SIGKILL)
    others: set[int] = set()
    while process.poll() is None:
        others |= set(spark.executors()) - {victim}
        time.sleep(0.05)
    _, err = process.communicate()
    assert process.returncode in (0, 4), err
    return process.returncode, sorted(others)


@pytest.mark.slow
def test_a_whole_run_both_ways(
    terminal: Terminal, spark: Cluster, s3: Server, broker: Broker, lake: str
) -> None:
    """The lake equals an independent consumer's records, and the target has them once, in order.
    Executors have none of the `AWS_*` variables; the secret key is in no command line and in no
    file of master, worker or executors.
    """
    with topic_records.fill(broker.bootstrap, "there-and-back", records=5_000) as filled:
        pass
    rows = filled.visible.total()
    terminal.pipeline("there", ["there-and-back"], max_records=4_000)
    with CommandLines() as seen:
        out, executors = finished(terminal.start("run", "there", "--json"), spark)
        assert executors
        report = json.loads(out)
        assert report["rows"] == rows
        assert len(report["commits"]) > 1
        oracle_client.agree(
            broker.bootstrap, lake, "there", ["there-and-back"], environ=s3.environment
        )
        partitions = topic_records.PARTITIONS
        large = {"max.message.bytes": "2000000"}
        topic_records.create(broker.bootstrap, "back-again", partitions=partitions, config=large)
        target = {"topic": "back-again", "partitions": partitions}
        terminal.egress("back", source={"lake": "there"}, target=target, lake=lake)
        out, more = finished(terminal.start("run", "back", "--json"), spark)
        assert set(more) - set(executors)
    there, back = (
        topic_reader.read(broker.bootstrap, name, isolation="read_committed")
        for name in ("there-and-back", "back-again")
    )
    assert content(back) == content(there)
    assert json.loads(out)["duplicates"] == 0
    for name in ("there", "back"):
        assert terminal.json("verify", name, "--against-kafka")["differences"] == 0
    for given in (executors | more).values():
        assert [name for name in given if name.startswith("AWS_")] == []
    written = b"".join(file.read_bytes() for file in spark.home.rglob("*") if file.is_file())
    assert b"CoarseGrainedExecutorBackend" in written
    for where in (seen.text.encode(), written):
        assert s3.secret_key.encode() not in where


@pytest.mark.slow
def test_the_settings_of_the_page(
    spark: Cluster, s3: Server, secured: SecuredBroker, tmp_path: Path, lake: str
) -> None:
    """The variables of docs/how-to/install.md and README's pipeline, with addresses, user, password
    and certificate of the tests' servers: SASL_SSL, a Spark master and a bucket.
    """
    blocks = fenced(page("docs/how-to/install.md"), "sh")
    (settings,) = (block for block in blocks if block.startswith("export TIDEGATE_LAKE"))
    here = {
        "s3://bucket/lake": lake,
        "broker:9093": secured.address("LOGIN"),
        '"tidegate"': f'"{secured_broker.USER}"',
        '"…"': f'"{secured_broker.PASSWORD}"',
        "/etc/ssl/kafka-ca.pem": str(secured.files / "ca.pem"),
        'spark://master", "port": 7077': '{}", "port": {}'.format(*spark.master.rsplit(":", 1)),
    }
    for there, value in here.items():
        assert there in settings
        settings = settings.replace(there, value)
    script = f"set -e\n{settings}\nenv -0"
    asked = subprocess.run(["env", "-i", "bash", "-c", script], capture_output=True, check=True)
    given = dict(each.split("=", 1) for each in asked.stdout.decode().split("\0") if each)
    exported = {name: given[name] for name in re.findall(r"^export (\w+)", settings, re.MULTILINE)}

    topic_records.numbers(secured.admin, "orders-of-readme", 500)
    environ = {**s3.environment, **spark.environment, **exported}
    terminal = Terminal(tmp_path, "", environ=environ)
    terminal.pipelines.mkdir()
    file = fenced(page("README.md"), "yaml")[0].replace("[orders]", "[orders-of-readme]")
    (terminal.pipelines / "orders.yaml").write_text(
        file.replace("{orders: ", "{orders-of-readme: ")
    )
    for words in (("run", "orders"), ("verify", "orders", "--against-kafka")):
        terminal.run(*words)
    oracle_client.agree(secured.admin, lake, "orders", ["orders-of-readme"], environ=s3.environment)
    written = b"".join(file.read_bytes() for file in spark.home.rglob("*") if file.is_file())
    assert secured_broker.PASSWORD.encode() not in written


@pytest.mark.faults
def test_an_executor_is_killed(
    terminal: Terminal, spark: Cluster, s3: Server, broker: Broker, lake: str
) -> None:
    """kill -9 with a part of the chunks staged and uploads open: Spark or the run's retry reruns
    the tasks; the lake equals an independent consumer's records.
    """
    topic_records.numbers(broker.bootstrap, "killed-on-s3", 60_000)
    terminal.pipeline("killed", ["killed-on-s3"], max_records=5_000)
    process = terminal.start("run", "killed", "--run-id", "r", "--json")

    def half_way() -> bool:
        return bool(buckets.keys(s3, lake, "/_done.json$") and buckets.uploads(s3, lake))

    code, others = killed_executor(process, spark, half_way)
    print(f"exit code {code}, {len(others)} executors afterwards")
    assert others or code == 4
    report = terminal.json("run", "killed", "--run-id", "r")
    assert report["rows"] == 60_000
    oracle_client.agree(broker.bootstrap, lake, "killed", ["killed-on-s3"], environ=s3.environment)
    assert terminal.json("verify", "killed", "--against-kafka")["differences"] == 0


@pytest.mark.faults
def test_an_executor_of_an_egress_is_killed(
    terminal: Terminal, spark: Cluster, broker: Broker, lake: str
) -> None:
    """kill -9 with a part of the rows sent: the target has every row of the lake; rows that were
    sent twice are counted.
    """
    rows = 40_000
    topic_records.numbers(broker.bootstrap, "sent-from-s3", rows)
    terminal.pipeline("there", ["sent-from-s3"])
    terminal.run("run", "there")
    topic_records.create(broker.bootstrap, "sent-to", partitions=4)
    target = {"topic": "sent-to", "partitions": 4, "producer": SLOWLY}
    terminal.egress("back", source={"lake": "there"}, target=target, lake=lake)

    def a_third() -> bool:
        return sum(topic_reader.ends(broker.bootstrap, "sent-to").values()) > rows // 3

    process = terminal.start("run", "back", "--run-id", "r", "--json")
    code, others = killed_executor(process, spark, a_third)
    assert others or code == 4
    report = terminal.json("run", "back", "--run-id", "r")
    there, back = (topic_reader.read(broker.bootstrap, t) for t in ("sent-from-s3", "sent-to"))
    assert set(content(back)) == set(content(there))
    print(f"exit code {code}, {len(others)} executors afterwards, {len(back) - rows} duplicates")
    assert (report["rows"], report["duplicates"]) == (rows, len(back) - rows)
    assert terminal.json("verify", "back", "--against-kafka")["differences"] == 0
