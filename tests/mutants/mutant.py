"""The form of a mutant."""

from typing import NamedTuple


class Mutant(NamedTuple):
    """A guard: its file below include/tidegate, its text, the text to replace it, and its test."""

    name: str
    file: str
    guard: str
    instead: str
    test: str
