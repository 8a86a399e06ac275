"""Send rows to topics: look at all of them first, send what is missing, read back what came.

Writing is V1, always: V2 would put the password into the event log.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tidegate import faults
from tidegate.core.offsets import OffsetRange
from tidegate.spark import ingest, options, records, session, sink, source
from tidegate.spark.records import IDENTITY, RECORD, DoesNotFit
from tidegate.spark.send_job import DONE, REFUSED, SENDING, SendJob
from tidegate.spark.tasks import records_per_task

_NAMED = 20  # bad rows that a refusal names

log = logging.getLogger(__name__)


class Refused(Exception):
    """Nothing may be sent; `files` hold what is wrong, `rows` are the first of it."""

    def __init__(self, message: str, files: Iterable[str] = (), rows: Iterable[Any] = ()) -> None:
        super().__init__(message)
        self.files, self.rows = sorted(files), list(rows)


def main(job_file: str) -> int:
    """Do the work of a job file; return the exit code, and leave the answer beside the file."""
    path = Path(job_file)
    job = SendJob.read(path)
    path.unlink()  # it may hold secrets, and whoever wrote it may be killed
    spark = SparkSession.builder.appName(job.app_name).getOrCreate()
    try:
        return attempt(spark, job, path.parent)
    finally:
        spark.stop()


def attempt(spark: SparkSession, job: SendJob, directory: Path) -> int:
    """Send a plan's rows; return 0, and what was verified in `directory`, or 1.

    A failure is told in one last line, `tidegate: <what>`, and without a secret.
    """
    try:
        session.configure(spark)
        source.configure(spark)
        _answer(directory / DONE, send(spark, job, directory))
    except Refused as refusal:
        told = options.redact(str(refusal), job.reader)
        answer = {"message": told, "files": refusal.files, "rows": refusal.rows}
        _answer(directory / REFUSED, answer)
        log.error("tidegate: plan %s: %s", job.plan_id, told)
        return 1
    except Exception as error:
        told = options.redact(ingest.explain(error), job.reader)
        log.error("tidegate: plan %s: %s", job.plan_id, told)
        return 1
    return 0


def send(spark: SparkSession, job: SendJob, directory: Path) -> dict[str, Any]:
    """Send the plan's rows that are not in the target yet; return what was verified.

    Raises Refused before the first record. `directory` gets the sign that sending has begun.
    """
    started = time.monotonic()
    shaped, inputs = preflight(spark, job)
    good = shaped.where(F.col("reason").isNull())
    log.info("plan %s: %d rows are fit to be sent", job.plan_id, sum(i["rows"] for i in inputs))
    until = ends(spark, job)
    before = _seen(spark, job, until)
    broken: list[str] = []
    if before is not None and not before.isEmpty():
        good, broken = _missing(job, good, before)
    faults.point("send.before")
    (directory / SENDING).touch()
    _write(job, good, largest=max((each["largest"] for each in inputs), default=0))
    faults.point("send.sent")
    log.info("plan %s: sent, %.2f s", job.plan_id, time.monotonic() - started)
    done = _verified(spark, job, shaped, inputs)
    log.info("plan %s: verified, %.2f s", job.plan_id, time.monotonic() - started)
    return {**done, "broken_order": broken, "versions": ingest.versions(spark)}


def preflight(spark: SparkSession, job: SendJob) -> tuple[DataFrame, list[dict[str, Any]]]:
    """Look at every row; return the shaped rows, and what each file holds.

    Bad rows are put into quarantine, if the plan says so; Refused otherwise.
    """
    try:
        shaped = records.shape(spark, job)
        counted = shaped.groupBy("file").agg(
            F.count_if(F.col("reason").isNull()).alias("rows"),
            F.count_if(F.col("reason").isNotNull()).alias("bad"),
            F.bit_xor(F.when(F.col("reason").isNull(), _hash())).alias("hash"),
            F.max("bytes").alias("largest"),
        )
        inputs = [row.asDict() for row in counted.collect()]
    except (DoesNotFit, AnalysisException) as error:
        told = error.getMessage() if isinstance(error, AnalysisException) else str(error)
        raise Refused(" ".join(told.split())[:1000]) from error
    except (CapturedException, Py4JJavaError) as error:
        raise _unreadable(job, error) from error
    strangers = {each["file"] for each in inputs} - {name for name, _ in job.rows.files}
    if strangers and not job.rows.is_lake:
        raise RuntimeError(f"Spark read {sorted(strangers)[:3]}, which are not in the plan")
    bad_files = [each["file"] for each in inputs if each["bad"]]
    if bad_files and job.quarantine is None:
        first = [
            row.asDict()
            for row in shaped.where(F.col("reason").isNotNull())
            .select(*IDENTITY, "reason").orderBy(*IDENTITY).limit(_NAMED).collect()
        ]  # fmt: skip
        listed = "; ".join(f"{r['file']}, row {r['row']}: {r['reason']}" for r in first[:5])
        count = sum(each["bad"] for each in inputs)
        raise Refused(f"{count} rows cannot be sent: {listed}", bad_files, first)
    if bad_files:
        _quarantine(job, shaped)
    return shaped, inputs


def ends(spark: SparkSession, job: SendJob) -> dict[str, dict[int, int]]:
    """Return the high watermark of every target partition: all that is there, whoever sees it.

    Refused where the log has lost what may have been sent since the plan was first claimed.
    """
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
                raise Refused(
                    f"{topic}-{p}: its log starts at {first.get(tp)} and the plan was claimed at "
                    f"{since}: what was sent in between cannot be seen any more"
                )
            found.setdefault(topic, {})[p] = last.get(tp)
        return found
    finally:
        consumer.close()


def _hash() -> Column:
    return F.xxhash64("file", "row", "topic", "key", "value")


def _seen(
    spark: SparkSession, job: SendJob, until: Mapping[str, Mapping[int, int]]
) -> DataFrame | None:
    """Return this plan's records in the target, from its first claim to `until`; None if no offset
    lies between the two. Columns: topic, partition, offset, key, value, file, row.
    """
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
    reader = options.render(window, given, max_records_per_task=limit)

    # What was written as a record's last headers is what they are now, whoever else wrote some.
    names = records.provenance(job)
    headers = {
        name: F.try_element_at("headers", F.lit(place - len(names)))
        for place, name in enumerate(names)
    }

    def value(name: str) -> Column:
        return headers[name]["value"].cast("string")

    found = spark.read.format("kafka").options(**reader).load()
    ours = (headers["tidegate-plan"]["key"] == "tidegate-plan") & (
        value("tidegate-plan") == job.plan_id
    )
    return found.where(ours).select(
        "topic", "partition", "offset", "key", "value",
        value("tidegate-file").alias("file"), value("tidegate-row").cast("long").alias("row"),
    )  # fmt: skip


def _missing(job: SendJob, good: DataFrame, seen: DataFrame) -> tuple[DataFrame, list[str]]:
    """Return the rows that no earlier attempt has sent, and where sending them breaks the order.

    Of an ordered group (a target partition, or a key) the rows seen should be its first ones. In a
    compacted topic rows may have been seen and be gone: there, all from the first missing one on
    are sent once more, so that the last of a key stays the last.
    """
    sent = seen.select(*IDENTITY).distinct().withColumn("sent", F.lit(True))
    marked = good.join(sent, list(IDENTITY), "left")
    if not (by := _order(job)):
        return marked.where(F.col("sent").isNull()), []
    placed = marked.withColumn(
        "place", F.row_number().over(Window.partitionBy(*_group(job)).orderBy(*by))
    )
    groups = placed.groupBy(*_group(job)).agg(
        F.min(F.when(F.col("sent").isNull(), F.col("place"))).alias("first_missing"),
        F.max(F.when(F.col("sent"), F.col("place"))).alias("last_sent"),
    )
    broken = groups.where(F.col("first_missing") < F.col("last_sent"))
    compacted = [topic for topic, each in job.target.items() if each.compacted]
    if compacted:
        again = broken.where(F.col("topic").isin(compacted)).select(*_group(job), "first_missing")
        late = [F.col(f"m.{c}").eqNullSafe(F.col(f"a.{c}")) for c in _group(job)]
        joined = placed.alias("m").join(again.alias("a"), [*late], "left")
        rest = F.col("sent").isNull() | (F.col("place") >= F.col("first_missing"))
        return joined.where(rest).select("m.*"), []
    where = [name for name in _group(job) if name != "key"]
    named = [
        "-".join(map(str, row)) for row in broken.select(*where).distinct().limit(_NAMED).collect()
    ]
    if named and job.strict_order:
        raise Refused(
            f"{', '.join(named)}: later rows were sent and earlier ones were not; order: strict "
            "does not send them behind. Release the claim, by resend or by declaring it sent"
        )
    return placed.where(F.col("sent").isNull()), named


def _order(job: SendJob) -> list[Column]:
    """Return what rows are sorted by; nothing if they go in any order."""
    given = [F.col(f"order{i}") for i in range(len(job.order_by))]
    return [*given, *map(F.col, IDENTITY)] if given or job.rows.is_lake else []


def _group(job: SendJob) -> list[str]:
    """Return the columns within which there is an order: a partition, else a key."""
    return ["topic", "partition"] if records.has_partition(job) else ["topic", "key"]


def _write(job: SendJob, rows: DataFrame, *, largest: int) -> None:
    if by := _order(job):
        # One task for all of a group; its records are sent in the order of its rows.
        tasks = sum(each.partitions for each in job.target.values())
        rows = rows.repartition(tasks, *_group(job)).sortWithinPartitions("topic", "partition", *by)
    written = sink.render(job.reader, job.producer, client_id=job.client_id, largest_row=largest)
    with session.writing_v1(rows.sparkSession):
        records.sent_as(rows, job).write.format("kafka").options(**written).save()


def _verified(
    spark: SparkSession, job: SendJob, shaped: DataFrame, inputs: list[dict[str, Any]]
) -> dict[str, Any]:
    """Read back all that the target holds of this plan, and hold it against the rows."""
    until = ends(spark, job)
    good = shaped.where(F.col("reason").isNull())
    seen = _seen(spark, job, until)
    wanted = {each["file"]: (each["rows"], each["hash"]) for each in inputs if each["rows"]}
    found: dict[Any, tuple[int, int]] = {}
    counts: dict[tuple[str, int], tuple[int, int]] = {}
    if seen is not None:
        grouped = seen.groupBy("file", "topic", "partition").agg(
            F.count("*").alias("rows"), F.bit_xor(_hash()).alias("hash")
        )
        for row in grouped.collect():
            rows, xor = found.get(row.file, (0, 0))
            found[row.file] = rows + row.rows, xor ^ row.hash
            there, _ = counts.get((row.topic, row.partition), (0, 0))
            counts[row.topic, row.partition] = there + row.rows, 0
    if found != wanted and seen is not None:
        distinct = seen.dropDuplicates([*IDENTITY, "topic", "key", "value"])
        lost = _unlike(good, distinct).count()
        strange = _unlike(distinct, good).count()
        if lost or strange:
            raise RuntimeError(
                f"read back: {lost} rows are not in the target, {strange} records are not rows of "
                "the source; the retry sends what is missing"
            )
        per = seen.groupBy("topic", "partition").agg(
            F.count("*").alias("all"), F.count_distinct(*IDENTITY).alias("once")
        )
        counts = {(r.topic, r.partition): (r.once, r["all"] - r.once) for r in per.collect()}
    elif found != wanted:
        raise RuntimeError("read back: the target has taken nothing")
    return {
        "files": sorted(
            ({"file": i["file"], "rows": i["rows"], "bad": i["bad"]} for i in inputs),
            key=lambda each: each["file"],
        ),
        "receipts": [
            {
                "topic": topic, "partition": p, "before": target.since[p],
                "after": until[topic][p],
                "sent": counts.get((topic, p), (0, 0))[0],
                "duplicates": counts.get((topic, p), (0, 0))[1],
            }
            for topic, target in sorted(job.target.items())
            for p in range(target.partitions)
        ],
    }  # fmt: skip


def _unlike(these: DataFrame, those: DataFrame) -> DataFrame:
    """Return the rows of `these` that `those` does not hold with the same content."""
    same = [
        F.col(f"a.{c}").eqNullSafe(F.col(f"b.{c}")) for c in (*IDENTITY, "topic", "key", "value")
    ]
    return these.alias("a").join(those.alias("b"), same, "left_anti")


def _quarantine(job: SendJob, shaped: DataFrame) -> None:
    bad = shaped.where(F.col("reason").isNotNull())
    assert job.quarantine is not None
    bad.select(*IDENTITY, "reason", "text", *RECORD).coalesce(1).write.parquet(job.quarantine)


def _unreadable(job: SendJob, error: Exception) -> Exception:
    """Return the refusal that a file's own fault deserves; any other error as it is."""
    told = ingest.explain(error)
    named = [name for name, path in job.rows.files if path.rpartition("/")[2] in told]
    readers = ("FAILED_READ_FILE", "Header", "CSV", "Parquet", "EOF", "ZipException", "MALFORMED")
    if named and not job.rows.is_lake and any(word in told for word in readers):
        return Refused(f"{named[0]} cannot be read: {told}", named)
    computed = ("CAST_INVALID_INPUT", "DIVIDE_BY_ZERO", "ARITHMETIC", "INVALID_ARRAY", "CONVERSION")
    if any(word in told for word in computed):
        return Refused(f"an expression of `columns` fails: {told}")
    return error


def _answer(path: Path, form: Mapping[str, Any]) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(form))
    temporary.replace(path)
