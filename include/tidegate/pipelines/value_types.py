"""Types of single values in a pipeline file. They are stricter than pydantic's own types."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any

from croniter import croniter
from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field

# Numbers from environment variables are text.
_WHOLE = re.compile(r"-?(0|[1-9][0-9_]*)")
_DATE = re.compile(r"\d{4}-\d\d-\d\d[Tt ]")
_OF_AIRFLOW = {"@quarterly": "0 0 1 */3 *"}  # croniter has the others
_ANY_DAY = datetime(2024, 1, 1)  # croniter's, and schedules are UTC


def _whole(value: Any) -> Any:
    number = isinstance(value, int) and not isinstance(value, bool)
    if not number and not (isinstance(value, str) and _WHOLE.fullmatch(value)):
        raise ValueError("not a whole number, in decimal and without leading zeros")
    return value


def _is_date(value: Any) -> Any:
    if not isinstance(value, datetime) and not (isinstance(value, str) and _DATE.match(value)):
        raise ValueError("not a time, like 2026-03-14T00:00:00Z")
    return value


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"not a regular expression: {error}") from None
    return pattern


def _fires(schedule: str) -> str:
    expression = _OF_AIRFLOW.get(schedule, schedule)
    fields = expression.split()
    if len(fields) > 6 or any(field[:1] in "rR" for field in fields):
        raise ValueError("not a cron expression of five fields, or six with seconds")
    try:
        croniter(expression, _ANY_DAY).get_next()
    except (ValueError, ArithmeticError, LookupError, AttributeError, TypeError) as error:
        wrong = "failed to find" in str(error)
        what = "it never fires" if wrong else f"not a cron expression: {error}"
        raise ValueError(what) from None
    return schedule


def _is_a_value(topic: str) -> str:
    if topic == "__HIVE_DEFAULT_PARTITION__":
        raise ValueError(f"readers of a directory `topic={topic}` take it for no value")
    return topic


Whole = Annotated[int, BeforeValidator(_whole), Field(ge=-(2**63), lt=2**63)]
Count = Annotated[Whole, Field(ge=1)]
Offset = Annotated[Whole, Field(ge=0)]
Time = Annotated[AwareDatetime, BeforeValidator(_is_date)]
Regex = Annotated[str, Field(min_length=1), AfterValidator(_compiles)]
Schedule = Annotated[str, AfterValidator(_fires)]
TopicName = Annotated[str, Field(pattern=r"^(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}\Z")]
LakeTopic = Annotated[TopicName, AfterValidator(_is_a_value)]
PIPELINE_NAME = r"^[a-z](?!.*__)[a-z0-9_-]{0,63}\Z"
PipelineName = Annotated[str, Field(pattern=PIPELINE_NAME)]
