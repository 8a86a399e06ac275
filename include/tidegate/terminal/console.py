"""Output and exit codes of the commands."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from tidegate.core.wording import duration
from tidegate.errors import TidegateError

Document = Mapping[str, Any]
Results = Iterable[tuple[str, Any]]
"""Names of pipelines, each with its document or its error."""


# In rising severity: a script that retries on 4 must not hide a 1, 2 or 3.
_SEVERITY = (0, 4, 1, 2, 3)

out = Console(emoji=False)  # else `:100:` in a name becomes one
err = Console(stderr=True, emoji=False)


class Stopped(Exception):
    """The user or the system has ended the command."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class NoteHandler(logging.Handler):
    """Prints log records as notes, so that they do not disturb a progress display."""

    def emit(self, record: logging.LogRecord) -> None:
        note(self.format(record))


def say(text: str | Text, style: str | None = None) -> None:
    """Print a line of the result on stdout. It is never broken or cut: a terminal may wrap it."""
    out.print(_printable(text), style=style, markup=False, highlight=False, soft_wrap=True)


def clear() -> None:
    """Clear the terminal, if it is one."""
    out.clear()


def note(text: str, style: str | None = None) -> None:
    """Print a progress line or a warning on stderr, neither broken nor cut."""
    err.print(_printable(text), style=style, markup=False, highlight=False, soft_wrap=True)


def _printable(text: str | Text) -> str | Text:
    """Return a text without the control characters that values, reasons and errors may have."""
    from tidegate.core.printable import CONTROL, escape_text

    if isinstance(text, str):
        return escape_text(text)
    if CONTROL.search(text.plain):
        text = text.copy()
        text.plain = CONTROL.sub(
            "\N{REPLACEMENT CHARACTER}", text.plain
        )  # styles keep their places
    return text


def say_columns(names: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows in aligned columns, as wide as they have to be. The last ends where its text does.

    A name that begins with `>` is aligned to the right. (Tables of rich cut what is too wide.)
    """
    from tidegate.core.printable import printable_name

    heading = [name.removeprefix(">") for name in names]
    lines = [[printable_name(cell) for cell in line] for line in (heading, *rows)]
    widths = [max(map(cell_len, cells)) for cells in zip(*lines, strict=True)]
    for n, line in enumerate(lines):
        cells = [
            cell.rjust(width) if name.startswith(">") else cell.ljust(width)
            for name, cell, width in zip(names, line, widths, strict=True)
        ]
        say(Text(f"  {'  '.join(cells)}".rstrip(), style="" if n else "bold"))


def fix_lines(text: str) -> Iterator[str]:
    """Yield the ways out of a problem, a line each. None for an empty text."""
    for number, way in enumerate(text.split("; ") if text else ()):
        yield f"  {' ' if number else '→'} {way}"


def time_until(time: str | None) -> str:
    """Return how far away an ISO time is: `in 6d 23h`, `now` if it has passed. Empty for None."""
    if time is None:
        return ""
    seconds = (datetime.fromisoformat(time) - now()).total_seconds()
    return f"in {duration(seconds)}" if seconds > 0 else "now"


def time_since(time: str) -> str:
    """Return how long ago an ISO time was: `2h 3m`."""
    return duration((now() - datetime.fromisoformat(time)).total_seconds())


def now() -> datetime:
    return datetime.now(UTC)


def bold(name: str, text: str = "") -> Text:
    """Return a name in bold, and the text that follows it."""
    from tidegate.core.printable import escape_text

    return Text.assemble((escape_text(name), "bold"), escape_text(text))


def as_form(document: Any) -> Any:
    """Return a document in its JSON form."""
    return document.to_json() if hasattr(document, "to_json") else document


def answer(document: Any, show: Callable[[Any], None], *, as_json: bool) -> None:
    """Print a document as JSON, or show it to a person."""
    if as_json:
        print(json.dumps(as_form(document)))
    else:
        show(document)


def error_form(error: Exception) -> dict[str, Any]:
    """Return the public form of an error. One that is not Tidegate's own is `Internal`."""
    if isinstance(error, TidegateError):
        return error.to_json()
    message = f"{type(error).__name__}: {error}"
    return {"name": "Internal", "kind": "terminal", "message": message, "numbers": {}}


def exit_code(error: Exception) -> int:
    """Return the exit code of a command that ends with this error."""
    return error.exit_code if isinstance(error, TidegateError) else 1


def worst_exit_code(*codes: int) -> int:
    """Return the most severe of the exit codes of several pipelines."""
    return max(codes, key=_SEVERITY.index)
