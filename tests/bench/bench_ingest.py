"""Compare a whole `tidegate run` with a plain PySpark script, and the stage alone, warmed.

One broker, one topic, two contenders in ABBA order; every result is read back, and void unless it
holds exactly what was sent. Everything that was measured is written as JSON.
"""

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from contest import Contender, measure, run, surroundings, tell, write
from workload import PARTITIONS, TOPIC, Sent, check, load

from tidegate.core.offsets import OffsetRange
from tidegate.launch import jars
from tidegate.launch.spark_submit import ensure_archive, submit
from tidegate.launch.submission import submission
from tidegate.spark.ingest_job import Chunk, IngestJob, ParquetSettings
from tidegate_local import kafka

TARGETS = {"whole run": {"plain spark-submit": 1.5}, "stage, warmed": {"plain write": 2.0}}
HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
WRITES = ("first", "second", "third")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "ingest.json")
    args = parser.parse_args()
    for name in ("spark-kafka", "kafka-broker"):
        jars.ensure(name)
    ensure_archive(lambda _: None)  # a part of set-up, as in `make setup`
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as directory:
        home = Path(directory)
        broker = kafka.start(home / "kafka").bootstrap
        try:
            sent = load(broker, args.records)

            def measured(*contenders: Contender) -> dict[str, Any]:
                return measure(
                    contenders, lambda files: check(files, sent), args.repetitions,
                    lambda _: home / "out",
                )  # fmt: skip

            results = {
                "whole run": measured(whole_tidegate(broker, home), whole_plain(broker)),
                "stage, warmed": measured(
                    warmed_tidegate(broker, home, sent), warmed_plain(broker)
                ),
            }
        finally:
            kafka.stop(home / "kafka")
    report = {
        **surroundings(),
        "records": args.records,
        "partitions": PARTITIONS,
        "bytes_per_record": round(sent.bytes / args.records, 1),
        "results": results,
    }
    write(args.out, report)
    return tell(results, TARGETS)


def whole_tidegate(broker: str, home: Path) -> Contender:
    """`tidegate run` from cold, as a person types it, into a lake that is new each time."""
    pipelines = home / "pipelines"
    pipelines.mkdir()
    (pipelines / "bench.yaml").write_text(
        f"name: bench\nkind: ingest\ntopics: [{TOPIC}]\nlake: ${{TIDEGATE_LAKE}}\n"
    )
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker}}

    def go(output: Path) -> None:
        output.mkdir()
        run(
            [BIN / "tidegate", "run", "bench", "--run-id", "bench"],
            TIDEGATE_PIPELINES=str(pipelines),
            TIDEGATE_LAKE=str(output),
            TIDEGATE_HOME=str(home / "no-stack"),
            AIRFLOW_CONN_KAFKA_DEFAULT=json.dumps(connection),
        )

    return Contender("tidegate run", "bench/data", go)


def whole_plain(broker: str) -> Contender:
    """One `spark-submit` of the plain script from cold."""

    def go(output: Path) -> None:
        _plain(broker, [output])

    return Contender("plain spark-submit", ".", go)


def warmed_tidegate(broker: str, home: Path, sent: Sent) -> Contender:
    """The third of three chunks in one application, all of the same window."""
    window = tuple(
        OffsetRange(TOPIC, p, 0, high + 1) for p, (_, _, high, _) in sent.content.items()
    )
    records = sum(map(len, window))
    options = {"kafka.bootstrap.servers": broker, "kafka.isolation.level": "read_committed"}

    def go(output: Path) -> float:
        chunks = tuple(Chunk(n, window, str(output / to)) for n, to in enumerate(WRITES))
        path = home / "job.json"
        IngestJob("bench", "bench", options, chunks, ParquetSettings("zstd", 1, records)).write(
            path
        )
        lines: list[str] = []
        given = submission(path, {}, records * len(WRITES), name="bench")
        submit(given, master="local[*]", log=lines.append)
        return _last_seconds(lines)

    return Contender("tidegate stage", WRITES[-1], go)


def warmed_plain(broker: str) -> Contender:
    """The third of three writes in one application."""

    def go(output: Path) -> float:
        return _last_seconds(_plain(broker, [output / to for to in WRITES]).splitlines())

    return Contender("plain write", WRITES[-1], go)


def _plain(broker: str, outputs: Sequence[Path]) -> str:
    connector = ",".join(map(str, jars.paths("spark-kafka")))
    script = HERE / "plain_spark.py"
    return run(
        [BIN / "spark-submit", "--jars", connector, script, broker, TOPIC, *outputs],
        PYSPARK_PYTHON=sys.executable,  # else Spark takes the first python3 of the PATH
    )


def _last_seconds(lines: Sequence[str]) -> float:
    """Return the `… 1.23 s` that ends the last line which has one."""
    ends = (re.search(r" ([\d.]+) s$", line.rstrip()) for line in lines)
    return [float(end[1]) for end in ends if end][-1]


if __name__ == "__main__":
    sys.exit(main())
