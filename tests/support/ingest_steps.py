"""The steps of an ingest run, each with a run that it opens itself, as the tasks of a DAG do."""

from typing import Any

from tidegate.ingest import explain as explaining
from tidegate.ingest import plan as planning
from tidegate.ingest import publish as publishing
from tidegate.ingest import stage as staging
from tidegate.ingest.publish import Published
from tidegate.ingest.stage import Staged
from tidegate.runs.run import Run, open_run
from tidegate.runs.steps import Planned, Submit


def plan(run: Run, *, replan: bool = False) -> Planned:
    return planning.plan(open_run(run), replan=replan)


def stage(run: Run, submit: Submit) -> Staged:
    return staging.stage(open_run(run), submit)


def publish(run: Run) -> Published:
    return publishing.publish(open_run(run))


def verdict(run: Run) -> None:
    publishing.verdict(open_run(run))


def explain(run: Run, *, master: str | None = None) -> dict[str, Any]:
    return explaining.explain(open_run(run), master=master)
