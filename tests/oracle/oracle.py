"""Hold a lake against its topics, row by row, without Tidegate.

Kafka is read with confluent-kafka, Parquet with pyarrow. Both sides are multisets of

    (topic, partition, offset, key, value, timestamp, timestampType, headers in order)

where null and empty differ, except that no headers and an empty list of headers are the same:
they are on the wire. Of a row only its offset and a 128-bit digest stay in memory (28 bytes);
the rows shown as examples are read a second time.

    python -I tests/oracle --bootstrap HOST:PORT (--topics a,b | --ranges '{"a": {"0": [0, 100]}}')
                            (--lake DIR --pipeline NAME | --files FILES.json)

Ranges are half-open. Without `--ranges` they go from the log start to the end that the isolation
allows, asked for after the lake was listed: a row of the lake past that end is extra. Rows of the
lake below the log start, or outside the ranges given, are counted as `outside` and not compared.

Exit code: 0 equal, 1 different, 2 wrong use or Kafka cannot be read.
"""

from __future__ import annotations

import argparse
import json
import re
import struct
import sys
import time
import traceback
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class _NoTidegate:
    """Refuse to import what is being judged."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name.partition(".")[0] == "tidegate":
            raise ImportError("the oracle must not import tidegate")


sys.meta_path.insert(0, _NoTidegate)

# From here on nothing can be imported that the finder above refuses.
import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from confluent_kafka import (  # noqa: E402
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from pyarrow import fs  # noqa: E402
from rows import Row, Rows, Where  # noqa: E402

EXAMPLES = 5
KINDS = ("missing", "extra", "doubled", "changed")
FAR = 2**63 - 1
COLUMNS = {
    "key": pa.binary(),
    "value": pa.binary(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}

Ranges = dict[Where, tuple[int, int]]


class CannotReadError(Exception):
    """Kafka cannot be read as asked."""


class Kafka:
    """What a consumer of the given isolation sees. No group, no commits."""

    def __init__(self, bootstrap: str, isolation: str, patience: float) -> None:
        self.patience = patience
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"oracle-{uuid.uuid4().hex}",  # required, never joined
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "check.crcs": True,
                "queued.max.messages.kbytes": 16384,
                "fetch.wait.max.ms": 20,  # a new assignment waits for the fetch under way
            }
        )

    def log(self, topics: Iterable[str]) -> Ranges:
        """Return log start and end (the last stable offset under read_committed)."""
        ranges: Ranges = {}
        for topic in topics:
            seen = self.consumer.list_topics(topic, timeout=self.patience).topics[topic]
            if seen.error is not None:
                raise CannotReadError(f"topic {topic}: {seen.error}")
            for partition in sorted(seen.partitions):
                place = TopicPartition(topic, partition)
                ends = self.consumer.get_watermark_offsets(place, timeout=self.patience)
                if ends is None:
                    raise CannotReadError(f"topic {topic}, partition {partition}: no watermarks")
                ranges[topic, partition] = ends
        return ranges

    def rows(self, ranges: Ranges) -> Iterator[tuple[Where, int, Row]]:
        """Yield what is visible in the ranges.

        A partition is done with the last offset of its range, with a record past it, or at its
        end, whichever comes first: an open transaction or a range that ends in markers does not
        make it wait. Silence for `patience` seconds is an error.
        """
        left = {where: end for where, (start, end) in ranges.items() if start < end}
        self.consumer.assign([TopicPartition(*where, ranges[where][0]) for where in left])  # type: ignore[call-arg]
        heard = time.monotonic()
        while left:
            messages = self.consumer.consume(500, timeout=0.05)
            if messages:
                heard = time.monotonic()
            elif time.monotonic() - heard > self.patience:
                raise CannotReadError(f"silent for {self.patience:g} s, still to read: {left}")
            for message in messages:
                where, offset = (message.topic(), message.partition()), message.offset()
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise CannotReadError(f"{where[0]}, partition {where[1]}: {error.str()}")
                if where not in left:
                    continue  # fetched ahead
                if error is None and offset < left[where]:
                    yield where, offset, _row_of(message)
                if error is not None or offset + 1 >= left[where]:
                    del left[where]
                    self.consumer.incremental_unassign([TopicPartition(*where)])
        self.consumer.unassign()

    def row(self, where: Where, offset: int) -> Row | None:
        found = self.rows({where: (offset, offset + 1)})
        return next((row for _, _, row in found), None)

    def close(self) -> None:
        self.consumer.close()


def _row_of(message: Message) -> Row:
    kind, milliseconds = message.timestamp()
    return Row(
        key=message.key(),
        value=message.value(),
        timestamp=milliseconds * 1000,
        timestampType=kind - 1,  # Java: -1 none, 0 create time, 1 log append time
        headers=message.headers() or [],
    )


class MalformedError(Exception):
    """A file of the lake is not what it must be."""


@dataclass(frozen=True)
class File:
    """A Parquet file; `entry` is what a files list says of it."""

    topic: str
    path: str
    system: fs.FileSystem
    entry: Mapping[str, Any]

    def rows(self) -> Iterator[tuple[int, int, Row]]:
        """Yield partition, offset and row."""
        try:
            yield from self._rows()
        except (OSError, pa.ArrowException) as error:
            raise MalformedError(f"{type(error).__name__}: {error}") from error

    def _rows(self) -> Iterator[tuple[int, int, Row]]:
        with self.system.open_input_file(self.path) as opened:
            parquet = pq.ParquetFile(opened, coerce_int96_timestamp_unit="us")
            _check_columns(parquet.schema_arrow)
            for batch in parquet.iter_batches(batch_size=4096):
                for name in ("partition", "offset", "timestamp", "timestampType"):
                    if batch.column(name).null_count:
                        raise MalformedError(f"null in column {name}")
                headers = batch.column("headers")
                if (pairs := headers.flatten()).null_count or pairs.field("key").null_count:
                    raise MalformedError("null in a header's key")
                # Not as datetime, which ends with the year 9999.
                timestamps = batch.column("timestamp").cast(pa.int64())
                names = ("partition", "offset", "key", "value", "timestampType")
                columns = (*(batch.column(name) for name in names), timestamps, headers)
                for partition, offset, key, value, kind, timestamp, found in zip(
                    *(column.to_pylist() for column in columns), strict=True
                ):
                    pairs = [(pair["key"], pair["value"]) for pair in found or ()]
                    yield partition, offset, Row(key, value, timestamp, kind, pairs)

    def row(self, where: Where, offset: int, digest: bytes) -> Row | None:
        """Return the row again that had this digest."""
        for partition, at, row in self.rows():
            if (self.topic, partition, at) == (*where, offset) and row.digest() == digest:
                return row
        return None


def _check_columns(schema: pa.Schema) -> None:
    """Raise MalformedError for other columns than the lake's, in front of those of decoded rows."""
    if schema.names[-1:] == ["_undecodable"]:
        schema = pa.schema(list(schema)[: len(COLUMNS)])
    types = {column.name: column.type for column in schema}
    if pa.types.is_timestamp(types.get("timestamp")) and types["timestamp"].unit == "us":
        types["timestamp"] = COLUMNS["timestamp"]  # INT96 carries no time zone
    if types != COLUMNS or len(schema) != len(COLUMNS):
        found = ", ".join(f"{column.name} {column.type}" for column in schema)
        raise MalformedError(f"columns are {found}")


