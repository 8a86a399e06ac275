"""The fold at an entry as two documents: a head, and one line for each live commit.

There may be many lines. They are read only when a commit is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from itertools import groupby
from typing import Any, get_type_hints

from tidegate.core import canonical
from tidegate.core.entries import Claim, Commit
from tidegate.core.fold import EgressFold, Fold
from tidegate.core.intervals import Intervals, OffsetSets
from tidegate.core.json_codec import Form, form_of


def _write_sets(sets: OffsetSets) -> dict[str, dict[str, Any]]:
    return {
        topic_id: {str(p): [list(span) for span in sets[topic_id, p]] for _, p in keys}
        for topic_id, keys in groupby(sorted(sets), key=lambda key: key[0])
    }


def _read_sets(form: Mapping[str, Mapping[str, Any]]) -> OffsetSets:
    return OffsetSets(
        ((topic_id, int(p)), Intervals(tuple((start, end) for start, end in spans)))
        for topic_id, partitions in form.items()
        for p, spans in partitions.items()
    )


def _spans(numbers: Iterable[int]) -> list[list[int]]:
    return [list(span) for span in Intervals.of((n, n + 1) for n in numbers)]


def _numbers(form: Iterable[Sequence[int]]) -> list[int]:
    return [n for start, end in form for n in range(start, end)]


_CLAIMS = Form(
    lambda claims: [claim.to_json() for claim in claims.values()],
    lambda form: {claim.plan_id: claim for claim in map(Claim.from_json, form)},
)
_OFFSET_SETS = Form(_write_sets, _read_sets)
_IRREGULAR = {
    "covered": _OFFSET_SETS,
    "skipped": _OFFSET_SETS,
    "live": Form(_spans, _numbers),  # the numbers alone: the commits are the lines
    "replaced": Form(
        lambda replaced: {str(n): _write_sets(parts) for n, parts in replaced.items()},
        lambda form: {int(n): _read_sets(parts) for n, parts in form.items()},
    ),
    "unsettled": Form(_spans, lambda form: set(_numbers(form))),
    "committed": Form(
        lambda committed: [[plan, chunk, n] for (plan, chunk), n in committed.items()],
        lambda form: {(plan, chunk): n for plan, chunk, n in form},
    ),
    "claims": _CLAIMS,
}
_OF_EGRESS = get_type_hints(EgressFold)
_HINTS = {name: hint for name, hint in get_type_hints(Fold).items() if name != "egress"}
FORMS = {
    name: _IRREGULAR.get(name) or form_of(hint) for name, hint in {**_HINTS, **_OF_EGRESS}.items()
}
"""How each field of the fold is written, and read. Those of its egress stand beside the others."""
_KEY_OF = {name: name for name in FORMS} | {"barred": "abandoned", "unsettled": "waiting"}


class LiveCommits(MutableMapping[int, Commit]):
    """Live commits by number; those of a checkpoint are parsed when they are first asked for.

    `load` returns one line for each of `numbers`, and is called at most once.
    """

    def __init__(self, numbers: Sequence[int], load: Callable[[], Sequence[bytes]]) -> None:
        self._commits: dict[int, Commit | None] = dict.fromkeys(numbers)  # None: not parsed
        self._at = {n: i for i, n in enumerate(numbers)}
        self._load = load
        self._lines: Sequence[bytes] | None = None

    def __getitem__(self, n: int) -> Commit:
        commit = self._commits[n]
        if commit is None:
            commit = self._commits[n] = Commit.from_json(json.loads(self._line(n)))
        return commit

    def encoded(self, n: int) -> bytes:
        """Return the line of a commit: as it was read, without parsing it, if it was read."""
        return self._line(n) if n in self._at else _encoded(self[n])

    def _line(self, n: int) -> bytes:
        if self._lines is None:
            self._lines = self._load()
        return self._lines[self._at[n]]

    def __setitem__(self, n: int, commit: Commit) -> None:
        self._commits[n] = commit
        self._at.pop(n, None)

    def __delitem__(self, n: int) -> None:
        del self._commits[n]

    def __contains__(self, n: object) -> bool:
        return n in self._commits

    def __iter__(self) -> Iterator[int]:
        return iter(self._commits)

    def __len__(self) -> int:
        return len(self._commits)


def _encoded(commit: Commit) -> bytes:
    return canonical.encode(commit.to_json())


def commit_lines(fold: Fold) -> bytes:
    """Return the live commits, in the order of their numbers."""
    live = fold.live
    read = live.encoded if isinstance(live, LiveCommits) else lambda n: _encoded(live[n])
    return b"\n".join(map(read, sorted(live)))


def fold_head(fold: Fold) -> dict[str, Any]:
    """Return the fold without the content of its live commits."""
    return {
        _KEY_OF[name]: form.write(getattr(fold.egress if name in _OF_EGRESS else fold, name))
        for name, form in FORMS.items()
    }


def fold_of(form: Mapping[str, Any], load: Callable[[], bytes]) -> Fold:
    """Return the fold of a head. `load` returns its lines when a commit is asked for.

    Raises one of MALFORMED for a head that does not fit, also if it lacks a field, or has one that
    this version would drop: a newer release may have written what only its entries say.
    """
    if unknown := form.keys() - _KEY_OF.values():
        raise ValueError(f"unknown fields: {sorted(unknown)}")
    values = {name: FORMS[name].read(form[key]) for name, key in _KEY_OF.items()}
    values["live"] = LiveCommits(values["live"], lambda: load().split(b"\n"))
    egress = EgressFold(**{name: values.pop(name) for name in _OF_EGRESS})
    return Fold(**values, egress=egress)
