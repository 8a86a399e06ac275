"""The status of a pipeline with its state: by what it shows, its history, its schedule and its DAG.

Commands, the Python API, the page and the metrics have it from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tidegate import flows
from tidegate.core.ended_run import EndedRun, complete_through
from tidegate.pipelines.value_types import due_times
from tidegate.runs.pipeline_state import DagState, Due, Judged, judge_runs

if TYPE_CHECKING:
    from tidegate.egress.status import EgressStatus
    from tidegate.ingest.status import IngestStatus
    from tidegate.pipelines.spec import Spec


def status_of(
    spec: Spec, kafka_of: flows.KafkaOf, dag: DagState | None = None
) -> IngestStatus | EgressStatus:
    """Return the document of `tidegate status --json`.

    `dag` is what Airflow knows of the pipeline's DAG. None: nothing.
    """
    status: IngestStatus | EgressStatus = look_at(spec, kafka_of, dag)[0]
    return status


def look_at(
    spec: Spec, kafka_of: flows.KafkaOf, dag: DagState | None = None
) -> tuple[Any, tuple[EndedRun, ...]]:
    """Return the status of a pipeline, as `status_of` does, and its history."""
    from tidegate.runs.history import read_history

    found, runs = flows.flow_of(spec).status(spec, kafka_of), read_history(flows.store(spec))
    return with_state(spec, found, runs, dag)[0], runs


def with_state(
    spec: Spec, found: Any, runs: Sequence[EndedRun], dag: DagState | None = None
) -> tuple[Any, Judged]:
    """Return a status with the pipeline's state, by its newest runs and its DAG, and the state."""
    times = due_times(spec.schedule, datetime.now(UTC))
    judged = judge_runs(
        spec.name, flows.flow_of(spec).judge(spec, found), runs, Due(*times) if times else None, dag
    )
    stated = replace(
        found,
        state=judged.state.value,
        reason=judged.reason,
        fix=judged.fix,
        complete_through=complete_through(runs),
        last_run=runs[-1] if runs else None,
    )
    return stated, judged
