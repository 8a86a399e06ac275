"""Maintenance commands: `doctor`, and the steps of the maintenance DAG."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from tidegate import flows
from tidegate.cli.airflow_variables import signature, variables
from tidegate.cli.arguments import Json, OneOrAll
from tidegate.core.json_codec import Document
from tidegate.core.locations import location_complaint
from tidegate.core.wording import counted
from tidegate.errors import ConfigurationError, NeedsAirflow
from tidegate.orchestration.command_connections import check_alert, kafka, spark
from tidegate.pipelines import pipeline_files
from tidegate.pipelines.spec import Egress, Spec
from tidegate.terminal.console import answer, bold, error_form, note, say, worst_exit_code
from tidegate.terminal.render import print_each

if TYPE_CHECKING:
    from tidegate.doctor.check import Check, Diagnosis, Line
    from tidegate.maintenance.checkpoint_step import Checkpointed
    from tidegate.maintenance.reconcile import Reconciled
    from tidegate.maintenance.repair import Repaired
    from tidegate.maintenance.sweep import SweptPipeline
    from tidegate.runs.run import Mirror

app = typer.Typer()


@app.command()
def reconcile(pipeline: OneOrAll = None, as_json: Json = False) -> None:
    """Compare Variables and group offsets with the ledger, and rewrite those that are behind."""
    try:
        shown: Mirror | NeedsAirflow = variables()
    except NeedsAirflow as error:
        shown = error
    found, code = _run_step("reconcile", pipeline, _print_reconciled, as_json, variables=shown)
    if isinstance(shown, NeedsAirflow) and found:
        note(f"Variables were not looked at: {shown}", "yellow")
    if ahead := [name for each in found for name in each.ahead]:
        note(
            f"ahead of the ledger: {', '.join(ahead)}. Either the lake is not the one it was, or "
            "they were edited: delete them, or `tidegate offsets set`",
            "red",
        )
    raise typer.Exit(code)


def _print_reconciled(found: Reconciled) -> None:
    lines = [
        (f"Variable {each.name}: {each.state}", each.mended, "left alone")
        for each in found.variables or ()
    ]
    group = found.group
    error = group.error if group else None
    if group:
        lines += [
            (
                f"group {group.name}, {each.topic}-{each.partition}: {each.shown}, "
                f"ledger {each.ledger}",
                not error,
                "not mended",
            )
            for each in group.drifts
        ]
    say(bold(found.pipeline, "" if lines or error else ": no drift"))
    for text, mended, otherwise in lines:
        say(Text.assemble(f"  {text}: ", "mended" if mended else (otherwise, "red")))
    if error:
        note(f"{found.pipeline}: {error}", "yellow")


@app.command()
def repair(pipeline: OneOrAll = None, as_json: Json = False) -> None:
    """Place committed files after crashes. Quarantine files in data/ that no live commit lists."""

    def show(found: Repaired) -> None:
        placed = ", ".join(f"#{n}" for n in found.placed) or "nothing"
        say(f"{found.pipeline}: placed {placed}")
        for moved in found.quarantined:
            say(f"  {moved.source} → {moved.target}")

    raise typer.Exit(_run_step("repair", pipeline, show, as_json)[1])


@app.command()
def sweep(
    pipeline: OneOrAll = None,
    abandon_after: Annotated[
        float, typer.Option(min=0, help="Hours since an unfinished attempt was last written to.")
    ] = 24.0,
    as_json: Json = False,
) -> None:
    """Delete staged files that are no longer needed: of placed, lost or abandoned attempts."""

    def show(found: SweptPipeline) -> None:
        counts = ((len(found.swept), "attempt"), (found.files, "file"), (found.bytes, "byte"))
        removed = ", ".join(counted(n, noun) for n, noun in counts)
        uploads = found.uploads
        aborted = f"; aborted {counted(uploads, 'multipart upload')}" if uploads else ""
        say(f"{found.pipeline}: removed {removed}{aborted}")
        for each in found.left:
            note(f"  kept commit #{each.commit}: {each.why}", "red")

    seconds = abandon_after * 3600
    raise typer.Exit(_run_step("sweep", pipeline, show, as_json, abandon_after=seconds)[1])


@app.command()
def checkpoint(pipeline: OneOrAll = None, as_json: Json = False) -> None:
    """Write a checkpoint of the ledger, so that opening it reads few entries."""

    def show(found: Checkpointed) -> None:
        read, written = counted(found.read, "entry", "entries"), counted(found.bytes, "byte")
        say(f"{found.pipeline}: at entry {found.entry:,}; read {read}, wrote {written}")

    raise typer.Exit(_run_step("checkpoint", pipeline, show, as_json)[1])


@app.command()
def doctor(
    pipeline: OneOrAll = None,
    try_store: Annotated[
        str | None,
        typer.Option(metavar="LAKE", help="Only try this directory or URL as a place for lakes."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check everything that a run needs. Each warning and failure names its fix."""
    from tidegate.doctor.check import run_checks

    found = run_checks(_trial_of(try_store) if try_store else _checks(pipeline))
    answer(found, _print_doctor, as_json=as_json)
    raise typer.Exit(3 if found.failures else 0)


