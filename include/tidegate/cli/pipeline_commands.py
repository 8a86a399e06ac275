"""Commands about one pipeline: run it, show its state and files, verify it, release a claim."""

from __future__ import annotations

import enum
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tidegate import flows, statuses
from tidegate.cli.airflow_variables import signature
from tidegate.cli.arguments import Json, MaxChunks, MaxRecords, OneOrAll, Pipeline, Several
from tidegate.cli.many_runs import run_each
from tidegate.cli.runs import carry_out, new_run
from tidegate.core.json_codec import Document
from tidegate.errors import ConfigurationError, Transient
from tidegate.orchestration.command_connections import kafka
from tidegate.orchestration.dag_states import known_dag_states
from tidegate.pipelines import pipeline_files
from tidegate.pipelines.spec import Egress, Spec
from tidegate.runs.pipeline_state import (
    EXIT_CODES,
    ListedPipeline,
    PipelineList,
    State,
    judge_error,
)
from tidegate.terminal import render, render_egress
from tidegate.terminal.console import answer, clear, note, say, worst_exit_code

app = typer.Typer()

_AT_ONCE = 8  # pipelines that are read at the same time: most of it is waiting


class Release(enum.StrEnum):
    """What happens to the rows of a released claim."""

    RESEND = "resend"
    DECLARE_SENT = "declare-sent"


