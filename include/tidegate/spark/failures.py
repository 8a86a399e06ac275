"""The failure of an application: what Java has thrown, in one line, without secrets."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from tidegate.errors import ConfigurationError
from tidegate.spark.job_files import write_refusal
from tidegate.spark.kafka_source import redact

_WRAPPERS = {
    "org.apache.spark.SparkException",
    "java.lang.reflect.InvocationTargetException",
    "java.util.concurrent.ExecutionException",
}

log = logging.getLogger(__name__)


def report_failure(
    error: Exception, doing: str, options: Mapping[str, str], directory: Path
) -> int:
    """Log an error as one last line, `tidegate: <what>`, without the secrets among `options`.

    For a ConfigurationError a refusal is written into `directory`. Returns the exit code.
    """
    message = f"{doing}: {redact(describe(error), options)}"
    log.error("tidegate: %s", message)
    if isinstance(error, ConfigurationError):
        write_refusal(directory, message)
    return 1


def java_causes(error: BaseException) -> Iterator[Any]:
    """Yield the Java exceptions behind an error, the outermost first."""
    thrown: Any = None
    if isinstance(error, CapturedException):
        thrown = error._origin
    elif isinstance(error, Py4JJavaError):
        thrown = error.java_exception
    while thrown is not None:
        yield thrown
        thrown = thrown.getCause()


def describe(error: BaseException) -> str:
    """Return one line: the error, or the Java exceptions behind it without mere wrappers."""
    lines = [
        _line(thrown.getClass().getSimpleName(), thrown.getMessage() or "")
        for thrown in java_causes(error)
        if thrown.getCause() is None or thrown.getClass().getName() not in _WRAPPERS
    ]
    return "; because of ".join(lines or [_line(type(error).__name__, str(error))])[:2000]


def _line(name: str, message: str) -> str:
    # When data is lost, the connector first advises to ignore that, and then gives the reason.
    reason = message.rpartition("Reason:")[2].partition("Driver stacktrace:")[0]
    return f"{name}: {' '.join(reason.split())}"
