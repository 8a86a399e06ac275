"""What the page shows, as texts and heights: rows of the overview, charts, times, ways out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from tidegate.core.ended_run import EndedRun
from tidegate.core.printable import escape_text
from tidegate.core.wording import counted, duration
from tidegate.runs.history import MOST_RUNS
from tidegate.runs.pipeline_state import State
from tidegate.ui.watch import Look

HEALTHY = {State.OK, State.IDLE}
COLUMNS = (
    ("state", "state", False),
    ("name", "pipeline", True),
    ("waiting", "waiting", False),
    ("through", "complete through", False),
    ("ended", "last run", True),
    ("", "next run", False),
    ("rows", "rows of 24 h", False),
    ("bad", "bad rows", False),
    ("", "seen", False),
)
"""The key by which a column sorts, its name, and whether it is text."""
_DAY, HOUR = 24, timedelta(hours=1)
_UNITS = ("B", "KB", "MB", "GB", "TB")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONG = 200  # characters of a value, or bytes
_ORDER = [*State]
_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Row:
    """A line of the overview. `hours` are heights in percent, of rows by hour, the oldest first."""

    name: str
    kind: str
    state: str
    reason: str
    fix: str
    waiting: int | None
    through: datetime | None
    last: EndedRun | None
    ended: datetime | None
    took: float
    next_run: datetime | None
    rows: int
    has_all_rows: bool
    hours: Sequence[int]
    bad: int
    at: datetime

    @property
    def is_told(self) -> bool:
        """Whether the reason is shown."""
        return self.state not in (*HEALTHY, State.RUNNING)


def row_of(look: Look, now: datetime) -> Row:
    """Return the line of a pipeline."""
    last = look.runs[-1] if look.runs else None
    by_hour = [0] * _DAY
    for run in look.runs:
        age = int((now - moment(run.ended)) / HOUR)
        if 0 <= age < _DAY:
            by_hour[_DAY - 1 - age] += run.rows
    return Row(
        name=look.name,
        kind=look.spec.kind if look.spec else "",
        state=look.judged.state.value,
        reason=look.judged.reason,
        fix=look.judged.fix,
        waiting=look.judged.waiting,
        through=look.complete_through,
        last=last,
        ended=moment(last.ended) if last else None,
        took=took(last) if last else 0.0,
        next_run=look.dag.next_run if look.dag else None,
        rows=sum(by_hour),
        has_all_rows=len(look.runs) < MOST_RUNS or now - moment(look.runs[0].ended) > _DAY * HOUR,
        hours=heights(by_hour),
        bad=bad_rows(look),
        at=look.at,
    )


def bad_rows(look: Look) -> int:
    """Return how many rows of live commits do not fit; of an egress those of the newest runs."""
    undecodable = getattr(look.status, "undecodable", None)
    if undecodable is None:
        return sum(run.bad for run in look.runs)
    return sum(rows for reasons in undecodable.values() for rows in reasons.values())


_SORTED: Mapping[str, Callable[[Row], Any]] = {
    "name": lambda row: row.name,
    "waiting": lambda row: -(row.waiting or 0),
    "through": lambda row: row.through or datetime.min.replace(tzinfo=UTC),
    "ended": lambda row: row.ended or datetime.min.replace(tzinfo=UTC),
    "rows": lambda row: -row.rows,
    "bad": lambda row: -row.bad,
}


def sorted_rows(rows: Sequence[Row], key: str) -> list[Row]:
    """Return rows by a column's key, the worst first; by default those of the worst state."""
    worst = sorted(rows, key=lambda row: (_ORDER.index(State(row.state)), row.name))
    return sorted(worst, key=_SORTED[key]) if key in _SORTED else worst


class BarPart(NamedTuple):
    """A part of a bar: its class, its top and its height in percent of the chart."""

    kind: str
    y: int
    height: int


class Bar(NamedTuple):
    """The bar of a run: where it begins, what it says, and its parts."""

    x: int
    title: str
    parts: list[BarPart]


@dataclass(frozen=True)
class Chart:
    """A chart of runs, the oldest first. `most` is the value of the highest bar."""

    most: int = 0
    bars: list[Bar] = field(default_factory=list)

    @property
    def width(self) -> int:
        return 10 * max(len(self.bars), 1)


