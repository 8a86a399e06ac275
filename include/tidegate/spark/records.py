"""Records made of rows: the mapped columns, why a row cannot be sent, order, provenance."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Sequence
from typing import cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from tidegate.core.provenance import HEADER
from tidegate.core.unreadable_records import LATEST_MS
from tidegate.spark import producer_settings, source_rows
from tidegate.spark.egress_job import EgressJob
from tidegate.spark.record_size import PER_HEADER, record_size
from tidegate.spark.row_frame import IDENTITY

RECORD = ("topic", "key", "value", "headers", "partition")
TIMESTAMP = "timestamp"
# The header of provenance: its name, a plan, three numbers, and what separates them.
HEADERS = "array<struct<key:string,value:binary>>"
_NO_KEY = "\0 no header has this key"
_PROVENANCE = len(HEADER) + PER_HEADER + 16 + 10 + 19 + 19 + 3
# Bytes of a record besides key, value and headers, at most: of the batch and the record.
_OVERHEAD = 100
# Content that does not compress grows by 32 bytes, and one more for each so many.
_INCOMPRESSIBLE = {"gzip": 2048, "snappy": 2048, "lz4": 8192, "zstd": 16384}
_DIRECTION = re.compile(
    r"(?is)(?P<by>.*?\S)(?:\s+(?P<way>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?\s*"
)


class DoesNotFit(Exception):
    """The pipeline's columns do not make records of the source's rows."""


def to_records(spark: SparkSession, job: EgressJob) -> DataFrame:
    """Return the records with the identity of their rows, and why a row cannot be sent.

    Columns: `topic`, `key`, `value`, `headers`, `partition` (null: Kafka chooses by the key),
    `timestamp` (milliseconds; null if a file has none), `order0`… to sort by, `file`, `row`,
    `bytes` (the largest size of the record), `reason` (null: it can be sent) and `text` of a bad
    row. Raises DoesNotFit, NotAllowed, NotComputable or NotRepeatable for the pipeline's columns.
    """
    rows = source_rows.select_rows(spark, job.source, record_columns(job))
    rows = rows.select(
        F.col("topic"),
        *(_typed(rows, name).alias(name) for name in (*RECORD[1:], TIMESTAMP)),
        *(column for column in rows.columns if column not in (*RECORD, TIMESTAMP)),
    )
    if not isinstance(rows.schema["topic"].dataType, StringType):
        raise _does_not_fit("topic", rows.schema["topic"].dataType, "a string")
    rows = rows.withColumn("bytes", _compressed(job, _bytes()))
    return rows.withColumn("reason", _reason(job)).drop("fault")


def record_columns(job: EgressJob) -> dict[str, Column | str]:
    """Return what is computed of each row: columns, and the texts of the pipeline's expressions."""
    return {
        "topic": F.lit(job.topic) if job.topic else job.columns["topic"],
        **{name: job.columns[name] for name in (*RECORD[1:], TIMESTAMP)},
        **{f"order{i}": _direction(by)[0] for i, by in enumerate(job.order_by)},
    }


def add_provenance(records: DataFrame, job: EgressJob) -> DataFrame:
    """Return the columns of Spark's Kafka sink, with the provenance as the last header."""
    text = F.concat_ws(
        ":",
        F.lit(job.plan_id),
        _index(job.source.names),
        F.col("row").cast("string"),
        F.coalesce(F.col("timestamp").cast("string"), F.lit("")),
    )
    ours = F.array(F.struct(F.lit(HEADER).alias("key"), text.cast("binary").alias("value")))
    headers = F.when(F.col("headers").isNull(), ours).otherwise(F.concat("headers", ours))
    partition = F.col("partition").cast("int").alias("partition")
    return records.select("topic", "key", "value", headers.alias("headers"), partition)


def order_columns(job: EgressJob) -> list[Column]:
    """Return what rows are sorted by, or nothing if they have no order."""
    by = [_direction(each)[1](F.col(f"order{i}")) for i, each in enumerate(job.order_by)]
    return [*by, *map(F.col, IDENTITY)] if by or job.source.is_lake else []


