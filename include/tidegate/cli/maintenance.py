"""The keeper's commands: see it, steer it, mend it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from tidegate.cli import offsets
from tidegate.cli.connections import kafka, spark_master
from tidegate.cli.console import Json, answer, end_with, err, out, worst
from tidegate.cli.variables import variables, whoever
from tidegate.errors import NeedsAirflow, TidegateError
from tidegate.pipelines import files
from tidegate.pipelines.spec import Ingest, Spec
from tidegate.runs.run import Mirror

if TYPE_CHECKING:
    from tidegate.doctor.checks import Check

app = typer.Typer()
app.add_typer(offsets.app, name="offsets")

OneOrAll = Annotated[str | None, typer.Argument(help="One pipeline; else all.")]


@app.command()
def reconcile(pipeline: OneOrAll = None, as_json: Json = False) -> None:
    """Hold the copies of the cursors against the ledger, and mend those that are behind."""
    from tidegate.maintenance import reconcile as use_case

    mirror: Mirror | None = None
    absent: NeedsAirflow | None = None
    try:
        mirror = variables()
    except NeedsAirflow as error:
        absent = error

    def held(spec: Spec) -> dict[str, Any]:
        if isinstance(spec, Ingest) and spec.progress_group:
            return use_case.reconcile(spec, mirror, kafka(spec.kafka))
        if absent:
            raise absent
        return use_case.reconcile(spec, mirror, None)

    found, code = _each(pipeline, held, _tell_reconciled, as_json=as_json, egress_too=True)
    if absent and found:
        err.print(f"Variables were not looked at: {absent}", style="yellow", markup=False)
    ahead = [name for each in found for name in use_case.left_ahead(each)]
    if ahead:
        err.print(
            f"ahead of the ledger: {', '.join(ahead)}. Either the lake is not the one it was, or "
            "they were edited: delete them, or `tidegate offsets set`",
            style="red", markup=False,
        )  # fmt: skip
    end_with(code, 3 if ahead else 0)


def _tell_reconciled(found: Mapping[str, Any]) -> None:
    table = Table("copy", "state", "", box=None)
    for each in found["variables"] or ():
        mended = "mended" if each["mended"] else "[red]left alone"
        table.add_row(f"Variable {each['name']}", each["state"], mended)
    group = found["group"] or {"drifts": [], "error": None}
    for each in group["drifts"]:
        state = f"{each['shown']}, ledger {each['ledger']}"
        mended = "[red]not mended" if group["error"] else "mended"
        copy = f"group {group['name']}, {each['topic']}-{each['partition']}"
        table.add_row(escape(copy), state, mended)
    if table.row_count:
        out.print(table)
    if group["error"]:
        err.print(f"{found['pipeline']}: {group['error']}", style="yellow", markup=False)
    elif not table.row_count:
        out.print(f"{found['pipeline']}: no drift", highlight=False)


@app.command()
def repair(pipeline: OneOrAll = None, as_json: Json = False) -> None:
    """Place what crashed publishers left; quarantine files in data/ that no live commit lists."""
    from tidegate.maintenance import repair as use_case

    def tell(found: Mapping[str, Any]) -> None:
        placed = ", ".join(f"#{n}" for n in found["placed"]) or "nothing"
        out.print(f"{found['pipeline']}: placed {placed}", highlight=False)
        for moved in found["quarantined"]:
            out.print(f"  {moved['from']} → {moved['to']}", markup=False, soft_wrap=True)

    _, code = _each(pipeline, use_case.repair, tell, as_json=as_json)
    end_with(code)


@app.command()
def sweep(
    pipeline: OneOrAll = None,
    abandon_after: Annotated[
        float, typer.Option(min=0, help="Hours since an unsealed attempt was last written to.")
    ] = 24.0,
    as_json: Json = False,
) -> None:
    """Remove staging that nobody needs: placed, lost, or given up for good."""
    from tidegate.maintenance import sweep as use_case

    def tell(found: Mapping[str, Any]) -> None:
        out.print(
            f"{found['pipeline']}: {len(found['swept'])} attempts, {found['files']:,} files, "
            f"{found['bytes']:,} bytes",
            highlight=False,
        )
        for each in found["left"]:
            err.print(f"  kept commit #{each['commit']}: {each['why']}", style="red", markup=False)

    found, code = _each(
        pipeline,
        lambda spec: use_case.sweep(spec, run=whoever(), abandon_after=abandon_after * 3600),
        tell,
        as_json=as_json,
        egress_too=True,
    )
    end_with(code, 3 if any(each["left"] for each in found) else 0)


@app.command()
def checkpoint(pipeline: OneOrAll = None, as_json: Json = False) -> None:
    """Write down what the ledger adds up to, so that opening it stays quick."""
    from tidegate.maintenance import checkpoint as use_case

    def tell(found: Mapping[str, Any]) -> None:
        out.print(
            f"{found['pipeline']}: entry {found['entry']:,}, {found['read']:,} read, "
            f"{found['bytes']:,} bytes written",
            highlight=False,
        )

    _, code = _each(pipeline, use_case.checkpoint, tell, as_json=as_json, egress_too=True)
    end_with(code)


@app.command()
def doctor(pipeline: OneOrAll = None, as_json: Json = False) -> None:
    """Look at whatever a run needs: ok, warning or failure, each with its way out."""
    from tidegate.doctor import machine
    from tidegate.doctor.checks import examine

    checks = machine.checks()
    for name in [pipeline] if pipeline else files.names():
        checks += _checks_of(name)
    found = examine(checks)
    answer(found, _tell_doctor, as_json=as_json)
    if found["failures"]:
        raise typer.Exit(3)


def _checks_of(name: str) -> list[Check]:
    from tidegate.doctor import checks as doctor
    from tidegate.doctor import pipeline as pipeline_checks

    try:
        spec = files.load_named(name)
    except TidegateError as error:
        wrong = doctor.failure("file", str(error), "correct what is listed")
        return [doctor.Check("file", lambda: iter([wrong]), name)]
    return pipeline_checks.checks(spec, lambda: kafka(spec.kafka), lambda: spark_master(spec))


def _tell_doctor(found: Mapping[str, Any]) -> None:
    colours = {"ok": "green", "warning": "yellow", "failure": "red"}
    about = ""
    for line in found["checks"]:
        if about != (line["pipeline"] or "this machine"):
            about = line["pipeline"] or "this machine"
            out.print(f"[bold]{escape(about)}[/]", highlight=False)
        state = f"[{colours[line['state']]}]{line['state']:8}[/]"
        says = escape(f"{line['check']}: {line['says']}")
        out.print(f"  {state} {says}", highlight=False, soft_wrap=True)
        if line["fix"]:
            out.print(f"           → {escape(line['fix'])}", highlight=False, soft_wrap=True)
    out.print(f"{found['failures']} failures, {found['warnings']} warnings", highlight=False)


def _each(
    pipeline: str | None,
    do: Callable[[Any], dict[str, Any]],
    tell: Callable[[Mapping[str, Any]], None],
    *,
    as_json: bool,
    egress_too: bool = False,
) -> tuple[list[dict[str, Any]], int]:
    """Do it for one pipeline, or for all: then one that fails never stops the others.

    Return what was found, and the exit code of the errors among them.
    """
    if pipeline:
        load = files.load_named if egress_too else files.load_ingest
        found = [do(load(pipeline))]
        answer(found[0], tell, as_json=as_json)
        return found, 0
    found, told, code = [], [], 0
    for name in files.names():
        try:
            spec = files.load_named(name)
            if not (egress_too or isinstance(spec, Ingest)):
                continue
            found.append(do(spec))
        except TidegateError as error:
            code = worst(code, error.exit_code)
            told.append({"format": 1, "pipeline": name, "error": error.to_json()})
            err.print(f"{name}: {error}", style="red", markup=False, soft_wrap=True)
        else:
            told.append(found[-1])
            if not as_json:
                tell(found[-1])
    if as_json:
        print(json.dumps({"format": 1, "pipelines": told}))
    return found, code
