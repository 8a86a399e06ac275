"""What the target holds of a plan: before sending, to send only the rest; afterwards, as proof."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tidegate.core.offsets import OffsetRange
from tidegate.spark import content, kafka_source, records
from tidegate.spark.egress_job import SendJob
from tidegate.spark.records import IDENTITY
from tidegate.spark.task_size import records_per_task

# The producer may still be sending when Spark takes it for done: the pieces of a batch that the
# broker found too large. Looked again while records come, so many times, so many seconds apart.
_LOOKS, _LATE = 5, 2.0
_NAMED = 20  # places of a broken order that are named
_DECIDE = "`tidegate release` says whether to send all of it again, or to count it as sent"

Ends = Mapping[str, Mapping[int, int]]


class LogLost(Exception):
    """The target has lost what may have been sent since the plan was first claimed."""


class NotTheSame(Exception):
    """What was read back are not the rows of the source, once or more often."""


class OrderBroken(Exception):
    """Rows would stand, or do stand, in the target in another order, and the order is strict."""


def ends(spark: SparkSession, job: SendJob) -> Ends:
    """Return the high watermark of every target partition: all that is there, whoever sees it."""
    jvm: Any = spark.sparkContext._jvm
    properties = jvm.java.util.HashMap()
    for name, value in job.reader.items():
        if name.startswith("kafka."):
            properties.put(name.removeprefix("kafka."), value)
    bytes_ = jvm.org.apache.kafka.common.serialization.ByteArrayDeserializer
    consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(properties, bytes_(), bytes_())
    try:
        asked = jvm.java.util.ArrayList()
        for topic, target in job.target.items():
            for p in range(target.partitions):
                asked.add(jvm.org.apache.kafka.common.TopicPartition(topic, p))
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
    finally:
        consumer.close()


def seen(spark: SparkSession, job: SendJob, until: Ends) -> DataFrame | None:
    """Return this plan's records in the target, from its first claim to `until`; None if no offset
    lies between the two. Columns: topic, partition, offset, key, value, headers (without ours),
    file, row.
    """
    found = _records(spark, job, until)
    if found is None:
        return None
    names = records.provenance(job)

    def header(name: str) -> Column:
        # What was written last is last, unless an agent in the producer puts more behind it.
        place = F.try_element_at("headers", F.lit(names.index(name) - len(names)))
        named = F.try_element_at(F.filter("headers", lambda h: h["key"] == name), F.lit(-1))
        return F.when(place["key"] == name, place["value"]).otherwise(named["value"]).cast("string")

    # What stands before ours; an agent's, behind them, are not the row's.
    place = F.array_position(F.reverse(F.transform("headers", lambda h: h["key"])), names[0])
    own = F.slice("headers", F.lit(1), (F.size("headers") - place).cast("int"))
    return found.where(header("tidegate-plan") == job.plan_id).select(
        "topic", F.col("partition").cast("long"), "offset", "key", "value",  # typed as the rows are
        own.alias("headers"),
        header("tidegate-file").alias("file"), header("tidegate-row").cast("long").alias("row"),
    )  # fmt: skip


def _records(spark: SparkSession, job: SendJob, until: Ends) -> DataFrame | None:
    """Return all that the target holds from the plan's first claim to `until`, whoever wrote it."""
    window = tuple(
        OffsetRange(topic, p, since, until[topic][p])
        for topic, each in sorted(job.target.items())
        for p, since in sorted(each.since.items())
        if since < until[topic][p]
    )
    if not window:
        return None
    # Foreign transactions may be open: ours are seen all the same.
    given = {**job.reader, "kafka.isolation.level": "read_uncommitted"}
    limit = records_per_task(window, spark.sparkContext.defaultParallelism)
    reader = kafka_source.render(window, given, max_records_per_task=limit)
    return spark.read.format("kafka").options(**reader).load()


def missing(job: SendJob, good: DataFrame, before: DataFrame) -> DataFrame:
    """Return the rows that no earlier attempt has sent; OrderBroken where that may not be.

    Of an ordered group (a target partition, or a key) the rows seen should be its first ones. In a
    compacted topic rows may have been seen and be gone: there, all from the first missing one on
    are sent once more, so that the last of a key stays the last.
    """
    sent = before.select(*IDENTITY).distinct().withColumn("sent", F.lit(True))
    marked = good.join(sent, list(IDENTITY), "left")
    if not (by := records.order(job)):
        return marked.where(F.col("sent").isNull())
    group = records.group(job)
    placed = marked.withColumn(
        "place", F.row_number().over(Window.partitionBy(*group).orderBy(*by))
    )
    groups = placed.groupBy(*group).agg(
        F.min(F.when(F.col("sent").isNull(), F.col("place"))).alias("first_missing"),
        F.max(F.when(F.col("sent"), F.col("place"))).alias("last_sent"),
    )
    compacted = _compacted(job)
    broken = groups.where(F.col("first_missing") < F.col("last_sent"))
    again = broken.where(F.col("topic").isin(compacted)).select(*group, "first_missing")
    late = [F.col(f"m.{c}").eqNullSafe(F.col(f"a.{c}")) for c in group]
    rest = placed.alias("m").join(again.alias("a"), late, "left").where(
        F.col("sent").isNull() | (F.col("place") >= F.col("first_missing"))
    ).select("m.*")  # fmt: skip
    if job.strict_order and (named := _named(job, broken.where(~F.col("topic").isin(compacted)))):
        raise OrderBroken(
            f"{', '.join(named)}: later rows were sent and earlier ones were not; order: strict "
            f"does not send them behind. {_DECIDE}"
        )
    return rest


