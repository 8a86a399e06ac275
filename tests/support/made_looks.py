"""Looks at pipelines that nobody has: one in each state, as many as wanted."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from support.doc_pages import fenced, page
from tidegate.core.ended_run import EndedRun, RunError
from tidegate.egress.status import EgressStatus
from tidegate.ingest.status import IngestStatus
from tidegate.pipelines.spec import parse_spec
from tidegate.runs.pipeline_state import DagState, Judged, State
from tidegate.ui.watch import Look

INGEST, EGRESS = map(json.loads, fenced(page("docs/json.md#status"), "json"))
_FIX = "`tidegate offsets set p t 0 9 --reason …` gives these up; `on_expired: skip` in its file"
_FAILED = RunError("StageFailed", "Spark ended with exit code 1: <b>see its log</b>", "terminal")


def made_look(n: int, state: State, now: datetime | None = None) -> Look:
    """Return a look at pipeline number `n` in a state: every fifth is an egress."""
    now = now or datetime.now(UTC)
    name = f"p{n:04d}"
    if n % 5 == 4:
        form = {"name": name, "kind": "egress", "lake": "/lake", "target": {"topic": "t"},
                "source": {"path": "/in", "format": "json"}}  # fmt: skip
        status: IngestStatus | EgressStatus = EgressStatus.from_json(EGRESS)
    else:
        form = {"name": name, "kind": "ingest", "topics": ["flights"], "lake": "/lake",
                "schedule": "*/10 * * * *"}  # fmt: skip
        status = IngestStatus.from_json(INGEST)
    runs = tuple(_run(each, n, state, now) for each in range(100, 0, -1))
    fix = _FIX if state in (State.LOSING, State.BLOCKED) else ""
    waiting = None if state is State.UNKNOWN else n * 37 % 1000
    return Look(
        name,
        now - timedelta(seconds=4),
        Judged(state, f"why {name} is {state}", waiting, fix),
        parse_spec(form),
        replace(status, pipeline=name, state=state.value),
        runs,
        {"flights": {"0": [("live", 150), ("unseen", 50)]}},
        DagState(
            state is State.PAUSED, state is State.RUNNING, next_run=now + timedelta(minutes=3)
        ),
    )


def _run(place: int, n: int, state: State, now: datetime) -> EndedRun:
    """Return a run that began `place` times ten minutes ago."""

    def at(seconds: int) -> str:
        began = now - timedelta(minutes=10 * place)
        return (began + timedelta(seconds=seconds)).isoformat(timespec="seconds")

    is_red = state is State.FAILING and place < 3
    return EndedRun(
        run=f"scheduled__{at(0)}", dag=f"tidegate__p{n:04d}", began=at(0),
        ended=at(30 + place % 7), error=_FAILED if is_red else None, lane="live",
        planned=at(4), published=at(27 + place % 5), rows=0 if is_red else 1000 + place * n % 977,
        bytes=90_000, lag=place % 11, complete_through=None if is_red else at(3),
        report=("0" * 64, 1), in_airflow=True,
    )  # fmt: skip
