"""Commands about pipeline files and their settings, without a lake or Spark."""

from __future__ import annotations

import enum
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, get_args

import typer

from tidegate.cli.arguments import Json
from tidegate.core.printable import escape_text
from tidegate.core.wording import counted
from tidegate.errors import ConfigurationError, TidegateError, UnknownTopic
from tidegate.pipelines import pipeline_files as pipeline_files
from tidegate.pipelines import scaffold
from tidegate.pipelines.scaffold import Proposal
from tidegate.pipelines.spec import Ingest
from tidegate.pipelines.value_types import is_pipeline_name, pipeline_name
from tidegate.pipelines.yaml_reader import BadFile
from tidegate.settings.table import TABLE, find_settings
from tidegate.spark.formats import FileFormatName
from tidegate.terminal import render_settings
from tidegate.terminal.console import answer, note, say
from tidegate.terminal.render_settings import Validated, ValidatedFile

app = typer.Typer()
_FORMATS = ", ".join(get_args(FileFormatName))


@app.command()
def settings(
    name: Annotated[
        str | None,
        typer.Argument(help="One setting, in any letter case, with or without `kafka.`."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show which settings of Kafka and Spark a pipeline file takes, and why others not."""
    if name is None:
        answer(
            render_settings.settings_document(TABLE), render_settings.print_table, as_json=as_json
        )
    else:
        from tidegate.broker.connection_fields import fields

        found = render_settings.settings_document(find_settings(name, fields()))
        answer(found, render_settings.print_named, as_json=as_json)


@app.command()
def validate(
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Names, or paths of pipeline files. By default all pipelines."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check pipeline files without network: all complaints at once. Exit 2 if there are any."""
    paths = [_named(path) for path in files or ()] or pipeline_files.pipeline_paths()
    if not paths:
        where = pipeline_files.pipelines_directory()
        raise ConfigurationError(
            f"there are no pipeline files in {where}; write one by `tidegate init`"
        )
    found = Validated(files=tuple(map(_validated, paths)))
    answer(found, render_settings.print_validated, as_json=as_json)
    raise typer.Exit(2 if any(each.complaints for each in found.files) else 0)


def _named(path: Path) -> Path:
    """Return the file of a pipeline that is given by its name. Any other path as it is."""
    if path.is_file() or path.name != str(path) or path.suffix:
        return path
    return next((each for each in pipeline_files.pipeline_paths() if each.stem == path.name), path)


def _validated(path: Path) -> ValidatedFile:
    try:
        found = pipeline_files.examine_file(path)
    except BadFile as error:
        beside = pipeline_files.complaints_beside(path, None)
        return ValidatedFile(escape_text(str(path)), (str(error), *beside), ())
    unset = (f"{each}: not checked" for each in found.unset)
    notices = (*unset, *(found.spec.notices if found.spec else ()))
    beside = pipeline_files.complaints_beside(path, found.spec)
    return ValidatedFile(escape_text(str(path)), (*found.complaints, *beside), notices)


@app.command()
def schema(
    output: Annotated[Path | None, typer.Option(help="A file to write. By default stdout.")] = None,
) -> None:
    """Print the JSON Schema of pipeline files, for editors."""
    from tidegate.pipelines.editor_schema import editor_schema as schema_of_files

    text = json.dumps(schema_of_files(), indent=1)
    if output is None:
        print(text)
    else:
        try:
            output.write_text(f"{text}\n")
        except OSError as error:
            raise _unwritten(output, error) from None
        note(f"wrote {escape_text(str(output))}")


class Kind(enum.StrEnum):
    """What a pipeline moves where."""

    INGEST = "ingest"
    EGRESS = "egress"


@app.command()
def init(
    name: Annotated[str | None, typer.Option(help="The pipeline, and its file.")] = None,
    kind: Annotated[
        Kind | None,
        typer.Option(
            help="ingest: topics into a lake (the default); egress: files to a topic (the default "
            "with --source or --format)."
        ),
    ] = None,
    topic: Annotated[list[str] | None, typer.Option(help="Repeat it for several.")] = None,
    source: Annotated[
        str | None,
        typer.Option(help="Egress: a path, glob or URL, or the name of an ingest pipeline."),
    ] = None,
    file_format: Annotated[
        str | None, typer.Option("--format", help=f"Egress: {_FORMATS}.")
    ] = None,
    lake: Annotated[
        str | None, typer.Option(help="A directory or URL. By default ${TIDEGATE_LAKE}.")
    ] = None,
    kafka: Annotated[
        str | None, typer.Option(help="A connection's id. By default kafka_default.")
    ] = None,
    sample: Annotated[
        bool,
        typer.Option(
            help="Ingest: look at the topics, and propose typed columns by the newest records."
        ),
    ] = True,
) -> None:
    """Write a first pipeline file with comments. A terminal is asked for what no option says."""
    kind = _kind(kind, {"--source": source, "--format": file_format})
    needed: list[object] = [name, topic]
    if kind is Kind.EGRESS:
        needed += [source, file_format or (source and is_pipeline_name(source))]
    answers = _Answers(asking=sys.stdin.isatty() and not all(needed))
    name = answers.choose(name, "--name", "Name of the pipeline")
    if name:
        _check_new(name)
    kinds = f"Kind ({', '.join(Kind)})"
    kind = Kind(answers.choose(kind, "--kind", kinds, Kind.INGEST.value, _kind_named))
    topics = topic or answers.choose(None, "--topic", "Topics, with commas").split(",")
    if kind is Kind.EGRESS:
        source = answers.choose(source, "--source", "Path, glob or URL, or an ingest pipeline")
        if not is_pipeline_name(source):
            file_format = answers.choose(file_format, "--format", _FORMATS)
    lake = answers.choose(lake, "--lake", "Lake: a directory or URL", "${TIDEGATE_LAKE}")
    kafka = answers.choose(kafka, "--kafka", "Kafka connection", "kafka_default")
    if answers.missing:
        raise ConfigurationError(f"give {', '.join(answers.missing)}, or run this in a terminal")
    topics = [each.strip() for each in topics]
    if kind is Kind.EGRESS:
        _write(name, _egress_text(name, str(source), str(file_format), topics, lake, kafka))
        return
    text = scaffold.ingest_text(name, topics, lake, kafka)
    if sample and (proposals := _proposed(name, text)):
        text = scaffold.ingest_text(name, topics, lake, kafka, proposals)
    _write(name, text)


class _Answers:
    """Answers by options, by a terminal if it is asked, or by default."""

    def __init__(self, *, asking: bool) -> None:
        self.asking = asking
        self.missing: list[str] = []  # options without an answer

    def choose(
        self,
        value: str | None,
        option: str,
        question: str,
        default: str = "",
        check: Callable[[str], str] | None = None,
    ) -> str:
        """Return the value of an option, or the answer to its question."""
        if not value and self.asking:
            value = typer.prompt(question, default=default or None, value_proc=check, err=True)
        if not (value or default):
            self.missing.append(option)
        return value or default


def _egress_text(
    name: str, source: str, file_format: str, topics: list[str], lake: str, kafka: str
) -> str:
    """Return the file of an egress, with the columns of its first files where they are read."""
    if len(topics) > 1:
        raise ConfigurationError("give one --topic: several need target.topics in the file")
    from tidegate.egress.proposal import columns_below
    from tidegate.lake.store import STORES
    from tidegate.spark import formats

    is_known = file_format in get_args(formats.FileFormatName)
    columns = (
        columns_below(source, formats.format_of_files(file_format), STORES) if is_known else None
    )
    return scaffold.egress_text(name, source, file_format, topics[0], lake, kafka, columns)


def _proposed(name: str, text: str) -> dict[str, Proposal]:
    """Return proposals for the topics of a pipeline file, if its Kafka can be asked.

    UnknownTopic if it has no such topic.
    """
    spec = pipeline_files.examine_text(text, name, os.environ).spec
    if not isinstance(spec, Ingest):
        return {}
    from tidegate.orchestration import command_connections
    from tidegate.samples.proposed_decoder import propose_decoders

    try:
        kafka = command_connections.kafka(spec)
    except TidegateError:
        return {}  # it is not defined yet
    note(f"a sample of {', '.join(spec.topics)} from {kafka.cluster}")
    try:
        found = propose_decoders(spec, kafka, spec.topics)
    except UnknownTopic as error:
        said = f"nothing was written: {error} (--no-sample does not ask)"
        raise UnknownTopic(said, **error.numbers) from None
    except TidegateError as error:
        note(f"no columns are proposed: {error}", "yellow")
        return {}
    for topic, each in found.items():
        said = f"columns of {each.decoder.format}" if each.decoder else "no columns are proposed"
        by = counted(each.records, "record") if each.records else "a topic without records"
        note(f"  {topic}: {said}, by {by}")
        for remark in each.remarks:
            note(f"    {remark}", "yellow")
    return {topic: each for topic, each in found.items() if each.decoder}


def _kind_named(text: str) -> str:
    """Return the kind that an answer names; typer.BadParameter, to ask again, if it names none."""
    if text not in list(Kind):
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(Kind)}")
    return text


def _kind(kind: Kind | None, of_egress: dict[str, str | None]) -> Kind | None:
    """Return the kind that the options say. ConfigurationError if they contradict it."""
    given = [option for option, value in of_egress.items() if value]
    if given and kind is Kind.INGEST:
        raise ConfigurationError(f"{', '.join(given)}: of an egress; give --kind egress")
    return Kind.EGRESS if given else kind


def _check_new(name: str) -> None:
    """Raise ConfigurationError if a pipeline cannot have this name, or has it already."""
    try:
        pipeline_name(name)
    except ValueError as error:
        text = f"nothing was written:\n  - name: {escape_text(repr(name))}: {error}"
        raise ConfigurationError(text) from None
    place = pipeline_files.pipelines_directory()
    if path := next(
        (p for e in pipeline_files.ENDINGS if (p := place / f"{name}{e}").exists()), None
    ):
        raise _exists(path)


def _write(name: str, text: str) -> None:
    """Write a new pipeline file, and the schema beside it unless there is one."""
    found = pipeline_files.examine_text(text, name, os.environ)
    if found.complaints:
        listed = "\n".join(f"  - {each}" for each in found.complaints)
        raise ConfigurationError(f"nothing was written:\n{listed}")
    path = pipeline_files.pipelines_directory() / f"{name}.yaml"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritten(path, error) from None
    _create(path, text)
    say(f"wrote {path}")
    if not (beside := path.with_name(scaffold.SCHEMA)).exists():
        schema(beside)
    for each in found.unset:
        note(f"{each}: set it before a run")
    say(f"next: tidegate doctor {name}, tidegate explain {name}, tidegate run {name}")


def _create(path: Path, text: str) -> None:
    """Write a new file. ConfigurationError if there is one."""
    try:
        with path.open("x") as file:
            file.write(text)
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise _unwritten(path, error) from None


def _exists(path: Path) -> ConfigurationError:
    return ConfigurationError(
        f"{escape_text(str(path))} exists, and stays as it is: edit it, or give another --name"
    )


def _unwritten(path: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(f"{escape_text(str(path))} was not written: {error.strerror}")
