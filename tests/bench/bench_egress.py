"""Compare ways to send files into a topic: Spark's sink, a producer by hand, `tidegate run`.

One broker; the contenders in turn, each into a topic of its own, which is read back by another
client and compared: a result with a row too few, too many or changed is void. Tidegate alone looks
at all rows before it sends, and reads all of them back: both are part of a whole run. "Sending" is
reading the files and writing the records, without the start of anything, in the same runs; by then
Tidegate's JVM is warm from its look.
"""

import argparse
import json
import random
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from contest import Contender, compared, measure, run, surroundings, tell, write
from workload import Void

from tidegate.launch import jars
from tidegate.launch.spark_submit import ensure_archive
from tidegate_local import kafka

SIZES = {"100 B": (100, 2_000_000), "1 KB": (1_000, 400_000)}
TARGETS: dict[str, dict[str, float]] = {}  # told, and not promised
PARTITIONS, FILES = 4, 8
HERE = Path(__file__).parent
BIN = Path(sys.executable).parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of rows")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "egress.json")
    args = parser.parse_args()
    for name in ("spark-kafka", "kafka-broker"):
        jars.ensure(name)
    ensure_archive(lambda _: None)
    results, rows = {}, {}
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as directory:
        home = Path(directory)
        broker = kafka.start(home / "kafka").bootstrap
        try:
            for what, (size, full) in SIZES.items():
                rows[what] = int(full * args.scale)
                source = home / f"source-{size}"
                sent = make(source, rows[what], size)
                found = measure(
                    (tidegate(broker, home, source), spark(broker, source), hand(broker, source)),
                    lambda output, sent=sent: check(broker, output.name, sent),
                    args.repetitions,
                    fresh(broker, home, f"t{size}"),
                )
                results[f"{what}, sending"] = found
                results[f"{what}, whole run"] = compared(found["repetitions"], "wall")
        finally:
            kafka.stop(home / "kafka")
    write(args.out, {**surroundings(), "rows": rows, "partitions": PARTITIONS, "results": results})
    return tell(results, TARGETS)


def make(directory: Path, rows: int, size: int) -> tuple[int, int]:
    """Write files of rows of `size` bytes, half of them noise; return their number and hash."""
    directory.mkdir()
    noise = random.Random(size)
    digest, left = 0, rows
    for number in range(FILES):
        here = left // (FILES - number)
        keys = [b"%020d" % noise.getrandbits(60) for _ in range(here)]
        values = [(noise.randbytes((size - 20) // 2).ljust(size - 20, b"t")) for _ in range(here)]
        digest = (digest + sum(hash(pair) for pair in zip(keys, values, strict=True))) % (1 << 61)
        pq.write_table(pa.table({"key": keys, "value": values}), directory / f"{number}.parquet")
        left -= here
    return rows, digest


def check(broker: str, topic: str, sent: tuple[int, int]) -> None:
    """Raise Void unless the topic holds exactly what the files do; then delete it."""
    consumer = Consumer({"bootstrap.servers": broker, "group.id": "check"})
    places, ends = [], {}
    for p in range(PARTITIONS):
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=30)
        if high > low:
            places.append(TopicPartition(topic, p, low))
            ends[p] = high
    consumer.assign(places)
    rows = digest = 0
    while rows < sum(ends.values()):
        messages = consumer.consume(min(10_000, sum(ends.values()) - rows), timeout=30)
        if not messages:
            raise Void(f"{topic}: no more after {rows} records")
        rows += len(messages)
        digest = (digest + sum(hash((m.key(), m.value())) for m in messages)) % (1 << 61)
    consumer.close()
    if (rows, digest) != sent:
        raise Void(f"{topic} holds {rows} records, and sent were {sent[0]}; or others")
    admin = AdminClient({"bootstrap.servers": broker})  # must outlive what it was asked
    admin.delete_topics([topic])[topic].result(30)


def fresh(broker: str, home: Path, prefix: str) -> Callable[[int], Path]:
    """Make a topic for each result; its name is that of a directory that does not matter."""
    admin = AdminClient({"bootstrap.servers": broker})

    def make_topic(number: int) -> Path:
        name = f"{prefix}-{number}"
        admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(30)
        (home / name).mkdir()
        return home / name

    return make_topic


def tidegate(broker: str, home: Path, source: Path) -> Contender:
    """`tidegate run` from cold: plan, claim, look, send, read back, commit."""
    pipelines = home / "pipelines"
    pipelines.mkdir(exist_ok=True)
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker}}

    def go(output: Path) -> float:
        form = {
            "name": "bench", "kind": "egress", "lake": str(output), "settle": 0,
            "source": {"path": str(source), "format": "parquet"},
            "target": {"topic": output.name}, "columns": {"key": "key", "value": "value"},
        }  # fmt: skip
        (pipelines / "bench.yaml").write_text(json.dumps(form))
        told = run(
            [BIN / "tidegate", "run", "bench", "--run-id", "bench"],
            TIDEGATE_PIPELINES=str(pipelines),
            TIDEGATE_HOME=str(home / "no-stack"),
            AIRFLOW_CONN_KAFKA_DEFAULT=json.dumps(connection),
        )
        return seconds(r": sent, (\S+) s", told) - seconds(r"fit to be sent, (\S+) s", told)

    return Contender("tidegate run", ".", go)


def spark(broker: str, source: Path) -> Contender:
    """Spark's sink with its defaults: no look before, no reading back."""
    connector = ",".join(map(str, jars.paths("spark-kafka")))

    def go(output: Path) -> float:
        script = HERE / "plain_egress.py"
        told = run(
            [BIN / "spark-submit", "--jars", connector, script, broker, output.name, source],
            PYSPARK_PYTHON=sys.executable,
        )
        return seconds(r"sent, (\S+) s", told)

    return Contender("plain spark-submit", ".", go)


def hand(broker: str, source: Path) -> Contender:
    """A producer by hand, one process: no look before, no reading back."""

    def go(output: Path) -> float:
        told = run([sys.executable, HERE / "plain_producer.py", broker, output.name, source])
        return seconds(r"sent, (\S+) s", told)

    return Contender("confluent-kafka", ".", go)


def seconds(pattern: str, told: str) -> float:
    """Return the number that a contender has told."""
    (number,) = re.findall(pattern, told)
    return float(number)


if __name__ == "__main__":
    sys.exit(main())
