"""From rows to records: the columns that a pipeline maps, what is wrong with a row, provenance."""

from __future__ import annotations

import re
from collections.abc import Callable
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
)

from tidegate.spark import kafka_sink
from tidegate.spark import rows as source
from tidegate.spark.egress_job import SendJob

IDENTITY = ("file", "row")
RECORD = ("topic", "key", "value", "headers", "partition")
_PROVENANCE = ("tidegate-plan", "tidegate-file", "tidegate-row", "tidegate-timestamp")
# What a record takes beside key, value and headers: batch and record headers, at most.
_OVERHEAD = 100
_PER_HEADER = 10
# What compressing adds to content that does not compress: 32 bytes, and one for each so many.
_INCOMPRESSIBLE = {"gzip": 2048, "snappy": 2048, "lz4": 8192, "zstd": 16384}
_DIRECTION = re.compile(
    r"(?is)(?P<by>.*?\S)(?:\s+(?P<way>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?\s*"
)


class DoesNotFit(Exception):
    """The pipeline's columns do not make records of the source's rows."""


def shape(spark: SparkSession, job: SendJob) -> DataFrame:
    """Return the records to be, with the identity of their rows, and what is wrong with them.

    Columns: `topic`, `key`, `value`, `headers`, `partition` (null: Kafka chooses by the key),
    `timestamp` (milliseconds, of a lake's rows), `order0`… to sort by, `file`, `row`, `bytes`
    (what the record takes at most), `reason` (null: it can be sent) and `text` of a bad row.
    """
    timestamp = F.expr("unix_millis(timestamp)") if job.rows.is_lake else F.lit(None).cast("long")
    columns: dict[str, Column | str] = {
        "topic": F.lit(job.topic) if job.topic else job.columns["topic"],
        **{name: job.columns[name] for name in RECORD[1:]},
        "timestamp": timestamp,
        **{f"order{i}": _sorted_by(by) for i, by in enumerate(job.order_by)},
    }
    rows = source.select(spark, job.rows, columns)
    rows = rows.select(
        F.col("topic"),
        *(_typed(rows, name).alias(name) for name in RECORD[1:]),
        *(column for column in rows.columns if column not in RECORD),
    )
    if not isinstance(rows.schema["topic"].dataType, StringType):
        raise DoesNotFit(_told("topic", rows.schema["topic"].dataType, "a string"))
    rows = rows.withColumn("bytes", _compressed(job, _bytes()))
    return rows.withColumn("reason", _reason(job)).drop("fault")


def sent_as(records: DataFrame, job: SendJob) -> DataFrame:
    """Return what Spark's sink takes, each record with its provenance in its headers."""
    texts = {
        "tidegate-plan": F.lit(job.plan_id),
        "tidegate-file": F.col("file"),
        "tidegate-row": F.col("row").cast("string"),
        "tidegate-timestamp": F.col("timestamp").cast("string"),
    }
    ours = F.array(
        *(
            F.struct(F.lit(name).alias("key"), texts[name].cast("binary").alias("value"))
            for name in provenance(job)
        )
    )
    headers = F.when(F.col("headers").isNull(), ours).otherwise(F.concat("headers", ours))
    partition = F.col("partition").cast("int").alias("partition")
    return records.select("topic", "key", "value", headers.alias("headers"), partition)


def order(job: SendJob) -> list[Column]:
    """Return what rows are sorted by; nothing if they go in any order."""
    given = [_way(by)(F.col(f"order{i}")) for i, by in enumerate(job.order_by)]
    return [*given, *map(F.col, IDENTITY)] if given or job.rows.is_lake else []


def _sorted_by(by: str) -> str:
    """Return what an order goes by; Spark would take its direction for the name of a column."""
    found = _DIRECTION.fullmatch(by)
    return found["by"] if found else by


def _way(by: str) -> Callable[[Column], Column]:
    found = _DIRECTION.fullmatch(by)
    way = ((found and found["way"]) or "asc").lower()
    nulls = ((found and found["nulls"]) or ("first" if way == "asc" else "last")).lower()
    return cast(Callable[[Column], Column], getattr(Column, f"{way}_nulls_{nulls}"))


