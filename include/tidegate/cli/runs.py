"""A run from a terminal: what it is, and carrying it out or telling what it would do."""

from __future__ import annotations

import json
import secrets
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tidegate.cli import render
from tidegate.cli.connections import kafka, spark_master
from tidegate.cli.console import answer, err
from tidegate.pipelines.spec import Egress, Spec

if TYPE_CHECKING:
    from tidegate.launch.spark_submit import Submission
    from tidegate.runs.run import EgressRun, Run


def new_run(
    spec: Spec, run_id: str | None = None, *, dag_id: str | None = None, **settings: Any
) -> Run | EgressRun:
    """Return a run of a pipeline; without an id it gets one that nobody has had."""
    from tidegate.runs.run import EgressRun, Run

    now = datetime.now(UTC)
    settings |= {
        "dag_id": dag_id or f"tidegate__{spec.name}",
        "run_id": run_id or f"manual__{now:%Y-%m-%dT%H:%M:%S}__{secrets.token_hex(3)}",
        "window_date": now.date(),
    }
    if isinstance(spec, Egress):
        return EgressRun(spec, kafka(spec.kafka), **settings)
    return Run(spec, kafka(spec.kafka), **settings)


def carry_out(
    run: Run | EgressRun, *, replan: bool = False, dry_run: bool = False, as_json: bool
) -> None:
    """Take a run through all its steps; a dry one only tells what it would do."""
    from tidegate.egress.run import egress
    from tidegate.ingest.run import ingest
    from tidegate.runs.run import EgressRun

    if dry_run:
        explain(run, as_json=as_json)
        return
    err.print(f"run id: {run.run_id}", highlight=False)
    master = spark_master(run.spec)

    def submit(given: Submission) -> None:
        from tidegate.launch import spark_submit

        spark_submit.submit(given, master=master, log=lambda line: print(line, file=sys.stderr))

    if isinstance(run, EgressRun):
        report = egress(
            run,
            submit,
            lambda _: False,  # only Airflow knows of its tasks
            replan=replan,
            on_planned=lambda planned: render.tell_files(planned.plan, known=planned.known),
            on_published=lambda sent: None if as_json else render.tell_sent(sent.report),
        ).report
    else:
        report = ingest(
            run,
            submit,
            replan=replan,
            on_planned=lambda planned: render.tell_plan(planned.plan, known=planned.known),
            on_published=lambda done: None if as_json else render.tell_published(done.report),
        ).report
    if as_json:
        print(json.dumps(report))


def explain(run: Run | EgressRun, *, as_json: bool) -> None:
    """Tell what a run would do; nothing is done, nothing is written."""
    from tidegate.egress.explain import explain as explain_egress
    from tidegate.ingest.explain import explain as explain_ingest
    from tidegate.runs.run import EgressRun, open_run

    if isinstance(run, EgressRun):
        answer(explain_egress(run), render.tell_sending, as_json=as_json)
    else:
        told = explain_ingest(open_run(run), master=spark_master(run.spec))
        answer(told, render.tell_reading, as_json=as_json)
