"""The fold at an entry as documents: a head, and one line for each live commit.

The head is read whole; the lines are many, and read only by who asks for a commit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from itertools import groupby
from typing import Any, get_type_hints

from tidegate.core import canonical
from tidegate.core.entries import Claim, Commit
from tidegate.core.intervals import Intervals
from tidegate.core.json_codec import Form, form_of
from tidegate.core.ledger import Fold

FORMAT = 1


def _coverage(sets: Mapping[tuple[str, int], Intervals]) -> dict[str, dict[str, Any]]:
    return {
        topic_id: {str(p): [list(span) for span in sets[topic_id, p]] for _, p in keys}
        for topic_id, keys in groupby(sorted(sets), key=lambda key: key[0])
    }


def _sets(form: Mapping[str, Mapping[str, Any]]) -> dict[tuple[str, int], Intervals]:
    return {
        (topic_id, int(p)): Intervals(tuple((start, end) for start, end in spans))
        for topic_id, partitions in form.items()
        for p, spans in partitions.items()
    }


def _spans(numbers: Iterable[int]) -> list[list[int]]:
    return [list(span) for span in Intervals.of((n, n + 1) for n in numbers)]


def _numbers(form: Iterable[Sequence[int]]) -> list[int]:
    return [n for start, end in form for n in range(start, end)]


_COVERAGE = Form(_coverage, _sets)
_IRREGULAR = {
    "covered": _COVERAGE,
    "skipped": _COVERAGE,
    "live": Form(_spans, _numbers),  # their numbers; the commits are lines
    "replaced": Form(
        lambda replaced: {str(n): _coverage(parts) for n, parts in replaced.items()},
        lambda form: {int(n): _sets(parts) for n, parts in form.items()},
    ),
    "waiting": Form(_spans, lambda form: set(_numbers(form))),
    "committed": Form(
        lambda committed: [[plan, chunk, n] for (plan, chunk), n in committed.items()],
        lambda form: {(plan, chunk): n for plan, chunk, n in form},
    ),
    "claims": Form(
        lambda claims: [claim.to_json() for claim in claims.values()],
        lambda form: {claim.plan_id: claim for claim in map(Claim.from_json, form)},
    ),
}
FORMS = {name: _IRREGULAR.get(name) or form_of(hint) for name, hint in get_type_hints(Fold).items()}
"""How each field of the fold is written, and read."""


class LiveCommits(MutableMapping[int, Commit]):
    """Live commits by number; those of a checkpoint are parsed when somebody asks for them.

    `load` returns one line for each of `numbers`, and is called at most once.
    """

    def __init__(self, numbers: Sequence[int], load: Callable[[], Sequence[bytes]]) -> None:
        self._known: dict[int, Commit | None] = dict.fromkeys(numbers)
        self._at = {n: i for i, n in enumerate(numbers)}
        self._load = load
        self._lines: Sequence[bytes] | None = None

    def __getitem__(self, n: int) -> Commit:
        commit = self._known[n]
        if commit is None:
            if self._lines is None:
                self._lines = self._load()
            commit = Commit.from_json(json.loads(self._lines[self._at[n]]))
            self._known[n] = commit
        return commit

    def __setitem__(self, n: int, commit: Commit) -> None:
        self._known[n] = commit

    def __delitem__(self, n: int) -> None:
        del self._known[n]

    def __contains__(self, n: object) -> bool:
        return n in self._known

    def __iter__(self) -> Iterator[int]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def lines(fold: Fold) -> bytes:
    """Return the live commits, in the order of their numbers."""
    return b"\n".join(canonical.encode(fold.live[n].to_json()) for n in sorted(fold.live))


def head(fold: Fold) -> dict[str, Any]:
    """Return all of the fold but the content of its live commits."""
    return {name: form.write(getattr(fold, name)) for name, form in FORMS.items()}


def fold_of(form: Mapping[str, Any], load: Callable[[], bytes]) -> Fold:
    """Return the fold of a head; `load` returns its lines, when a commit is asked for."""
    values = {name: each.read(form[name]) for name, each in FORMS.items()}
    values["live"] = LiveCommits(values["live"], lambda: load().split(b"\n"))
    return Fold(**values)
