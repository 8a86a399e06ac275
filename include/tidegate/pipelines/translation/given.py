"""What a reader has found in a text: names and values of settings, as they were given."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Part = Literal["", "read", "write"]
"""Of a program: whether a setting was given to a reader or to a writer of Spark; empty: neither."""

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


@dataclass(frozen=True)
class Given:
    """A setting in the text.

    `value` is None if the text has an expression in its place. An empty name: the line is no
    setting; with None as its value, it is settings that are expressions. `line` begins at 1; of
    JSON it is the number of the entry.
    """

    name: str
    value: str | None
    line: int
    part: Part = ""


@dataclass(frozen=True)
class Read:
    """All that a reader has found; `where` is what `Given.line` counts."""

    settings: tuple[Given, ...]
    what: str
    where: str = "line"
    is_stream: bool = False
    is_program: bool = False


def unescaped(text: str) -> str:
    """Return a text without the backslashes of Java, Scala or Python."""
    return _ESCAPE.sub(
        lambda m: chr(int(m[1], 16)) if m[1] else _ESCAPED.get(m[2], m[2]),
        text,
    )
