"""Types of single values in a pipeline file. They are stricter than pydantic's own types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from croniter import croniter
from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from tidegate import linear_regex
from tidegate.core import locations
from tidegate.settings import secrets

LONGEST_WAIT = 10**9  # seconds
AFTER_THE_LAKE = "lake"
"""The schedule of an egress that runs whenever a run of its source has published."""
# Numbers from environment variables are text.
_WHOLE = re.compile(r"-?(0|[1-9][0-9_]*)")
_SIZE = re.compile(r"([0-9]{1,15}) ?(?:([KMG])i?B)?", re.IGNORECASE)
_LEAST_FILE, _MOST_FILE = 1 << 20, 4 << 30  # bytes
_DATE = re.compile(r"\d{4}-\d\d-\d\d[Tt ]")
_TOPIC = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}")
_PIPELINE = re.compile(r"[a-z](?!.*__)[a-z0-9_-]{0,63}")
_OF_AIRFLOW = {"@quarterly": "0 0 1 */3 *"}  # croniter has the others
_ANY_DAY = datetime(2024, 1, 1)  # croniter's, and schedules are UTC


def is_pipeline_name(name: str) -> bool:
    """Return whether a pipeline may have this name."""
    return _PIPELINE.fullmatch(name) is not None


def cron(schedule: str) -> str:
    """Return a schedule as a cron expression, or one of croniter's names for them."""
    return _OF_AIRFLOW.get(schedule, schedule)


def due_times(schedule: str | None, now: datetime) -> tuple[datetime, datetime, datetime] | None:
    """Return the last two times when runs of a schedule were due, and the next one.

    None without a schedule, or for one that cannot be read.
    """
    if schedule is None or not croniter.is_valid(cron(schedule)):
        return None
    back = croniter(cron(schedule), now)
    last, before_last = back.get_prev(datetime), back.get_prev(datetime)
    return before_last, last, croniter(cron(schedule), now).get_next(datetime)


def _whole(value: Any) -> Any:
    number = isinstance(value, int) and not isinstance(value, bool)
    if not number and not (isinstance(value, str) and _WHOLE.fullmatch(value)):
        raise ValueError("not a whole number, in decimal and without leading zeros")
    return value


def _is_date(value: Any) -> Any:
    if not isinstance(value, datetime) and not (isinstance(value, str) and _DATE.match(value)):
        raise ValueError("not a time with a zone, for example 2026-03-14T00:00:00Z")
    return value


def _is_scalar(value: Any) -> Any:
    if not isinstance(value, str | int | float):
        raise ValueError("must be text, a number, true or false")
    return value


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
        linear_regex.fullmatch(pattern, "")
    except (re.error, OverflowError, RecursionError, ValueError) as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return pattern


def _fires(schedule: str) -> str:
    expression = cron(schedule)
    fields = expression.split()
    if len(fields) > 6 or any(field[:1] in "rR" for field in fields):
        raise ValueError(_NOT_CRON)
    try:
        croniter(expression, _ANY_DAY).get_next()
    except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError) as error:
        never = "failed to find" in str(error)
        raise ValueError("it never fires" if never else _NOT_CRON) from None
    return schedule


def _fires_or_follows(schedule: str) -> str:
    return schedule if schedule == AFTER_THE_LAKE else _fires(schedule)


def is_schedule(text: str) -> bool:
    """Return whether a pipeline may have this schedule."""
    try:
        return bool(_fires(text))
    except ValueError:
        return False


_NOT_CRON = (
    "not a cron expression: five fields (six with seconds), for example 0 6 * * *, or one of "
    "@hourly, @daily, @weekly, @monthly, @quarterly, @yearly"
)


def pipeline_name(name: str) -> str:
    """Return a name that a pipeline may have. ValueError if it may not."""
    if not is_pipeline_name(name):
        raise ValueError(
            "a name begins with a small letter and has small letters, digits, _ and -, 64 at most, "
            "and no __"
        )
    return name


def _is_topic_name(topic: str) -> str:
    if not _TOPIC.fullmatch(topic):
        raise ValueError("a topic's name has letters, digits, ., _ and -, 249 at most")
    return topic


def _is_a_value(topic: str) -> str:
    if topic == "__HIVE_DEFAULT_PARTITION__":
        raise ValueError(f"readers of a directory `topic={topic}` take it for no value")
    return topic