def _direction(by: str) -> tuple[str, Callable[[Column], Column]]:
    """Return the expression of an `order_by`, and what gives its column a direction.

    Spark would take the direction for the alias of a column.
    """
    found = _DIRECTION.fullmatch(by)
    expression, given, nulls = found.group("by", "way", "nulls") if found else (by, None, None)
    way = (given or "asc").lower()
    nulls = (nulls or ("first" if way == "asc" else "last")).lower()
    return expression, cast(Callable[[Column], Column], getattr(Column, f"{way}_nulls_{nulls}"))


def group_columns(job: EgressJob) -> list[str]:
    """Return the columns within which rows have an order: the partition, else the key."""
    return ["topic", "partition"] if has_partition(job) else ["topic", "key"]


def _index(names: Sequence[str]) -> Column:
    """Return the place of a row's `file` among the names, as text.

    Spark searches a map from its beginning: of many names, each has one of several short maps.
    """
    places: list[dict[str, str]] = [{} for _ in range(1 + len(names) // 8)]
    for i, name in enumerate(names):
        places[zlib.crc32(name.encode()) % len(places)][name] = str(i)
    maps = F.from_json(F.lit(json.dumps(places)), "array<map<string,string>>")
    return F.try_element_at(F.get(maps, (F.crc32("file") % len(places)).cast("int")), F.col("file"))


def has_partition(job: EgressJob) -> bool:
    """Return whether the pipeline chooses the partition, not Kafka."""
    return job.columns["partition"].strip().lower() != "null"


def _typed(rows: DataFrame, name: str) -> Column:
    """Return a mapped column as the type that a record has; DoesNotFit for any other."""
    column, kind = F.col(name), rows.schema[name].dataType
    match name:
        case "key" | "value":
            if isinstance(kind, NullType | StringType | BinaryType):
                return column.cast("binary")  # of text: its UTF-8
            raise _does_not_fit(name, kind, "text or bytes: try to_json, or cast to string")
        case "partition":
            if isinstance(kind, NullType | ByteType | ShortType | IntegerType | LongType):
                return column.cast("long")  # an int would overflow before it is out of range
            raise _does_not_fit(name, kind, "an integer")
        case "timestamp":
            if isinstance(kind, TimestampType):
                return F.unix_millis(column)
            if isinstance(kind, NullType | LongType):
                return column.cast("long")
            raise _does_not_fit(name, kind, "a timestamp, or milliseconds as BIGINT")
        case _:
            return _headers(column, kind)


def _headers(column: Column, kind: DataType) -> Column:
    if isinstance(kind, NullType):
        return column.cast(HEADERS)
    if kind.simpleString() == HEADERS:  # as in a lake: a lambda would switch off code generation
        return column
    if isinstance(kind, MapType):
        names = ["key", "value"]
        column = F.map_entries(column)
    else:
        element = kind.elementType if isinstance(kind, ArrayType) else None
        names = element.names if isinstance(element, StructType) else []
    if names != ["key", "value"]:
        raise _does_not_fit("headers", kind, "a map, or an array of structs (key, value)")
    return F.transform(
        column,
        lambda h: F.struct(
            h["key"].cast("string").alias("key"), h["value"].cast("binary").alias("value")
        ),
    )


def _does_not_fit(name: str, kind: DataType, wanted: str) -> DoesNotFit:
    return DoesNotFit(f"columns.{name} is {kind.simpleString()}; a record needs {wanted}")


def _bytes() -> Column:
    return record_size() + F.lit(_OVERHEAD + _PROVENANCE)


def largest_bytes(job: EgressJob, size: int) -> int:
    """Return the largest size of a record of a lake, by that of its key, value and headers."""
    whole = size + _OVERHEAD + _PROVENANCE
    every = _incompressible(job)
    return whole + whole // every + 32 if every else whole


def _compressed(job: EgressJob, size: Column) -> Column:
    """Return the largest size of a record as the producer sends it, or as a broker rewrites it."""
    every = _incompressible(job)
    return size + F.floor(size / every).cast("int") + 32 if every else size


def _incompressible(job: EgressJob) -> int | None:
    """Return how many bytes grow by one if they do not compress. None without compression."""
    codecs = {
        producer_settings.compression_codec(job.producer),
        *(each.compression for each in job.target.values()),
    }
    return min((_INCOMPRESSIBLE[each] for each in codecs if each in _INCOMPRESSIBLE), default=None)


def _reason(job: EgressJob) -> Column:
    """Return the first reason why a row cannot be sent, or null."""
    topics = list(job.target)
    limits = F.create_map(*(F.lit(x) for t in topics for x in (t, job.target[t].largest)))
    counts = F.create_map(*(F.lit(x) for t in topics for x in (t, job.target[t].partitions)))
    limit, count = limits[F.col("topic")], counts[F.col("topic")]
    partition = F.col("partition")
    found = (
        F.when(F.col("fault").isNotNull(), F.col("fault"))
        .when(F.col("topic").isNull(), F.lit("no topic"))
        .when(
            ~F.col("topic").isin(topics),
            F.concat(F.lit("topic "), F.col("topic"), F.lit(" is not among target.topics")),
        )
        .when(
            # Null: the array has no such key, and a null among its keys.
            F.col("headers").isNotNull()
            & F.array_contains(F.col("headers.key"), F.lit(_NO_KEY)).isNull(),
            F.lit("a header without a key"),
        )
        .when(
            F.col("bytes") > limit,
            F.format_string(
                "%d bytes as a record, and %d is the most: see the topic's max.message.bytes, and "
                "max.request.size and buffer.memory of target.producer",
                F.col("bytes"), limit,
            ),
        )
    )  # fmt: skip
    if compacted := [topic for topic in topics if job.target[topic].compacted]:
        keyless = F.col("key").isNull() & F.col("topic").isin(compacted)
        found = found.when(keyless, F.lit("no key, and the topic is compacted"))
    if job.keeps_time:
        found = found.when((late := late_or_early(job)).isNotNull(), late)
    if not job.tombstones:
        found = found.when(F.col("value").isNull(), F.lit("no value, and tombstones are not on"))
    if has_partition(job):
        found = found.when(partition.isNull(), F.lit("no partition")).when(
            (partition < 0) | (partition >= count),
            F.format_string(
                "partition %d is out of range, the topic has %d: add partitions to it, or give "
                "columns.partition: 'null', and Kafka chooses by the key",
                partition,
                count,
            ),
        )
    return found.otherwise(F.lit(None).cast("string"))


def late_or_early(job: EgressJob) -> Column:
    """Return why a target does not take a row with its timestamp, or null."""
    timestamp = F.col(TIMESTAMP)
    found = (
        F.when(timestamp.isNull(), F.lit("no timestamp"))
        .when(timestamp < 0, F.format_string("its timestamp %d ms is before 1970", timestamp))
        .when(
            timestamp > LATEST_MS,
            F.format_string("its timestamp %d ms is too late for Spark", timestamp),
        )
    )
    for topic, target in job.target.items():
        before, after, retention = target.times
        here = F.col("topic") == topic if len(job.target) > 1 else F.lit(True)
        deletes = ", which would delete it at once; target.accept_expiry: true sends it"
        for limit, is_latest, setting, advice in (
            (before, False, "message.timestamp.before.max.ms", ""),
            (after, True, "message.timestamp.after.max.ms", ""),
            (retention, False, "retention.ms", deletes),
        ):
            if limit is not None:
                is_beyond = timestamp > limit if is_latest else timestamp < limit
                text = f"its timestamp %d ms is beyond {setting} of {topic}{advice}"
                found = found.when(here & is_beyond, F.format_string(text, timestamp))
    return found.otherwise(F.lit(None).cast("string"))


def content_digest(job: EgressJob) -> Column:
    """Return the digest of a row to send, as `core.row_digest` defines it."""
    timestamp = [F.col(TIMESTAMP)] if job.keeps_time else []
    # Not by a lambda over the headers: it would switch off Spark's code generation.
    count = F.when(F.col("headers").isNull(), F.lit(0)).otherwise(F.size("headers"))
    return F.xxhash64(
        "file", F.col("row").cast("long"), "topic", *_optional(F.col("key")),
        *_optional(F.col("value")), count, "headers", *timestamp,
    )  # fmt: skip


def _optional(column: Column) -> tuple[Column, Column]:
    return F.coalesce(F.octet_length(column), F.lit(-1)), column
