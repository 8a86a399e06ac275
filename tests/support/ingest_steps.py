"""The steps of an ingest run, each with a run that it opens itself, as the tasks of a DAG do."""

from dataclasses import replace
from typing import Any

from support.toy_engine import Do, ToyEngine
from tidegate.ingest import explain as explaining
from tidegate.ingest import ingest_run as whole
from tidegate.ingest import planning as planning
from tidegate.ingest import publish as publishing
from tidegate.ingest import stage as staging
from tidegate.ingest.publish import Published
from tidegate.ingest.stage import StagedChunks
from tidegate.runs.run import Run, open_run
from tidegate.runs.steps import Planned


def plan(run: Run, *, replan: bool = False) -> Planned:
    return planning.plan(open_run(run), replan=replan)


def stage(run: Run, do: Do) -> StagedChunks:
    return staging.stage(open_run(replace(run, engine=ToyEngine(do, run.kafka))))


def ingest(run: Run, do: Do, **options: Any) -> Published:
    return whole.ingest(replace(run, engine=ToyEngine(do, run.kafka)), **options)


def publish(run: Run) -> Published:
    return publishing.publish(open_run(run))


def verdict(run: Run) -> None:
    publishing.verdict(open_run(run))


def explain(run: Run, *, tasks: int | None = None) -> dict[str, Any]:
    return explaining.explain(
        open_run(replace(run, engine=ToyEngine(tasks_at_once=tasks)))
    ).to_json()
