"""The egress application: check all rows, send what the target lacks, read back what it holds."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate import faults
from tidegate.core.count_proof import NotProven
from tidegate.spark import (
    delegation_tokens,
    kafka_source,
    producer_settings,
    producer_table,
    readback,
    records,
    session,
    sink,
    target_records,
    unchanged_rows,
)
from tidegate.spark.answers import Answers, answers_in_lake
from tidegate.spark.bad_files import SPARK_ERRORS
from tidegate.spark.delegation_tokens import NO_TOKENS, Tokens
from tidegate.spark.egress_job import DONE, REFUSED, SENDING, EgressJob, Proven, Refusal
from tidegate.spark.failures import note_needed_right, report_failure
from tidegate.spark.job_files import merge_logins
from tidegate.spark.preflight import Refused, preflight, read_all, refusal_of, refuse_spark
from tidegate.spark.readback import OrderBroken
from tidegate.spark.received_job import receive_job
from tidegate.spark.row_frame import FileRows
from tidegate.spark.target_records import LogLost, TooManyUnreadable

_BEGUN = "begun"  # some stores take an empty object for a directory
MOST_SCANS = 400  # of files, by the tasks that each read one partition

log = logging.getLogger(__name__)


def main(*args: str) -> int:
    """Send the rows of the job that the arguments name. Return the exit code."""
    job, answers = receive_job(EgressJob, args)
    try:
        with delegation_tokens.obtain_tokens(job.logins, job.records) as tokens:
            spark = session.create_session(job.app_name)
            try:
                return attempt_sending(spark, job, answers, tokens)
            finally:
                spark.stop()
    except Exception as error:
        secrets = merge_logins(job.options, job.logins)
        return report_failure(error, "starting Spark", secrets, answers)


def attempt_sending(
    spark: SparkSession, job: EgressJob, answers: Answers, tokens: Tokens = NO_TOKENS
) -> int:
    """Send a plan's rows. Return 0 and answer DONE, or return 1.

    When the rows are refused, REFUSED says why. A failure is logged as one last line.
    """
    try:
        with tokens.used_by(spark):
            session.configure_session(spark)
            answers.create(DONE, json.dumps(send_missing_rows(spark, job, answers).to_json()))
    except Refused as refusal:
        message = kafka_source.redact_options(str(refusal), job.options)
        files = {
            f: kafka_source.redact_options(why, job.options) for f, why in refusal.files.items()
        }
        answers.create(REFUSED, json.dumps(Refusal(message, files).to_json()))
        log.error("tidegate: plan %s: %s", job.plan_id, message)
        return 1
    except Exception as error:
        began = answers.read(SENDING) is not None
        return report_failure(error, f"plan {job.plan_id}", job.options, answers, began=began)
    return 0


def send_missing_rows(spark: SparkSession, job: EgressJob, answers: Answers) -> Proven:
    """Send the plan's rows that the target lacks. Return what was proven of them.

    Raises Refused when rows cannot be sent: then, none was sent by this attempt. Answers
    SENDING before the first record.
    """
    started = time.monotonic()
    inputs = unchanged_rows.known_inputs(job) or []
    tables = producer_table.look_before(spark, job, _count(inputs))
    if tables is not None:
        refuse_spark(spark, job)
        tables = tables if _are_in_time(spark, job) else None  # the look says which are not
    if is_known := tables is not None:  # counts, which fewer rows than planned do not fit, prove it
        good = records.to_records(spark, job)
    else:
        shaped, inputs = preflight(spark, job)
        # Without a bad row the passes behind need not compute why a row would be one.
        has_bad = any(each.bad for each in inputs)
        good = shaped.where(F.col("reason").isNull()) if has_bad else shaped
        tables = producer_table.look_before(spark, job, _count(inputs))
    checked = time.monotonic() - started
    log.info("plan %s: %d rows are fit to be sent, %.2f s", job.plan_id, _count(inputs), checked)
    rest = _rest(spark, job, good) if job.resumed else good
    faults.point("send.before")
    rows = order_rows(job, rest, inputs)
    largest = max((each.largest for each in inputs), default=0)
    if is_known:
        rows = unchanged_rows.observe_digests(job, rows, inputs)
    try:
        digests = write_records(job, rows, answers, largest=largest)
    except SPARK_ERRORS as error:
        found = refusal_of(job, error, began=True) if is_known else error
        if found is error:
            raise
        raise found from error  # of a file of the lake, which no look has read
    faults.point("send.sent")
    log.info("plan %s: sent, %.2f s", job.plan_id, time.monotonic() - started)
    if is_known:
        inputs = unchanged_rows.add_digests(inputs, digests or ())
    done = _proven(spark, job, good, inputs, tables, is_known=is_known)
    log.info("plan %s: verified, %.2f s", job.plan_id, time.monotonic() - started)
    return replace(done, versions=session.read_versions(spark))


def _are_in_time(spark: SparkSession, job: EgressJob) -> bool:
    try:
        return not job.keeps_time or unchanged_rows.are_in_time(spark, job)
    except SPARK_ERRORS as error:
        raise refusal_of(job, error) from error


def _count(inputs: Sequence[FileRows]) -> int:
    return sum(each.rows for each in inputs)


def _proven(
    spark: SparkSession,
    job: EgressJob,
    good: DataFrame,
    inputs: Sequence[FileRows],
    tables: producer_table.Tables | None,
    *,
    is_known: bool,
) -> Proven:
    """Return what is in the target: by counts, or by reading back all that was sent.

    `is_known`: no pass but that which sent them has seen the rows. They are looked at before they
    are compared.
    """
    if tables is not None:
        try:
            rows, ends = producer_table.sent_rows(spark, job, good, inputs, tables)
            return readback.conclude(job, good, inputs, ends, rows, proof="counts")
        except NotProven as error:
            log.info("plan %s: all is read back: %s", job.plan_id, error)
    if is_known:
        _, inputs = read_all(spark, job)
    try:
        return readback.verify_target(spark, job, good, inputs)
    except (LogLost, OrderBroken, TooManyUnreadable) as error:
        raise Refused(str(error)) from error


def _rest(spark: SparkSession, job: EgressJob, good: DataFrame) -> DataFrame:
    """Return the rows that the target lacks."""
    try:
        before = target_records.records_of_plan(spark, job, target_records.read_ends(spark, job))
        return good if before is None else readback.missing_rows(job, good, before)
    except (LogLost, OrderBroken, TooManyUnreadable) as error:
        raise Refused(str(error)) from error


def order_rows(job: EgressJob, rows: DataFrame, inputs: Sequence[FileRows]) -> DataFrame:
    """Return the rows in their order within each group, each group in one task.

    A lake that keeps its partitions is not shuffled: of each the rows are read by a task of its
    own.
    """
    if not (by := records.order_columns(job)):
        return rows
    placed = {p for each in inputs for p in each.placed}
    known = sorted(p for p in placed if p is not None)
    places = [(topic, p) for topic in sorted(job.target) for p in known]
    keeps = job.source.is_lake and job.columns["partition"].strip() == "partition"
    may_scan = None not in placed and 0 < len(places) * len(job.source.files) <= MOST_SCANS
    if keeps and may_scan and not job.resumed:
        rows = reduce(
            DataFrame.union,
            (
                rows.where((F.col("topic") == topic) & (F.col("partition") == p)).coalesce(1)
                for topic, p in places
            ),
        )
    else:
        cores = rows.sparkSession.sparkContext.defaultParallelism
        partitions = sum(each.partitions for each in job.target.values())
        rows = rows.repartition(min(partitions, 4 * cores), *records.group_columns(job))
    return rows.sortWithinPartitions("topic", "partition", *by)


def write_records(
    job: EgressJob, rows: DataFrame, answers: Answers, *, largest: int
) -> list[Any] | None:
    """Send rows. Return what is observed of them, if anything."""
    options = producer_settings.sink_options(
        job.options,
        job.producer,
        client_id=job.client_id,
        largest_row=largest,
        largest_batch=min(each.largest for each in job.target.values()),
        keeps_time=job.keeps_time,
    )
    shaped = records.add_provenance(rows, job)
    # It outlives this process and its submitter: what is not there was not begun.
    answers_in_lake(job.mark, rows.sparkSession._jvm).create(SENDING, _BEGUN)
    with note_needed_right("WRITE"):
        answers.create(SENDING, _BEGUN)
        return sink.save_records(shaped, options)