def verified(
    spark: SparkSession,
    job: SendJob,
    good: DataFrame,
    inputs: Sequence[Mapping[str, Any]],
    *,
    resumed: bool,
) -> dict[str, Any]:
    """Read back all that the target holds of this plan, and hold it against the rows.

    `resumed`: an earlier attempt has sent some of them. NotTheSame if it is not the same, and
    nothing more comes; OrderBroken if it stands there in another order, and the order is strict.
    """
    until = ends(spark, job)
    for patience in reversed(range(_LOOKS)):
        try:
            found = seen(spark, job, until)
            sent = _compared(spark, job, good, found, inputs, until)
            break
        except NotTheSame:
            time.sleep(_LATE)
            was, until = until, ends(spark, job)
            if was == until or not patience:
                raise
    # One attempt sends each group from one task, in its order.
    mixed = found is not None and (resumed or any(doubled for _, doubled in sent.values()))
    broken = _broken_order(job, good, found) if found is not None and mixed else []
    if broken and job.strict_order:
        raise OrderBroken(
            f"{', '.join(broken)}: all rows are in the target, but not in their order; order: "
            f"strict does not take that for sent. {_DECIDE}"
        )
    return {
        "broken_order": sorted({*broken, *_behind(job, good)}),
        "files": sorted(
            (
                {"file": i["file"], "rows": i["rows"], "bad": i["bad"],
                 "digest": content.of_file(i["content"])}
                for i in inputs
            ),
            key=lambda each: str(each["file"]),
        ),
        "receipts": [
            {
                "topic": topic, "partition": p, "before": target.since[p],
                "after": until[topic][p],
                "sent": sent.get((topic, p), (0, 0))[0],
                "duplicates": sent.get((topic, p), (0, 0))[1],
            }
            for topic, target in sorted(job.target.items())
            for p in range(target.partitions)
        ],
    }  # fmt: skip


def digest(job: SendJob) -> Column:
    """Return the digest of a row, or of its record: equal if one became the other."""
    return F.xxhash64(content.digest(), *_chosen(job))


def _chosen(job: SendJob) -> list[str]:
    return ["partition"] if records.has_partition(job) else []


def _same(job: SendJob) -> list[str]:
    return [*IDENTITY, "topic", "key", "value", "headers", *_chosen(job)]


def _equal(job: SendJob, one: str, other: str) -> list[Column]:
    """Return that rows of two tables are the same; no headers are as good as an empty list."""

    def of(table: str, name: str) -> Column:
        column = F.col(f"{table}.{name}")
        return F.coalesce(column, F.array()) if name == "headers" else column

    return [of(one, name).eqNullSafe(of(other, name)) for name in _same(job)]


def _compacted(job: SendJob) -> list[str]:
    return [topic for topic, each in job.target.items() if each.compacted]


def _named(job: SendJob, broken: DataFrame) -> list[str]:
    """Return the target partitions, or topics where the order is by key, of some ordered groups."""
    where = [name for name in records.group(job) if name != "key"]
    told = broken.select(*where).distinct().limit(_NAMED).collect()
    return sorted("-".join(map(str, row)) for row in told)


def _behind(job: SendJob, good: DataFrame) -> list[str]:
    """Return where rows went of which later ones had been sent by an earlier plan."""
    return _named(job, good.where(F.col("file").isin(*job.rows.late))) if job.rows.late else []


def _places(job: SendJob) -> list[str]:
    """Return the columns that say where a row belongs."""
    by = (f"order{i}" for i in range(len(job.order_by)))
    return [*records.group(job), *by, *IDENTITY]


