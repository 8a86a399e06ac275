"""Check every row before the first record is sent. A refusal names files and rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.core.wording import counted
from tidegate.errors import LakeDamaged
from tidegate.settings import spark_lines
from tidegate.spark import (
    bad_files,
    records,
    source_files,
    source_rows,
)
from tidegate.spark.bad_files import SPARK_ERRORS, BadFiles
from tidegate.spark.egress_job import EgressJob
from tidegate.spark.expressions import NotAllowed, NotComputable, NotRepeatable
from tidegate.spark.failures import describe
from tidegate.spark.hadoop_files import with_scheme
from tidegate.spark.records import RECORD, DoesNotFit
from tidegate.spark.row_frame import IDENTITY, WHOLE_FILE, FileRows
from tidegate.spark.spark_versions import error_message as message_of

_NAMED = 5  # bad rows or files that a message names
_DIGITS = re.compile("[0-9]+")  # reasons that differ in numbers are named once


class Refused(Exception):
    """Nothing may be sent. `files` are those that cannot be sent, with the reasons.

    The others may be sent by another plan.
    """

    def __init__(self, message: str, files: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.files = dict(files or {})


class Checked(NamedTuple):
    """The records of a job that may be sent, and what is known of each file."""

    records: DataFrame
    inputs: list[FileRows]


def preflight(spark: SparkSession, job: EgressJob) -> Checked:
    """Check every row. Bad ones are written to quarantine if the plan says so.

    Raises Refused for what cannot be sent. All bad files are found first.
    """
    refuse_spark(spark, job)
    bad: dict[str, str] = {}
    while True:
        try:
            shaped, inputs = read_all(spark, job)
            break
        except (DoesNotFit, NotAllowed, NotComputable, NotRepeatable) as error:
            raise Refused(str(error)) from error
        except BadFiles as found:
            new = found.files
        except SPARK_ERRORS as error:
            if not (new := bad_files.blame_files(spark, job, error)):
                raise refusal_of(job, error) from error
        bad |= new
        job = bad_files.drop_files(job, new)
        if not job.source.files or len(bad) >= bad_files.MOST:
            raise _refused(bad)
    if any(each.bad for each in inputs):
        bad_rows = shaped.where(F.col("reason").isNotNull())
        if job.quarantine is None:
            bad |= _with_bad_rows(job, bad_rows)
        elif not bad:
            bad_rows = bad_rows.select(*IDENTITY, "reason", "text", *RECORD)
            bad_rows.repartition(1).write.parquet(with_scheme(job.quarantine))
    if bad:
        raise _refused(bad)
    return Checked(shaped, inputs)


def refuse_spark(spark: SparkSession, job: EgressJob) -> None:
    """Raise Refused for another Spark than the job is for, or a Spark that lacks what it needs."""
    if job.spark and spark_lines.line_of(spark.version) != job.spark:
        raise Refused(
            f"the driver has Spark {spark.version}, and the Spark that has started it is of "
            f"{job.spark}: give it the same minor version, say by spark.yarn.jars"
        )
    source, is_typed = job.source, False
    if not source.is_lake:
        from tidegate.spark import formats

        is_typed = formats.format_of_files(source.format).needs_whole_spark(source.columns)
    if why := spark_lines.version_complaint(spark.version, job.columns.values(), is_typed=is_typed):
        raise Refused(why)


def _refused(bad: Mapping[str, str]) -> Refused:
    alike: dict[str, list[tuple[str, str]]] = {}
    for name, why in sorted(bad.items()):
        alike.setdefault(_DIGITS.sub("0", why), []).append((name, why))
    named = "; ".join(
        f"{name}: {why}" + (f" (and {counted(len(more), 'more file')} alike)" if more else "")
        for (name, why), *more in [*alike.values()][:_NAMED]
    )
    return Refused(f"{counted(len(bad), 'file')} cannot be sent: {named}", bad)


def read_all(spark: SparkSession, job: EgressJob) -> tuple[DataFrame, list[FileRows]]:
    """Read every row. Return the records, and counts and digests of each file.

    BadFiles for files that Spark does not read, or not as a whole. Refused for such a lake.
    """
    shaped = records.to_records(spark, job)
    _check_files_read(spark, job, shaped)
    inputs = _summaries(job, shaped)
    if unfit := {each.file: each.unfit for each in inputs if each.unfit}:
        raise BadFiles(unfit)
    read = _row_counts(spark, job, inputs)
    if not job.source.is_lake:
        _check_numbering(job, inputs)
    _check_counts(job, read)
    return shaped, inputs


def _with_bad_rows(job: EgressJob, bad_rows: DataFrame) -> dict[str, str]:
    """Return the files with rows that cannot be sent, the first of each named. Refused for a lake,
    whose rows nobody corrects.
    """
    if job.source.is_lake:
        kind = F.regexp_replace("reason", _DIGITS.pattern, "0")
        first, number = F.min(F.struct("file", "row", "reason")), F.count("*")
        kinds = bad_rows.groupBy(kind).agg(first.alias("first"), number.alias("n")).collect()
        listed = "; ".join(
            f"{counted(n, 'row')}: {first.reason} (the first: {first.file}, row {first.row})"
            for _, first, n in sorted(kinds, key=lambda each: each.first)[:_NAMED]
        )
        raise Refused(
            f"{counted(sum(each.n for each in kinds), 'row')} cannot be sent: {listed}. Mend what "
            "is named, or set on_bad_row: quarantine"
        )
    first = F.min(F.struct("row", "reason")).alias("first")
    found = bad_rows.groupBy("file").agg(first, F.count("*").alias("n")).collect()
    return {
        each.file: f"row {each.first.row}: {each.first.reason}"
        + (f", and {counted(each.n - 1, 'other bad row')}" if each.n > 1 else "")
        for each in sorted(found)
    }


def _check_files_read(spark: SparkSession, job: EgressJob, shaped: DataFrame) -> None:
    """Check that Spark reads each file of the plan: it ignores some names silently."""
    source = job.source
    planned = {name for name, _ in source.files}
    if source.is_lake or not planned:
        return
    from tidegate.spark import formats

    listed = formats.format_of_files(source.format).listed(spark, source, shaped)
    if ignored := planned - source_files.files_read(source, listed):
        why = "Spark does not read it: it takes such a name for a file that is not finished"
        raise BadFiles(dict.fromkeys(ignored, why))


def _summaries(job: EgressJob, shaped: DataFrame) -> list[FileRows]:
    """Return for each file its good and bad rows, digests, largest record and last row."""
    good = F.col("reason").isNull()
    partition = F.when(good, F.col("partition")) if records.has_partition(job) else F.lit(None)
    summaries = shaped.groupBy("file", partition.cast("long").alias("at")).agg(
        F.count_if(good).alias("rows"),
        F.count_if(~good).alias("bad"),
        F.bit_xor(F.when(good, records.content_digest(job))).alias("digest"),
        F.max("bytes").alias("largest"),
        F.max("row").alias("last"),
        F.max(F.when(F.col("row") == WHOLE_FILE, F.col("reason"))).alias("unfit"),
        # Unused, but an order that fails, or cannot be sorted by, must do so before sending.
        *(F.max(f"order{i}").alias(f"order{i}") for i in range(len(job.order_by))),
    )
    files: dict[str, FileRows] = {}
    for row in summaries.collect():
        file = files.setdefault(row.file, FileRows(row.file))
        file.rows += row.rows
        file.bad += row.bad
        file.largest = max(file.largest, row.largest or 0)
        file.last = max(file.last, row.last)
        file.unfit = file.unfit or row.unfit
        if row.rows:
            file.placed[row.at] = row.rows, row.digest
    return list(files.values())


def _check_numbering(job: EgressJob, inputs: Sequence[FileRows]) -> None:
    """Check that the rows of each file of the plan are numbered from 0, without gaps."""
    if unknown := {each.file for each in inputs} - {name for name, _ in job.source.files}:
        raise RuntimeError(f"Spark read {sorted(unknown)[:3]}, which are not in the plan")
    for each in inputs:
        count = each.rows + each.bad
        if each.last + 1 != count:
            raise RuntimeError(f"{each.file}: {count} rows were read, the last is {each.last}")


def _row_counts(spark: SparkSession, job: EgressJob, inputs: Sequence[FileRows]) -> dict[str, int]:
    """Return the rows read of each file, including those that `where` excludes."""
    if job.source.where is None:
        return {each.file: each.rows + each.bad for each in inputs}
    rows = source_rows.select_rows(spark, replace(job.source, where=None), {})
    return {row.file: row.n for row in rows.groupBy("file").agg(F.count("*").alias("n")).collect()}


def _check_counts(job: EgressJob, read: Mapping[str, int]) -> None:
    """Check that no row is lost or duplicated where footer or ledger have the number of rows."""
    files = {name for name, _ in job.source.files}
    wrong = {
        name: f"{counted(read.get(name, 0), 'row')} read, and it has {count:,}"
        for name, count in sorted(job.source.counts.items())
        if read.get(name, 0) != count and (job.source.is_lake or name in files)
    }
    if wrong and not job.source.is_lake:
        raise BadFiles({name: f"{why}, by its footer" for name, why in wrong.items()})
    if wrong:
        named = "; ".join(f"{name}: {why}" for name, why in [*wrong.items()][:_NAMED])
        raise Refused(
            f"{named}, by the ledger. Restore what has changed: `tidegate verify` of its pipeline "
            "names the files"
        )


def refusal_of(job: EgressJob, error: Exception, *, began: bool = False) -> Exception:
    """Return a refusal if the error is the fault of the lake or an expression, else the error.

    `began`: some rows may be sent.
    """
    if bad_files.is_temporary(error):
        return error
    if isinstance(error, AnalysisException):  # a ParseException: source.columns or an expression
        # Behind the first line comes Spark's own plan.
        message = message_of(error).partition(";\n")[0]
        return Refused(" ".join(message.split())[:1000])
    if job.source.is_lake and (found := bad_files.first_match(bad_files.UNREADABLE, error)):
        return LakeDamaged(
            f"{found[1]}, a file of the source's lake, cannot be read: {describe(error)}. "
            + ("" if began else "Nothing was sent. ")
            + "`tidegate verify` of its pipeline names what is damaged: restore it, or read its "
            "window again with `tidegate replay`"
        )
    failed = bad_files.failing_expression(job.source, error)
    return Refused(f"{failed}. Correct the row or the expression") if failed else error
