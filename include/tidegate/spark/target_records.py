"""What the target topics hold: their end offsets, all their records, and those of one plan."""

from __future__ import annotations

import json
import re
import time
from contextlib import AbstractContextManager, closing
from functools import reduce
from itertools import pairwise, zip_longest
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.core.count_proof import Place
from tidegate.core.offsets import OffsetRange, Offsets, Window
from tidegate.core.provenance import HEADER, NUMBERS
from tidegate.core.unreadable_records import LATEST_MS, is_readable
from tidegate.spark import kafka_source
from tidegate.spark.egress_job import EgressJob
from tidegate.spark.spark_versions import read_kafka
from tidegate.spark.task_size import records_per_task

MOST_UNREADABLE = 100
"""Records of other producers in a partition that Spark cannot read. Each splits a range."""
_STAMP = re.compile(r"offset = [0-9]+, [A-Za-z]+ = (-?[0-9]{1,19})")
_PATIENCE = 60.0  # seconds without a record


class TooManyUnreadable(Exception):
    """The target cannot be read back, because of records that others have sent."""


class LogLost(Exception):
    """The target has lost what may have been sent since the plan was first claimed."""


def read_ends(spark: SparkSession, job: EgressJob) -> Offsets:
    """Return the high watermark of every target partition, open transactions included.

    Raises LogLost when a log starts behind the offset at which the plan was claimed.
    """
    jvm: Any = spark.sparkContext._jvm
    asked = jvm.java.util.ArrayList()
    for topic, target in job.target.items():
        for p in range(target.partitions):
            asked.add(jvm.org.apache.kafka.common.TopicPartition(topic, p))
    with consumer_of(spark, job) as consumer:
        first, last = consumer.beginningOffsets(asked), consumer.endOffsets(asked)
        found: dict[str, dict[int, int]] = {}
        for tp in asked:
            topic, p = tp.topic(), tp.partition()
            since = job.target[topic].since[p]
            if first.get(tp) > since:
                raise LogLost(
                    f"{topic}-{p}: its log starts at {first.get(tp)} and the plan was claimed at "
                    f"{since}: what was sent in between can no longer be seen. `tidegate "
                    "release` says whether to send all of it again, or to count it as sent"
                )
            found.setdefault(topic, {})[p] = last.get(tp)
        return found


def consumer_of(spark: SparkSession, job: EgressJob) -> AbstractContextManager[Any]:
    """Return a consumer of Java for the target."""
    strategy, properties = _clients(spark, job)
    return closing(strategy.createConsumer(properties))


def admin_of(spark: SparkSession, job: EgressJob) -> AbstractContextManager[Any]:
    """Return a client of Java that asks about the target."""
    strategy, properties = _clients(spark, job)
    return closing(strategy.createAdmin(properties))


def _clients(spark: SparkSession, job: EgressJob) -> tuple[Any, Any]:
    """Return what makes clients, and their properties."""
    jvm: Any = spark.sparkContext._jvm
    properties = jvm.java.util.HashMap()
    for name, value in {**job.options, **job.reading}.items():
        if name.startswith("kafka."):
            properties.put(name.removeprefix("kafka."), value)
    for name in ("key.deserializer", "value.deserializer"):
        properties.put(name, "org.apache.kafka.common.serialization.ByteArrayDeserializer")
    # Spark's way to a client: it logs in with a delegation token, if there is one.
    none = spark.sparkContext._gateway.new_array(jvm.org.apache.kafka.common.TopicPartition, 0)
    return jvm.org.apache.spark.sql.kafka010.AssignStrategy(none), properties


def all_records(spark: SparkSession, job: EgressJob, until: Offsets) -> DataFrame | None:
    """Return the target's records of any producer, from the plan's first claim to `until`.

    None if there is no offset between the two. Those that are `unreadable` are left out.
    """
    left_out = unreadable_offsets(spark, job, until)
    pieces = [
        [
            OffsetRange(topic, p, before + 1, end)
            for before, end in pairwise([since - 1, *left_out.get((topic, p), ()), until[topic][p]])
            if before + 1 < end
        ]
        for topic, each in sorted(job.target.items())
        for p, since in sorted(each.since.items())
    ]
    # Spark reads one range of a partition at a time.
    windows = [tuple(filter(None, each)) for each in zip_longest(*pieces)]
    frames = [_records_of(spark, job, window) for window in windows]
    return reduce(DataFrame.unionByName, frames) if frames else None


