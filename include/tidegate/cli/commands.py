"""The commands by the module that has them: only that of the command that is asked for is imported.

`tidegate --help` shows what stands here, as most of its time would be imports. A test compares it
with the commands' own docstrings.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer.main
from typer.core import TyperCommand, TyperGroup

COMMANDS = {
    "pipeline_commands": {
        "run": "Ingest new records. Egress: send unsent data.",
        "status": "Show origin, cursor, end and lag of every partition, and each problem with its "
        "fix.",
        "files": "List committed files, including those not yet in `data/`.",
        "verify": "Check that ledger, manifests, files and footers agree. Exit 3 if they differ.",
        "release": "End an egress claim whose sender cannot be proven dead, or whose plan cannot "
        "go on.",
    },
    "query": {
        "sql": "Ask the lake with SQL, by DuckDB: each committed row once. Nothing is written.",
        "view": "Print the SQL of a view of the lake, with its typed columns, for another program.",
        "peek": "Show some records of a topic, as people read them. Nothing is read into the lake.",
    },
    "window_commands": {
        "explain": "Show what `run` would do now, without doing it.",
        "backfill": "Ingest the offsets of a window that are not in the lake. Live runs are not "
        "affected.",
        "replay": "Ingest: read a window again and replace its files. Egress: send a window or "
        "files again.",
        "coverage": "Show every offset: covered (live, backfill, replay), skipped, expired or "
        "unseen.",
    },
    "maintenance_commands": {
        "reconcile": "Compare Variables and group offsets with the ledger, and rewrite those that "
        "are behind.",
        "repair": "Place committed files after crashes. Quarantine files in data/ that no live "
        "commit lists.",
        "sweep": "Delete staged files that are no longer needed: of placed, lost or abandoned "
        "attempts.",
        "checkpoint": "Write a checkpoint of the ledger, so that opening it reads few entries.",
        "doctor": "Check everything that a run needs. Each warning and failure names its fix.",
    },
    "offset_commands": {
        "offsets": "Cursors: show them, move one forward, adopt a recreated topic."
    },
    "configuring": {
        "settings": "Show which settings of Kafka and Spark a pipeline file takes, and why others "
        "not.",
        "validate": "Check pipeline files without network: all complaints at once. Exit 2 if there "
        "are any.",
        "schema": "Print the JSON Schema of pipeline files, for editors.",
        "init": "Write a first pipeline file with comments. A terminal is asked for what no option "
        "says.",
    },
    "jars": {
        "jars": "Fetch the pinned jars that are missing, and make the archive of Spark's classes."
    },
    "demo": {
        "demo": "Start Kafka and Airflow locally, ingest a year of real flights, and verify the "
        "lake."
    },
    "local": {"local": "Kafka, Postgres and Airflow on this machine."},
}

_MODULES = {name: module for module, found in COMMANDS.items() for name in found}


class Commands(TyperGroup):
    """The group `tidegate`: a command is its name and one line, until it is asked for."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        for found in COMMANDS.values():
            for name, says in found.items():
                self.add_command(TyperCommand(name, help=says))

    def load(self, name: str) -> None:
        """Put the command, or the group of commands, in the place of its name and line."""
        group = typer.main.get_group(import_module(f"tidegate.cli.{_MODULES[name]}").app)
        command = group.commands.get(name, group)
        command.name = name
        self.add_command(command)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in self.commands:
            self.load(args[0])
        return super().resolve_command(ctx, args)
