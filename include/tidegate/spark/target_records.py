"""What the target topics hold: their end offsets, all their records, and those of one plan."""

from __future__ import annotations

import json
import re
from contextlib import AbstractContextManager, closing
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.core.offsets import OffsetRange, Offsets
from tidegate.core.provenance import HEADER, NUMBERS
from tidegate.spark import kafka_source
from tidegate.spark.compatibility import read_kafka
from tidegate.spark.egress_job import EgressJob
from tidegate.spark.task_size import records_per_task


class LogLost(Exception):
    """The target has lost what may have been sent since the plan was first claimed."""


def ends(spark: SparkSession, job: EgressJob) -> Offsets:
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
                    f"{since}: what was sent in between cannot be seen any more. `tidegate "
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
    for name, value in {**job.reader, **job.reading}.items():
        if name.startswith("kafka."):
            properties.put(name.removeprefix("kafka."), value)
    for name in ("key.deserializer", "value.deserializer"):
        properties.put(name, "org.apache.kafka.common.serialization.ByteArrayDeserializer")
    # Spark's way to a client: it logs in with a delegation token, if there is one.
    none = spark.sparkContext._gateway.new_array(jvm.org.apache.kafka.common.TopicPartition, 0)
    return jvm.org.apache.spark.sql.kafka010.AssignStrategy(none), properties


def all_records(spark: SparkSession, job: EgressJob, until: Offsets) -> DataFrame | None:
    """Return the target's records of any producer, from the plan's first claim to `until`.

    None if there is no offset between the two.
    """
    window = tuple(
        OffsetRange(topic, p, since, until[topic][p])
        for topic, each in sorted(job.target.items())
        for p, since in sorted(each.since.items())
        if since < until[topic][p]
    )
    if not window:
        return None
    # Open transactions of other producers must not hide this plan's records.
    given = {**job.reader, **job.reading, "kafka.isolation.level": "read_uncommitted"}
    limit = records_per_task(window, spark.sparkContext.defaultParallelism)
    options = kafka_source.render(window, given, max_records_per_task=limit)
    return read_kafka(spark, options, window)


def of_plan(spark: SparkSession, job: EgressJob, until: Offsets) -> DataFrame | None:
    """Return this plan's records in the target, from its first claim to `until`, or None.

    Columns: topic, partition, offset, key, value, headers (without provenance), file, row.
    """
    found = all_records(spark, job, until)
    if found is None:
        return None
    # The header is the last of its name; an agent in the producer may append its own behind it.
    behind = F.array_position(F.reverse(F.col("headers.key")), HEADER)  # 0: there is none
    value = F.get("headers", F.size("headers") - behind.cast("int"))["value"]
    # Others may have written a header of this name, with anything in it.
    form = rf"\A{re.escape(job.plan_id)}:{NUMBERS}\z"
    text = value.cast("string")
    said = F.split(F.when(text.startswith(f"{job.plan_id}:") & text.rlike(form), text), ":")
    index, row = F.get(said, F.lit(1)).cast("int"), F.get(said, F.lit(2)).cast("long")
    names = F.from_json(F.lit(json.dumps(job.source.names)), "array<string>")
    return found.where(F.get(names, index).isNotNull()).select(
        "topic", F.col("partition").cast("long"), "offset", "key", "value",  # typed as the rows are
        F.slice("headers", F.lit(1), (F.size("headers") - behind).cast("int")).alias("headers"),
        F.get(names, index).alias("file"), row.alias("row"),
    )  # fmt: skip
