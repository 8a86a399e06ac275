"""Measure the memory of one Spark application: few chunks, many chunks, many topics, big records.

Each case is a whole `tidegate run` at default settings (a driver of 1 GB) from topics that are
compressed with lz4. It is void unless the ledger covers every offset that was sent.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from contest import surroundings, write

from tidegate.launch import jars
from tidegate.launch.spark_submit import ensure_archive
from tidegate_local import kafka

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
_COLLECTED = re.compile(r"Pause \w+.* \d+M->(\d+)M\((\d+)M\) ([\d.]+)ms")


@dataclass(frozen=True)
class Case:
    """Topics of so many partitions with so many records each, read in chunks of `max_records`."""

    topics: int
    partitions: int
    records: int
    bytes_per_record: int
    max_records: int

    @property
    def sent(self) -> int:
        return self.topics * self.partitions * self.records


CASES: Mapping[str, Case] = {
    "10 chunks": Case(1, 4, 25_000, 400, 10_000),
    "100 chunks": Case(1, 4, 250_000, 400, 10_000),
    "500 chunks": Case(1, 4, 1_250_000, 400, 10_000),
    "200 topics": Case(200, 1, 10_000, 400, 5_000_000),
    "1,000 topics": Case(1_000, 1, 10_000, 400, 5_000_000),
    "100 chunks of records of 200 kB": Case(1, 4, 2_500, 200_000, 100),
}


class Void(Exception):
    """A run did not do all of its work: what it took means nothing."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help=f"of: {', '.join(CASES)}; default: all")
    parser.add_argument("--spark-conf", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "memory.json")
    args = parser.parse_args()
    for name in ("spark-kafka", "kafka-broker"):
        jars.ensure(name)
    ensure_archive(lambda _: None)
    conf = dict(each.split("=", 1) for each in args.spark_conf)
    results: dict[str, Any] = {}
    if args.out.exists():  # cases may be measured one at a time
        results = json.loads(args.out.read_text())["results"]
    for name in args.cases or CASES:
        with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as directory:
            try:
                results[name] = {
                    **asdict(CASES[name]),
                    **measured(CASES[name], Path(directory), conf),
                }
            finally:
                kafka.stop(Path(directory, "kafka"))
        print(name, json.dumps(results[name]), flush=True)
        ordered = {name: results[name] for name in CASES if name in results}
        around = {k: v for k, v in surroundings().items() if k not in ("order", "page_cache")}
        write(args.out, {**around, "results": ordered})
    return 0


def measured(case: Case, home: Path, conf: Mapping[str, str]) -> dict[str, Any]:
    """Fill the topics, run once, and return what the application's JVM took."""
    broker = kafka.start(home / "kafka").bootstrap
    fill(broker, case)
    log = home / "gc.log"
    pipelines = home / "pipelines"
    pipelines.mkdir()
    spec = {
        "name": "bench", "kind": "ingest", "lake": str(home / "lake"), "pattern": "memory-.*",
        "spark": {"conf": {"spark.driver.extraJavaOptions": f"-Xlog:gc:file={log}", **conf}},
    }  # fmt: skip
    (pipelines / "bench.yaml").write_text(json.dumps(spec))
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker}}
    environment = {
        **os.environ,
        "TIDEGATE_PIPELINES": str(pipelines),
        "TIDEGATE_HOME": str(home / "no-stack"),
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(connection),
    }
    started = time.monotonic()
    command = [BIN / "tidegate", "run", "bench", "--run-id", "bench", "--json"]
    with (home / "out").open("w") as out:
        run = subprocess.Popen(
            [*command, "--max-records", str(case.max_records)],
            env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip
        peak = 0
        while run.poll() is None:
            peak = max(peak, _resident(run.pid))
            time.sleep(0.1)
    if run.returncode:
        raise Void(f"exit {run.returncode}: {(home / 'out').read_text()[-3000:]}")
    status = subprocess.run(
        [BIN / "tidegate", "status", "bench", "--json"],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    covered = sum(
        each["cursor"] - each["origin"]
        for topic in json.loads(status.stdout)["topics"].values()
        for each in topic["partitions"].values()
    )
    if covered != case.sent:
        raise Void(f"{case.sent} records were sent, the ledger covers {covered}")
    pauses = _COLLECTED.findall(log.read_text())
    return {
        "seconds": round(time.monotonic() - started, 1),
        "peak_rss_mb": peak >> 20,
        "peak_heap_after_collection_mb": max(int(after) for after, _, _ in pauses),
        "seconds_in_collections": round(sum(float(ms) for _, _, ms in pauses) / 1000, 1),
    }


def fill(broker: str, case: Case) -> None:
    """Send records that compress as JSON does, about to a third."""
    names = [f"memory-{number:04d}" for number in range(case.topics)]
    admin = AdminClient({"bootstrap.servers": broker})
    for done in admin.create_topics([NewTopic(t, case.partitions, 1) for t in names]).values():
        done.result(120)
    producer = Producer(
        {
            "bootstrap.servers": broker, "compression.type": "lz4", "linger.ms": 50,
            "queue.buffering.max.kbytes": 256 * 1024,
        }
    )  # fmt: skip
    values = list(_values(case.bytes_per_record))
    for topic in names:
        for number in range(case.records):
            for partition in range(case.partitions):
                value = values[(number * 7 + partition) % len(values)]
                while True:
                    try:
                        producer.produce(topic, value, b"%d" % number, partition)
                        break
                    except BufferError:
                        producer.poll(0.1)
            producer.poll(0)
    if left := producer.flush(120):
        raise RuntimeError(f"{left} records were not delivered")


def _values(size: int) -> Iterator[bytes]:
    rng = random.Random(size)
    for _ in range(max(20, min(1_000, 40_000_000 // size))):
        noise = rng.randbytes(size // 10).hex()
        fields = [f'"a field of a record":"{noise[i : i + 20]}"' for i in range(0, len(noise), 20)]
        yield ("{" + ",".join(fields) + "}").encode()[:size].ljust(size)


def _resident(pid: int) -> int:
    """Return the resident bytes of the largest Java process below a process."""
    sizes = [0]
    try:
        for process in psutil.Process(pid).children(recursive=True):
            try:
                if process.name() == "java":
                    sizes.append(process.memory_info().rss)
            except psutil.Error:
                continue
    except psutil.Error:
        pass
    return max(sizes)


if __name__ == "__main__":
    sys.exit(main())