@app.command("run")
def run_pipelines(
    pipelines: Several = None,
    every: Annotated[bool, typer.Option("--all", help="All pipelines.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="So many of several at once.")] = 1,
    run_id: Annotated[
        str | None, typer.Option(help="Continue the run of this id. By default a new run.")
    ] = None,
    max_records: MaxRecords = None,
    max_chunks: MaxChunks = None,
    replan: Annotated[
        bool, typer.Option(help="Force a new plan even if the current one is valid.")
    ] = False,
    resend: Annotated[
        bool, typer.Option(help="Egress: also send changed files whose names were sent.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Ingest new records. Egress: send unsent data. Several are run as a process each."""
    names = _names() if every else [*dict.fromkeys(pipelines or ())]
    if bool(pipelines) == every:
        raise typer.BadParameter("name one pipeline or several, or give --all")
    if every or len(names) > 1:
        if run_id or replan:
            raise typer.BadParameter("--run-id and --replan are for one pipeline")

        def options_of(name: str) -> list[str]:
            kind = _kind_of(name) if every else None
            given = {
                "--max-records": max_records,
                "--max-chunks": None if kind == "egress" else max_chunks,
            }
            words = [f"{option}={value}" for option, value in given.items() if value]
            return words + (["--resend"] if resend and kind != "ingest" else [])

        raise typer.Exit(run_each(names, options_of, jobs, as_json=as_json))
    spec = pipeline_files.load_named(names[0])
    options = flows.given_options(
        spec, max_records=max_records, max_chunks=max_chunks, resend=resend
    )
    carry_out(new_run(spec, run_id, **options), run_id=run_id, replan=replan, as_json=as_json)


@app.command()
def status(
    pipeline: OneOrAll = None,
    watch: Annotated[
        int | None, typer.Option(min=1, help="Show it again every so many seconds.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show origin, cursor, end and lag of every partition, and each problem with its fix.

    Exit 3 if something needs action, 4 if the broker or the source does not answer.
    """
    while True:
        try:
            code = _show_status(pipeline, as_json=as_json)
        except Transient as error:
            if watch is None:
                raise
            note(f"{type(error).__name__}: {error}", "red")
        if watch is None:
            raise typer.Exit(code)
        time.sleep(watch)
        if not as_json:
            clear()


@app.command("list")
def list_pipelines(as_json: Json = False) -> None:
    """List all pipelines with the state of each: kind, schedule, backlog, last entry."""
    names = _names()
    dags = known_dag_states(names)

    def look(spec: Spec) -> tuple[Spec, Any]:
        return spec, statuses.status_of(spec, kafka, dags.get(spec.name))

    listed = [
        _listed(name, result) for name, result in flows.for_each(names, look, at_once=_AT_ONCE)
    ]
    document = PipelineList(pipelines=tuple(listed))
    answer(document, render.print_list, as_json=as_json)
    raise typer.Exit(worst_exit_code(0, *(EXIT_CODES[State(each.state)] for each in listed)))


@app.command("metrics")
def show_metrics(
    output: Annotated[
        Path | None,
        typer.Option(help="Write this file, whole or not at all: for node_exporter's collector."),
    ] = None,
) -> None:
    """Print the numbers of all pipelines in OpenMetrics, for Prometheus.

    Exit 0 also where a pipeline needs action: its state is one of the numbers.
    """
    from tidegate.launch.job_zip import write_whole
    from tidegate.metrics import open_metrics, read_measures

    names = _names()
    found = read_measures(names, kafka, known_dag_states(names), at_once=_AT_ONCE)
    document = open_metrics(found)
    if output is None:
        print(document.decode(), end="")
    else:
        write_whole(output, document)


@app.command("files")
def list_files(pipeline: Pipeline, as_json: Json = False) -> None:
    """List committed files, including those not yet in `data/`."""
    from tidegate.ingest.status import lake_files as files_of

    spec = pipeline_files.load_ingest(pipeline)
    answer(files_of(spec, flows.store(spec)), render.print_lake_files, as_json=as_json)


@app.command()
def verify(
    pipeline: Pipeline,
    against_kafka: Annotated[
        bool, typer.Option(help="Compare every row with its record, if Kafka still has it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check that ledger, manifests, files and footers agree. Exit 3 if they differ."""
    spec = pipeline_files.load_named(pipeline)
    broker = kafka(spec) if against_kafka else None
    findings = flows.flow_of(spec).verify(spec, flows.store(spec), broker, note)
    answer(findings, render.print_findings, as_json=as_json)
    raise typer.Exit(3 if findings.differences else 0)


@app.command()
def release(
    pipeline: Pipeline,
    how: Annotated[
        Release,
        typer.Option(help="resend: a later run sends all of it; declare-sent: it counts as sent."),
    ],
    reason: Annotated[str, typer.Option(help="Kept in the ledger.")],
    plan: Annotated[
        str | None, typer.Option(help="The plan. By default the only open claim.")
    ] = None,
    late: Annotated[
        bool, typer.Option(help="Declare late offsets of a lake sent, in place of a claim.")
    ] = False,
    as_json: Json = False,
) -> None:
    """End an egress claim whose sender cannot be proven dead, or whose plan cannot go on."""
    from tidegate.egress.release import declare_late
    from tidegate.egress.release import release_claim as end_claim
    from tidegate.lake.store import STORES

    spec = pipeline_files.load_named(pipeline)
    if not isinstance(spec, Egress):
        raise ConfigurationError(f"pipeline {pipeline!r}: only egress pipelines have claims")
    action: Literal["resend", "declare sent"] = (
        "resend" if how is Release.RESEND else "declare sent"
    )
    run_id = f"manual__{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}"
    if late:
        if how is Release.RESEND or plan:
            raise ConfigurationError(
                "--late goes with --how declare-sent, and without --plan: to send such offsets all "
                "the same, use `tidegate replay`"
            )
        late_offsets = declare_late(
            spec, STORES, pipeline_files, reason, by=signature(), run=run_id
        )
        answer(late_offsets, render_egress.print_late, as_json=as_json)
        return
    released = end_claim(
        spec, flows.store(spec), plan, action, reason, engine=flows.engine(), run=run_id
    )
    then = {"resend": "a later run sends all of it", "declare sent": "it counts as sent"}[action]
    text = f"plan {released.plan_id}: released; {then}"
    answer(released, lambda _: say(text), as_json=as_json)


def _kind_of(name: str) -> str | None:
    """Return the kind of a pipeline. None for a wrong file, about which its run complains."""
    try:
        return pipeline_files.load_named(name).kind
    except ConfigurationError:
        return None


def _listed(name: str, result: tuple[Spec, Any] | Exception) -> ListedPipeline:
    """Return the line of a pipeline by its spec and status, or by the error in their place."""
    if isinstance(result, Exception):
        wrong = judge_error(result)
        return ListedPipeline(
            name, None, None, wrong.state.value, wrong.reason, wrong.fix, None, None, None
        )
    spec, status = result
    return ListedPipeline(
        name,
        spec.kind,
        spec.schedule,
        status.state,
        status.reason,
        status.fix,
        flows.flow_of(spec).judge(spec, status).waiting,
        status.last_entry and status.last_entry.at,
        status.last_run,
    )


def _show_status(pipeline: str | None, *, as_json: bool) -> int:
    """Print the status of one pipeline, or of all, and return the exit code."""
    codes = []
    names = [pipeline] if pipeline else _names()
    dags = known_dag_states(names)

    def judged(spec: Spec) -> Document:
        found = statuses.status_of(spec, kafka, dags.get(spec.name))
        codes.append(EXIT_CODES[State(found.state)])
        return found

    if pipeline:
        found = judged(pipeline_files.load_named(pipeline))
        answer(found, render.print_status, as_json=as_json)
        return worst_exit_code(*codes)
    # Threads that ask Airflow's database turn the output of the whole process away meanwhile.
    states = list(flows.for_each(names, judged, at_once=_AT_ONCE))
    code = render.print_each(states, render.print_status, as_json=as_json)
    return worst_exit_code(code, *codes)


def _names() -> list[str]:
    """Return the names of all pipelines. If there are no pipelines, say where they would be."""
    names = pipeline_files.pipeline_names()
    if not names:
        where = pipeline_files.pipelines_directory()
        note(f"there is no pipeline in {where}; `tidegate init` writes one")
    return names