def charts(runs: Sequence[EndedRun]) -> dict[str, Chart]:
    """Return the charts of rows, seconds by step, and what waited after each run."""
    return {
        "rows": _chart(runs, [[("rows", run.rows)] for run in runs], "row"),
        "seconds": _chart(runs, [list(run.steps.items()) for run in runs], "second"),
        "lag": _chart(runs, [[("lag", run.lag or 0)] for run in runs], "waiting"),
    }


def _chart(
    runs: Sequence[EndedRun], values: Sequence[Sequence[tuple[str, int]]], noun: str
) -> Chart:
    totals = [sum(n for _, n in each) for each in values]
    most = max(totals, default=0)
    bars = []
    for place, (run, parts, total) in enumerate(zip(runs, values, totals, strict=True)):
        y, drawn = 100, []
        for kind, n in parts:
            height = -(-100 * n // most) if most else 0
            y -= height
            drawn.append(BarPart("failed" if run.error else kind, y, height))
        if run.error and not total:
            drawn = [BarPart("failed", 97, 3)]
        what = f"{total:,} {noun}" if noun == "waiting" else counted(total, noun)
        bars.append(Bar(10 * place, f"{run.run}: {what}", drawn))
    return Chart(most, bars)


def heights(values: Sequence[int]) -> list[int]:
    """Return numbers as percent of the largest, at least 1 for what is not 0."""
    most = max(values, default=0)
    return [-(-100 * n // most) if most else 0 for n in values]


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def took(run: EndedRun) -> float:
    """Return how many seconds a run took."""
    return (moment(run.ended) - moment(run.began)).total_seconds()


def human(at: datetime, now: datetime | None = None) -> str:
    """Return how far away a time is: `3m 10s ago`, `in 2h`."""
    seconds = (at - (now or datetime.now(UTC))).total_seconds()
    return f"in {duration(seconds)}" if seconds > 0 else f"{duration(-seconds)} ago"


def size(n: int | None) -> str:
    """Return bytes in the largest unit that leaves at least 1: `1.2 MB`. Units are of 1,000."""
    if n is None:
        return "—"
    value, unit = float(n), _UNITS[0]
    for unit in _UNITS:
        if value < 1000 or unit == _UNITS[-1]:
            break
        value /= 1000
    return f"{n} B" if unit == "B" else f"{value:.1f} {unit}"


def content(value: Any) -> str:
    """Return a key, a value or typed columns as text. Bytes that are no UTF-8 are hex digits."""
    if isinstance(value, dict):
        value = json.dumps(value, ensure_ascii=False, default=content)
    elif isinstance(value, bytes):
        value = _text_of(value)
    text = "NULL" if value is None else str(value)
    return escape_text(text) if len(text) <= _LONG else f"{escape_text(text[:_LONG])}…"


def _text_of(value: bytes) -> str:
    head = value[: 4 * _LONG + 4]  # more is not shown
    ends = range(4) if len(head) < len(value) else (0,)  # within a character
    for end in ends:
        with suppress(UnicodeDecodeError):
            return head[: len(head) - end].decode()
    return f"0x{head.hex()}"


def instant(microseconds: int) -> str:
    """Return a time as text. Years that Python has not are a number."""
    with suppress(OverflowError):
        return (_EPOCH + timedelta(microseconds=microseconds)).isoformat(timespec="milliseconds")
    return f"{microseconds} µs since 1970"


class Way(NamedTuple):
    """A way out: texts, each with whether it is code, and the command to copy, if any."""

    parts: list[tuple[str, bool]]
    command: str


def ways(fix: str) -> list[Way]:
    """Return the ways out of a problem. Commands stand in backticks."""
    found = []
    for way in fix.split("; "):
        parts = [(text, bool(n % 2)) for n, text in enumerate(_CODE.split(way)) if text]
        code = next((text for text, is_code in parts if is_code), "")
        found.append(Way(parts, code if code.startswith(("tidegate ", "airflow ")) else ""))
    return found


def worst_first(partitions: Mapping[int, Any]) -> list[tuple[int, Any]]:
    """Return partitions by their lag, the largest first."""
    return sorted(partitions.items(), key=lambda each: (-(each[1].lag or 0), each[0]))


def spans(ranges: Sequence[Sequence[int]]) -> int:
    """Return how many offsets ranges have."""
    return sum(end - start for start, end in ranges)