def _broken_order(job: SendJob, good: DataFrame, found: DataFrame) -> list[str]:
    """Return where rows stand in another order than the pipeline's.

    A row stands where its first record is; in a compacted topic, where its last one is. A key that
    is in two partitions has no order.
    """
    if not (by := records.order(job)):
        return []
    group = records.group(job)
    last = F.col("topic").isin(_compacted(job))
    stands = found.groupBy(*IDENTITY, F.col("partition").alias("at"), "topic").agg(
        F.when(last, F.max("offset")).otherwise(F.min("offset")).alias("offset")
    )
    ordered = Window.partitionBy(*group).orderBy(*by, "at")
    placed = good.select(*_places(job)).join(stands.drop("topic"), list(IDENTITY))
    placed = placed.withColumn("before", F.lag(F.struct("at", "offset")).over(ordered))
    follows = (F.col("before.at") == F.col("at")) & (F.col("before.offset") < F.col("offset"))
    return _named(job, placed.where(F.col("before").isNotNull() & ~follows))


def _compared(
    spark: SparkSession,
    job: SendJob,
    good: DataFrame,
    found: DataFrame | None,
    inputs: Sequence[Mapping[str, Any]],
    until: Ends,
) -> dict[tuple[str, int], tuple[int, int]]:
    """Return rows and duplicates per target partition; NotTheSame if a row is not there.

    In a compacted topic a row may be gone, if a later one of its key is there: it counts where that
    one is.
    """
    wanted = {i["file"]: (i["rows"], i["digest"]) for i in inputs if i["rows"]}
    if found is None:
        if wanted:
            raise NotTheSame("read back: the target has taken nothing")
        return {}
    there: dict[str, tuple[int, int]] = {}
    counts: dict[tuple[str, int], tuple[int, int]] = {}
    grouped = found.groupBy("file", "topic", "partition").agg(
        F.count("*").alias("rows"), F.bit_xor(digest(job)).alias("digest")
    )
    for row in grouped.collect():
        rows, xor = there.get(row.file, (0, 0))
        there[row.file] = rows + row.rows, xor ^ row.digest
        once, _ = counts.get((row.topic, row.partition), (0, 0))
        counts[row.topic, row.partition] = once + row.rows, 0
    if there == wanted:
        return counts
    distinct = found.dropDuplicates(_same(job))
    superseded = _superseded(spark, job, good, distinct, until)
    lost = _unlike(job, good, distinct).count() - sum(superseded.values())
    strange = _unlike(job, distinct, good).count()
    if lost or strange:
        raise NotTheSame(
            f"read back: {lost} rows are not in the target, {strange} records are not rows of "
            "the source; the retry sends what is missing"
        )
    # A row counts where its first record is; any other, in whichever partition, is a duplicate.
    first = found.groupBy(*IDENTITY).agg(F.min(F.struct("topic", "partition")).alias("at"))
    once_at = {(r.topic, r.partition): r.n for r in first.groupBy("at.topic", "at.partition")
               .agg(F.count("*").alias("n")).collect()}  # fmt: skip
    return {
        at: (once_at.get(at, 0) + superseded.get(at, 0), n - once_at.get(at, 0))
        for at, (n, _) in counts.items()
    }


def _superseded(
    spark: SparkSession, job: SendJob, good: DataFrame, distinct: DataFrame, until: Ends
) -> dict[tuple[str, int], int]:
    """Count the rows that compaction has taken since they were sent, per target partition.

    It leaves a hole where it takes a record, and a later record of the key: rows without a later
    one, or more rows than there are holes, were never sent.
    """
    compacted = _compacted(job)
    if not compacted or (log_ := _records(spark, job, until)) is None:
        return {}
    chosen = _chosen(job)
    same = _equal(job, "g", "d")
    here = distinct.select(*_same(job), F.col("partition").alias("at"))
    placed = good.alias("g").join(here.alias("d"), same, "left")
    placed = placed.select(*(f"g.{c}" for c in dict.fromkeys([*_places(job), "key"])), "d.at")
    later = Window.partitionBy("topic", "key", *chosen).orderBy(*records.order(job))
    later = later.rowsBetween(1, Window.unboundedFollowing)
    gone = placed.where(F.col("topic").isin(compacted)).withColumn(
        "later", F.first("at", ignorenulls=True).over(later)
    ).where(F.col("at").isNull() & F.col("later").isNotNull())  # fmt: skip
    counted = {(r.topic, r.later): r.n for r in gone.groupBy("topic", "later")
               .agg(F.count("*").alias("n")).collect()}  # fmt: skip
    there = {(r.topic, r.partition): r.n for r in log_.groupBy("topic", "partition")
             .agg(F.count("*").alias("n")).collect()}  # fmt: skip
    return {
        (topic, p): min(n, until[topic][p] - job.target[topic].since[p] - there.get((topic, p), 0))
        for (topic, p), n in counted.items()
    }


def _unlike(job: SendJob, these: DataFrame, those: DataFrame) -> DataFrame:
    """Return the rows of `these` that `those` does not hold with the same content."""
    same = _equal(job, "a", "b")
    return these.alias("a").join(those.alias("b"), same, "left_anti")