def globbed(lake: str, pipeline: str, topics: set[str]) -> list[File]:
    """List `<lake>/<pipeline>/data/**/*.parquet`; the topic is in the path."""
    system, root = _system(lake)
    selector = fs.FileSelector(f"{root}/{pipeline}/data", recursive=True, allow_not_found=True)
    paths = sorted(info.path for info in system.get_file_info(selector) if info.is_file)
    found = [
        File(match[1], path, system, {})
        for path in paths
        if (match := re.search(r"/topic=([^/]+)/(?:[^/]+/)*[^./][^/]*\.parquet$", path))
    ]
    return [file for file in found if file.topic in topics]


def listed(files: Path, topics: set[str]) -> list[File]:
    """Read a files list: what `tidegate files --json` prints."""
    found = []
    for entry in json.loads(files.read_text()):
        if entry["topic"] in topics:
            system, path = _system(entry["uri"])
            found.append(File(entry["topic"], path, system, entry))
    return found


def _system(where: str) -> tuple[fs.FileSystem, str]:
    if "://" in where:
        system, path = fs.FileSystem.from_uri(where)
        return system, path
    return fs.LocalFileSystem(), str(Path(where).absolute())


def contradictions(file: File, offsets: Mapping[int, tuple[int, int, int]]) -> Iterator[str]:
    """Say where a files list is wrong; `offsets`: first, last and rows per partition found."""
    first = min((found[0] for found in offsets.values()), default=None)
    last = max((found[1] for found in offsets.values()), default=None)
    has: dict[str, Any] = {
        "partition": next(iter(offsets)) if len(offsets) == 1 else sorted(offsets),
        "first": first,
        "last": last,
        "rows": sum(found[2] for found in offsets.values()),
    }
    for name, value in has.items():
        if name in file.entry and file.entry[name] != value:
            yield f"listed with {name} {file.entry[name]}, has {value}"


