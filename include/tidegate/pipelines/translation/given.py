"""What a reader has found in a text: names and values of settings, as they were given."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


@dataclass(frozen=True)
class Given:
    """A setting in the text; without a name, the line is no setting.

    `line` begins at 1; of JSON it is the number of the entry.
    """

    name: str
    value: str
    line: int


@dataclass(frozen=True)
class Read:
    """All that a reader has found; `where` is what `Given.line` counts."""

    settings: tuple[Given, ...]
    what: str
    where: str = "line"


def unescaped(text: str) -> str:
    """Return a text without the backslashes of Java."""
    return _ESCAPE.sub(
        lambda m: chr(int(m[1], 16)) if m[1] else _ESCAPED.get(m[2], m[2]),
        text,
    )
