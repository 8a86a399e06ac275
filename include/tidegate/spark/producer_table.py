"""The brokers' tables of producers, before and after a plan is sent; `core.count_proof` judges."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from py4j.protocol import Py4JError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.core import count_proof, provenance
from tidegate.core.count_proof import NotProven, Partition, Place, Producer
from tidegate.spark import producer_settings, records, target_records
from tidegate.spark.egress_job import EgressJob
from tidegate.spark.failures import describe
from tidegate.spark.row_frame import FileRows

FEWEST_ROWS = 100_000  # of fewer, all are read back in the time that asking takes
_MOST_PARTITIONS = 500  # of the target
_PATIENCE = 5.0  # seconds for the first record of each partition
_LOOKED_AT = 50  # records of a partition, in which one of the plan is looked for

Tables = dict[Place, Partition]
Headers = list[tuple[str, bytes | None]]


class _Record(NamedTuple):
    """A record of the plan: the file and number of its row, and its content."""

    identity: tuple[str, int]
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int | None


def look_before(spark: SparkSession, job: EgressJob, rows: int) -> Tables | None:
    """Look at the target before the first record. None if the plan is read back anyway.

    Only if all is sent by one process: one producer serves all tasks, and no task is run twice.
    `rows` are all that will be sent.
    """
    partitions = sum(each.partitions for each in job.target.values())
    is_local = str(spark.sparkContext.master).partition("[")[0] == "local"
    if (
        job.proof != "counts"
        or job.resumed
        or not producer_settings.numbers_records(job.producer, job.options)
        or not (is_local and job.source.is_lake and len(job.target) == 1)
        or rows < FEWEST_ROWS
        or partitions > _MOST_PARTITIONS
    ):
        return None
    try:
        tables = ask_leaders(spark, job, is_before=True)
    except NotProven:
        return None
    known = {(topic, p) for topic, each in job.target.items() for p in range(each.partitions)}
    return tables if tables.keys() == known else None  # what was added has no receipt


def sent_rows(
    spark: SparkSession,
    job: EgressJob,
    good: DataFrame,
    inputs: Sequence[FileRows],
    known: Tables,
) -> tuple[dict[Place, int], dict[Place, int]]:
    """Return the rows in each target partition, each there once, and the partitions' ends.

    NotProven unless the tables prove it, and the first rows of the plan are what was to be sent.
    """
    now = ask_leaders(spark, job, is_before=False)
    rows = count_proof.proven_rows(known, now, _wanted(job, inputs))
    _refuse_other_content(spark, job, good, {place: known[place].end for place in rows})
    return rows, {place: each.end for place, each in now.items()}


def _wanted(job: EgressJob, inputs: Sequence[FileRows]) -> dict[Place, int] | int:
    """Return the rows for each partition of the only topic, or of all where Kafka chooses."""
    (topic,) = job.target
    if not records.has_partition(job):
        return sum(each.rows for each in inputs)
    wanted: dict[Place, int] = {}
    for each in inputs:
        for p, (rows, _) in each.placed.items():
            if p is None:
                raise NotProven(f"{each.file}: {rows} rows have no partition")
            wanted[topic, p] = wanted.get((topic, p), 0) + rows
    return wanted


def ask_leaders(spark: SparkSession, job: EgressJob, *, is_before: bool) -> Tables:
    """Return what the leaders say of all partitions. NotProven if they do not.

    The elections enclose the tables: they are asked for first before sending, and last after it.
    """
    try:
        with target_records.admin_of(spark, job) as admin:
            topics = _topics(spark, job, admin)
            ends = _ends(spark, admin, topics) if is_before else {}
            tables = read_producers(spark, admin, topics)
            ends = ends or _ends(spark, admin, topics)
    except Py4JError as error:
        raise NotProven(f"its brokers do not say who has written: {describe(error)}") from error
    return {
        place: Partition(topic_id, leader, ends[place][1], ends[place][0], tables[place])
        for place, (topic_id, leader) in topics.items()
    }


def _topics(spark: SparkSession, job: EgressJob, admin: Any) -> dict[Place, tuple[str, int]]:
    """Return topic id and leader of each partition."""
    asked = spark.sparkContext._jvm.java.util.ArrayList()
    for topic in job.target:
        asked.add(topic)
    found: dict[Place, tuple[str, int]] = {}
    described = admin.describeTopics(asked).allTopicNames().get()
    for topic in job.target:
        each = described.get(topic)
        for partition in each.partitions():
            if (leader := partition.leader()) is None:
                raise NotProven(f"{topic}-{partition.partition()} has no leader")
            found[topic, partition.partition()] = str(each.topicId()), leader.id()
    return found


def _ends(
    spark: SparkSession, admin: Any, topics: Mapping[Place, object]
) -> dict[Place, tuple[int, int]]:
    """Return high watermark and leader epoch of each partition."""
    jvm: Any = spark.sparkContext._jvm
    latest = jvm.org.apache.kafka.clients.admin.OffsetSpec.latest()
    asked = jvm.java.util.HashMap()
    for place in topics:
        asked.put(jvm.org.apache.kafka.common.TopicPartition(*place), latest)
    found = {}
    answers = admin.listOffsets(asked).all().get()
    for place in topics:
        answer = answers.get(jvm.org.apache.kafka.common.TopicPartition(*place))
        found[place] = answer.offset(), answer.leaderEpoch().orElse(-1)
    return found


def read_producers(
    spark: SparkSession, admin: Any, topics: Mapping[Place, tuple[str, int]]
) -> dict[Place, tuple[Producer, ...]]:
    """Return the producers of each partition, as its leader has them: a follower would answer."""
    jvm: Any = spark.sparkContext._jvm
    found: dict[Place, tuple[Producer, ...]] = {}
    for leader in sorted({leader for _, leader in topics.values()}):
        options = jvm.org.apache.kafka.clients.admin.DescribeProducersOptions().brokerId(leader)
        asked = jvm.java.util.ArrayList()
        for place, (_, of_place) in topics.items():
            if of_place == leader:
                asked.add(jvm.org.apache.kafka.common.TopicPartition(*place))
        answers = admin.describeProducers(asked, options).all().get()
        for tp in asked:
            found[tp.topic(), tp.partition()] = tuple(
                Producer(
                    state.producerId(),
                    state.producerEpoch(),
                    state.lastSequence(),
                    state.coordinatorEpoch().orElse(-1) >= 0
                    or state.currentTransactionStartOffset().isPresent(),
                )
                for state in answers.get(tp).activeProducers()
            )
    return found


def _refuse_other_content(
    spark: SparkSession, job: EgressJob, good: DataFrame, starts: Mapping[Place, int]
) -> None:
    """Compare the plan's first record in each partition with its row; NotProven for another."""
    found = _first_records(spark, job, starts)
    rows = sorted({record.identity for record in found.values()})
    known = {
        (row.file, row.row): (
            row.topic,
            row.partition,
            row.key,
            row.value,
            _pairs(row.headers),
            row.timestamp if job.keeps_time else None,
        )
        for row in good.where(reduce(or_, map(_is_row, rows))).collect()
    }
    placed = records.has_partition(job)
    for (topic, p), (identity, *content) in found.items():
        if known.get(identity) != (topic, p if placed else None, *content):
            raise NotProven(f"{topic}-{p}: its first record has other content than its row")


