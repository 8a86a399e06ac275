"""The nearest of the known names, for messages about a name that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice

_ASKED, _OFFERED = 3, 5_000


def did_you_mean(
    names: str | Iterable[str], known: Iterable[str], *, closeness: float = 0.6
) -> str:
    """Return `; did you mean 'x'?` with the nearest known name of each, or an empty text.

    `closeness` is the least ratio of difflib, 1 for equal names.
    """
    known = list(islice(known, _OFFERED))
    asked = [names] if isinstance(names, str) else islice(names, _ASKED)
    near = [
        each
        for name in asked
        for each in difflib.get_close_matches(name, known, n=1, cutoff=closeness)
    ]
    return f"; did you mean {' or '.join(map(repr, dict.fromkeys(near)))}?" if near else ""
