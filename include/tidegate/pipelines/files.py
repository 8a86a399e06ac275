"""Reading pipeline files from a directory."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tidegate.core.nearest import did_you_mean
from tidegate.core.printable import CONTROL, printable, printable_name
from tidegate.errors import ConfigurationError
from tidegate.pipelines import yaml_reader
from tidegate.pipelines.complaints import quoted
from tidegate.pipelines.spec import Ingest, Spec, parse
from tidegate.pipelines.yaml_reader import BadFile

_VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
_NOT_UNICODE = re.compile("[\ud800-\udfff]")


def directory() -> Path:
    """Return where pipeline files are: TIDEGATE_PIPELINES, else `include/pipelines`."""
    named = os.environ.get("TIDEGATE_PIPELINES")
    return Path(named) if named else Path(__file__).parents[2] / "pipelines"


def load(path: Path, environ: Mapping[str, str] = os.environ) -> Spec:
    """Return the spec of one file; ConfigurationError names the file and everything wrong in it.

    No other exception is raised, whatever the file contains: one bad file must not stop others.
    """
    where = printable(str(path))
    try:
        form, complaints = _form(path)
        form, more = _expand(form, environ)
        complaints += more
        if "name" in form and form["name"] != path.stem:
            name = " ".join(filter(None, ["name:", quoted(form["name"])]))
            complaints.append(f"{name} must be the file's own name, {quoted(path.stem)}")
        try:
            spec = parse(form)
        except ValueError as error:
            named = {each.partition(": ")[0] for each in more}  # what follows for them is no news
            lines = str(error).splitlines()
            complaints += [line for line in lines if line.partition(": ")[0] not in named]
    except FileNotFoundError:
        raise ConfigurationError(f"{where}: there is no such pipeline file") from None
    except OSError as error:
        raise ConfigurationError(f"{where}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{where}: cannot be read: not UTF-8") from None
    except BadFile as error:
        raise ConfigurationError(f"{where}: cannot be read: {error}") from None
    except Exception as error:  # not foreseen by a check; its text may quote the file
        raise ConfigurationError(f"{where}: cannot be read: {type(error).__name__}") from None
    if complaints:
        complaints = [printable(each) for each in dict.fromkeys(complaints)]
        listed = "\n".join(f"  - {each}" for each in complaints)
        raise ConfigurationError(f"{where}:\n{listed}", file=where, complaints=complaints)
    return spec


def load_named(name: str) -> Spec:
    """Return the spec of the pipeline with this name; ConfigurationError lists those that exist.

    It offers the nearest name.
    """
    path = directory() / f"{name}.yaml"
    if Path(name).name != name or not path.is_file():  # a path is no name
        existing = names()
        near = did_you_mean(Path(name).name.removesuffix(".yaml"), existing)
        listed = ", ".join(existing) or "none"
        raise ConfigurationError(
            printable(f"there is no pipeline {name!r} in {directory()}{near}; there are: {listed}")
        )
    return load(path)


def load_ingest(name: str) -> Ingest:
    """Return the spec of an ingest pipeline; ConfigurationError for an egress."""
    spec = load_named(name)
    if not isinstance(spec, Ingest):
        raise ConfigurationError(f"pipeline {name!r} is an egress: this is for ingest pipelines")
    return spec


def names() -> list[str]:
    """Return the printable names of all pipeline files, valid or not."""
    return sorted(printable_name(path.stem) for path in directory().glob("*.yaml"))


def ingest_names() -> list[str]:
    """Return the names of the ingest pipelines whose file is valid."""
    return [name for name, spec in valid_specs() if isinstance(spec, Ingest)]


def replay_names() -> list[str]:
    """Return the names of the valid pipelines that read into a lake or send from one."""
    return [name for name, spec in valid_specs() if isinstance(spec, Ingest) or spec.source.lake]


def valid_specs() -> Iterator[tuple[str, Spec]]:
    """Yield name and spec of each pipeline whose file is valid."""
    for name in names():
        with contextlib.suppress(ConfigurationError):
            yield name, load_named(name)


def _form(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Return a file's keys and values, and complaints about its keys."""
    if path.exists() and not path.is_file():
        raise BadFile("not a file")
    with path.open("rb") as file:
        data = file.read(yaml_reader.MOST_BYTES + 1)
    if len(data) > yaml_reader.MOST_BYTES:
        raise BadFile(f"larger than {yaml_reader.MOST_BYTES // 1024} KiB")
    form, complaints = yaml_reader.read(data.decode())
    if not isinstance(form, dict):
        raise BadFile("a pipeline file is a mapping of keys to values")
    return form, complaints


def _expand(form: dict[str, Any], environ: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """Return the form with its variables expanded, and complaints about its texts."""
    missing: list[str] = []
    unprintable: list[str] = []

    def check(text: str, refused: re.Pattern[str], *at: str) -> None:
        if refused.search(text):
            unprintable.append(f"{'.'.join(at)}: holds a control character, or is not Unicode")

    def expanded(value: Any, *at: str) -> Any:
        match value:
            case dict():
                for key in value:
                    check(str(key), CONTROL, *at, str(key))
                return {key: expanded(inner, *at, str(key)) for key, inner in value.items()}
            case list():
                return [expanded(inner, *at) for inner in value]
            case str():
                missing.extend(
                    f"{'.'.join(at)}: ${{{m['name']}}} is not set in the environment"
                    for m in _VARIABLE.finditer(value)
                    if m["default"] is None and m["name"] not in environ
                )
                text = _VARIABLE.sub(lambda m: environ.get(m["name"]) or m["default"] or "", value)
                # A reader's separators and quotes may be control characters.
                options = at[:2] == ("source", "options")
                check(text, _NOT_UNICODE if options else CONTROL, *at)
                return text
        return value

    form = expanded(form)
    return form, [*missing, *unprintable]
