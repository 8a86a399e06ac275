"""Which options a library may be given, with which values, and why others are refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Check = Callable[[str], str | None]
"""Returns what is wrong with a value; None: nothing."""


@dataclass(frozen=True)
class OptionTable:
    """`refused` has the reason by name; `allowed` the check of the value, None: all other names.

    `kind` describes an option in complaints. With `ignore_case`, all names are in lower case here.
    """

    kind: str
    refused: Mapping[str, str]
    allowed: Mapping[str, Check] | None = None
    required: tuple[str, ...] = ()
    ignore_case: bool = False

    def complaints(self, given: Mapping[str, str]) -> list[str]:
        """Return all that is wrong with some options, each with its name."""
        names = [name.lower() if self.ignore_case else name for name in given]
        wrong = [f"{name}: missing" for name in self.required if name not in names]
        wrong += [
            f"{n}: given twice" for n in sorted(n for n, k in Counter(names).items() if k > 1)
        ]
        for name, value in sorted(zip(names, given.values(), strict=True)):
            if complaint := self._complaint(name, value):
                wrong.append(f"{name}: {complaint}")
        return wrong

    def _complaint(self, name: str, value: str) -> str | None:
        if name in self.refused:
            return f"refused: {self.refused[name]}"
        if self.allowed is None:
            return None
        if name not in self.allowed:
            return f"not {self.kind} that may be given; known: {', '.join(sorted(self.allowed))}"
        return self.allowed[name](value)
