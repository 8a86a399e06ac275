"""What a pipeline file says about its DAG: owner, pool, who is told, and what it follows."""

import json
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import BaseNotifier
from airflow.sdk.execution_time.context import OutletEventAccessors

from tidegate.errors import ConfigurationError
from tidegate.orchestration import airflow_versions, assets, factory
from tidegate.orchestration.command_connections import check_alert
from tidegate.pipelines.spec import parse_spec

LEAST = {"name": "p", "kind": "ingest", "topics": ["t"], "lake": "/lake"}
BACK = {
    "name": "back", "kind": "egress", "source": {"lake": "p"}, "target": {"topic": "copy"},
    "lake": "/lake", "schedule": "lake",
}  # fmt: skip
SENT: list[Any] = []
PAGER = {"call": "my_alerts.Pager", "arguments": {"text": "late"}}


class Pager(BaseNotifier):
    """A notifier with an argument that is a template, as those of Airflow's providers."""

    template_fields = ("text",)

    def __init__(self, text: str, **others: Any) -> None:
        super().__init__(**others)
        self.text = text

    def notify(self, context: Any) -> None:
        SENT.append(f"{self.text} {context['run']}")


@pytest.fixture
def alerts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of the user's, with a notifier and what is none."""
    module: Any = ModuleType("my_alerts")
    module.Pager, module.page, module.number, module.other = Pager, SENT.append, 5, dict
    monkeypatch.setitem(sys.modules, "my_alerts", module)
    SENT.clear()


def dag_of(airflow: dict[str, Any], **others: Any) -> Any:
    return factory.pipeline_dag(parse_spec({**LEAST, "airflow": airflow, **others}))


def test_owner_pool_and_priority_are_those_of_each_task() -> None:
    """And what is not given is Airflow's."""
    said = {"owner": "orders-team", "pool": "kafka", "priority": 7, "tags": ["gold"], "doc": "Why."}
    dag, plain = dag_of(said), dag_of({})
    for task in dag.tasks:
        assert (task.owner, task.pool, task.priority_weight) == ("orders-team", "kafka", 7)
    assert dag.tags == {"tidegate", "ingest", "gold"}
    assert dag.doc_md.startswith(f"Why.\n\n{plain.doc_md[:20]}")
    assert {(task.owner, task.pool, task.priority_weight) for task in plain.tasks} == {
        ("airflow", "default_pool", 1)
    }
    assert (plain.has_on_failure_callback, plain.deadline) == (False, None)


@pytest.mark.usefixtures("alerts")
def test_who_is_told_of_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A notifier, whose arguments may be templates. A task has none, and needs no module."""
    said = {"on_failure": {"call": "my_alerts.Pager", "arguments": {"text": "late: {{ run }}"}}}
    dag_of(said).on_failure_callback({"run": 1})
    assert SENT == ["late: 1 1"]
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "tidegate__p")
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_TASK_ID", "plan")
    gone = {"on_failure": {"call": "no_such_module.Pager"}, "deadline": 5}
    assert not dag_of(gone).has_on_failure_callback


@pytest.mark.usefixtures("alerts")
def test_who_is_told_of_a_missed_deadline() -> None:
    """The same. Airflow has it in its database, with the arguments."""
    from airflow.serialization.serialized_objects import DagSerialization

    dag = dag_of({"on_failure": PAGER, "deadline": 1800})
    (deadline,) = dag.deadline
    assert deadline.interval == timedelta(minutes=30)
    assert (deadline.callback.path, deadline.callback.kwargs) == tuple(PAGER.values())
    assert "my_alerts.Pager" in json.dumps(DagSerialization.to_dict(dag))


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("my_alerts.gone", "has no attribute 'gone'"),
        ("no_such_module.Pager", "No module named 'no_such_module'"),
        ("exits.Pager", "SystemExit"),
        ("my_alerts.number", "is no notifier"),
        ("my_alerts.other", "is no notifier"),
        ("my_alerts.page", "is no notifier"),
        ("os.system", "is no notifier"),
        ("my_alerts.Pager", "refuses its arguments: TypeError$"),
    ],
)
@pytest.mark.usefixtures("alerts")
def test_nobody_to_tell_stops_no_data(
    call: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The DAG says it, and so does the doctor, before an alert is needed. Nothing but a notifier is
    called, and no text of an error has an argument.
    """
    (tmp_path / "exits.py").write_text("raise SystemExit(2)")
    monkeypatch.syspath_prepend(str(tmp_path))
    said = {"on_failure": {"call": call, "arguments": {"secret": "x"}}}
    dag = dag_of(said)
    assert "broken" in dag.tags
    assert not dag.has_on_failure_callback
    assert [task.task_id for task in dag.tasks] == [task.task_id for task in dag_of({}).tasks]
    with pytest.raises(ConfigurationError) as raised:
        check_alert(parse_spec({**LEAST, "airflow": said}))
    assert str(raised.value) in dag.doc_md
    assert re.search(f"^airflow.on_failure.call: {call}.*{why}", str(raised.value))


