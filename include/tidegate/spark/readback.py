"""Compare the target with the rows of a plan: what is missing, what is duplicated, what is out of
order; before sending, to send only the rest, and afterwards, as verification.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tidegate.core.offsets import Offsets
from tidegate.core.row_digest import combine_digests
from tidegate.spark import records, target_records
from tidegate.spark.egress_job import EgressJob, Proven, SentRows, SentTo
from tidegate.spark.row_frame import IDENTITY, FileRows

# The producer may still be sending when Spark takes it for done: the pieces of a batch that the
# broker found too large. While records keep coming, read again: this often, after these seconds.
_READS, WAIT = 5, 2.0
_NAMED = 20  # places of a broken order that are named
_DECIDE = "`tidegate release` says whether to send all of it again, or to count it as sent"

Counts = dict[tuple[str, int], int]


class ContentDiffers(Exception):
    """A row of the source is not in the target, as it was to be sent."""


class OrderBroken(Exception):
    """Rows are, or would be, out of order in the target, and the order is strict."""


def missing_rows(job: EgressJob, good: DataFrame, before: DataFrame) -> DataFrame:
    """Return the rows that no earlier attempt has sent. OrderBroken if the order forbids that.

    Within an ordered group (a target partition, or a key) the rows found should be its first ones.
    In a compacted topic rows may have been sent and be gone: there, all rows from the first missing
    one on are sent again, so that the last one of a key stays the last.
    """
    # By content, too: others may have copied records of this plan, with other values.
    sent = _as_sent(job, before, good).select(*IDENTITY).distinct()
    marked = good.join(sent.withColumn("sent", F.lit(True)), list(IDENTITY), "left")
    if not (by := records.order_columns(job)):
        return marked.where(F.col("sent").isNull())
    group = records.group_columns(job)
    position = F.row_number().over(Window.partitionBy(*group).orderBy(*by))
    placed = marked.withColumn("position", position)
    groups = placed.groupBy(*group).agg(
        F.min(F.when(F.col("sent").isNull(), F.col("position"))).alias("first_missing"),
        F.max(F.when(F.col("sent"), F.col("position"))).alias("last_sent"),
    )
    broken = groups.where(F.col("first_missing") < F.col("last_sent"))
    is_compacted = F.col("topic").isin(_compacted(job))
    if job.strict_order and (named := _named(job, broken.where(~is_compacted))):
        raise OrderBroken(
            f"{', '.join(named)}: later rows were sent and earlier ones were not; order: strict "
            f"does not send them behind. {_DECIDE}"
        )
    resent = broken.where(is_compacted).select(*group, "first_missing")
    same_group = [F.col(f"p.{c}").eqNullSafe(F.col(f"r.{c}")) for c in group]
    joined = placed.alias("p").join(resent.alias("r"), same_group, "left")
    is_missing = F.col("sent").isNull() | (F.col("position") >= F.col("first_missing"))
    return joined.where(is_missing).select("p.*")


def verify_target(
    spark: SparkSession,
    job: EgressJob,
    good: DataFrame,
    inputs: Sequence[FileRows],
) -> Proven:
    """Read back the plan's records and compare them with its rows. Return what was proven.

    Raises ContentDiffers when they differ and no more records come. Raises OrderBroken when they
    are out of order and the order is strict.
    """
    if job.resumed:  # a batch of a killed attempt may still be on its way
        time.sleep(WAIT)
    until = target_records.read_ends(spark, job)
    for reads_left in reversed(range(_READS)):
        try:
            found = target_records.records_of_plan(spark, job, until)
            rows, duplicates = _compare(spark, job, good, found, inputs, until)
            break
        except ContentDiffers:
            time.sleep(WAIT)
            before, until = until, target_records.read_ends(spark, job)
            if before == until or not reads_left:
                raise
    # One attempt sends each group from one task, in its order.
    mixed = found is not None and (job.resumed or any(duplicates.values()))
    broken = []
    if found is not None and mixed:
        broken = _broken_order(job, good, _as_sent(job, found, good))
    if broken and job.strict_order:
        raise OrderBroken(
            f"{', '.join(broken)}: all rows are in the target, but not in their order; order: "
            f"strict does not accept that as sent. {_DECIDE}"
        )
    ends = {(topic, p): end for topic, each in until.items() for p, end in each.items()}
    return conclude(job, good, inputs, ends, rows, duplicates, broken)


def conclude(
    job: EgressJob,
    good: DataFrame,
    inputs: Sequence[FileRows],
    ends: Counts,
    rows: Counts,
    duplicates: Counts | None = None,
    broken: Sequence[str] = (),
    *,
    proof: str = "full",
) -> Proven:
    """Return what was proven, by the target's ends and what is in its partitions."""
    return Proven(
        proof=proof,
        broken_order=tuple(sorted({*broken, *_behind(job, good)})),
        files=tuple(
            SentRows(
                each.file, each.rows, each.bad,
                combine_digests(digest for _, digest in each.placed.values()),
            )
            for each in sorted(inputs, key=lambda each: each.file)
        ),
        receipts=tuple(
            SentTo(
                topic, p, target.since[p], ends[topic, p], rows.get((topic, p), 0),
                (duplicates or {}).get((topic, p), 0),
            )
            for topic, target in sorted(job.target.items())
            for p in range(target.partitions)
        ),
    )  # fmt: skip


