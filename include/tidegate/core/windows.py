"""Windows: the edges that a user gives, and the offset ranges that they mean.

Edges are offsets or moments. Moments become offsets once, as *boundaries*: frozen, so
that adjacent windows tile whatever the timestamps do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tidegate.core.boundaries import Boundary
from tidegate.core.offsets import OffsetRange, parse_spark_offsets

Edge = int | Mapping[int, int] | datetime
"""One offset for all partitions, one for each, or a moment."""


@dataclass
class Edges:
    """A window's edges as far as they make sense; `complaints` says what does not."""

    start: Edge | None = None
    end: Edge | None = None
    complaints: list[str] = field(default_factory=list)

    @property
    def moments(self) -> list[datetime]:
        return [edge for edge in (self.start, self.end) if isinstance(edge, datetime)]

    def forget(self, *edges: Edge) -> None:
        """Draw no further conclusions from edges that were complained of."""
        self.start = None if self.start in edges else self.start
        self.end = None if self.end in edges else self.end

    @property
    def named(self) -> set[int]:
        """The partitions that an edge names."""
        return {p for edge in (self.start, self.end) if isinstance(edge, Mapping) for p in edge}


def edges(topic: str, start: str | None, end: str | None, now: datetime) -> Edges:
    """Read a window's edges; every complaint at once."""
    found = Edges()
    found.start = _edge("start", start, topic, found.complaints)
    found.end = _edge("end", end, topic, found.complaints)
    if start and end and found.start is not None and found.end is not None:
        if len(found.moments) == 1:
            found.complaints.append(
                f"start {start} and end {end}: give both as offsets, or both as timestamps"
            )
            found.forget(*found.moments)
        elif found.moments and found.moments[0] > found.moments[1]:
            found.complaints.append(f"start {start} is after end {end}")
            found.forget(*found.moments)
    for moment in found.moments:
        if moment > now:
            found.complaints.append(f"{moment.isoformat()} is in the future: it has no offset yet")
            found.forget(moment)
    return found


def _edge(name: str, text: str | None, topic: str, complaints: list[str]) -> Edge | None:
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
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError(f"a time without a zone: say {text}Z or {text}+01:00")
        return moment
    except (ValueError, TypeError, AttributeError) as error:
        complaints.append(f"{name} {text!r}: {_said(error)}")
        return None


def _said(error: Exception) -> str:
    if "isoformat" in str(error):
        return "neither an offset, nor offsets in Spark's form, nor a time with a zone"
    return str(error)


def chosen(
    partitions: Iterable[int] | None, found: Edges, there: Iterable[int], complaints: list[str]
) -> list[int]:
    """Return the partitions that are meant: those asked for, else those that an edge names."""
    known = set(there)
    asked = set(partitions) if partitions is not None else found.named or known
    if partitions is not None and not asked:
        complaints.append("partitions: none is named; name some, or leave it out for all")
    if strangers := sorted(asked - known):
        complaints.append(f"no partitions {strangers}: there are {_listed(sorted(known))}")
    if partitions is not None and (strangers := sorted(found.named - asked)):
        complaints.append(f"offsets for partitions {strangers}, which are not asked for")
    return sorted(asked & known)


def ranges(
    topic: str,
    partitions: Iterable[int],
    found: Edges,
    boundaries: Mapping[datetime, Boundary],
    complaints: list[str],
) -> list[OffsetRange]:
    """Return a window's range in each partition; complain of edges that make none."""
    window = []
    for p in partitions:
        start = _offset(found.start, p, boundaries)
        end = _offset(found.end, p, boundaries)
        for name, edge, offset in (("start", found.start, start), ("end", found.end, end)):
            if isinstance(edge, Mapping) and offset is None:
                complaints.append(f"partition {p}: {name} says nothing of it")
        if start is not None and end is not None:
            if start > end and not found.moments:
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


def _listed(partitions: list[int]) -> str:
    if partitions == list(range(len(partitions))) and len(partitions) > 1:
        return f"0 to {partitions[-1]}"
    return ", ".join(map(str, partitions)) or "none"
