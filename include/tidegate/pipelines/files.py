"""Reading pipeline files from a directory."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tidegate.errors import ConfigurationError
from tidegate.pipelines.spec import Ingest, Spec, parse

_VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")


def directory() -> Path:
    """Return where pipeline files are: TIDEGATE_PIPELINES, else `include/pipelines`."""
    named = os.environ.get("TIDEGATE_PIPELINES")
    return Path(named) if named else Path(__file__).parents[2] / "pipelines"


def load(path: Path, environ: Mapping[str, str] = os.environ) -> Spec:
    """Read one file; ConfigurationError names the file and all that is wrong with it."""
    try:
        form: Any = yaml.safe_load(path.read_text())
    except FileNotFoundError:
        raise ConfigurationError(f"{path}: there is no such pipeline file") from None
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: cannot be read: {error}") from None
    if not isinstance(form, dict):
        raise ConfigurationError(f"{path}: a pipeline file is a mapping of keys to values")
    missing: list[str] = []
    form = _expand(form, environ, missing)
    complaints = [f"${{{name}}} is not set in the environment" for name in dict.fromkeys(missing)]
    if "name" in form and form["name"] != path.stem:
        complaints.append(f"name: {form['name']!r} must be the file's own name, {path.stem!r}")
    try:
        spec = parse(form)
    except ValueError as error:
        complaints.extend(str(error).splitlines())
    if complaints:
        listed = "\n".join(f"  - {each}" for each in complaints)
        raise ConfigurationError(f"{path}:\n{listed}", file=str(path), complaints=complaints)
    return spec


def load_named(name: str) -> Spec:
    """Read the file of the pipeline with this name; the error lists those that exist."""
    path = directory() / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(names()) or "none"
        raise ConfigurationError(
            f"there is no pipeline {name!r} in {directory()}; there are: {known}"
        )
    return load(path)


def load_ingest(name: str) -> Ingest:
    """Read the file of an ingest pipeline; an egress one is refused by name."""
    spec = load_named(name)
    if not isinstance(spec, Ingest):
        raise ConfigurationError(f"pipeline {name!r} is an egress: this is for ingest pipelines")
    return spec


def names() -> list[str]:
    """Return the names of the pipelines that have a file, good or bad."""
    return sorted(path.stem for path in directory().glob("*.yaml"))


def ingest_names() -> list[str]:
    """Return the names of the ingest pipelines whose file is right."""
    return [name for name, spec in _sound() if isinstance(spec, Ingest)]


def replay_names() -> list[str]:
    """Return the names of the sound pipelines with a lake to replay: to read, or to send from."""
    return [name for name, spec in _sound() if isinstance(spec, Ingest) or spec.source.lake]


def _sound() -> Iterator[tuple[str, Spec]]:
    for name in names():
        with contextlib.suppress(ConfigurationError):
            yield name, load_named(name)


def _expand(value: Any, environ: Mapping[str, str], missing: list[str]) -> Any:
    match value:
        case dict():
            return {key: _expand(inner, environ, missing) for key, inner in value.items()}
        case list():
            return [_expand(inner, environ, missing) for inner in value]
        case str():
            missing += [
                m["name"]
                for m in _VARIABLE.finditer(value)
                if m["default"] is None and m["name"] not in environ
            ]
            return _VARIABLE.sub(lambda m: environ.get(m["name"]) or m["default"] or "", value)
    return value
