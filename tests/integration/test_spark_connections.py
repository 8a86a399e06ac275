"""Runs by what a Spark connection says: settings on two masters, an own Spark and Python."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support import jar_repository, oracle_client, spark_cluster, topic_records
from support.cli_user import Terminal
from tidegate.launch import jars
from tidegate_local.kafka import Broker


@pytest.fixture
def terminal(broker: Broker, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path, broker.bootstrap, processes=True)


def connection(master: str, **extra: Any) -> str:
    return json.dumps({"conn_type": "spark", "host": master, "extra": extra})


def logged(directory: Path) -> dict[str, str]:
    """Return the settings of the one application of an event log."""
    (log,) = directory.iterdir()
    events = map(json.loads, log.read_text().splitlines())
    return next(dict(e["Spark Properties"]) for e in events if "Spark Properties" in e)


@pytest.mark.slow
def test_two_masters_with_settings(
    terminal: Terminal, broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    """Each run has the settings of its pipeline's connection, and the pipeline's own above them."""
    name = topic(partitions=2)
    topic_records.numbers(broker.bootstrap, name, 200, partitions=2)
    for cores in (1, 2):
        events = tmp_path / f"events-{cores}"
        events.mkdir()
        terminal.environ[f"AIRFLOW_CONN_SPARK_{cores}"] = connection(
            f"local[{cores}]",
            conf={
                "spark.eventLog.enabled": True, "spark.eventLog.compress": False,
                "spark.eventLog.rolling.enabled": False, "spark.eventLog.dir": events.as_uri(),
                "spark.cores.max": cores, "spark.driver.memory": "700m",
            },
        )  # fmt: skip
        spark = {"connection": f"spark_{cores}", "conf": {"spark.driver.memory": "800m"}}
        terminal.pipeline(f"in-{cores}", [name], spark=spark)
        assert terminal.json("run", f"in-{cores}")["rows"] == 200
        found = logged(events)
        assert found["spark.master"] == f"local[{cores}]"
        assert found["spark.cores.max"] == str(cores)
        assert found["spark.driver.memory"] == "800m"
        oracle_client.agree(broker.bootstrap, terminal.lake, f"in-{cores}", [name])


def own_spark(home: Path) -> Path:
    """Make a SPARK_HOME of the installed one's files, with Kafka's connector among its jars."""
    installed = spark_cluster.spark_home()
    (home / "jars").mkdir(parents=True)
    for each in ("bin", "python"):
        (home / each).symlink_to(installed / each)
    for jar in (*installed.glob("jars/*.jar"), *jars.lock_paths("spark-kafka")):
        (home / "jars" / jar.name).symlink_to(jar)
    return home


def repository(directory: Path) -> dict[str, str]:
    """Return the settings by which Spark fetches Kafka's connector from a repository of files."""
    files = {f"{each.group}:{each.artifact}:{each.version}": path for each, path in zip(
        jars.read_lock("spark-kafka"), jars.lock_paths("spark-kafka"), strict=True)}  # fmt: skip
    connector = next(name for name in files if "spark-sql-kafka" in name)
    return jar_repository.settings(directory, {connector: files.pop(connector), **files})


@pytest.mark.slow
@pytest.mark.parametrize("source", ["cache", "image", "directory", "packages"])
def test_a_spark_and_a_python_of_its_own(
    terminal: Terminal, broker: Broker, topic: Callable[..., str], tmp_path: Path, source: str
) -> None:
    """Both ways, with a Python that has neither Tidegate nor PySpark; each source of jars."""
    home = own_spark(tmp_path / "spark")
    if source in ("cache", "packages"):  # the connector comes from there alone
        for jar in jars.lock_paths("spark-kafka"):
            (home / "jars" / jar.name).unlink()
    if source == "directory":
        own = tmp_path / "jars"
        own.mkdir()
        for jar in jars.lock_paths("spark-kafka"):
            (home / "jars" / jar.name).rename(own / jar.name)
    terminal.environ["AIRFLOW_CONN_SPARK_DEFAULT"] = connection(
        "local[2]",
        **{"spark-home": str(home), "python": str(spark_cluster.bare_python())},
        jars=str(tmp_path / "jars") if source == "directory" else source,
        conf=repository(tmp_path) if source == "packages" else {},
    )
    incoming, outgoing = topic(partitions=2), topic(partitions=2)
    topic_records.numbers(broker.bootstrap, incoming, 200, partitions=2)
    terminal.pipeline("in", [incoming])
    assert terminal.json("run", "in")["rows"] == 200
    oracle_client.agree(broker.bootstrap, terminal.lake, "in", [incoming])
    terminal.egress("out", source={"lake": "in"}, target={"topic": outgoing})
    assert terminal.json("run", "out")["rows"] == 200
    checks = terminal.json("doctor", "in")["checks"]
    lines = [each for each in checks if each["check"] in ("spark", "provider")]
    assert {each["state"] for each in lines} == {"ok"}
    assert any(f"SPARK_HOME {home} is Spark 4." in each["says"] for each in lines)