def _are_distinct(named: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(set(named)) < len(named):
        raise ValueError(f"one is named twice in {list(named)}")
    return named


def _are_listed(partitions: Any) -> Any:
    if not isinstance(partitions, list | tuple) or not partitions:
        raise ValueError("must be a list of partitions, for example [0, 2]")
    return partitions


def _is_absolute(path: str) -> str:
    if secrets.has_login(path):
        # It would be written to the ledger, to plans and to the DAG's documentation.
        text = "a URL here holds no password: give keys by the environment"
        raise PydanticCustomError("unquoted", text)
    # No relative one: Airflow and a terminal have different working directories.
    if path and (wrong := locations.location_complaint(path)):
        raise ValueError(wrong)
    return path


def _is_safe(lake: str) -> str:
    if locations.find_scheme(lake) and (strange := locations.unsafe_characters(lake)):
        raise ValueError(f"a URL here has no {' '.join(map(repr, strange))}")
    return lake


def _bytes(value: Any) -> Any:
    found = _SIZE.fullmatch(str(value))
    if isinstance(value, bool) or not found:
        raise ValueError("must be a size, for example 256MB: a whole number, and KB, MB or GB")
    size = int(found[1]) << {"K": 10, "M": 20, "G": 30}.get((found[2] or "").upper(), 0)
    if not _LEAST_FILE <= size <= _MOST_FILE:
        raise ValueError("must be between 1MB and 4GB")
    return size


Whole = Annotated[int, BeforeValidator(_whole), Field(ge=-(2**63), lt=2**63)]
Count = Annotated[Whole, Field(ge=1)]
Offset = Annotated[Whole, Field(ge=0)]
Partition = Annotated[Whole, Field(ge=0, lt=2**31)]
Partitions = Annotated[
    tuple[Partition, ...], BeforeValidator(_are_listed), AfterValidator(_are_distinct)
]
Time = Annotated[AwareDatetime, BeforeValidator(_is_date)]
Text = Annotated[str, Field(min_length=1)]
FileSize = Annotated[int, BeforeValidator(_bytes)]
"""A size of files in bytes; in YAML as of Spark, in which 1MB are 1,048,576."""
Listed = Annotated[tuple[Text, ...], AfterValidator(_are_distinct)]
Scalar = Annotated[str | int | float | bool, BeforeValidator(_is_scalar)]
Regex = Annotated[Text, AfterValidator(_compiles)]
Schedule = Annotated[str, AfterValidator(_fires)]
ScheduleOrLake = Annotated[str, AfterValidator(_fires_or_follows)]
Path = Annotated[Text, AfterValidator(_is_absolute)]
Lake = Annotated[Path, AfterValidator(_is_safe)]
TopicName = Annotated[str, AfterValidator(_is_topic_name)]
LakeTopic = Annotated[TopicName, AfterValidator(_is_a_value)]
TopicNames = Annotated[tuple[TopicName, ...], AfterValidator(_are_distinct)]
LakeTopics = Annotated[tuple[LakeTopic, ...], AfterValidator(_are_distinct)]
PipelineName = Annotated[str, AfterValidator(pipeline_name)]


def as_text(value: Scalar) -> str:
    """Return a setting's value in the form of Spark and Kafka."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _no_quoted_star(sql: str) -> str:
    return _no_quoted(sql, r"\*\*?", "text")


def _no_quoted_text(sql: str) -> str:
    return _no_quoted(sql, r"[^'\"]*", "text, not an integer")


def _no_quoted(sql: str, text: str, kind: str) -> str:
    """Return an expression. ValueError if it is nothing but such a text, in quotes of SQL."""
    if found := re.fullmatch(rf"""\s*(['"])({text})\1\s*""", sql):
        raise ValueError(f"is {kind}: in YAML with one pair of quotes: '{found[2]}'")
    return sql


Sql = Annotated[str, AfterValidator(_no_quoted_star)]
SqlOfPartition = Annotated[str, AfterValidator(_no_quoted_text)]


def as_texts(settings: Mapping[str, Scalar]) -> dict[str, str]:
    """Return settings with their values in the form of Spark and Kafka."""
    return {name: as_text(value) for name, value in settings.items()}
