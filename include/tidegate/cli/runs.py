"""Make, carry out or explain a run from a command."""

from __future__ import annotations

import json
import secrets
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tidegate import flows
from tidegate.cli.connections import kafka, spark_master
from tidegate.cli.console import answer, err
from tidegate.cli.render import PRINTERS
from tidegate.pipelines.spec import Spec

if TYPE_CHECKING:
    from tidegate.launch.spark_submit import Submission
    from tidegate.runs.run import EgressRun, Run


def new_run(
    spec: Spec, run_id: str | None = None, *, dag_id: str | None = None, **settings: Any
) -> Run | EgressRun:
    """Return a run of a pipeline; without an id it gets a new one."""
    now = datetime.now(UTC)
    run: Run | EgressRun = flows.of(spec).new_run(
        spec,
        kafka(spec.kafka),
        dag_id=dag_id or f"tidegate__{spec.name}",
        run_id=run_id or f"manual__{now:%Y-%m-%dT%H:%M:%S}__{secrets.token_hex(3)}",
        window_date=now.date(),
        **settings,
    )
    return run


def carry_out(
    run: Run | EgressRun, *, replan: bool = False, dry_run: bool = False, as_json: bool
) -> None:
    """Carry out all steps of a run; with `dry_run` only explain it."""
    if dry_run:
        explain(run, as_json=as_json)
        return
    err.print(f"run id: {run.run_id}", highlight=False)
    master = spark_master(run.spec)
    printers = PRINTERS[run.spec.kind]

    def submit(given: Submission) -> None:
        from tidegate.launch import spark_submit

        spark_submit.submit(given, master=master, log=lambda line: print(line, file=sys.stderr))

    published = flows.of(run.spec).run_all(
        run,
        submit,
        replan=replan,
        on_planned=lambda planned: printers.plan(planned.plan, known=planned.known),
        on_published=lambda done: None if as_json else printers.published(done.report),
    )
    if as_json:
        print(json.dumps(published.report))


def explain(run: Run | EgressRun, *, as_json: bool) -> None:
    """Print what a run would do, without doing it."""
    explained = flows.of(run.spec).explain(run, lambda: spark_master(run.spec))
    answer(explained, PRINTERS[run.spec.kind].explained, as_json=as_json)
