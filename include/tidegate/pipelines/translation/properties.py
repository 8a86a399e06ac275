"""Java's properties, and Spark's: `name = value`, `name: value` or `name value` in a line."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tidegate.pipelines.translation.given import Given, unescaped

_SETTING = re.compile(r"((?:\\.|[^\s=:\\])+)(\s*[=:]\s*|\s+)(.*)", re.DOTALL)


def read(text: str) -> Iterator[Given]:
    """Yield the settings. Names in front of a blank need a dot: other lines may be a key's text."""
    for number, line in _lines(text):
        match = _SETTING.fullmatch(line)
        name = unescaped(match[1]) if match else ""
        if not match or (not match[2].strip() and "." not in name):
            yield Given("", "", number)
        else:
            yield Given(name, unescaped(match[3]), number)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines with their numbers, those that end with a backslash with the next one."""
    whole, first, in_pem = "", 0, False
    for number, raw in enumerate(re.split("\r\n|\r|\n", text), 1):
        line = raw.lstrip(" \t\f")
        if not whole:
            first = number
            in_pem, skipped = _pem(line, in_pem=in_pem)
            if skipped or not line.strip() or line[0] in "#!":
                continue
        if (len(line) - len(line.rstrip("\\"))) % 2:
            whole += line[:-1]
        else:
            yield first, (whole + line).rstrip("\n")
            whole = ""
    if whole:
        yield first, whole


def _pem(line: str, *, in_pem: bool) -> tuple[bool, bool]:
    """Return whether the next lines are a key or certificate, and whether this one is a part."""
    if in_pem:
        return "-----END " not in line, True
    return "-----BEGIN " in line and "-----END " not in line, False