def _trial_of(place: str) -> list[Check]:
    """Return the checks of a place for lakes. ConfigurationError for one that cannot be one."""
    from tidegate.doctor.store_trial import store_trial

    if complaint := location_complaint(place):
        raise ConfigurationError(f"--try-store {place}: {complaint}")
    return store_trial(place)


def _checks(pipeline: str | None) -> list[Check]:
    """Return the checks of this machine, and of a pipeline or all."""
    from tidegate.doctor import machine
    from tidegate.doctor.check import Check, failure

    checks = machine.machine_checks()
    try:
        for name in [pipeline] if pipeline else pipeline_files.pipeline_names():
            checks += _checks_of(name)
    except ConfigurationError as error:  # there is no directory of pipelines
        what, _, fix = str(error).partition("; ")
        checks.append(Check("pipelines", lambda: iter([failure("pipelines", what, fix)])))
    return checks


def _checks_of(name: str) -> list[Check]:
    from tidegate.doctor import check as doctor
    from tidegate.doctor import pipeline_checks as pipeline_checks

    try:
        spec = pipeline_files.load_named(name)
        lake = spec.source.lake if isinstance(spec, Egress) else None
        return pipeline_checks.checks(
            spec,
            lambda: kafka(spec),
            lambda: spark(spec),
            (lambda: kafka(pipeline_files.load_ingest(lake))) if lake else None,
            lambda: check_alert(spec),
        )
    except Exception as error:
        wrong = doctor.failure("file", error_form(error)["message"], "correct what is listed")
        return [doctor.Check("file", lambda: iter([wrong]), name)]


def _print_doctor(found: Diagnosis) -> None:
    groups: dict[str, list[Line]] = {}
    for line in found.checks:
        groups.setdefault(line.pipeline or "this machine", []).append(line)
    for heading, lines in groups.items():
        say(bold(heading))
        for line in lines:
            _print_check(line)
    failed = [line for line in found.checks if line.state == "failure"]
    if len(groups) > 2 and failed:  # else they can be seen above
        say(bold("failures"))
        for line in failed:
            _print_check(line, f"{line.pipeline or 'this machine'}: ")
    say(f"{counted(found.failures, 'failure')}, {counted(found.warnings, 'warning')}")


def _print_check(line: Line, where: str = "") -> None:
    colours = {"ok": "green", "warning": "yellow", "failure": "red"}
    state = Text.assemble("  ", (f"{line.state:8}", colours[line.state]))
    say(state.append(f" {where}{line.check}: {line.says}"))
    if line.fix:
        say(f"           → {line.fix}")


def _run_step(
    name: str,
    pipeline: str | None,
    show: Callable[[Any], None],
    as_json: bool,
    *,
    variables: Mirror | NeedsAirflow | None = None,
    abandon_after: float = 0.0,
) -> tuple[list[Any], int]:
    """Run a maintenance step for one pipeline, or for all. Print what it did.

    Return its documents and the exit code. A pipeline that fails never stops the others.
    """
    from tidegate.maintenance.maintenance_steps import STEPS, Environment
    from tidegate.runs.run import NO_MIRROR

    step = STEPS[name]
    given = Environment(signature(), kafka, variables or NO_MIRROR, abandon_after)
    documents: list[Document] = []
    problems = []

    def do(spec: Spec) -> Document:
        document = step.do(spec, given)
        documents.append(document)
        if problem := step.problem(spec, document):
            problems.append(problem.exit_code)
        return document

    if pipeline:
        load = pipeline_files.load_named if "egress" in step.kinds else pipeline_files.load_ingest
        answer(do(load(pipeline)), show, as_json=as_json)
        return documents, worst_exit_code(0, *problems)
    code = print_each(
        flows.for_each(pipeline_files.pipeline_names(), do, step.kinds), show, as_json=as_json
    )
    return documents, worst_exit_code(code, *problems)
