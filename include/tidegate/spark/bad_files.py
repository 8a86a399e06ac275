"""The files of a plan that cannot be sent, each found by itself, with the reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from tidegate.core.wording import counted
from tidegate.spark import records, source_rows
from tidegate.spark.egress_job import EgressJob, RowSource
from tidegate.spark.expressions import NotComputable
from tidegate.spark.failures import describe, java_causes
from tidegate.spark.spark_versions import error_condition

SPARK_ERRORS = CapturedException, Py4JJavaError
UNREADABLE = re.compile(r"FAILED_READ_FILE\S{0,99} Encountered error while reading file (\S+)\.\s")
# Errors of expressions on the content of a row: SQL's data exceptions, and raise_error.
_CONDITION = re.compile(r"\[([A-Z_.]+)\]")
_COMPUTED = re.compile(r"SQLSTATE: (?:22\w{3}|P0001)")
# Java exceptions that do not blame the file: a retry may read it. By class, also of one that is
# there only as text of another; and by message.
_TEMPORARY = re.compile(
    r"FileNotFound|AccessDenied|Connect|Socket|SSL|NoRoute|UnknownHost|NoHttpResponse|Timeout"
    r"|Interrupt|ClosedChannel|BlockMissing|OutOfMemory|AWS|Sdk|SnappyError|ClassNotFound"
    r"|NoClassDefFound|UnsatisfiedLink"
)
_CLASS = re.compile(r"(?<=\w\.)[A-Z]\w*+(?:(?<=\wException)|(?<=\wError))")
_MACHINE = re.compile(
    r"Input/output error|Stale (?:NFS )?file handle|No space left on device|Too many open files"
    r"|Cannot allocate memory|Connection (?:timed out|reset)|endpoint is not connected"
)
MOST = 200
"""Files that are found bad before a plan is refused: each may take several jobs of Spark."""
_LONGEST = 500  # characters of a reason


class BadFiles(Exception):
    """Files of a plan that cannot be sent, by name, with the reasons."""

    def __init__(self, files: Mapping[str, str]) -> None:
        super().__init__(f"{counted(len(files), 'file')} cannot be sent")
        self.files = {name: why[:_LONGEST] for name, why in files.items()}


def drop_files(job: EgressJob, names: Iterable[str]) -> EgressJob:
    """Return the job without some of its files."""
    left_out = set(names)
    files = tuple(each for each in job.source.files if each[0] not in left_out)
    return replace(job, source=replace(job.source, files=files))


def blame_files(spark: SparkSession, job: EgressJob, error: Exception) -> dict[str, str]:
    """Return the files for which the job has failed, with the reasons. None if it was no file.

    Each fails also alone: they are found by bisection, and no more than MOST.
    """
    if job.source.is_lake or _why(job.source, error) is None:
        return {}
    return dict(islice(_bisected(spark, job), MOST))


def failing_expression(source: RowSource, error: Exception) -> str | None:
    """Return how an expression has failed on the content of a row, without the row; else None."""
    if is_temporary(error):
        return None
    found = next(filter(None, (_computed(message) for _, message in thrown_errors(error))), None)
    of = "where, `columns` or order_by" if source.where else "`columns` or order_by"
    return found and f"an expression of {of} fails on a row: {found[1]} (try_cast gives null)"


def is_temporary(error: Exception) -> bool:
    """Return whether a retry may succeed without a change of file or settings."""
    if isinstance(error, AnalysisException):
        return error_condition(error) == "PATH_NOT_FOUND"  # deleted since: the retry plans again
    thrown = thrown_errors(error)
    # The message of an expression that fails quotes the row, which may be a line of a log.
    said = [message for _, message in thrown if not _computed(message)]
    names = [name for name, _ in thrown] + [each for text in said for each in _CLASS.findall(text)]
    return any(map(_TEMPORARY.search, names)) or any(map(_MACHINE.search, said))


def _computed(message: str) -> re.Match[str] | None:
    """Return the first condition in front of a state of a data exception."""
    ends = [found.start() for found in _COMPUTED.finditer(message)]
    return _CONDITION.search(message, 0, ends[-1]) if ends else None


def first_match(pattern: re.Pattern[str], error: Exception) -> re.Match[str] | None:
    """Return where a pattern is first found in the messages of an error's causes."""
    return next((m for _, message in thrown_errors(error) if (m := pattern.search(message))), None)


def thrown_errors(error: Exception) -> list[tuple[str, str]]:
    """Return class and message of an error and its causes."""
    return [(t.getClass().getName(), f"{t.getMessage() or ''}\n") for t in java_causes(error)]


def _bisected(spark: SparkSession, job: EgressJob) -> Iterator[tuple[str, str]]:
    files = job.source.files
    if not files or (error := _failure(spark, job)) is None:
        return
    if len(files) == 1:
        why = _why(job.source, error)
        if why is None:
            raise error
        yield files[0][0], why
        return
    halves = files[: len(files) // 2], files[len(files) // 2 :]
    for half in halves:
        yield from _bisected(spark, replace(job, source=replace(job.source, files=half)))


def _failure(spark: SparkSession, job: EgressJob) -> Exception | None:
    """Return the error of reading all rows and computing all columns, if there is one."""
    failure: Exception | None = None
    try:
        source_rows.select_rows(spark, job.source, {})
    except SPARK_ERRORS as error:
        failure = error
    else:
        try:
            records.to_records(spark, job).write.format("noop").mode("overwrite").save()
        except (AnalysisException, NotComputable):
            pass  # the pipeline's columns: no file is to blame
        except SPARK_ERRORS as error:
            failure = error
    return failure


def _why(source: RowSource, error: Exception) -> str | None:
    """Return why the file that has been read is bad. None if the error does not blame it."""
    if is_temporary(error) or isinstance(error, ParseException):
        return None
    if isinstance(error, AnalysisException) or first_match(UNREADABLE, error):
        return f"cannot be read: {describe(error)}"
    if any(name == "java.lang.StackOverflowError" for name, _ in thrown_errors(error)):
        return f"cannot be read: {describe(error)}"
    return failing_expression(source, error)
