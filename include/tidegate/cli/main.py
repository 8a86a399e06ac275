"""The command `tidegate`: every use case, with or without Airflow."""

from __future__ import annotations

import enum
import json
import logging
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import typer

from tidegate import __version__, flows
from tidegate.cli import configuring, jars, local, maintenance, render, render_egress, windows
from tidegate.cli.console import (
    Json,
    MaxChunks,
    MaxRecords,
    NoteHandler,
    OneOrAll,
    Pipeline,
    Stopped,
    answer,
    error_form,
    exit_code,
    note,
    out,
    say,
)
from tidegate.cli.runs import carry_out, new_run
from tidegate.cli.variables import signature
from tidegate.errors import BrokerUnreachable, ConfigurationError, TidegateError
from tidegate.orchestration.command_connections import kafka
from tidegate.pipelines import files
from tidegate.pipelines.spec import Egress, Spec

app = typer.Typer(
    help="Planned, bounded amounts of data between Kafka and a Parquet lake, provably once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(local.app, name="local")
app.add_typer(windows.app)
app.add_typer(maintenance.app)
app.add_typer(configuring.app)
app.add_typer(jars.app)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"tidegate {__version__}")
        raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


class Release(enum.StrEnum):
    """What happens to the rows of a released claim."""

    RESEND = "resend"
    DECLARE_SENT = "declare-sent"


def run() -> None:
    """Run the command line; exit codes are those of docs/errors.md."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=[NoteHandler()])
    for library in ("httpx", "airflow"):  # each request, and each start
        logging.getLogger(library).setLevel(logging.WARNING)
    try:
        _use_local_stack()
        code = app(standalone_mode=False)
    except TidegateError as error:
        notes = [*getattr(error, "__notes__", ()), *_hints(error)]
        _fail(error_form(error), error.exit_code, notes)
    except Stopped as error:
        note(str(error), "red")
        _print_notes(getattr(error, "__notes__", ()))
        raise SystemExit(error.code) from None
    except (KeyboardInterrupt, typer.Abort):
        raise SystemExit(130) from None
    except Exception as error:
        if hasattr(error, "format_message"):  # click's usage errors
            message = error.format_message()
            if not message:  # there was no argument: the help has been printed
                raise SystemExit(2) from None
            _fail({"name": "Usage", "kind": "terminal", "message": message, "numbers": {}}, 2)
        if _wants_json():
            _fail(error_form(error), exit_code(error), getattr(error, "__notes__", ()))
        raise
    raise SystemExit(code)


def _use_local_stack() -> None:
    if local.is_installed():  # else a production installation
        from tidegate_local import environment

        environment.use()


def _hints(error: TidegateError) -> list[str]:
    """Return what to do if the broker that does not answer is that of the local stack."""
    if not isinstance(error, BrokerUnreachable) or not local.is_installed():
        return []
    from tidegate_local import environment

    return list(filter(None, [environment.hint(str(error))]))


def _wants_json() -> bool:
    return "--json" in sys.argv


def _fail(error: Mapping[str, Any], code: int, notes: Iterable[str] = ()) -> None:
    if _wants_json():
        print(json.dumps({"format": 1, "error": error}, default=str))
    note(f"{error['name']}: {error['message']}", "red")
    _print_notes(notes)
    raise SystemExit(code)


def _print_notes(notes: Iterable[str]) -> None:
    """Print what a run that ended early has kept, and the command that continues it."""
    for line in notes:
        note(line)


@app.command("run")
def run_pipeline(
    pipeline: Pipeline,
    run_id: Annotated[
        str | None, typer.Option(help="Continue the run of this id; by default a new run.")
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
    """Ingest new records; egress: send unsent data."""
    spec = files.load_named(pipeline)
    options = flows.options(spec, max_records=max_records, max_chunks=max_chunks, resend=resend)
    carry_out(new_run(spec, run_id, **options), run_id=run_id, replan=replan, as_json=as_json)


@app.command()
def demo(
    on_s3: Annotated[bool, typer.Option("--s3", help="Use a lake in an S3 bucket.")] = (False),
) -> None:
    """Start Kafka and Airflow locally, ingest a year of real flights, and verify the lake."""
    local.require_packages()
    from tidegate_local.demo import demo as show
    from tidegate_local.home import default_home

    home = default_home(on_s3=on_s3)
    show(home, say=lambda line: out.print(line, markup=False, soft_wrap=True), on_s3=on_s3)


@app.command()
def status(pipeline: OneOrAll = None, as_json: Json = False) -> None:
    """Show origin, cursor, end and lag of every partition, and each problem with its fix."""
    if pipeline:
        answer(_status(files.load_named(pipeline)), render.print_status, as_json=as_json)
        return
    states = flows.for_each(files.names(), _status)
    raise typer.Exit(render.print_each(states, render.print_status, as_json=as_json))


@app.command("files")
def list_files(pipeline: Pipeline, as_json: Json = False) -> None:
    """List committed files, including those not yet in `data/`."""
    from tidegate.ingest.status import files as files_of

    answer(files_of(files.load_ingest(pipeline)), render.print_lake_files, as_json=as_json)


@app.command()
def verify(
    pipeline: Pipeline,
    against_kafka: Annotated[
        bool, typer.Option(help="Compare every row with its record, if Kafka still has it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check that ledger, manifests, files and footers agree; exit 3 if they differ."""
    spec = files.load_named(pipeline)
    broker = kafka(spec) if against_kafka else None
    findings = flows.of(spec).verify(spec, broker, note)
    answer(findings, render.print_findings, as_json=as_json)
    raise typer.Exit(3 if findings["differences"] else 0)


@app.command()
def release(
    pipeline: Pipeline,
    how: Annotated[
        Release,
        typer.Option(help="resend: a later run sends all of it; declare-sent: it counts as sent."),
    ],
    reason: Annotated[str, typer.Option(help="Kept in the ledger.")],
    plan: Annotated[
        str | None, typer.Option(help="The plan; by default the only open claim.")
    ] = None,
    late: Annotated[
        bool, typer.Option(help="Declare late offsets of a lake sent, in place of a claim.")
    ] = False,
    as_json: Json = False,
) -> None:
    """End an egress claim whose sender cannot be proven dead, or whose plan cannot go on."""
    from tidegate.egress.release import declare_late
    from tidegate.egress.release import release as end_claim

    spec = files.load_named(pipeline)
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
        late_offsets = declare_late(spec, reason, by=signature(), run=run_id)
        answer(late_offsets, render_egress.print_late, as_json=as_json)
        return
    released = end_claim(spec, plan, action, reason, run=run_id)
    then = {"resend": "a later run sends all of it", "declare sent": "it counts as sent"}[action]
    text = f"plan {released['plan_id']}: released; {then}"
    answer(released, lambda _: say(text), as_json=as_json)


def _status(spec: Spec) -> dict[str, Any]:
    return flows.of(spec).status(spec, kafka)
