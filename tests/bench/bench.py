"""Measure both directions on this machine: `make bench`, about 35 minutes.

Each workload has a broker of its own. Its contenders take turns (A B C C B A …), each from cold,
with a warm page cache; every result is compared with what an independent client reads, and ends
the run if it differs. `tests/tools/benchmarks_page.py` prints docs/benchmarks.md from the results,
and its figure with `--svg`.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sources
import workload
from contenders import (
    egress,
    egress_by_hand,
    ingest,
    ingest_by_hand,
    spark_decode,
    spark_egress,
    spark_ingest,
)
from contest import Contender, measure, surroundings, write
from workload import Shape

from tidegate.launch import jars
from tidegate.launch.spark_submit import ensure_archive
from tidegate_local import kafka

RESULTS = Path(__file__).parent / "results" / "bench.json"
CHUNKS = 60


@dataclass(frozen=True)
class Workload:
    """What is measured; `title` begins with its number, `made` returns the contenders.

    `targets` are the partitions of the topics that an egress writes to. `by_name_only`: it is not
    among those that are measured by default.
    """

    title: str
    made: Callable[[str, Path, float], list[Contender]]
    targets: int = 0
    by_name_only: bool = False


def topic(shape: Shape, *, processes: tuple[int, ...] = ()) -> Callable[..., list[Contender]]:
    """Return what makes the contenders that read one topic; by hand in so many processes."""

    def made(broker: str, home: Path, scale: float) -> list[Contender]:
        sent = workload.load(broker, "bench", shape.scaled(scale))
        (name,) = sent.topics

        def check(files: Path) -> None:
            workload.check(files, sent)

        return [
            ingest(home, broker, {"topics": [name]}, check),
            spark_ingest(broker, name, check),
            *(ingest_by_hand(broker, name, check, each) for each in processes),
        ]

    return made


def one_or_many(shape: Shape) -> Callable[..., list[Contender]]:
    """Return what makes two contenders: one topic, and many topics with as many records."""

    def made(broker: str, home: Path, scale: float) -> list[Contender]:
        many = shape.scaled(scale)
        one = Shape(many.records, many.size, partitions=many.partitions)
        contenders = []
        for title, prefix, each in (("one topic", "o", one), (f"{many.topics} topics", "m", many)):
            sent = workload.load(broker, prefix, each)

            def check(files: Path, sent: workload.Sent = sent) -> None:
                workload.check(files, sent)

            form = {"pattern": f"{prefix}-.*"}
            contenders.append(ingest(home, broker, form, check, name=f"Tidegate, {title}"))
        return contenders

    return made


def chunks(shape: Shape) -> Callable[..., list[Contender]]:
    """Return what makes two contenders: the same records in one chunk, and in many."""

    def made(broker: str, home: Path, scale: float) -> list[Contender]:
        sent = workload.load(broker, "bench", shape.scaled(scale))

        def check(files: Path) -> None:
            workload.check(files, sent)

        form, share = {"topics": list(sent.topics)}, -(-sent.rows // CHUNKS)
        return [
            ingest(home, broker, form, check, name="Tidegate, one chunk"),
            ingest(
                home, broker, form, check, name=f"Tidegate, {CHUNKS} chunks",
                options=("--max-records", str(share)),
            ),
        ]  # fmt: skip

    return made


def decoded(shape: Shape) -> Callable[..., list[Contender]]:
    """Return what makes contenders that read one topic of JSON, CSV or Avro: its bytes, and typed
    columns, of JSON also in directories by day of the records.
    """
    schema = workload.SCHEMAS[shape.format]

    def made(broker: str, home: Path, scale: float) -> list[Contender]:
        sent = workload.load(broker, "bench", shape.scaled(scale))
        (name,) = sent.topics

        def check(files: Path) -> None:
            workload.check(files, sent)

        form = {"topics": [name]}
        decode = form | {"decode": {"*": {"value": {"format": shape.format, "schema": schema}}}}
        by_day = decode | {"partition_by": ["topic", "day(flown)"]}
        days = [ingest(home, broker, by_day, check, name="Tidegate, decoded, by day")]
        return [
            ingest(home, broker, decode, check, name="Tidegate, decoded"),
            *(days if shape.format == "json" else []),
            ingest(home, broker, form, check, name="Tidegate, bytes alone"),
            spark_decode(broker, name, check, shape.format, schema),
        ]

    return made


def lake(rows: int, size: int) -> Callable[..., list[Contender]]:
    """Return what makes the contenders that send a lake."""

    def made(broker: str, home: Path, scale: float) -> list[Contender]:
        data, sent = sources.lake(home, broker, int(rows * scale), size)
        return _senders(broker, home, {"lake": "feed"}, data, sent)

    return made


def files(rows: int, size: int) -> Callable[..., list[Contender]]:
    """Return what makes the contenders that send Parquet files."""

    def made(broker: str, home: Path, scale: float) -> list[Contender]:
        source = home / "source"
        sent = sources.files(source, int(rows * scale), size)
        form = {"path": str(source), "format": "parquet"}
        return _senders(broker, home, form, source, sent)

    return made


def _senders(
    broker: str, home: Path, form: Mapping[str, Any], data: Path, sent: sources.Rows
) -> list[Contender]:
    def check(output: Path) -> None:
        sources.check(broker, output.name, sent)

    return [
        egress(home, broker, form, check),
        spark_egress(broker, data, check),
        egress_by_hand(broker, data, check),
    ]


"""Of the objects of a workload, by their format."""
WORKLOADS: Mapping[str, Workload] = {
    "W1-100B": Workload("2 million records of 100 bytes", topic(Shape(2_000_000, 100))),
    "W1-300B": Workload(
        "2 million records of 300 bytes", topic(Shape(2_000_000, 300), processes=(1, 2))
    ),
    "W1-10M": Workload(
        "10 million records of 300 bytes",
        topic(Shape(10_000_000, 300), processes=(1, 2)),
        by_name_only=True,
    ),
    "W1-10KB": Workload("100,000 records of 10 KB", topic(Shape(100_000, 10_000))),
    "W2-1": Workload(
        "500,000 records of 1 KB in one partition", topic(Shape(500_000, partitions=1))
    ),
    "W2-64": Workload(
        "500,000 records of 1 KB in 64 partitions", topic(Shape(500_000, partitions=64))
    ),
    "W3": Workload(
        "1 million records of 300 bytes, nine of ten in one of 8 partitions",
        topic(Shape(1_000_000, 300, skew=True)),
    ),
    "W4": Workload(
        "30,000 records of 300 bytes in one topic of 2 partitions, and in 300",
        one_or_many(Shape(30_000, 300, topics=300, partitions=2)),
    ),
    "W5-small": Workload("1,000 records of 300 bytes", topic(Shape(1_000, 300), processes=(1,))),
    "W5-chunks": Workload(
        f"6,000 records of 300 bytes in one chunk, and in {CHUNKS}",
        chunks(Shape(6_000, 300, partitions=4)),
    ),
    "W8-compacted": Workload(
        "500,000 records of 300 bytes in 2 partitions, of which compaction leaves half",
        topic(Shape(500_000, 300, partitions=2, compacted=True)),
    ),
    "W8-aborted": Workload(
        "500,000 records of 300 bytes in transactions, and a fifth of all transactions aborted",
        topic(Shape(500_000, 300, aborted=True)),
    ),
    "W12": Workload(
        "1 million JSON records of 300 bytes, into columns",
        decoded(Shape(1_000_000, 300, format="json")),
    ),
    "W12-csv": Workload(
        "1 million CSV records of 300 bytes, into columns",
        decoded(Shape(1_000_000, 300, format="csv")),
    ),
    "W12-avro": Workload(
        "1 million Avro records of 300 bytes, into columns",
        decoded(Shape(1_000_000, 300, format="avro")),
    ),
    "W9-lake-1KB": Workload("a lake of 400,000 records of 1 KB", lake(400_000, 1_000), 4),
    "W9-lake-100B": Workload("a lake of 1 million records of 100 bytes", lake(1_000_000, 100), 4),
    "W9-files-100B": Workload(
        "8 Parquet files of 1 million rows of 100 bytes", files(1_000_000, 100), 4
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", help=f"of: {', '.join(WORKLOADS)}; default: all")
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of records")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    if unknown := sorted(set(args.workloads) - WORKLOADS.keys()):
        parser.error(f"no such workload: {', '.join(unknown)}")
    for name in ("spark-kafka", "kafka-broker"):
        jars.ensure_jars(name)
    ensure_archive(lambda _: None)  # a part of set-up, as in `make setup`
    found = json.loads(args.out.read_text()) if args.out.exists() else {}
    for name in args.workloads or [n for n, each in WORKLOADS.items() if not each.by_name_only]:
        each = WORKLOADS[name]
        print(f"{name}: {each.title}", flush=True)
        with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as directory:
            home = Path(directory)
            broker = kafka.start(home / "kafka").bootstrap
            try:
                contenders = each.made(broker, home, args.scale)
                outputs = (
                    sources.targets(broker, home, "to", each.targets)
                    if each.targets
                    else lambda number, home=home: home / f"out-{number}"
                )
                taken = measure(contenders, args.repetitions, outputs)
            finally:
                kafka.stop(home / "kafka")
        found[name] = {
            "title": each.title, "scale": args.scale, **surroundings(), "repetitions": taken,
        }  # fmt: skip
        write(args.out, {name: found[name] for name in WORKLOADS if name in found})
    return 0


if __name__ == "__main__":
    sys.exit(main())
