"""A setting, Tidegate's answer to it, and checks of values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

Check = Callable[[str], str | None]
"""Returns what is wrong with a value, without quoting it; None: nothing."""


class Answer(StrEnum):
    """What becomes of a setting that a user gives."""

    ACCEPTED = "accepted"
    TRANSLATED = "translated"
    """Passed on by another name or value, with a notice."""
    WARNED = "warned"
    """Passed on, or without effect; a notice says what follows from it."""
    REFUSED = "refused"


class Place(StrEnum):
    """Where a user gives a setting."""

    SOURCE = "options"
    """`options` of an ingest pipeline: Spark's Kafka source; `kafka.…` goes to its consumer."""
    SINK = "target.options"
    """`target.options` of an egress: Spark's Kafka sink; `kafka.…` goes to its producer."""
    SPARK = "spark.conf"
    SENDING = "spark.conf of an egress"
    """What an egress decides besides; all else is as in `spark.conf`."""
    CONNECTION = "connection"
    """The extra of a Kafka connection in Airflow."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting at one place; `why` is what a user reads about the answer.

    `becomes` is the name that a translated setting gets, `values` the new values by the old ones:
    others stay. `default` is Tidegate's value if none is given, `outside` that of Kafka or Spark.
    `use` is what to give in place of a refused setting. `check` judges the value; `caution` returns
    what a user should know of a value that is accepted.
    """

    name: str
    place: Place
    answer: Answer = Answer.ACCEPTED
    check: Check | None = None
    caution: Check | None = None
    default: str | None = None
    outside: str | None = None
    why: str = ""
    use: str = ""
    becomes: str | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    since: str = "0.1.0"


INT, LONG = 2**31 - 1, 2**63 - 1


def whole(least: int = -(2**31), most: int = INT) -> Check:
    """Return the check of a whole number between two bounds."""

    def check(value: str) -> str | None:
        if not re.fullmatch("-?[0-9]{1,19}", value):
            return "not a whole number"
        if not least <= int(value) <= most:
            return f"from {least} to {most}, or the client fails"
        return None

    return check


def word(*known: str, ignore_case: bool = False) -> Check:
    """Return the check of a value that is one of some words."""

    def check(value: str) -> str | None:
        found = value.lower() if ignore_case else value
        allowed = [each.lower() for each in known] if ignore_case else known
        return None if found in allowed else f"one of {', '.join(known)}"

    return check


def boolean(value: str) -> str | None:
    """Check a switch."""
    return None if value.lower() in ("true", "false") else "true or false"


def text(value: str) -> str | None:
    """Check a text: it may not be empty."""
    return None if value.strip() else "empty"


def duration(value: str) -> str | None:
    """Check a duration of Spark: a whole number, and a unit unless it is milliseconds."""
    if re.fullmatch(r"-?[0-9]{1,15}(us|ms|s|m|min|h|d)?", value.strip().lower()):
        return None
    return "not a duration, for example 500ms, 5m or 1h"