def compare(kafka: np.ndarray, lake: np.ndarray) -> dict[str, np.ndarray]:
    """Return the rows of each kind; both sides in offset order, Kafka's offsets unique."""
    at = np.searchsorted(kafka["offset"], lake["offset"])
    known = np.zeros(len(lake), dtype=bool)
    inside = at < len(kafka)
    known[inside] = kafka["offset"][at[inside]] == lake["offset"][inside]
    found, said = lake[known], kafka[at[known]]
    same = (found["high"] == said["high"]) & (found["low"] == said["low"])
    repeated = np.zeros(len(lake), dtype=bool)
    repeated[1:] = lake["offset"][1:] == lake["offset"][:-1]
    return {
        "missing": kafka[~np.isin(kafka["offset"], lake["offset"])],
        "extra": lake[~known],
        "doubled": lake[repeated],
        "changed": found[~same],
    }


@dataclass
class Judgement:
    """What was compared and what differs."""

    isolation: str
    files: Sequence[File]
    ranges: Ranges
    kafka: Rows
    lake: Rows
    outside: int
    malformed: Sequence[str]

    def report(self, again: Kafka) -> dict[str, Any]:
        """Compare; examples are read a second time, from `again` and from the files."""
        totals: Counter[str] = Counter()
        partitions: dict[str, dict[str, Any]] = {}
        examples: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
        for where in sorted({*self.ranges, *self.lake.stored}):
            kafka, lake = self.kafka.by_offset(where), self.lake.by_offset(where)
            if (kafka["offset"][1:] == kafka["offset"][:-1]).any():
                raise CannotReadError(f"{where}: Kafka gave an offset twice")
            found = compare(kafka, lake)
            counts = {kind: len(found[kind]) for kind in KINDS}
            counts |= {"kafka": len(kafka), "lake": len(lake)}
            totals.update(counts)
            topic, partition = where
            compared = list(self.ranges.get(where, ()))
            partitions.setdefault(topic, {})[str(partition)] = {"range": compared, **counts}
            for kind in KINDS:
                for row in found[kind][: EXAMPLES - len(examples[kind])]:
                    examples[kind].append(self._example(kind, where, row, lake, again))
        different = any(totals[kind] for kind in KINDS) or bool(self.malformed)
        return {
            "format": 1,
            "equal": not different,
            "isolation": self.isolation,
            **{name: totals[name] for name in ("kafka", "lake", *KINDS)},
            "outside": self.outside,
            "malformed": list(self.malformed),
            "files": len(self.files),
            "partitions": partitions,
            "examples": {kind: shown for kind, shown in examples.items() if shown},
        }

    def _example(
        self, kind: str, where: Where, found: np.void, lake: np.ndarray, again: Kafka
    ) -> dict[str, Any]:
        offset = int(found["offset"])
        example: dict[str, Any] = {"topic": where[0], "partition": where[1], "offset": offset}
        said = again.row(where, offset) if kind in ("missing", "changed") else None
        has = None
        if kind != "missing":
            rows = lake[lake["offset"] == offset]
            example["files"] = [self.files[number].path for number in rows["file"]]
            digest = struct.pack("<QQ", found["high"], found["low"])
            has = self.files[found["file"]].row(where, offset, digest)
        if said and has:
            example["differs"] = said.differences(has)
        example |= {side: row.shown() for side, row in (("kafka", said), ("lake", has)) if row}
        return example


