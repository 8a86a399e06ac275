"""Look at every row before the first record is sent: what is wrong is said with file and row."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.spark import content, ingest, readback, records
from tidegate.spark import rows as source
from tidegate.spark.egress_job import SendJob
from tidegate.spark.expressions import NotAllowed, NotRepeatable
from tidegate.spark.json_lines import Odd
from tidegate.spark.locations import located
from tidegate.spark.records import IDENTITY, RECORD, DoesNotFit

_NAMED = 20  # bad rows that a refusal names

# What a row's own content makes an expression do: SQL's data exceptions, and raise_error.
_COMPUTED = re.compile(r"\[([A-Z_.]+)\].*SQLSTATE: (?:22\w{3}|P0001)", re.DOTALL)
_UNREADABLE = re.compile(r"FAILED_READ_FILE\S* Encountered error while reading file (\S+)\.\s")
# The file may be right, and the next try may read it.
_PASSING = re.compile(
    r"FileNotFound|AccessDenied|Connect|Socket|UnknownHost|Timeout|Interrupted|OutOfMemory|AWS|Sdk"
)


class Refused(Exception):
    """Nothing may be sent; `files` hold what is wrong, `rows` are the first of it."""

    def __init__(self, message: str, files: Iterable[str] = (), rows: Iterable[Any] = ()) -> None:
        super().__init__(message)
        self.files, self.rows = sorted(files), list(rows)


def preflight(spark: SparkSession, job: SendJob) -> tuple[DataFrame, list[dict[str, Any]]]:
    """Look at every row; return the shaped rows, and what each file holds.

    Bad rows are put into quarantine, if the plan says so; Refused otherwise.
    """
    try:
        shaped = records.shape(spark, job)
        _all_files(job, shaped)
        inputs = _counted(job, shaped)
        read = _read(spark, job, inputs)
    except (DoesNotFit, NotAllowed, NotRepeatable) as error:
        raise Refused(str(error)) from error
    except Odd as error:
        raise Refused(f"{error}{_OTHERS_GO if error.files else ''}", error.files) from error
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            raise  # gone since it was planned: the retry plans again
        ours = isinstance(error, ParseException)  # of source.columns, or an expression
        if not ours and (odd := _odd(spark, job, job.rows.files, rows=False)):
            raise _unreadable(odd, ingest.explain(error)) from error
        # Behind the first line comes Spark's own plan.
        told = (error.getMessage() or "").partition(";\n")[0]
        raise Refused(" ".join(told.split())[:1000]) from error
    except (CapturedException, Py4JJavaError) as error:
        raise _named(spark, job, error) from error
    if not job.rows.is_lake:
        _once(job, inputs)
    _all(job, read)
    bad_files = [each["file"] for each in inputs if each["bad"]]
    if bad_files and job.quarantine is None:
        bad = shaped.where(F.col("reason").isNotNull()).select(*IDENTITY, "reason")
        first = [row.asDict() for row in bad.orderBy(*IDENTITY).limit(_NAMED).collect()]
        listed = "; ".join(f"{r['file']}, row {r['row']}: {r['reason']}" for r in first[:5])
        count = sum(each["bad"] for each in inputs)
        raise Refused(
            f"{count} rows cannot be sent: {listed}. Correct or remove what is named, or set "
            f"on_bad_row: quarantine{_OTHERS_GO}",
            bad_files,
            first,
        )
    if bad_files:
        _quarantine(job, shaped)
    return shaped, inputs


_OTHERS_GO = "; other files go with the next run"


def _all_files(job: SendJob, shaped: DataFrame) -> None:
    """Check that Spark reads each file of the plan: some names it passes over without a word."""
    planned = set() if job.rows.is_lake else {name for name, _ in job.rows.files}
    if planned and (ignored := planned - source.files_read(job.rows, shaped)):
        raise Refused(
            f"Spark does not read {', '.join(sorted(ignored)[:5])}: it takes such a name for a "
            f"file that is not finished. Rename or remove it{_OTHERS_GO}",
            ignored,
        )


def _counted(job: SendJob, shaped: DataFrame) -> list[dict[str, Any]]:
    """Return of each file the rows that can be sent, those that cannot, digests, the largest."""
    good = F.col("reason").isNull()
    counted = shaped.groupBy("file").agg(
        F.count_if(good).alias("rows"),
        F.count_if(~good).alias("bad"),
        F.bit_xor(F.when(good, readback.digest(job))).alias("digest"),
        F.bit_xor(F.when(good, content.digest())).alias("content"),
        F.max("bytes").alias("largest"),
        F.max("row").alias("last"),
        # Not needed; but an order that fails, or is none, must do so before the first record.
        *(F.max(f"order{i}").alias(f"order{i}") for i in range(len(job.order_by))),
    )
    return [row.asDict() for row in counted.collect()]


def _once(job: SendJob, inputs: Sequence[Mapping[str, Any]]) -> None:
    """Check that every row of a file was read, and once: they are numbered from 0."""
    if strangers := {each["file"] for each in inputs} - {name for name, _ in job.rows.files}:
        raise RuntimeError(f"Spark read {sorted(strangers)[:3]}, which are not in the plan")
    for each in inputs:
        count = each["rows"] + each["bad"]
        if each["last"] + 1 != count:
            raise RuntimeError(
                f"{each['file']}: {count} rows were read, the last is {each['last']}"
            )


def _read(spark: SparkSession, job: SendJob, inputs: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many rows were read of each file, with those that `where` leaves out."""
    if job.rows.where is None:
        return {each["file"]: each["rows"] + each["bad"] for each in inputs}
    rows = source.select(spark, replace(job.rows, where=None), {})
    return {row.file: row.n for row in rows.groupBy("file").agg(F.count("*").alias("n")).collect()}


