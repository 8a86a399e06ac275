"""A pipeline file as text: YAML with a comment beside each key, and lists of other answers."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from tidegate import __version__
from tidegate.core.printable import printable_name
from tidegate.pipelines.translation import connection
from tidegate.pipelines.translation.draft import Draft

_WIDTH = 100
_STYLE: dict[str, Any] = {
    "default_flow_style": False, "allow_unicode": True, "sort_keys": False, "width": _WIDTH,
}  # fmt: skip
_LIKE_A_NUMBER = re.compile(r"[-+.]?[0-9]|[-+]?\.(inf|nan)", re.IGNORECASE)
_ORDER = (
    "name", "kind", "kafka", "topics", "pattern", "assign", "source", "target", "lake", "schedule",
    "start", "max_records", "isolation", "on_expired", "options", "spark",
)  # fmt: skip


class _Dumper(yaml.SafeDumper):
    """Writes lists in a line, and quotes what any reader of YAML may take for a number: `1e3`."""

    def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> Any:
        del flow_style
        return super().represent_sequence(tag, sequence, flow_style=True)


def _represent(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = '"' if _LIKE_A_NUMBER.match(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent)


def text(draft: Draft, what: str) -> str:
    """Return the file; `what` says what it was made from."""
    name = draft.form["name"]
    lines = [
        *_comment(f"include/pipelines/{name}.yaml"),
        *_comment(f"Translated from {what} by Tidegate {__version__}. Beside each key is the "
                  "setting that it comes from."),
    ]  # fmt: skip
    for missing in draft.missing:
        lines += _comment(f"TO DO: {missing}")
    lines += ["", *_keys(draft.form, draft, ())]
    lines += _listed("Dropped, for they are not needed here:", draft.dropped)
    lines += _listed("Refused:", draft.refused)
    if draft.connection:
        lines += ["", *_comment(f"The Kafka connection, from {', '.join(draft.connected)} (put in "
                                "what is in capitals):")]  # fmt: skip
        for each in connection.command(draft.connection):
            lines += _comment(each, wrapped=False)
    if draft.commands:
        lines.append("")
        for each in draft.commands:
            lines += _comment(each, wrapped=False)
    return "\n".join(lines) + "\n"


def _keys(form: dict[str, Any], draft: Draft, path: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of a mapping, in a stable order, with the comments of its keys."""
    indent = "  " * len(path)
    names = form if path else sorted(form, key=_ORDER.index)
    for name in names:
        value, here = form[name], (*path, name)
        for comment in filter(None, draft.comments.get(here, ())):
            yield from _comment(comment, indent)
        if isinstance(value, dict) and any(each[: len(here)] == here and each != here
                                           for each in draft.comments):  # fmt: skip
            yield f"{indent}{name}:"
            yield from _keys(value, draft, here)
        else:
            dumped = yaml.dump({name: value}, Dumper=_Dumper, **_STYLE)
            yield from (f"{indent}{line}" for line in dumped.splitlines())


def _listed(heading: str, notes: Mapping[str, Iterable[str]]) -> list[str]:
    listed = [f"{', '.join(names)}: {why}" for why, names in notes.items()]
    lines = [line for note in listed for line in _comment(note, bullet="- ")]
    return ["", *_comment(heading), *lines] if lines else []


def _comment(text: str, indent: str = "", *, bullet: str = "", wrapped: bool = True) -> list[str]:
    """Return a text as lines of a comment; it is free of control characters then."""
    safe = bullet + printable_name(text)
    width = _WIDTH - len(indent) - 2 if wrapped else len(safe) + 1
    lines = textwrap.wrap(
        safe, width, subsequent_indent=" " * len(bullet), break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
    return [f"{indent}# {line}" for line in lines]
