"""Doctor: whatever a run needs, looked at before it is missed; each line with its way out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from tidegate.errors import TidegateError

FORMAT = 1
_AT_ONCE = 8

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Line:
    """What one check says: `ok`, `warning` or `failure`, and for the last two how to mend it."""

    check: str
    state: str
    says: str
    fix: str | None = None
    pipeline: str | None = None


@dataclass(frozen=True)
class Check:
    """A question with a name; `pipeline` is None where it is about this machine."""

    name: str
    ask: Callable[[], Iterator[Line]]
    pipeline: str | None = None


def ok(check: str, says: str) -> Line:
    """Return a line that is well."""
    return Line(check, "ok", says)


def warning(check: str, says: str, fix: str) -> Line:
    """Return a line that may become a failure."""
    return Line(check, "warning", says, fix)


def failure(check: str, says: str, fix: str) -> Line:
    """Return a line that keeps runs from succeeding, or loses records."""
    return Line(check, "failure", says, fix)


def examine(checks: Sequence[Check]) -> dict[str, Any]:
    """Ask all at the same time; one that fails never stops the others. Lines keep their order."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        lines = [line for found in pool.map(_asked, checks) for line in found]
    states = [line.state for line in lines]
    return {
        "format": FORMAT,
        "checks": [vars(line) for line in lines],
        "warnings": states.count("warning"),
        "failures": states.count("failure"),
    }


def _asked(check: Check) -> list[Line]:
    lines: list[Line] = []
    try:
        lines.extend(check.ask())
    except TidegateError as error:
        what, _, fix = str(error).partition("; ")
        fix = fix or f"see {type(error).__name__} in docs/operations.md"
        lines.append(failure(check.name, what, fix))
    except Exception as error:
        logger.exception("%s: the check itself failed", check.name)
        says = f"the check itself failed: {type(error).__name__}: {error}"
        lines.append(failure(check.name, says, "report it, with the log"))
    return [replace(line, pipeline=check.pipeline) for line in lines]