def _given_partition(job: EgressJob) -> list[str]:
    return ["partition"] if records.has_partition(job) else []


def _content(job: EgressJob) -> list[str]:
    timestamp = [records.TIMESTAMP] if job.keeps_time else []
    return [*IDENTITY, "topic", "key", "value", "headers", *timestamp, *_given_partition(job)]


def _equal(job: EgressJob, one: str, other: str) -> list[Column]:
    """Return whether rows of two tables are the same. No headers equal an empty list."""

    def of(table: str, name: str) -> Column:
        column = F.col(f"{table}.{name}")
        return F.coalesce(column, F.array()) if name == "headers" else column

    return [of(one, name).eqNullSafe(of(other, name)) for name in _content(job)]


def _compacted(job: EgressJob) -> list[str]:
    return [topic for topic, each in job.target.items() if each.compacted]


def _named(job: EgressJob, broken: DataFrame) -> list[str]:
    """Return the target partitions of some groups, or their topics where the order is by key."""
    columns = [name for name in records.group_columns(job) if name != "key"]
    places = broken.select(*columns).distinct().limit(_NAMED).collect()
    return sorted("-".join(map(str, row)) for row in places)


def _behind(job: EgressJob, good: DataFrame) -> list[str]:
    """Return where rows went behind later ones that an earlier plan had sent."""
    late = job.source.late
    return _named(job, good.where(F.col("file").isin(*late))) if late else []


def _sort_columns(job: EgressJob) -> list[str]:
    """Return the columns that decide the group and the position of a row."""
    by = (f"order{i}" for i in range(len(job.order_by)))
    return [*records.group_columns(job), *by, *IDENTITY]


def _broken_order(job: EgressJob, good: DataFrame, found: DataFrame) -> list[str]:
    """Return where rows are in another order than the pipeline's.

    The place of a row is that of its first record; in a compacted topic, of its last. A key that is
    in two partitions has no order.
    """
    if not (by := records.order_columns(job)):
        return []
    group = records.group_columns(job)
    is_compacted = F.col("topic").isin(_compacted(job))
    places = found.groupBy(*IDENTITY, F.col("partition").alias("at"), "topic").agg(
        F.when(is_compacted, F.max("offset")).otherwise(F.min("offset")).alias("offset")
    )
    ordered = Window.partitionBy(*group).orderBy(*by, "at")
    placed = good.select(*_sort_columns(job)).join(places.drop("topic"), list(IDENTITY))
    placed = placed.withColumn("before", F.lag(F.struct("at", "offset")).over(ordered))
    follows = (F.col("before.at") == F.col("at")) & (F.col("before.offset") < F.col("offset"))
    return _named(job, placed.where(F.col("before").isNotNull() & ~follows))


