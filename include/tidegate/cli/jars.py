"""`tidegate jars`: what Spark needs on this machine before the first run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli.arguments import Json
from tidegate.core.wording import counted
from tidegate.terminal.console import Document, answer, note, say

app = typer.Typer()


@app.command("jars")
def fetch(
    with_broker: Annotated[
        bool, typer.Option("--local", help="Also those of the local stack's Kafka broker.")
    ] = False,
    no_archive: Annotated[
        bool, typer.Option("--no-archive", help="Jars alone: for an image or another machine.")
    ] = False,
    spark: Annotated[
        Path | None,
        typer.Option("--spark-home", help="Jars for the Spark in this directory. No archive."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Fetch the pinned jars that are missing, and make the archive of Spark's classes."""
    from tidegate.launch import jars, job_zip, spark_jars
    from tidegate.launch.spark_submit import ensure_archive

    names = spark_jars.locks_of(spark) if spark else [*jars.OF_SPARK]
    names += [jars.OF_THE_BROKER] if with_broker else []
    with jars.cache_errors():
        files = {file.name for name in names for file in jars.ensure_jars(name, spark)}
    job_zip.build_zip()  # a run may be another user's, who may not write there
    archive = None if no_archive or spark else ensure_archive(note)
    found = {
        "format": 1,
        "directory": str(jars.cache_dir() / "jars"),
        "jars": sorted(files),
        "archive": str(archive) if archive else None,
    }
    answer(found, _print, as_json=as_json)


def _print(found: Document) -> None:
    say(f"{counted(len(found['jars']), 'jar')} in {found['directory']}")
    if found["archive"]:
        say(f"archive of classes: {found['archive']}")