def group(job: SendJob) -> list[str]:
    """Return the columns within which there is an order: a partition, else a key."""
    return ["topic", "partition"] if has_partition(job) else ["topic", "key"]


def provenance(job: SendJob) -> tuple[str, ...]:
    """Return the names of the headers that are put behind a record's own, in their order."""
    return _PROVENANCE if job.rows.is_lake else _PROVENANCE[:3]


def has_partition(job: SendJob) -> bool:
    """Say whether the pipeline chooses the partition, not Kafka."""
    return job.columns["partition"].strip().lower() != "null"


def _typed(rows: DataFrame, name: str) -> Column:
    """Return a mapped column as the type that a record has; DoesNotFit for any other."""
    column, found = F.col(name), rows.schema[name].dataType
    match name:
        case "key" | "value":
            if isinstance(found, NullType | StringType | BinaryType):
                return column.cast("binary")  # of text: its UTF-8
            raise DoesNotFit(_told(name, found, "text or bytes: try to_json, or cast to string"))
        case "partition":
            if isinstance(found, NullType | ByteType | ShortType | IntegerType | LongType):
                return column.cast("long")  # an int would overflow before it is out of range
            raise DoesNotFit(_told(name, found, "an integer"))
        case _:
            if isinstance(found, NullType):
                return column.cast("array<struct<key:string,value:binary>>")
            if isinstance(found, MapType):
                column = F.map_entries(column)
                element: DataType = StructType().add("key", found.keyType).add(
                    "value", found.valueType
                )  # fmt: skip
            else:
                element = found.elementType if isinstance(found, ArrayType) else NullType()
            if not isinstance(element, StructType) or element.names != ["key", "value"]:
                raise DoesNotFit(_told(name, found, "a map, or an array of structs (key, value)"))
            return F.transform(
                column,
                lambda h: F.struct(
                    h["key"].cast("string").alias("key"), h["value"].cast("binary").alias("value")
                ),
            )


def _told(name: str, found: DataType, wanted: str) -> str:
    return f"columns.{name} is {found.simpleString()}; a record needs {wanted}"


def _bytes() -> Column:
    total = F.aggregate(
        F.col("headers"),
        F.lit(0),
        lambda total, h: (
            total
            + F.coalesce(F.octet_length(h["key"]), F.lit(0))
            + F.coalesce(F.octet_length(h["value"]), F.lit(0))
            + _PER_HEADER
        ),
    )
    headers = F.when(F.col("headers").isNull(), F.lit(0)).otherwise(total)
    ours = sum(len(name) + _PER_HEADER + 20 for name in _PROVENANCE)
    return (
        F.coalesce(F.octet_length("key"), F.lit(0))
        + F.coalesce(F.octet_length("value"), F.lit(0))
        + F.octet_length("file")
        + headers
        + F.lit(_OVERHEAD + ours)
    )


def _compressed(job: SendJob, size: Column) -> Column:
    """Return what a record takes at most as the producer sends it, or as a broker rewrites it."""
    codecs = {
        kafka_sink.compression(job.producer),
        *(each.compression for each in job.target.values()),
    }
    known = [_INCOMPRESSIBLE[codec] for codec in codecs if codec in _INCOMPRESSIBLE]
    return size + F.floor(size / min(known)).cast("int") + 32 if known else size


def _reason(job: SendJob) -> Column:
    """Return what keeps a row from being sent, the first that holds; null if nothing does."""
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
            F.col("headers").isNotNull() & F.exists("headers", lambda h: h["key"].isNull()),
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
    if not job.tombstones:
        found = found.when(F.col("value").isNull(), F.lit("no value, and tombstones are not on"))
    if has_partition(job):
        found = found.when(partition.isNull(), F.lit("no partition")).when(
            (partition < 0) | (partition >= count),
            F.format_string("partition %d is out of range, the topic has %d", partition, count),
        )
    return found.otherwise(F.lit(None).cast("string"))
