"""Check every row before the first record is sent; a refusal names files and rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.core.wording import counted
from tidegate.errors import LakeDamaged
from tidegate.settings import spark_lines
from tidegate.spark import content_digest, file_rows, readback, records, source_rows
from tidegate.spark.compatibility import condition
from tidegate.spark.compatibility import message as message_of
from tidegate.spark.egress_job import EgressJob
from tidegate.spark.expressions import NotAllowed, NotComputable, NotRepeatable
from tidegate.spark.failures import describe, java_causes
from tidegate.spark.hadoop_files import located
from tidegate.spark.records import RECORD, DoesNotFit
from tidegate.spark.row_frame import IDENTITY

_NAMED = 20  # bad rows that a refusal names
_OTHERS_GO = "; other files go with the next run"

# Errors of expressions on the content of a row: SQL's data exceptions, and raise_error.
_COMPUTED = re.compile(r"\[([A-Z_.]+)\].*SQLSTATE: (?:22\w{3}|P0001)", re.DOTALL)
_UNREADABLE = re.compile(r"FAILED_READ_FILE\S* Encountered error while reading file (\S+)\.\s")
# Java exceptions, by class or message, that do not blame the file: a retry may read it.
_TEMPORARY = re.compile(
    r"FileNotFound|AccessDenied|Connect|Socket|UnknownHost|Timeout|Interrupted|OutOfMemory|AWS|Sdk"
)
_DISK = re.compile(r"Input/output error|Stale (?:NFS )?file handle")

Files = tuple[tuple[str, str], ...]


class Refused(Exception):
    """Nothing may be sent; `files` are the bad files, `rows` the first bad rows."""

    def __init__(self, message: str, files: Iterable[str] = (), rows: Iterable[Any] = ()) -> None:
        super().__init__(message)
        self.files, self.rows = sorted(files), list(rows)


def preflight(spark: SparkSession, job: EgressJob) -> tuple[DataFrame, list[dict[str, Any]]]:
    """Check every row; return the records, and counts and digests of each file.

    Bad rows are written to quarantine if the plan says so; Refused otherwise.
    """
    if job.spark and spark_lines.line(spark.version) != job.spark:
        raise Refused(
            f"the driver has Spark {spark.version}, and the Spark that has started it is of "
            f"{job.spark}: give it the same minor version, say by spark.yarn.jars"
        )
    source = None if job.source.is_lake else job.source.format
    if why := spark_lines.complaint(spark.version, source, job.columns.values()):
        raise Refused(why)
    try:
        shaped = records.to_records(spark, job)
        _check_files_read(job, shaped)
        inputs = _summaries(job, shaped)
        read = _row_counts(spark, job, inputs)
    except (DoesNotFit, NotAllowed, NotComputable, NotRepeatable) as error:
        raise Refused(str(error)) from error
    except AnalysisException as error:
        if condition(error) == "PATH_NOT_FOUND":
            raise  # deleted since it was planned: the retry plans again
        # A ParseException is about source.columns or an expression.
        if not isinstance(error, ParseException) and (bad := _bad_files(spark, job, rows=False)):
            raise _unreadable(bad, describe(error)) from error
        # Behind the first line comes Spark's own plan.
        message = message_of(error).partition(";\n")[0]
        raise Refused(" ".join(message.split())[:1000]) from error
    except (CapturedException, Py4JJavaError) as error:
        raise _refusal_of(spark, job, error) from error
    if not job.source.is_lake:
        _check_numbering(job, inputs)
    _check_counts(job, read)
    bad_files = [each["file"] for each in inputs if each["bad"]]
    if bad_files and job.quarantine is None:
        bad_rows = shaped.where(F.col("reason").isNotNull()).select(*IDENTITY, "reason")
        first = [row.asDict() for row in bad_rows.orderBy(*IDENTITY).limit(_NAMED).collect()]
        listed = "; ".join(f"{r['file']}, row {r['row']}: {r['reason']}" for r in first[:5])
        count = counted(sum(each["bad"] for each in inputs), "row")
        remedy = (
            "Mend what is named, or set on_bad_row: quarantine"
            if job.source.is_lake  # whose rows nobody corrects
            else f"Correct or remove what is named, or set on_bad_row: quarantine{_OTHERS_GO}"
            ". Rows count from 0, without a header"
        )
        raise Refused(
            f"{count} cannot be sent: {listed}. {remedy}",
            bad_files,
            first,
        )
    if bad_files and job.quarantine is not None:
        bad_rows = shaped.where(F.col("reason").isNotNull())
        bad_rows = bad_rows.select(*IDENTITY, "reason", "text", *RECORD)
        bad_rows.repartition(1).write.parquet(located(job.quarantine))
    return shaped, inputs


def _check_files_read(job: EgressJob, shaped: DataFrame) -> None:
    """Check that Spark reads each file of the plan: it ignores some names silently."""
    planned = set() if job.source.is_lake else {name for name, _ in job.source.files}
    if planned and (ignored := planned - file_rows.files_read(job.source, shaped)):
        raise Refused(
            f"Spark does not read {', '.join(sorted(ignored)[:5])}: it takes such a name for a "
            f"file that is not finished. Rename or remove it{_OTHERS_GO}",
            ignored,
        )


def _summaries(job: EgressJob, shaped: DataFrame) -> list[dict[str, Any]]:
    """Return for each file its good and bad rows, digests, largest record and last row."""
    good = F.col("reason").isNull()
    summaries = shaped.groupBy("file").agg(
        F.count_if(good).alias("rows"),
        F.count_if(~good).alias("bad"),
        F.bit_xor(F.when(good, readback.digest(job))).alias("digest"),
        F.bit_xor(F.when(good, content_digest.row_digest())).alias("content"),
        F.max("bytes").alias("largest"),
        F.max("row").alias("last"),
        # Unused, but an order that fails, or cannot be sorted by, must do so before sending.
        *(F.max(f"order{i}").alias(f"order{i}") for i in range(len(job.order_by))),
    )
    return [row.asDict() for row in summaries.collect()]


def _check_numbering(job: EgressJob, inputs: Sequence[Mapping[str, Any]]) -> None:
    """Check that the rows of each file of the plan are numbered from 0, without gaps."""
    if unknown := {each["file"] for each in inputs} - {name for name, _ in job.source.files}:
        raise RuntimeError(f"Spark read {sorted(unknown)[:3]}, which are not in the plan")
    for each in inputs:
        count = each["rows"] + each["bad"]
        if each["last"] + 1 != count:
            raise RuntimeError(
                f"{each['file']}: {count} rows were read, the last is {each['last']}"
            )


def _row_counts(
    spark: SparkSession, job: EgressJob, inputs: Sequence[Mapping[str, Any]]
) -> dict[str, int]:
    """Return the rows read of each file, including those that `where` excludes."""
    if job.source.where is None:
        return {each["file"]: each["rows"] + each["bad"] for each in inputs}
    rows = source_rows.select(spark, replace(job.source, where=None), {})
    return {row.file: row.n for row in rows.groupBy("file").agg(F.count("*").alias("n")).collect()}


def _check_counts(job: EgressJob, read: Mapping[str, int]) -> None:
    """Check that no row is lost or duplicated where footer or ledger have the number of rows."""
    wrong = {
        name: f"{name}: {read.get(name, 0)} rows were read, and it has {count}"
        for name, count in sorted(job.source.counts.items())
        if read.get(name, 0) != count
    }
    if wrong:
        raise Refused(
            f"{'; '.join([*wrong.values()][:5])}, by its footer or the ledger. Restore what has "
            "changed; of a lake, `tidegate verify` of its pipeline names the files",
            () if job.source.is_lake else wrong,
        )


def _refusal_of(spark: SparkSession, job: EgressJob, error: Exception) -> Exception:
    """Return a Refused if the error is the fault of a file or an expression, else the error."""
    source = job.source
    thrown = [(t.getClass().getName(), f"{t.getMessage() or ''}\n") for t in java_causes(error)]
    if any(_TEMPORARY.search(name) or _DISK.search(message) for name, message in thrown):
        return error
    reason = describe(error)
    if any(name == "java.lang.StackOverflowError" for name, _ in thrown):
        return _unreadable(_bad_files(spark, job, rows=True), reason)
    messages = [message for _, message in thrown]
    if found := _first_match(_UNREADABLE, messages):
        if source.is_lake:
            return LakeDamaged(
                f"{found[1]}, a file of the source's lake, cannot be read: {reason}. Nothing was "
                "sent. `tidegate verify` of its pipeline names what is damaged: restore it, or "
                "read its window again with `tidegate replay`"
            )
        file = file_rows.name_of(source, found[1])
        if "CSV header" in reason and source.columns is None:
            if bad := _bad_files(spark, job, rows=True):
                return _unreadable(bad, "its own header does not name its columns (one has no "
                                   "name, or two have the same)")  # fmt: skip
            return Refused(
                f"{file} has another header than {source.files[0][0]}: {reason}. Keep them apart "
                "by source.path, or give source.columns"
            )
        return Refused(f"{file} cannot be read: {reason}. Correct or remove it{_OTHERS_GO}", [file])
    if found := _first_match(_COMPUTED, messages):
        files = () if source.is_lake else _failing_file(spark, job)
        where = f" on a row of {files[0]}" if files else ""
        of = "where, `columns` or order_by" if source.where else "`columns` or order_by"
        return Refused(  # without Spark's own message, which quotes the row
            f"an expression of {of} fails{where}: {found[1]}. Correct the row or "
            f"the expression (try_cast gives null){_OTHERS_GO if files else ''}",
            files,
        )
    return error


def _first_match(pattern: re.Pattern[str], messages: Iterable[str]) -> re.Match[str] | None:
    return next((found for message in messages if (found := pattern.search(message))), None)


def _unreadable(files: Sequence[str], why: str) -> Refused:
    return Refused(
        f"{', '.join(files[:5])} cannot be read: {why}. Correct or remove what is named, or give "
        f"source.columns{_OTHERS_GO}",
        files,
    )


def _bad_files(
    spark: SparkSession, job: EgressJob, *, rows: bool, files: Files | None = None
) -> list[str]:
    """Return the files that cannot be read even alone, by bisection; `rows`: read their rows."""
    files = job.source.files if files is None else files
    if job.source.is_lake or not files:
        return []
    try:
        selected = source_rows.select(spark, replace(job.source, files=files), {})
        if rows:
            selected.groupBy("file").count().collect()
        return []
    except (CapturedException, Py4JJavaError):
        if len(files) == 1:
            return [files[0][0]]
    halves = files[: len(files) // 2], files[len(files) // 2 :]
    return [name for half in halves for name in _bad_files(spark, job, rows=rows, files=half)]


def _failing_file(spark: SparkSession, job: EgressJob) -> Sequence[str]:
    """Return one file on whose rows the expressions fail, by bisection; nothing if none does."""
    files = job.source.files
    while len(files) > 1:
        half = files[: len(files) // 2]
        files = half if _fails(spark, job, half) else files[len(half) :]
    return [name for name, _ in files] if _fails(spark, job, files) else []


def _fails(spark: SparkSession, job: EgressJob, files: Files) -> bool:
    part = replace(job, source=replace(job.source, files=files))
    try:
        _summaries(part, records.to_records(spark, part))
    except (AnalysisException, NotComputable):
        return False  # without the other files a column may be missing
    except (CapturedException, Py4JJavaError):
        return True
    return False