def _records_of(spark: SparkSession, job: EgressJob, window: Window) -> DataFrame:
    # Open transactions of other producers must not hide this plan's records.
    given = {**job.options, **job.reading, "kafka.isolation.level": "read_uncommitted"}
    limit = records_per_task(window, spark.sparkContext.defaultParallelism)
    options = kafka_source.source_options(window, given, max_records_per_task=limit)
    return read_kafka(spark, options, window)


def unreadable_offsets(
    spark: SparkSession, job: EgressJob, until: Offsets
) -> dict[Place, list[int]]:
    """Return the offsets of records, from the plan's first claim to `until`, that Spark cannot
    read: other producers have stamped them with nanoseconds.

    Raises TooManyUnreadable for more than MOST_UNREADABLE in a partition.
    """
    jvm: Any = spark.sparkContext._jvm
    places = {
        jvm.org.apache.kafka.common.TopicPartition(topic, p): (topic, p, since)
        for topic, each in job.target.items()
        for p, since in each.since.items()
        if since < until[topic][p]
    }
    found: dict[Place, list[int]] = {}
    if not places:
        return found
    asked = jvm.java.util.HashMap(dict.fromkeys(places, LATEST_MS + 1))
    with consumer_of(spark, job) as consumer:
        firsts = consumer.offsetsForTimes(asked)
        for tp, (topic, p, since) in places.items():
            first = firsts.get(tp)
            if first is not None and first.offset() < until[topic][p]:
                begin = max(since, first.offset())
                found[topic, p] = _unreadable_of(jvm, consumer, tp, begin, until[topic][p])
    return {place: offsets for place, offsets in found.items() if offsets}


def _unreadable_of(jvm: Any, consumer: Any, tp: Any, begin: int, end: int) -> list[int]:
    """Return the unreadable offsets of a range, by Kafka's own consumer."""
    offsets: list[int] = []
    consumer.assign(jvm.java.util.Collections.singletonList(tp))
    consumer.seek(tp, begin)
    progress = time.monotonic()
    while (at := consumer.position(tp)) < end:
        batch = consumer.poll(jvm.java.time.Duration.ofMillis(500)).records(tp)
        # A call for each record would take minutes: most batches are dismissed by one.
        if not all(is_readable(int(said)) for said in _STAMP.findall(batch.toString())):
            odd = (r.offset() for r in batch if not is_readable(r.timestamp()))
            offsets += [offset for offset in odd if offset < end]
        if len(offsets) > MOST_UNREADABLE:
            raise TooManyUnreadable(
                f"{tp.topic()}-{tp.partition()}: more than {MOST_UNREADABLE} records of other "
                f"producers, from offset {offsets[0]} on, have a timestamp that Spark cannot "
                "convert (nanoseconds in place of milliseconds?), so what was sent cannot be read "
                "back. Correct these producers; `tidegate release` says whether to send all of it "
                "again, or to count it as sent"
            )
        if consumer.position(tp) > at:
            progress = time.monotonic()
        elif time.monotonic() > progress + _PATIENCE:
            raise TimeoutError(f"{tp.topic()}-{tp.partition()}: no record is read from {at} on")
    return offsets


def records_of_plan(spark: SparkSession, job: EgressJob, until: Offsets) -> DataFrame | None:
    """Return this plan's records in the target, from its first claim to `until`, or None.

    Columns: topic, partition, offset, key, value, timestamp (milliseconds), headers (without
    provenance), file, row.
    """
    found = all_records(spark, job, until)
    if found is None:
        return None
    # The header is the last of its name. An agent in the producer may append its own behind it.
    behind = F.array_position(F.reverse(F.col("headers.key")), HEADER)  # 0: no such header
    value = F.get("headers", F.size("headers") - behind.cast("int"))["value"]
    # Others may have written a header of this name, with anything in it.
    form = rf"\A{re.escape(job.plan_id)}:{NUMBERS}\z"
    text = value.cast("string")
    said = F.split(F.when(text.startswith(f"{job.plan_id}:") & text.rlike(form), text), ":")
    index, row = F.get(said, F.lit(1)).cast("int"), F.get(said, F.lit(2)).cast("long")
    names = F.from_json(F.lit(json.dumps(job.source.names)), "array<string>")
    return found.where(F.get(names, index).isNotNull()).select(
        "topic", F.col("partition").cast("long"), "offset", "key", "value",  # typed as the rows are
        F.unix_millis("timestamp").alias("timestamp"),
        F.slice("headers", F.lit(1), (F.size("headers") - behind).cast("int")).alias("headers"),
        F.get(names, index).alias("file"), row.alias("row"),
    )  # fmt: skip
