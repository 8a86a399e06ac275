"""A setting, Tidegate's answer to it, and checks of values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

Check = Callable[[str], str | None]
"""Returns what is wrong with a value, without quoting it. None: nothing."""


class Answer(StrEnum):
    """What becomes of a setting that a user gives."""

    ACCEPTED = "accepted"
    TRANSLATED = "translated"
    """Passed on by another name or value, with a notice."""
    WARNED = "warned"
    """Passed on, or without effect. A notice says what follows from it."""
    REFUSED = "refused"


class Place(StrEnum):
    """Where a user gives a setting."""

    SOURCE = "options"
    """`options` of an ingest pipeline: Spark's Kafka source. `kafka.…` goes to its consumer."""
    SINK = "target.options"
    """`target.options` of an egress: Spark's Kafka sink. `kafka.…` goes to its producer."""
    SPARK = "spark.conf"
    SENDING = "spark.conf of an egress"
    """What an egress decides besides. All else is as in `spark.conf`."""
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


UNSET = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
"""What stays of a variable that the environment does not set: such a value is not checked."""
INT, LONG = 2**31 - 1, 2**63 - 1


def without_unset(given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings whose values have no unset variable, so that they can be compared."""
    return {name: value for name, value in given.items() if not UNSET.search(value)}


@dataclass(frozen=True)
class Whole:
    """The check of a whole number between two bounds."""

    least: int
    most: int

    def __call__(self, value: str) -> str | None:
        if not re.fullmatch("-?[0-9]{1,19}", value):
            return "not a whole number"
        if not self.least <= int(value) <= self.most:
            return f"from {self.least} to {self.most}, or the client fails"
        return None


@dataclass(frozen=True)
class Word:
    """The check of a value that is one of some words."""

    known: tuple[str, ...]
    ignore_case: bool

    def __call__(self, value: str) -> str | None:
        found = value.lower() if self.ignore_case else value
        allowed = [each.lower() for each in self.known] if self.ignore_case else self.known
        return None if found in allowed else f"one of {', '.join(self.known)}"


def check_whole(least: int = -(2**31), most: int = INT) -> Whole:
    """Return the check of a whole number between two bounds."""
    return Whole(least, most)


def check_words(*known: str, ignore_case: bool = False) -> Word:
    """Return the check of a value that is one of some words."""
    return Word(known, ignore_case)


def check_boolean(value: str) -> str | None:
    """Check a switch."""
    return None if value.lower() in ("true", "false") else "true or false"


def check_text(value: str) -> str | None:
    """Check a text: it may not be empty."""
    return None if value.strip() else "empty"


def check_duration(value: str) -> str | None:
    """Check a duration of Spark: a whole number, and a unit unless it is milliseconds."""
    if re.fullmatch(r"-?[0-9]{1,15}(us|ms|s|m|min|h|d)?", value.strip().lower()):
        return None
    return "not a duration, for example 500ms, 5m or 1h"


def check_size(value: str) -> str | None:
    """Check a size of Spark: a whole number and a unit, or a number of its default unit."""
    if re.fullmatch(rf"[0-9]{{1,15}}({'|'.join(_UNITS)})?", value.strip().lower()):
        return None
    return "not a size, for example 512m or 2g: a whole number and a unit, without a blank"


def check_heap(value: str) -> str | None:
    """Check the memory of a Java process, which Java reads, too: `2gb` is none for it."""
    found = re.fullmatch(r"([0-9]{1,9})([kmgt])", value.strip().lower())
    if not found:
        return "not a memory of Java, for example 512m or 2g: a whole number, and k, m, g or t"
    if int(found[1]) * _UNITS[found[2]] < _LEAST_HEAP:
        return "less than 450m, the least that Spark starts with"
    return None


def executor_heap(value: str) -> str | None:
    """Check the memory of an executor, which Spark reads, and rounds to MiB."""
    if wrong := check_size(value):
        return wrong
    number, unit = re.fullmatch(r"([0-9]+)([a-z]*)", value.strip().lower()).groups()  # type: ignore[union-attr]
    if int(number) * _UNITS[unit or "m"] < _LEAST_HEAP:
        return "less than 450m, the least that Spark starts with; without a unit it is MiB"
    return None


_UNITS = {
    unit + suffix: 1024**power
    for power, unit in enumerate("kmgtp", start=1)
    for suffix in ("", "b")
} | {"b": 1}
_LEAST_HEAP = 450 * 1024**2


def describe_values(check: Check | None) -> str:
    """Return which values a check takes. Empty for one of a setting's own."""
    match check:
        case Whole(least, most) if most in (INT, LONG):
            return f"a whole number, at least {least}" if least > -INT else "a whole number"
        case Whole(least, most):
            return f"a whole number from {least} to {most}"
        case Word(known):
            return ", ".join(known)
    if check is check_boolean:
        return "true, false"
    kinds: dict[Check | None, str] = {
        check_duration: "a duration: 500ms, 5m, 1h",
        check_size: "a size: 512m, 2g",
        check_heap: "512m, 2g",
        executor_heap: "a size: 512m, 2g",
    }
    return kinds.get(check, "")