def _compare(
    spark: SparkSession,
    job: EgressJob,
    good: DataFrame,
    found: DataFrame | None,
    inputs: Sequence[FileRows],
    until: Offsets,
) -> tuple[Counts, Counts]:
    """Return rows and duplicates per target partition. ContentDiffers if a row is missing.

    In a compacted topic a row may be gone if a later one of its key is there: it counts where that
    one is.
    """
    wanted = {(i.file, p): each for i in inputs for p, each in i.placed.items()}
    if found is None:
        if wanted:
            raise ContentDiffers("read back: the target has taken nothing")
        return {}, {}
    read: dict[tuple[str, int | None], tuple[int, int]] = {}
    placed = records.has_partition(job)
    counts: Counts = {}
    grouped = found.groupBy("file", "topic", "partition").agg(
        F.count("*").alias("rows"), F.bit_xor(records.content_digest(job)).alias("digest")
    )
    for row in grouped.collect():
        place = row.file, row.partition if placed else None
        rows, xor = read.get(place, (0, 0))
        read[place] = rows + row.rows, xor ^ row.digest
        at = row.topic, row.partition
        counts[at] = counts.get(at, 0) + row.rows
    if read == wanted:
        return counts, {}
    right = _as_sent(job, found, good)
    distinct = right.dropDuplicates(_content(job))
    superseded = _superseded(spark, job, good, distinct, until)
    lost = good.alias("a").join(distinct.alias("b"), _equal(job, "a", "b"), "left_anti").count()
    lost -= sum(superseded.values())
    unknown = found.join(good.select(*IDENTITY), list(IDENTITY), "left_anti").count()
    if lost or unknown:
        raise ContentDiffers(
            f"read back: {lost} rows are not in the target as they are in the source, {unknown} "
            "records are of no row that was to be sent; the retry sends what is missing"
        )
    # A row counts where its first record is. Any other, in whichever partition and with whichever
    # content, is a duplicate.
    first = right.groupBy(*IDENTITY).agg(F.min(F.struct("topic", "partition")).alias("at"))
    once = _counts(first, "at.topic", "at.partition")
    return (
        {at: once.get(at, 0) + superseded.get(at, 0) for at in counts},
        {at: n - once.get(at, 0) for at, n in counts.items()},
    )


def _superseded(
    spark: SparkSession, job: EgressJob, good: DataFrame, distinct: DataFrame, until: Offsets
) -> Counts:
    """Count the rows that compaction has removed since they were sent, per target partition.

    Each leaves a missing offset, and a later record of its key: rows without a later one, or more
    rows than missing offsets, were never sent.
    """
    compacted = _compacted(job)
    log = target_records.all_records(spark, job, until) if compacted else None
    if log is None:
        return {}
    here = distinct.select(*_content(job), F.col("partition").alias("at"))
    placed = good.alias("g").join(here.alias("d"), _equal(job, "g", "d"), "left")
    placed = placed.select(*(f"g.{c}" for c in dict.fromkeys([*_sort_columns(job), "key"])), "d.at")
    later = Window.partitionBy("topic", "key", *_given_partition(job)).orderBy(
        *records.order_columns(job)
    )
    later = later.rowsBetween(1, Window.unboundedFollowing)
    placed = placed.where(F.col("topic").isin(compacted))
    placed = placed.withColumn("later", F.first("at", ignorenulls=True).over(later))
    gone = placed.where(F.col("at").isNull() & F.col("later").isNotNull())
    there = _counts(log, "topic", "partition")
    for place, offsets in target_records.unreadable_offsets(spark, job, until).items():
        there[place] = there.get(place, 0) + len(offsets)
    return {
        (topic, p): min(n, until[topic][p] - job.target[topic].since[p] - there.get((topic, p), 0))
        for (topic, p), n in _counts(gone, "topic", "later").items()
    }


def _counts(frame: DataFrame, topic: str, partition: str) -> Counts:
    """Return the rows of a frame per target partition, by two of its columns."""
    groups = frame.groupBy(F.col(topic).alias("topic"), F.col(partition).alias("partition"))
    return {(r.topic, r.partition): r.n for r in groups.agg(F.count("*").alias("n")).collect()}


def _as_sent(job: EgressJob, found: DataFrame, good: DataFrame) -> DataFrame:
    """Return the records that have the content of a row."""
    return found.alias("a").join(good.alias("b"), _equal(job, "a", "b"), "left_semi")