def judge(
    kafka: Kafka, isolation: str, files: Sequence[File], topics: set[str], ranges: Ranges | None
) -> dict[str, Any]:
    """Read both sides and compare; `files` were listed before this asks for the ends."""
    if ranges is None:
        compared = kafka.log(sorted(topics))
        bounds = {where: (start, FAR) for where, (start, _) in compared.items()}
        otherwise = (0, FAR)  # a partition that the topic does not have
    else:
        compared = bounds = ranges
        otherwise = (0, 0)
    said, has = Rows(), Rows()
    for where, offset, row in kafka.rows(compared):
        said.add(where, offset, row)
    outside, malformed = 0, []
    for number, file in enumerate(files):
        offsets: dict[int, tuple[int, int, int]] = {}
        try:
            for partition, offset, row in file.rows():
                first, last, count = offsets.get(partition, (offset, offset, 0))
                offsets[partition] = (min(first, offset), max(last, offset), count + 1)
                start, end = bounds.get((file.topic, partition), otherwise)
                if start <= offset < end:
                    has.add((file.topic, partition), offset, row, file=number)
                else:
                    outside += 1
        except MalformedError as error:
            malformed.append(f"{file.path}: {error}")
        else:
            malformed += [f"{file.path}: {each}" for each in contradictions(file, offsets)]
    return Judgement(isolation, files, compared, said, has, outside, malformed).report(kafka)


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Tell a report to people."""
    yield (
        f"{'equal' if report['equal'] else 'DIFFERENT'} ({report['isolation']}): "
        f"{report['kafka']:,} rows in Kafka, {report['lake']:,} in {report['files']} files; "
        + ", ".join(f"{report[kind]} {kind}" for kind in KINDS)
        + f"; {report['outside']} outside the ranges; {report['seconds']} s"
    )
    for topic, partitions in report["partitions"].items():
        for partition, at in partitions.items():
            differs = "".join(f", {at[kind]} {kind}" for kind in KINDS if at[kind])
            numbers = f"{at['kafka']:,} in Kafka, {at['lake']:,} in the lake{differs}"
            yield f"  {topic} {partition} {at['range']}: {numbers}"
    for what in report["malformed"]:
        yield f"malformed {what}"
    for kind, examples in report["examples"].items():
        for example in examples:
            yield f"{kind} {json.dumps(example, ensure_ascii=False)}"


def explicit(ranges: str) -> Ranges:
    """Parse `{"topic": {"0": [start, end]}}`."""
    return {
        (topic, int(partition)): (int(start), int(end))
        for topic, partitions in dict(json.loads(ranges)).items()
        for partition, (start, end) in dict(partitions).items()
    }


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bootstrap", required=True)
    compared = parser.add_mutually_exclusive_group(required=True)
    compared.add_argument("--topics", type=lambda names: set(names.split(",")))
    compared.add_argument("--ranges", type=explicit)
    lake = parser.add_mutually_exclusive_group(required=True)
    lake.add_argument("--lake", help="directory or URL; needs --pipeline")
    lake.add_argument("--files", type=Path, help="what `tidegate files --json` printed")
    parser.add_argument("--pipeline")
    parser.add_argument(
        "--isolation",
        choices=("read_committed", "read_uncommitted"),
        default="read_committed",
    )
    parser.add_argument("--patience", type=float, default=30.0, help="seconds of silence allowed")
    parser.add_argument("--json", action="store_true", help="print the report as one document")
    given = parser.parse_args(argv)
    if bool(given.lake) != bool(given.pipeline):
        parser.error("--lake and --pipeline go together")
    return given


def main(argv: Sequence[str] | None = None) -> int:
    given = arguments(argv)
    began = time.monotonic()
    topics = given.topics or {topic for topic, _ in given.ranges}
    kafka = Kafka(given.bootstrap, given.isolation, given.patience)
    try:
        if given.files:
            files = listed(given.files, topics)
        else:
            files = globbed(given.lake, given.pipeline, topics)
        report = judge(kafka, given.isolation, files, topics, given.ranges)
    except (CannotReadError, KafkaException) as error:
        print(f"Kafka cannot be read: {error}", file=sys.stderr)
        return 2
    except Exception:  # 1 would mean "different", and nothing was judged
        traceback.print_exc()
        return 2
    finally:
        kafka.close()
        assert "tidegate" not in sys.modules
    report["seconds"] = round(time.monotonic() - began, 1)
    print(json.dumps(report) if given.json else "\n".join(lines(report)))
    return 0 if report["equal"] else 1
