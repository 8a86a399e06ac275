"""Running the doctor's checks. Each line that is not ok names a fix."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from tidegate.core.json_codec import Document
from tidegate.errors import TidegateError

FORMAT = 1
_THREADS = 8

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Line(Document):
    """One result: state `ok`, `warning` or `failure`. The last two have a `fix`."""

    check: str
    state: str
    says: str
    fix: str | None = None
    pipeline: str | None = None


@dataclass(frozen=True, kw_only=True)
class Diagnosis(Document):
    """The lines of all checks (contract: `doctor --json`)."""

    format: int = FORMAT
    checks: tuple[Line, ...]
    warnings: int
    failures: int


@dataclass(frozen=True)
class Check:
    """A named function that yields lines. `pipeline` is None for a check of this machine."""

    name: str
    ask: Callable[[], Iterator[Line]]
    pipeline: str | None = None


def ok(check: str, says: str) -> Line:
    """Return a line about something in order."""
    return Line(check, "ok", says)


def warning(check: str, says: str, fix: str) -> Line:
    """Return a line about something that may become a failure."""
    return Line(check, "warning", says, fix)


def failure(check: str, says: str, fix: str) -> Line:
    """Return a line about something that makes runs fail, or loses records."""
    return Line(check, "failure", says, fix)


def run_checks(checks: Sequence[Check]) -> Diagnosis:
    """Run all checks in parallel and return their lines, in order. One that raises is a failure."""
    with ThreadPoolExecutor(_THREADS) as pool:
        lines = tuple(line for of_check in pool.map(_run, checks) for line in of_check)
    states = [line.state for line in lines]
    return Diagnosis(
        checks=lines, warnings=states.count("warning"), failures=states.count("failure")
    )


def _run(check: Check) -> list[Line]:
    lines: list[Line] = []
    try:
        lines.extend(check.ask())
    except TidegateError as error:
        what, _, fix = str(error).partition("; ")
        if "\n" in str(error):
            what, fix = str(error), "correct what is listed"
        fix = fix or error.fix
        lines.append(failure(check.name, what, fix))
    except Exception as error:
        logger.exception("%s: the check itself failed", check.name)
        says = f"the check itself failed: {type(error).__name__}: {error}"
        lines.append(failure(check.name, says, "report it, with the log"))
    return [replace(line, pipeline=check.pipeline) for line in lines]