def _all(job: SendJob, read: Mapping[str, int]) -> None:
    """Check that no row is lost, or doubled, of what footer or ledger tells the number of rows."""
    wrong = {
        name: f"{name}: {read.get(name, 0)} rows were read, and it has {count}"
        for name, count in sorted(job.rows.counts.items())
        if read.get(name, 0) != count
    }
    if wrong:
        raise Refused(
            f"{'; '.join([*wrong.values()][:5])}, by its footer or the ledger. Restore what has "
            "changed; of a lake, `tidegate verify` of its pipeline names the files",
            () if job.rows.is_lake else wrong,
        )


def _quarantine(job: SendJob, shaped: DataFrame) -> None:
    bad = shaped.where(F.col("reason").isNotNull())
    assert job.quarantine is not None
    bad.select(*IDENTITY, "reason", "text", *RECORD).repartition(1).write.parquet(
        located(job.quarantine)
    )


def _named(spark: SparkSession, job: SendJob, error: Exception) -> Exception:
    """Return the refusal that a file's own fault deserves; any other error as it is."""
    causes = list(_causes(error))
    if any(_PASSING.search(name) for name, _ in causes):
        return error
    told = ingest.explain(error)
    if any(name == "java.lang.StackOverflowError" for name, _ in causes):
        return _unreadable(_odd(spark, job, job.rows.files, rows=True), told)
    reading = next((found for _, said in causes if (found := _UNREADABLE.search(said))), None)
    if reading and not job.rows.is_lake:
        file = source.name_of(job.rows, reading[1])
        if "CSV header" in told and job.rows.columns is None:
            if odd := _odd(spark, job, job.rows.files, rows=True):
                return _unreadable(odd, "its own header does not name its columns (one has no "
                                   "name, or two have the same)")  # fmt: skip
            return Refused(
                f"{file} has another header than {job.rows.files[0][0]}: {told}. Keep them apart "
                "by source.path, or give source.columns"
            )
        return Refused(f"{file} cannot be read: {told}. Correct or remove it{_OTHERS_GO}", [file])
    if failed := next((found for _, said in causes if (found := _COMPUTED.search(said))), None):
        files = () if job.rows.is_lake else _failing(spark, job)
        where = f" on a row of {files[0]}" if files else ""
        of = "where, `columns` or order_by" if job.rows.where else "`columns` or order_by"
        return Refused(  # Spark's own words would show the row
            f"an expression of {of} fails{where}: {failed[1]}. Correct the row or "
            f"the expression (try_cast gives null){_OTHERS_GO if files else ''}",
            files,
        )
    return error


def _unreadable(files: Sequence[str], why: str) -> Refused:
    return Refused(
        f"{', '.join(files[:5])} cannot be read: {why}. Correct or remove what is named, or give "
        f"source.columns{_OTHERS_GO}",
        files,
    )


def _odd(
    spark: SparkSession, job: SendJob, files: tuple[tuple[str, str], ...], *, rows: bool
) -> list[str]:
    """Return the files that cannot be read even alone, found by halves; `rows`: not their rows."""
    if job.rows.is_lake or not files:
        return []
    try:
        selected = source.select(spark, replace(job.rows, files=files), {})
        if rows:
            selected.groupBy("file").count().collect()
        return []
    except (CapturedException, Py4JJavaError, Odd):
        if len(files) == 1:
            return [files[0][0]]
    half = len(files) // 2
    return [
        *_odd(spark, job, files[:half], rows=rows), *_odd(spark, job, files[half:], rows=rows),
    ]  # fmt: skip


def _failing(spark: SparkSession, job: SendJob) -> Sequence[str]:
    """Return a file on whose rows the expressions fail, found by halves; nothing if it is none."""
    files = job.rows.files
    while len(files) > 1:
        half = files[: len(files) // 2]
        files = half if _fails(spark, job, half) else files[len(half) :]
    return [name for name, _ in files] if _fails(spark, job, files) else []


def _fails(spark: SparkSession, job: SendJob, files: tuple[tuple[str, str], ...]) -> bool:
    part = replace(job, rows=replace(job.rows, files=files))
    try:
        _counted(part, records.shape(spark, part))
    except AnalysisException:
        return False  # without the others it may lack a column
    except (CapturedException, Py4JJavaError):
        return True
    return False


def _causes(error: Exception) -> Iterator[tuple[str, str]]:
    """Yield class name and message of what Java has thrown, from the outermost on."""
    thrown = error._origin if isinstance(error, CapturedException) else None
    if isinstance(error, Py4JJavaError):
        thrown = error.java_exception
    while thrown is not None:
        yield thrown.getClass().getName(), f"{thrown.getMessage() or ''}\n"
        thrown = thrown.getCause()
