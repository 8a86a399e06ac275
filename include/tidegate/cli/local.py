"""`tidegate local`: Kafka, Postgres and Airflow on this machine."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.markup import escape

from tidegate.cli.commands import has_local_stack
from tidegate.errors import ConfigurationError
from tidegate.terminal.console import err, out, say_columns

app = typer.Typer(help="Kafka, Postgres and Airflow on this machine.", no_args_is_help=True)

Json = Annotated[
    bool, typer.Option("--json", help="One JSON document on stdout, progress on stderr.")
]


def require_packages() -> None:
    """Raise ConfigurationError if the packages of the local stack are not there."""
    if not has_local_stack():
        raise ConfigurationError("the local stack is not installed: pip install 'tidegate[local]'")


@app.command()
def up(*, as_json: Json = False) -> None:
    """Start the services that are not running, and wait until all are healthy."""
    require_packages()
    from tidegate_local import airflow, stack
    from tidegate_local.home import default_home

    home = default_home()
    stack.up(home, say=_say)
    state = stack.status(home)
    if as_json:
        _print_json(state)
        return
    _print_addresses(state, Login=f"{airflow.USER} / {airflow.password(home)}")


@app.command()
def down(*, as_json: Json = False) -> None:
    """Stop what `up` started, running tasks and their Spark included. The data is kept."""
    require_packages()
    from tidegate_local import stack
    from tidegate_local.home import default_homes

    homes = default_homes()
    ended = [home for home in homes if stack.down(home, say=_say)]
    if as_json:
        _print_json({"format": 1, "home": str(homes[0]), "ended": bool(ended)})
        return
    text = "the stack is down; its data stays in" if ended else "nothing ran in"
    for home in ended or homes[:1]:
        out.print(text, escape(str(home)), soft_wrap=True)


@app.command()
def status(*, as_json: Json = False) -> None:
    """Show each service, its health and its log."""
    require_packages()
    from tidegate_local import stack
    from tidegate_local.home import default_home

    state = stack.status(default_home())
    if as_json:
        _print_json(state)
        return
    rows = []
    for name, service in state["services"].items():
        health = "down" if service["pid"] is None else "not healthy"
        health = "healthy" if service["healthy"] else health
        rows.append((name, health, str(service["pid"] or "-"), service["log"]))
    say_columns(("service", "state", "pid", "log"), rows)
    if state["airflow"]:
        _print_addresses(state)


def _print_addresses(state: dict[str, Any], **more: str) -> None:
    places = {key.capitalize(): state[key] for key in ("kafka", "lake", "logs")}
    for name, value in {"Airflow": state["airflow"], **more, **places}.items():
        out.print(f"[bold]{name:8}[/] {escape(value)}", soft_wrap=True)


def _print_json(document: dict[str, Any]) -> None:
    typer.echo(json.dumps(document, indent=2))


def _say(line: str) -> None:
    err.print(escape(line), highlight=True, soft_wrap=True)
