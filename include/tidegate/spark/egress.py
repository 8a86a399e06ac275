"""Send rows to topics: look at all of them first, send what is missing, read back what came.

Writing is V1, always: V2 would put the password into the event log.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate import faults
from tidegate.errors import ConfigurationError
from tidegate.spark import (
    ingest,
    kafka_sink,
    kafka_source,
    readback,
    records,
    session,
)
from tidegate.spark import (
    rows as source,
)
from tidegate.spark.egress_job import DONE, REFUSED, SENDING, SendJob
from tidegate.spark.ingest_job import refuse
from tidegate.spark.preflight import Refused, preflight
from tidegate.spark.readback import LogLost, OrderBroken

log = logging.getLogger(__name__)


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
        told = kafka_source.redact(str(refusal), job.reader)
        answer = {"message": told, "files": refusal.files, "rows": refusal.rows}
        _answer(directory / REFUSED, {**answer, "sent": _may_be_sent(spark, job)})
        log.error("tidegate: plan %s: %s", job.plan_id, told)
        return 1
    except Exception as error:
        told = kafka_source.redact(ingest.explain(error), job.reader)
        log.error("tidegate: plan %s: %s", job.plan_id, told)
        if isinstance(error, ConfigurationError):
            refuse(directory, told)
        return 1
    return 0


def send(spark: SparkSession, job: SendJob, directory: Path) -> dict[str, Any]:
    """Send the plan's rows that are not in the target yet; return what was verified.

    Raises Refused before the first record. `directory` gets the sign that sending has begun.
    """
    started = time.monotonic()
    shaped, inputs = preflight(spark, job)
    good = shaped.where(F.col("reason").isNull())
    rows, looked = sum(i["rows"] for i in inputs), time.monotonic() - started
    log.info("plan %s: %d rows are fit to be sent, %.2f s", job.plan_id, rows, looked)
    rest, resumed = _rest(spark, job, good)
    faults.point("send.before")
    _write(
        job,
        rest,
        sign=directory / SENDING,
        largest=max((each["largest"] for each in inputs), default=0),
    )
    faults.point("send.sent")
    log.info("plan %s: sent, %.2f s", job.plan_id, time.monotonic() - started)
    try:
        done = readback.verified(spark, job, good, inputs, resumed=resumed)
    except OrderBroken as error:
        raise Refused(str(error)) from error
    log.info("plan %s: verified, %.2f s", job.plan_id, time.monotonic() - started)
    return {**done, "versions": ingest.versions(spark)}


def _rest(spark: SparkSession, job: SendJob, good: DataFrame) -> tuple[DataFrame, bool]:
    """Return the rows that are not in the target, and whether any are."""
    try:
        before = readback.seen(spark, job, readback.ends(spark, job))
        if before is None or before.isEmpty():
            return good, False
        return readback.missing(job, good, before), True
    except (LogLost, OrderBroken) as error:
        raise Refused(str(error)) from error


def _may_be_sent(spark: SparkSession, job: SendJob) -> bool:
    """Say whether an earlier attempt may have sent anything; False means: proven by a scan."""
    try:
        before = readback.seen(spark, job, readback.ends(spark, job))
        return before is not None and not before.isEmpty()
    except Exception as error:
        log.warning("the target cannot be looked at: %s",
                    kafka_source.redact(ingest.explain(error), job.reader))  # fmt: skip
        return True


def _write(job: SendJob, rows: DataFrame, *, sign: Path, largest: int) -> None:
    if by := records.order(job):
        # One task for all of a group; its records are sent in the order of its rows.
        cores = rows.sparkSession.sparkContext.defaultParallelism
        partitions = sum(each.partitions for each in job.target.values())
        rows = rows.repartition(min(partitions, 4 * cores), *records.group(job))
        rows = rows.sortWithinPartitions("topic", "partition", *by)
    written = kafka_sink.render(
        job.reader,
        job.producer,
        client_id=job.client_id,
        largest_row=largest,
        largest_batch=min(each.largest for each in job.target.values()),
    )
    shaped = records.sent_as(rows, job)
    with session.writing_v1(rows.sparkSession):
        sign.touch()
        shaped.write.format("kafka").options(**written).save()


def _answer(path: Path, form: Mapping[str, Any]) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(form))
    temporary.replace(path)