def test_what_needs_a_later_airflow(monkeypatch: pytest.MonkeyPatch, alerts: None) -> None:
    monkeypatch.setattr(airflow_versions, "DeadlineAlert", None)
    monkeypatch.setattr(airflow_versions, "HAS_RUNTIME_PARTITIONS", False)
    assert (
        "airflow.deadline: needs Airflow 3.2" in dag_of({"deadline": 5, "on_failure": PAGER}).doc_md
    )
    with pytest.raises(ConfigurationError, match=r"^airflow.complete_hours: .*3.3"):
        dag_of({"complete_hours": True})


def test_an_egress_may_follow_its_lake(pipelines: Path) -> None:
    """It runs after any topic that it sends; of a source with a pattern by the alias."""

    def followed(of_lake: dict[str, Any] | None, **others: Any) -> list[str]:
        if of_lake:
            (pipelines / "p.yaml").write_text(json.dumps({**LEAST, **of_lake}))
        dag = factory.pipeline_dag(parse_spec({**BACK, **others}))
        assert (dag.timetable.can_be_scheduled, dag.max_active_runs) == (True, 1)
        condition = dag.timetable.asset_condition
        return [getattr(each, "uri", None) or each.name for each in condition.objects]

    assert followed({"topics": ["a", "b"]}) == ["tidegate://p/a", "tidegate://p/b"]
    chosen = {"source": {"lake": "p", "topics": ["b", "former"]}}
    assert followed({"topics": ["a", "b"]}, **chosen) == ["tidegate://p/b"]
    with pytest.raises(ConfigurationError, match=r"^schedule: lake: p reads none"):
        followed({"topics": ["a"]}, source={"lake": "p", "topics": ["former"]})
    (pipelines / "p.yaml").write_text(json.dumps({**LEAST, "topics": [], "pattern": "a.*"}))
    alias = factory.pipeline_dag(parse_spec(BACK)).timetable.asset_condition
    assert alias.name == "tidegate://p"
    (pipelines / "p.yaml").unlink()
    with pytest.raises(ConfigurationError):
        followed(None)


def test_the_hours_have_a_task_of_their_own() -> None:
    """After the verdict. A run whose data is published is not failed by it in its history."""
    dag = dag_of({"complete_hours": True})
    assert dag.task_dict["verdict"].downstream_task_ids == {"hours"}
    task = dag.task_dict["hours"]
    assert [each.uri for each in task.outlets] == ["tidegate://p/complete/hours"]
    assert len(task.on_failure_callback) == 1
    assert "hours" not in dag_of({}).task_dict


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("since", "through", "hours"),
    [
        (None, "2026-03-14T10:20", ["09"]),
        (None, "2026-03-14T10:01", ["09"]),
        (None, "2026-03-14T10:00:59", ["08"]),
        ("2026-03-14T07:00", "2026-03-14T10:20", ["07", "08", "09"]),
        ("2026-03-14T10:00", "2026-03-14T10:59", []),
        ("2026-03-14T12:00", "2026-03-14T10:20", []),
        ("2026-03-14T07:30", "2026-03-14T09:01", ["08"]),
        ("2026-03-14T10:00", None, []),
    ],
)
def test_hours_between(since: str | None, through: str | None, hours: list[str]) -> None:
    """Each hour ends a minute before `through`; without an announced one only the last."""
    found = assets.hours_between(since and at(since), through and at(through))  # type: ignore[arg-type]
    assert [f"{each:%H}" for each in found] == hours


def test_many_hours_take_several_runs() -> None:
    since, through = at("2026-01-01T00:00"), at("2026-03-14T10:20")
    hours = assets.hours_between(since, through)
    assert (len(hours), hours[0]) == (500, since)


def test_hours_are_those_of_utc() -> None:
    """Also where the time of a plan is in another zone, half an hour off."""
    through = datetime.fromisoformat("2026-03-14T10:20+05:30")
    assert assets.hours_between(None, through) == [at("2026-03-14T03:00")]


class Events(list[Any]):
    """The events of an asset in Airflow, in the order that is asked for."""

    def ascending(self, ascending: bool) -> "Events":
        assert not ascending
        return Events(reversed(self))

    def limit(self, most: int) -> "Events":
        return Events(self[:most])


def announced(through: str | None, *extras: Any) -> Any:
    """Announce the hours of a run after such events. None: the task was skipped."""
    asset = assets.complete_hours("p")
    outlets = OutletEventAccessors()
    known = Events(SimpleNamespace(extra=each) for each in extras)
    try:
        assets.announce_hours(through, known, outlets[asset])
    except airflow_versions.AirflowSkipException:
        return None
    return sorted(outlets[asset].partition_keys), outlets[asset].extra


def test_each_hour_is_announced_once() -> None:
    """Airflow's own events say which were. Those of others, without a time, say nothing."""
    keys, extra = announced("2026-03-14T10:20:00+00:00")
    assert keys == ["2026-03-14T09:00:00"]
    assert announced("2026-03-14T10:40:00+00:00", extra) is None
    by_hand: Any = ({"from_rest_api": True}, {"until": "noon"}, {}, None)
    keys, later = announced("2026-03-14T12:05:00+00:00", extra, extra, *by_hand)
    assert keys == ["2026-03-14T10:00:00", "2026-03-14T11:00:00"]
    assert announced("2026-03-14T12:05:00+00:00", extra, later, later) is None
    assert announced(None, extra) is None
