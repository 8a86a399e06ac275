"""The command `tidegate`: every use case, with or without Airflow."""

from __future__ import annotations

import atexit
import gc
import io
import json
import logging
import sys
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from tidegate import __version__
from tidegate.cli.commands import Commands, has_local_stack
from tidegate.errors import BrokerUnreachable, TidegateError
from tidegate.terminal.console import NoteHandler, Stopped, error_form, exit_code, note, say

app = typer.Typer(
    cls=Commands,
    help="Planned, bounded amounts of data between Kafka and a Parquet lake, provably once.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="tidegate help COMMAND shows the options and examples of a command.",
    pretty_exceptions_enable=False,
)


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


def _keep_garbage() -> None:
    """Let Python not look for garbage among all modules at its end: 0.15 s.

    DuckDB's module would complain of each object that is left.
    """
    if "duckdb" not in sys.modules:
        gc.freeze()


def run() -> None:
    """Run the command line. Exit codes are those of docs/errors.md."""
    atexit.register(_keep_garbage)
    if isinstance(sys.stdout, io.TextIOWrapper):  # what a terminal cannot show is an escape
        sys.stdout.reconfigure(errors="backslashreplace")
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
    if has_local_stack():  # else a production installation
        from tidegate_local import environment

        environment.use()


def _hints(error: TidegateError) -> list[str]:
    """Return what to do if the broker that does not answer is that of the local stack."""
    if not isinstance(error, BrokerUnreachable) or not has_local_stack():
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


if __name__ == "__main__":  # a run of several, as its own process
    run()
