"""Reading pipeline files from a directory."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.core.nearest import did_you_mean
from tidegate.core.printable import CONTROL, escape_text, printable_name
from tidegate.errors import ConfigurationError
from tidegate.pipelines import decode_spec, yaml_reader
from tidegate.pipelines.complaints import quote_value
from tidegate.pipelines.spec import Egress, Ingest, Spec, parse_spec
from tidegate.pipelines.yaml_reader import BadFile

_VARIABLE = re.compile(
    r"(?P<escape>\$)?\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>(?:[^}$]|\$(?!\{))*+))?\}"
)
ALLOWED = "TIDEGATE_VARIABLES"
"""The variable that lists further names, with commas, beside those that begin with TIDEGATE_."""
# Texts that may come from data, or are SQL: a column can have the name `${X}`.
_NOT_EXPANDED = (("decode",), ("columns",), ("order_by",), ("source", "columns"))
# Their values are judged as settings: `${X}` is then a value whose variable is not set.
_JUDGED = {"options", "conf", "producer"}
_LEFT = "holds ${…} after it was expanded: defaults and values are not expanded again"
_NOT_UNICODE = re.compile("[\ud800-\udfff]")
_TO_DO = re.compile("^# TO DO: ", re.MULTILINE)
_LONGEST = 1_000  # characters of a key's path
_SAID = re.compile(r"^(?P<key>kind|schedule):(?P<value>[^\n]*)$", re.MULTILINE)
_COMMENT = re.compile(r"[ \t]#")
ENDINGS = (".yaml", ".yml")
CHECKOUT = Path(__file__).parents[3]
_SET = "set TIDEGATE_PIPELINES to the directory of the pipeline files"


def pipelines_directory() -> Path:
    """Return where pipeline files are: TIDEGATE_PIPELINES, in a checkout else `include/pipelines`.

    ConfigurationError if there is neither.
    """
    if named := os.environ.get("TIDEGATE_PIPELINES"):
        return Path(named)
    if (CHECKOUT / "pyproject.toml").is_file():
        return CHECKOUT / "include" / "pipelines"
    raise ConfigurationError(f"no directory of pipeline files is known; {_SET}")


Loaded = Mapping[str, Spec | ConfigurationError]
"""Names of pipelines, each with its spec or with what is wrong with its file."""


@dataclass(frozen=True)
class Examined:
    """What is in a pipeline file: all complaints, and keys whose variable is not set.

    `spec` is None if there are complaints. Of unset variables it has no values, or made-up ones.
    """

    spec: Spec | None
    complaints: tuple[str, ...]
    unset: tuple[str, ...]


def load_spec(path: Path, environ: Mapping[str, str] = os.environ) -> Spec:
    """Return the spec of one file; ConfigurationError names the file and everything wrong in it.

    No other exception is raised, whatever the file contains: one bad file must not stop others.
    """
    where = escape_text(str(path))
    try:
        found = examine_file(path, environ)
    except BadFile as error:
        raise ConfigurationError(f"{where}: {error}") from None
    complaints = [*found.unset, *found.complaints]
    if complaints or not found.spec:
        listed = "\n".join(f"  - {each}" for each in complaints)
        raise ConfigurationError(f"{where}:\n{listed}", file=where, complaints=complaints)
    return found.spec


def examine_file(path: Path, environ: Mapping[str, str] = os.environ) -> Examined:
    """Return what is in a file; BadFile, and no other exception, if it cannot be read."""
    try:
        return examine_text(_text(path), path.stem, environ, path.parent)
    except FileNotFoundError:
        raise BadFile("there is no such pipeline file") from None
    except OSError as error:
        raise BadFile(f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadFile("cannot be read: not UTF-8") from None
    except BadFile as error:
        raise BadFile(f"cannot be read: {error}") from None
    except Exception as error:  # not foreseen by a check. Its text may quote the file
        raise BadFile(f"cannot be read: {type(error).__name__}") from None


def examine_text(
    text: str, name: str, environ: Mapping[str, str], beside: Path | None = None
) -> Examined:
    """Return what is in the text of a file with this name. BadFile if it is no mapping in YAML.

    Files of schemas are looked for in the directory `beside`, by default that of all pipelines.
    """
    form, of_yaml = yaml_reader.read_yaml(text)
    if not isinstance(form, dict):
        raise BadFile("a pipeline file is a mapping of keys to values")
    form, unset, wrong = _expand(form, environ)
    if "decode" in form:
        form, unread = decode_spec.read_schema_files(form, beside or pipelines_directory())
        wrong += unread
    found = list[str]()
    if "name" in form and form["name"] != name:
        stated = " ".join(filter(None, ["name:", quote_value(form["name"])]))
        found.append(f"{stated} must be the file's own name, {quote_value(name)}")
    spec = None
    try:
        spec = parse_spec(form)
    except ValueError as error:
        found += str(error).splitlines()
    keys = [each.partition(": ")[0] for each in (*unset, *wrong)]
    known = frozenset(keys)
    news = (each for each in found if not _is_about(each, known))
    complaints = [escape_text(each) for each in dict.fromkeys([*of_yaml, *wrong, *news])]
    if spec is None and not complaints:
        with contextlib.suppress(ValueError):
            spec = parse_spec(_without(form, keys, name))
    unset = [escape_text(each) for each in dict.fromkeys(unset)]
    return Examined(None if complaints else spec, tuple(complaints), tuple(unset))


def complaints_beside(path: Path, spec: Spec | None) -> list[str]:
    """Return what is wrong with a file by others: two of its name, or no source of its lake.

    A source is looked for beside it, and in the directory of all pipelines.
    """
    found = []
    same = sorted(each.name for each in _files_named(path.parent, path.stem))
    if len(same) > 1:
        found.append(f"name: {' and '.join(map(quote_value, same))} have it: remove one")
    lake = spec.source.lake if isinstance(spec, Egress) else None
    if lake is None:
        return found
    places = [place for place in (path.parent, pipelines_directory()) if place.is_dir()]
    sources = [file for place in places for file in _files_named(place, lake)]
    if not sources:
        known = (p.stem for place in places for p in place.iterdir() if p.suffix in ENDINGS)
        near = did_you_mean(lake, known)
        found.append(f"source.lake: there is no pipeline {quote_value(lake)}{near}")
    with contextlib.suppress(BadFile):
        if sources and isinstance(examine_file(sources[0]).spec, Egress):
            found.append(
                f"source.lake: {quote_value(lake)} is an egress, which has no lake of rows"
            )
    return found


def _is_about(complaint: str, keys: frozenset[str]) -> bool:
    about = complaint.partition(": ")[0]
    ends = [i for i, c in enumerate(about[:_LONGEST]) if c == "."]
    return about in keys or any(about[:i] in keys for i in ends)


def _without(form: dict[str, Any], keys: Iterable[str], name: str) -> dict[str, Any]:
    """Return a form without the keys whose variables are not set, but with what each file needs."""
    unset = {key.partition(".")[0] for key in keys}
    made_up = {"name": name, "lake": "/"}
    return {
        key: made_up.get(key, value) if key in unset else value
        for key, value in form.items()
        if key not in unset or key in made_up
    }


def load_named(name: str) -> Spec:
    """Return the spec of the pipeline with this name; ConfigurationError lists those that exist.

    It offers the nearest name.
    """
    found = _paths_of(name)
    if len(found) > 1:
        both = " and ".join(escape_text(path.name) for path in found)
        raise ConfigurationError(f"pipeline {name!r} has two files, {both}: remove one")
    if not found:
        existing = pipeline_names()
        near = did_you_mean(Path(name).stem, existing)
        listed = ", ".join(existing) or "none"
        inner = [path for path in pipelines_directory().iterdir() if path.is_dir()]
        below = [path.name for path in inner if "/" not in name and _files_named(path, name)]
        unread = f"; the one in {below[0]}/ is not read: move it up" if below else ""
        raise ConfigurationError(
            escape_text(
                f"there is no pipeline {name!r} in {pipelines_directory()}; there are: "
                f"{listed}{near}{unread}"
            )
        )
    return load_spec(found[0])


def _paths_of(name: str) -> list[Path]:
    """Return the files of one pipeline, without reading the directory: there may be thousands."""
    return [] if "/" in name else _files_named(pipelines_directory(), name)


def _files_named(directory: Path, name: str) -> list[Path]:
    found = (directory / f"{name}{ending}" for ending in ENDINGS)
    return [path for path in found if os.path.lexists(path)]


def name_of(text: str) -> str:
    """Return the name that a user means by a name, or by the path of a file in the directory.

    ConfigurationError for a file that is elsewhere.
    """
    path = Path(text)
    if path.suffix not in ENDINGS and path.name == text:
        return text
    if path.name != text and path.resolve().parent != pipelines_directory().resolve():
        raise ConfigurationError(
            escape_text(
                f"{text} is not in {pipelines_directory()}, the directory of the pipeline files: "
                f"move it there, or set TIDEGATE_PIPELINES to {path.resolve().parent}"
            )
        )
    return path.stem


def load_ingest(name: str) -> Ingest:
    """Return the spec of an ingest pipeline; ConfigurationError for an egress."""
    spec = load_named(name)
    if not isinstance(spec, Ingest):
        raise ConfigurationError(f"pipeline {name!r} is an egress: this is for ingest pipelines")
    return spec


def pipeline_paths() -> list[Path]:
    """Return all pipeline files, valid or not.

    ConfigurationError if there is no such directory: an empty answer would hide a wrong setting.
    """
    if not (place := pipelines_directory()).is_dir():
        raise ConfigurationError(escape_text(f"there is no directory {place}; {_SET}"))
    return sorted(path for path in place.iterdir() if path.suffix in ENDINGS)


def pipeline_names() -> list[str]:
    """Return the printable names of all pipeline files, valid or not; ConfigurationError as
    `paths`.
    """
    return sorted({printable_name(path.stem) for path in pipeline_paths()})


def load_all(names: Iterable[str]) -> Loaded:
    """Return the spec of each of these pipelines, or what is wrong with its file."""
    loaded: dict[str, Spec | ConfigurationError] = {}
    for name in names:
        try:
            loaded[name] = load_named(name)
        except ConfigurationError as error:
            loaded[name] = error
    return loaded


def load_valid() -> dict[str, Spec]:
    """Return the specs of all pipelines whose file is valid, by name."""
    return valid_specs(load_all(pipeline_names()))


def valid_specs(loaded: Loaded) -> dict[str, Spec]:
    """Return the specs of the pipelines whose file is valid."""
    return {name: spec for name, spec in loaded.items() if not isinstance(spec, ConfigurationError)}


def unchecked_lines(name: str) -> dict[str, str] | None:
    """Return what the lines `kind:` and `schedule:` of a pipeline's file say, unchecked.

    Of a file that is wrong, or no YAML at all. None if it cannot be read.
    """
    try:
        path = _paths_of(name)[0]
        if not path.is_file():
            return None
        with path.open("rb") as file:
            text = file.read(yaml_reader.MOST_BYTES).decode(errors="replace")
    except (OSError, ValueError, IndexError):
        return None
    allowed = {name: value for name, value in os.environ.items() if _is_allowed(name, os.environ)}
    return {
        m["key"]: _VARIABLE.sub(lambda v: _value(v, allowed, ""), value.strip(" \t")).strip("\"'")
        for m in _SAID.finditer(text)
        for value in _COMMENT.split(m["value"], 1)[:1]
    }


def _text(path: Path) -> str:
    if path.exists() and not path.is_file():
        raise BadFile("not a file")
    with path.open("rb") as file:
        data = file.read(yaml_reader.MOST_BYTES + 1)
    if len(data) > yaml_reader.MOST_BYTES:
        raise BadFile(f"larger than {yaml_reader.MOST_BYTES // 1024} KiB")
    return data.decode()


def _expand(
    form: dict[str, Any], environ: Mapping[str, str]
) -> tuple[dict[str, Any], list[str], list[str]]:
    """Return the form with its variables expanded, those that are not set, and complaints: of
    unprintable texts, and of those that still have a variable.

    A variable that is not set stays as it is written.
    """
    missing: list[str] = []
    wrong: list[str] = []

    def check(text: str, refused: re.Pattern[str], *at: str) -> None:
        if refused.search(text):
            wrong.append(f"{'.'.join(at)}: holds a control character, or is not Unicode")

    def expanded(value: Any, *at: str) -> Any:
        match value:
            case dict():
                for key in value:
                    check(str(key), CONTROL, *at, str(key))
                return {key: expanded(inner, *at, str(key)) for key, inner in value.items()}
            case list():
                return [expanded(inner, *at) for inner in value]
            case str() if any(at[: len(place)] == place for place in _NOT_EXPANDED):
                check(value, CONTROL, *at)
            case str():
                # Behind the last brace is none, and each search would read to the end.
                end = value.rfind("}") + 1
                found = [*_VARIABLE.finditer(value, 0, end)]
                used = [m for m in found if not m["escape"]]
                if len(used) < len(found) and {*at} & _JUDGED:
                    wrong.append(f"{'.'.join(at)}: $${{…}} is no value of a setting")
                    return value
                for name in dict.fromkeys(m["name"] for m in used):
                    if not _is_allowed(name, environ):
                        wrong.append(
                            f"{'.'.join(at)}: ${{{name}}} may not be used: names begin with "
                            f"TIDEGATE_, or are listed in {ALLOWED}"
                        )
                        return value
                missing.extend(
                    f"{'.'.join(at)}: ${{{m['name']}}} is not set in the environment"
                    for m in used
                    if m["default"] is None and m["name"] not in environ
                )
                if sum(len(_value(m, environ)) for m in found) > yaml_reader.MOST_BYTES:
                    wrong.append(f"{'.'.join(at)}: is too long after it was expanded")
                    return value
                text = _VARIABLE.sub(lambda m: _value(m, environ), value[:end]) + value[end:]
                emptied = _VARIABLE.sub(lambda m: _value(m, environ, ""), value[:end]) + value[end:]
                if _VARIABLE.search(emptied, 0, emptied.rfind("}") + 1):
                    wrong.append(f"{'.'.join(at)}: {_LEFT}")
                # A reader's separators and quotes may be control characters.
                options = at[:2] == ("source", "options")
                check(text, _NOT_UNICODE if options else CONTROL, *at)
                return text
        return value

    return expanded(form), missing, wrong


def _is_allowed(name: str, environ: Mapping[str, str]) -> bool:
    """Return whether pipeline files may use a variable."""
    listed = (each.strip() for each in environ.get(ALLOWED, "").split(","))
    return name.startswith("TIDEGATE_") or name in listed


def _value(variable: re.Match[str], environ: Mapping[str, str], unset: str | None = None) -> str:
    """Return the value of a variable. If it is not set: `unset`, or the text itself."""
    name, default = variable["name"], variable["default"]
    if variable["escape"]:
        return variable[0][1:] if unset is None else ""
    if default is not None:
        return environ.get(name) or default
    return environ.get(name, variable[0] if unset is None else unset)
