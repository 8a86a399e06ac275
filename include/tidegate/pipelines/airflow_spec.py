"""What a pipeline file says about its DAG: who owns it, and who is told when a run fails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from tidegate.pipelines.strict import Contradiction, Strict
from tidegate.pipelines.value_types import LONGEST_WAIT, Listed, Text, Whole

_LONGEST_TAG = 100  # characters, in Airflow's database
_OF_AIRFLOW = "context"  # the argument that Airflow gives


def _is_dotted(path: str) -> str:
    if len(parts := path.split(".")) < 2 or not all(each.isidentifier() for each in parts):
        raise ValueError("must be a module and a name in it, for example my_alerts.page")
    return path


class Told(Strict):
    """Who is told: a function that takes Airflow's context, or a notifier and its arguments."""

    call: Annotated[str, AfterValidator(_is_dotted)]
    arguments: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def contradiction(cls, key: str, value: Any, given: Mapping[str, Any]) -> Contradiction | None:
        del given
        if key == "arguments" and _OF_AIRFLOW in value:
            return "arguments", f"{_OF_AIRFLOW} is an argument that Airflow gives"
        return None


class AirflowSettings(Strict):
    """Settings of the pipeline's own DAG. What is not given is Airflow's default.

    `priority` is the weight of its tasks. `deadline` is in seconds since a run was queued. `doc` is
    Markdown above the DAG's own documentation. With `complete_hours` the DAG has a task that
    announces each hour that became complete.
    """

    owner: Text | None = None
    tags: Listed = ()
    pool: Text | None = None
    priority: Annotated[Whole, Field(ge=1, le=1_000_000)] | None = None
    on_failure: Told | None = None
    deadline: Annotated[Whole, Field(ge=1, le=LONGEST_WAIT)] | None = None
    doc: Text | None = None
    complete_hours: bool = False

    @classmethod
    def contradiction(cls, key: str, value: Any, given: Mapping[str, Any]) -> Contradiction | None:
        if key == "tags" and (long := [each for each in value if len(each) > _LONGEST_TAG]):
            return "tags", f"at most {_LONGEST_TAG} characters each: {long[0][:_LONGEST_TAG]}…"
        if key == "deadline" and value is not None and given.get("on_failure", "wrong") is None:
            return "deadline", "needs on_failure, which is called when a run misses it"
        return None
