"""Texts from outside, such as file names, in a form that every terminal and database accepts."""

from __future__ import annotations

import re

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def escape_text(text: str) -> str:
    """Return a text with control characters, and bytes that are not UTF-8, as `\\x…` escapes."""
    return CONTROL.sub(_escaped, text)


def printable_name(text: str) -> str:
    """Return a name as `printable` does, with tabs and line ends escaped too."""
    return escape_text(text).replace("\t", "\\t").replace("\n", "\\n")


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    # A byte of a file name that is not UTF-8, as Python holds it.
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else repr(match[0])[1:-1]
