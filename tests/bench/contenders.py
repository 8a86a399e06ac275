"""Who is measured: Tidegate, plain Spark, and a program by hand; in both directions."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from contest import Contender, run

from tidegate.launch import jars

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
TIDEGATE, SPARK = "Tidegate", "plain Spark"
BY_HAND = "confluent-kafka"


def pipeline(home: Path, broker: str, form: Mapping[str, Any]) -> dict[str, str]:
    """Write a pipeline's file, its name in it; return the environment of its commands."""
    directory = home / "pipelines"
    directory.mkdir(exist_ok=True)
    (directory / f"{form['name']}.yaml").write_text(json.dumps(form))
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker}}
    return {
        "TIDEGATE_PIPELINES": str(directory),
        "TIDEGATE_HOME": str(home / "no-stack"),
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(connection),
    }


def tidegate(*args: str, env: Mapping[str, str]) -> None:
    """Run a command from cold, as a person types it."""
    run([BIN / "tidegate", *args], **env)


def ingest(
    home: Path,
    broker: str,
    form: Mapping[str, Any],
    check: Callable[[Path], None],
    *,
    name: str = TIDEGATE,
    options: tuple[str, ...] = (),
) -> Contender:
    """`tidegate run` of an ingest into a lake that is new each time."""
    form = {"name": "bench", "kind": "ingest", "lake": "${TIDEGATE_LAKE}", **form}

    def go(output: Path) -> None:
        output.mkdir()
        env = pipeline(home, broker, form) | {"TIDEGATE_LAKE": str(output)}
        tidegate("run", "bench", "--run-id", "bench", *options, env=env)

    return Contender(name, go, lambda output: check(output / "bench/data"))


def spark_ingest(broker: str, topic: str, check: Callable[[Path], None]) -> Contender:
    """One `spark-submit` of a plain script, from cold."""
    return Contender(SPARK, lambda output: _submit("plain_spark.py", broker, topic, output), check)


def spark_decode(
    broker: str, topic: str, check: Callable[[Path], None], decoder: str, schema: str
) -> Contender:
    """The same with `from_json`, `from_csv` or `from_avro`."""
    return Contender(
        f"{SPARK}, decoded",
        lambda output: _submit("plain_spark.py", broker, topic, output, decoder, schema),
        check,
    )


def ingest_by_hand(
    broker: str, topic: str, check: Callable[[Path], None], processes: int
) -> Contender:
    """A consumer by hand, with pyarrow, in so many processes."""

    def go(output: Path) -> None:
        output.mkdir()
        run([sys.executable, HERE / "plain_consumer.py", broker, topic, output, str(processes)])

    several = f", {processes} processes" if processes > 1 else ""
    return Contender(f"{BY_HAND} and pyarrow{several}", go, check)


def egress(
    home: Path, broker: str, source: Mapping[str, Any], check: Callable[[Path], None]
) -> Contender:
    """`tidegate run` of an egress into the topic that the output is named after."""

    def go(output: Path) -> None:
        form = {
            "name": "bench", "kind": "egress", "lake": str(output), "settle": 0,
            "target": {"topic": output.name}, "source": source,
        }  # fmt: skip
        if "path" in source:
            form["columns"] = {"key": "key", "value": "value"}
        env = pipeline(home, broker, form)
        tidegate("run", "bench", "--run-id", "bench", env=env)

    return Contender(TIDEGATE, go, check)


def spark_egress(broker: str, source: Path, check: Callable[[Path], None]) -> Contender:
    """Spark's sink with its defaults: nothing is read back."""
    return Contender(
        SPARK, lambda output: _submit("plain_egress.py", broker, output.name, source), check
    )


def egress_by_hand(broker: str, source: Path, check: Callable[[Path], None]) -> Contender:
    """A producer by hand, one process: nothing is read back."""
    script = HERE / "plain_producer.py"
    return Contender(
        BY_HAND, lambda output: _run_python(script, broker, output.name, source), check
    )


def _run_python(script: Path, *args: str | Path) -> None:
    run([sys.executable, script, *args])


def _submit(script: str, *args: str | Path) -> None:
    connector = ",".join(map(str, jars.lock_paths("spark-kafka")))
    run(
        [BIN / "spark-submit", "--jars", connector, HERE / script, *args],
        PYSPARK_PYTHON=sys.executable,  # else Spark takes the first python3 of the PATH
    )
