"""Offset ranges and their JSON forms.

A *range* is `[start, end)` of one topic partition; `end` is the next offset to read. A *window* is
the ranges of one chunk. `Offsets` maps topic → partition → offset.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from tidegate.core.json_codec import Form

Offsets = Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, order=True, slots=True)
class OffsetRange:
    """Offsets `[start, end)` of one topic partition."""

    topic: str
    partition: int
    start: int
    end: int

    def __post_init__(self) -> None:
        if self.partition < 0 or not 0 <= self.start <= self.end:
            raise ValueError(f"not a range: {self}")

    def __len__(self) -> int:
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} [{self.start}, {self.end})"

    def parts(self, spans: Iterable[tuple[int, int]]) -> list[OffsetRange]:
        """Return the ranges `[start, end)` of the same partition."""
        return [OffsetRange(self.topic, self.partition, start, end) for start, end in spans]


def window_to_json(window: Iterable[OffsetRange]) -> dict[str, dict[str, list[int]]]:
    """Return `{topic: {"0": [start, end]}}`."""
    form: dict[str, dict[str, list[int]]] = {}
    for r in window:
        form.setdefault(r.topic, {})[str(r.partition)] = [r.start, r.end]
    return form


def window_from_json(form: Mapping[str, Mapping[str, list[int]]]) -> Window:
    """Return the ranges of `window_to_json`'s form, sorted."""
    return tuple(
        sorted(
            OffsetRange(topic, int(partition), start, end)
            for topic, partitions in form.items()
            for partition, (start, end) in partitions.items()
        )
    )


Window = Annotated[tuple[OffsetRange, ...], Form(window_to_json, window_from_json)]


def spark_offsets(offsets: Offsets) -> str:
    """Return Spark's JSON, `{"topic":{"0":123}}`: topics sorted, partitions in numeric order."""
    return json.dumps(
        {
            topic: {str(p): offsets[topic][p] for p in sorted(offsets[topic])}
            for topic in sorted(offsets)
        },
        separators=(",", ":"),
    )


def parse_spark_offsets(text: str) -> dict[str, dict[int, int]]:
    """Read Spark's JSON; ValueError for anything else, and for Spark's -1 and -2."""
    try:
        form: Any = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(form, dict) or not all(isinstance(v, dict) for v in form.values()):
        raise ValueError('offsets are {"topic": {"0": 123}}')
    parsed = {t: {int(p): o for p, o in partitions.items()} for t, partitions in form.items()}
    for topic, partitions in parsed.items():
        if len(partitions) < len(form[topic]):
            raise ValueError(f"{topic}: a partition stands there twice")
        for partition, offset in partitions.items():
            if type(offset) is not int or offset < 0 or partition < 0:
                raise ValueError(f"not an offset: {topic}-{partition}: {offset!r}")
    return parsed


def window_bounds(
    chunks: Iterable[Window],
) -> tuple[dict[str, dict[int, int]], dict[str, dict[int, int]]]:
    """Return the lowest start and the highest end per partition over all chunks."""
    starts: dict[str, dict[int, int]] = {}
    ends: dict[str, dict[int, int]] = {}
    for window in chunks:
        for r in window:
            first = starts.setdefault(r.topic, {})
            last = ends.setdefault(r.topic, {})
            first[r.partition] = min(r.start, first.get(r.partition, r.start))
            last[r.partition] = max(r.end, last.get(r.partition, r.end))
    return starts, ends
