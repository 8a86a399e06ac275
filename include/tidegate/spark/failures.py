"""The failure of an application: what Java has thrown, in one line, without secrets."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from tidegate.core.java_logins import is_away
from tidegate.errors import (
    ConfigurationError,
    LakeDamaged,
    NotAuthenticated,
    NotAuthorised,
    OtherFormat,
    TidegateError,
)
from tidegate.spark.answers import FAILURE, Answers
from tidegate.spark.job_files import write_refusal
from tidegate.spark.kafka_source import redact_options

_WRAPPERS = {
    "org.apache.spark.SparkException",
    "java.lang.reflect.InvocationTargetException",
    "java.util.concurrent.ExecutionException",
}
# Full names: an executor's exception may be there only as text of another one.
_KAFKA = r"\borg\.apache\.kafka\.common\.errors\."
_LOGIN = re.compile(
    _KAFKA + r"(SaslAuthentication|SslAuthentication|UnsupportedSaslMechanism)Exception\b"
    r"|\bjavax\.security\.auth\.login\.(Failed)?LoginException\b"
)
_RIGHT = re.compile(_KAFKA + r"[A-Z]\w*AuthorizationException\b")

log = logging.getLogger(__name__)


@contextmanager
def note_needed_right(right: str) -> Iterator[None]:
    """Note on an error which right the block needs: a broker that denies it does not name it."""
    try:
        yield
    except Exception as error:
        error.add_note(right)
        raise


def report_failure(
    error: Exception,
    doing: str,
    options: Mapping[str, str],
    answers: Answers,
    *,
    began: bool = False,
) -> int:
    """Log an error as one last line, `tidegate: <what>`, without the secrets among `options`.

    It is an answer, too. For an error that a retry would have again, so is a refusal: of Tidegate's
    own errors, and for what the broker refused. `began`: some of the work is done, so the
    login was accepted before, and a retry may have the present password or token. Returns the exit
    code.
    """
    said = redact_options(describe(error), options)
    refusal: type[TidegateError] | None = None
    if isinstance(error, ConfigurationError | LakeDamaged | NotAuthenticated | OtherFormat):
        refusal = type(error)
    elif _RIGHT.search(describe_thrown(error)):
        refusal = NotAuthorised
        right = getattr(error, "__notes__", ["READ"])[-1]
        said = f"not permitted: {right}: {said}"
    elif is_refused_login(error) and not began:
        refusal = NotAuthenticated
    message = f"{doing}: {said}"
    log.error("tidegate: %s", message)
    answers.create(FAILURE, message)
    if refusal:
        write_refusal(answers, refusal(message))
    return 1


def is_refused_login(error: BaseException) -> bool:
    """Return whether an error is a login or TLS handshake that was refused."""
    said = describe_thrown(error)
    return bool(_LOGIN.search(said)) and not is_away(said)


def describe_thrown(error: BaseException) -> str:
    """Return the full names and messages of the Java exceptions behind an error, uncut."""
    return "\n".join(f"{t.getClass().getName()}: {t.getMessage()}" for t in java_causes(error))


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