def _is_row(identity: tuple[str, int]) -> Column:
    file, row = identity
    return (F.col("row") == row) & (F.col("file") == file)


def _pairs(headers: Sequence[Any] | None) -> Headers:
    return [(h.key, h.value and bytes(h.value)) for h in headers or ()]


def _first_records(
    spark: SparkSession, job: EgressJob, starts: Mapping[Place, int]
) -> dict[Place, _Record]:
    """Return the first record of the plan in each partition.

    NotProven if one is not among the first that came since the look before.
    """
    java: Any = spark.sparkContext._jvm.java
    missing = {
        spark.sparkContext._jvm.org.apache.kafka.common.TopicPartition(*place): place
        for place in starts
    }
    found: dict[Place, _Record] = {}
    with target_records.consumer_of(spark, job) as consumer:
        consumer.assign(java.util.ArrayList(list(missing)))
        for tp, place in missing.items():
            consumer.seek(tp, starts[place])
        until = time.monotonic() + _PATIENCE
        while missing:
            if time.monotonic() > until:
                topic, p = next(iter(missing.values()))
                raise NotProven(f"no record of the plan is seen in {topic}-{p}")
            batch = consumer.poll(java.time.Duration.ofMillis(500))
            for tp, place in [*missing.items()]:
                if first := _of_plan(job, batch.records(tp)):
                    found[place] = first
                    del missing[tp]
                    consumer.pause(java.util.Collections.singleton(tp))  # the others are next
    return found


def _of_plan(job: EgressJob, fetched: Any) -> _Record | None:
    """Return the first record of the plan among the first of a partition."""
    for record in fetched.subList(0, min(fetched.size(), _LOOKED_AT)):
        pairs = [(header.key(), _bytes(header.value())) for header in record.headers().toArray()]
        said = provenance.provenance_of(pairs)
        if said and said.plan == job.plan_id and said.at < len(job.source.names):
            own = max(i for i, (name, _) in enumerate(pairs) if name == provenance.HEADER)
            identity = job.source.names[said.at], said.row
            timestamp = record.timestamp() if job.keeps_time else None
            key, value = _bytes(record.key()), _bytes(record.value())
            return _Record(identity, key, value, pairs[:own], timestamp)
    return None


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)
