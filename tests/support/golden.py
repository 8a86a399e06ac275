"""What commands print, kept in files: `pytest --update` writes them, a review reads the difference.

A file has the sections of a command, each for one moment of a test: `=== test_name 1`.
"""

from __future__ import annotations

import re
from pathlib import Path

HOME = Path(__file__).parents[1] / "contracts/golden"
HEAD = re.compile(r"^=== (\w+ \d+)\n", re.MULTILINE)


def sections(command: str) -> dict[str, str]:
    """Return the sections of a command's file, by name."""
    path = HOME / f"{command}.txt"
    _, *parts = HEAD.split(path.read_text()) if path.exists() else [""]
    return dict(zip(parts[::2], parts[1::2], strict=True))


class Golden:
    """Compares what is printed with the sections of one test, in the order of the calls."""

    def __init__(self, test: str, *, update: bool) -> None:
        self._test, self._update, self._calls = test, update, 0

    def __call__(self, command: str, printed: str | tuple[int | str, ...]) -> None:
        """Assert that this is what a command prints: stdout, or exit code, stdout and stderr."""
        self._calls += 1
        name, text = f"{self._test} {self._calls}", _text(printed)
        kept = sections(command)
        if self._update:
            kept[name] = text
            written = "".join(f"=== {each}\n{kept[each]}" for each in sorted(kept, key=_place))
            (HOME / f"{command}.txt").write_text(written)
        assert text == kept.get(name), f"{name} of {command}.txt; --update writes it"


def _text(printed: str | tuple[int | str, ...]) -> str:
    if isinstance(printed, str):
        text = printed
    else:
        *code, out, err = printed
        head = "".join(f"exit code {each}\n" for each in code)
        text = f"{head}{out}" + (f"--- stderr\n{err}" if err else "")
    return text if text.endswith("\n") else f"{text}\n"


def _place(name: str) -> tuple[str, int]:
    test, _, number = name.partition(" ")
    return test, int(number)
