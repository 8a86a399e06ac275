"""What a pipeline file says about its DAG: who owns it, and who is told when a run fails."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from tidegate.pipelines.strict import Contradiction, Strict
from tidegate.pipelines.value_types import LONGEST_WAIT, Listed, Text, Whole

_LONGEST_TAG, _LONGEST_NAME = 100, 250  # characters, in Airflow's database
_OF_AIRFLOW = "context"  # the argument that Airflow gives


def _is_dotted(path: str) -> str:
    if len(parts := path.split(".")) < 2 or not all(each.isidentifier() for each in parts):
        raise ValueError("must be a module and a class in it, for example my_alerts.Pager")
    return path


def _is_plain(value: Any) -> Any:
    """Return a value that Airflow can keep in its database, as JSON. ValueError for another."""
    if isinstance(value, dict):
        if not all(isinstance(key, str) and not key.startswith("__") for key in value):
            raise ValueError("a key must be text that does not begin with __")
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            _is_plain(each)
    elif not isinstance(value, str | bool | int | None) and not (
        isinstance(value, float) and math.isfinite(value)
    ):
        raise ValueError("must be text, numbers, true, false, lists and mappings of them")
    return value


def _are_arguments(given: dict[str, Any]) -> dict[str, Any]:
    _is_plain(given)
    if _OF_AIRFLOW in given:
        raise ValueError(f"{_OF_AIRFLOW} is an argument that Airflow gives")
    return given


class Told(Strict):
    """Who is told: the class of a notifier of Airflow, and its arguments."""

    call: Annotated[str, AfterValidator(_is_dotted)]
    arguments: Annotated[dict[str, Any], AfterValidator(_are_arguments)] = Field(
        default_factory=dict
    )


class AirflowSettings(Strict):
    """Settings of the pipeline's own DAG. What is not given is Airflow's default.

    `priority` is the weight of its tasks. `deadline` is in seconds since a run was queued. `doc` is
    Markdown above the DAG's own documentation. With `complete_hours` the DAG has a task that
    announces each hour that became complete. `show_records`: the page shows some records to those
    who may start its runs.
    """

    owner: Annotated[Text, Field(max_length=_LONGEST_NAME)] | None = None
    tags: Listed = ()
    pool: Annotated[Text, Field(max_length=_LONGEST_NAME)] | None = None
    priority: Annotated[Whole, Field(ge=1, le=1_000_000)] | None = None
    on_failure: Told | None = None
    deadline: Annotated[Whole, Field(ge=1, le=LONGEST_WAIT)] | None = None
    doc: Text | None = None
    complete_hours: bool = False
    show_records: bool = True

    @classmethod
    def contradiction(cls, key: str, value: Any, given: Mapping[str, Any]) -> Contradiction | None:
        if key == "tags" and (long := [each for each in value if len(each) > _LONGEST_TAG]):
            return "tags", f"at most {_LONGEST_TAG} characters each: {long[0][:_LONGEST_TAG]}…"
        if key == "deadline" and value is not None and given.get("on_failure", "wrong") is None:
            return "deadline", "needs on_failure, which is called when a run misses it"
        return None
