"""Windows: the edges that a user gives, and the offset ranges that they mean.

Edges are offsets or timestamps. Timestamps become offsets by frozen *boundaries*, so that adjacent
windows neither overlap nor leave a gap, whatever timestamps the records have.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo

from tidegate.core.boundaries import Boundary
from tidegate.core.offsets import OffsetRange, parse_spark_offsets

Edge = int | Mapping[int, int] | datetime
"""One offset for all partitions, one for each, or a timestamp."""


_AGO = re.compile(r"-([0-9]{1,6})([dhm])")
_UNITS = {"d": "days", "h": "hours", "m": "minutes"}
_RANGE = re.compile(r"([A-Za-z0-9._-]{1,249}):([0-9]+):([0-9]+)-([0-9]+)")


def anchor_edge(edge: str | None, zone: tzinfo, now: datetime) -> str | None:
    """Return an edge that means the same tomorrow, in any zone.

    A date is its midnight in `zone`, a time without a zone is one in `zone`, and `-1d`, `-6h` or
    `-30m` are as long before `now`. Any other text is returned as it is.
    """
    text = (edge or "").strip()
    if ago := _AGO.fullmatch(text):
        number, unit = ago.groups()
        with suppress(OverflowError):  # before the year 1: no time, and refused as such
            at = now - timedelta(**{_UNITS[unit]: int(number)})
            return at.replace(microsecond=0).isoformat()
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return edge
    # 20260314 is also an offset.
    return edge if text.isdecimal() or at.tzinfo else at.replace(tzinfo=zone).isoformat()


def parse_range(text: str) -> OffsetRange:
    """Return the range that `orders:0:120-340` stands for; ValueError for any other form."""
    found = _RANGE.fullmatch(text.strip())
    if not found:
        raise ValueError(f"range {text!r}: give topic, partition and offsets, as orders:0:120-340")
    topic, partition, start, end = found.groups()
    if int(start) > int(end):
        raise ValueError(f"range {text!r}: start {start} is after end {end}")
    return OffsetRange(topic, int(partition), int(start), int(end))


@dataclass
class Edges:
    """A window's edges, as far as they are valid. `complaints` says what is not."""

    start: Edge | None = None
    end: Edge | None = None
    complaints: list[str] = field(default_factory=list)

    @property
    def timestamps(self) -> list[datetime]:
        """The edges that are timestamps."""
        return [edge for edge in (self.start, self.end) if isinstance(edge, datetime)]

    @property
    def partitions(self) -> set[int]:
        """The partitions that the edges name."""
        return {p for edge in (self.start, self.end) if isinstance(edge, Mapping) for p in edge}

    def end_at(self, ends: Mapping[int, int], partitions: Iterable[int]) -> None:
        """Let a window without an end be one up to these offsets. A partition without one is
        empty.
        """
        if self.start is not None and self.end is None and not self.complaints:
            self.end = {p: ends.get(p, 0) for p in partitions}

    def discard(self, *edges: Edge) -> None:
        """Drop edges that a complaint names, so that nothing is concluded from them."""
        self.start = None if self.start in edges else self.start
        self.end = None if self.end in edges else self.end


def parse_edges(topic: str, start: str | None, end: str | None, now: datetime) -> Edges:
    """Return a window's edges, with every complaint about them.

    A window with a start may have no end: it ends where the caller's offsets do.
    """
    edges = Edges()
    edges.start = _parse("start", start, topic, edges.complaints)
    if (end or "").strip() or not (start or "").strip():
        edges.end = _parse("end", end, topic, edges.complaints)
    if start and end and edges.start is not None and edges.end is not None:
        if len(edges.timestamps) == 1:
            edges.complaints.append(
                f"start {start} and end {end}: give both as offsets, or both as timestamps"
            )
            edges.discard(*edges.timestamps)
        elif edges.timestamps and edges.timestamps[0] > edges.timestamps[1]:
            edges.complaints.append(f"start {start} is after end {end}")
            edges.discard(*edges.timestamps)
    for at in edges.timestamps:
        if at > now:
            edges.complaints.append(f"{at.isoformat()} is in the future: it has no offset yet")
            edges.discard(at)
    return edges


def _parse(name: str, text: str | None, topic: str, complaints: list[str]) -> Edge | None:
    if text is None or not text.strip():
        complaints.append(f"{name}: missing")
        return None
    text = text.strip()
    try:
        if text.lstrip("-").isdecimal():
            if text.startswith("-"):
                raise ValueError("an offset is not negative")
            return int(text)
        if text.startswith("{"):
            given = parse_spark_offsets(text)
            if given.keys() != {topic}:
                raise ValueError(f'offsets are {{"{topic}": {{"0": 123}}}}')
            return given[topic]
        at = datetime.fromisoformat(text)
        if at.tzinfo is None:
            said = at.isoformat()
            raise ValueError(f"a time without a zone: say {said}Z or {said}+01:00")
        return at
    except (ValueError, TypeError, AttributeError) as error:
        what = str(error)
        if "isoformat" in what:
            what = "neither an offset, nor offsets in Spark's form, nor a time with a zone"
        complaints.append(f"{name} {text!r}: {what}")
        return None


def choose_partitions(
    partitions: Iterable[int] | None,
    edges: Edges,
    existing: Iterable[int],
    complaints: list[str],
    assigned: Collection[int] | None = None,
) -> list[int]:
    """Return the requested partitions; for None those that an edge names, or all existing ones.

    `assigned` are the only ones that may be requested. None: all.
    """
    known = set(existing)
    allowed = known if assigned is None else known & set(assigned)
    asked = set(partitions) if partitions is not None else edges.partitions or allowed
    if partitions is not None and not asked:
        complaints.append("partitions: none is named; name some, or leave it out for all")
    if unknown := sorted(asked - known):
        complaints.append(f"no partitions {unknown}: {_there_are(sorted(known))}")
    if others := sorted((asked & known) - allowed):
        complaints.append(f"partitions {others} are not assigned: `assign` names {sorted(allowed)}")
    if partitions is not None and (unasked := sorted(edges.partitions - asked)):
        complaints.append(f"offsets for partitions {unasked}, which are not asked for")
    return sorted(asked & allowed)


def resolve_ranges(
    topic: str,
    partitions: Iterable[int],
    edges: Edges,
    boundaries: Mapping[datetime, Boundary],
    complaints: list[str],
) -> list[OffsetRange]:
    """Return a window's range in each partition. Add a complaint where the edges make none."""
    window = []
    for p in partitions:
        start = _offset(edges.start, p, boundaries)
        end = _offset(edges.end, p, boundaries)
        for name, edge, offset in (("start", edges.start, start), ("end", edges.end, end)):
            if isinstance(edge, Mapping) and offset is None:
                complaints.append(f"partition {p}: {name} says nothing of it")
        if start is not None and end is not None:
            if start > end and not edges.timestamps:
                complaints.append(f"partition {p}: start {start} is after end {end}")
            else:
                window.append(OffsetRange(topic, p, start, max(start, end)))
    return window


def _offset(
    edge: Edge | None, partition: int, boundaries: Mapping[datetime, Boundary]
) -> int | None:
    match edge:
        case None | int():
            return edge
        case datetime():
            return boundaries[edge].offsets.get(partition, 0)
    return edge.get(partition)


def _there_are(partitions: list[int]) -> str:
    if len(partitions) == 1:
        return f"there is only {partitions[0]}"
    if partitions and partitions == list(range(len(partitions))):
        return f"there are 0 to {partitions[-1]}"
    return f"there are {', '.join(map(str, partitions)) or 'none'}"
