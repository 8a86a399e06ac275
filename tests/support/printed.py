"""What commands print, on a terminal of 80 columns and in a pipe."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tidegate.terminal import console

WIDTH = 80


def on(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the commands of this process print to a `terminal` without colours, or to a `pipe`."""
    for each in (console.out, console.err):
        monkeypatch.setattr(each, "_force_terminal", place == "terminal")
        monkeypatch.setattr(each, "_color_system", None)
        monkeypatch.setattr(each, "_width", WIDTH)


@contextmanager
def with_log() -> Iterator[None]:
    """Let the commands of this process print the log's lines, as one of their own does."""
    logger, handler = logging.getLogger("tidegate"), console.NoteHandler()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def without_chance(text: str) -> str:
    """Return a text with names in place of plan ids, sizes and keys that differ by chance."""
    text = re.sub(r"\b[0-9a-f]{16}\b", "PLAN", text)
    return re.sub(r"\b[\d,]{3,} bytes", "N bytes", text)


def has_lines(text: str, lines: str) -> bool:
    """Return whether a terminal got these lines, whatever else was displayed between them."""
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", text)
    at = [shown.find(line) for line in lines.splitlines()]
    return at[0] >= 0 and at == sorted(at)
