"""Coverage: the state of every offset of each partition. Read-only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tidegate.core.cluster_answers import iso
from tidegate.core.coverage import CoverageInterval, partition_coverage
from tidegate.core.fold import Fold
from tidegate.core.intervals import Intervals
from tidegate.core.json_codec import Document
from tidegate.core.offsets import OffsetRange
from tidegate.ingest.status import PipelineState, positions, read_state
from tidegate.lake.store_protocol import Store
from tidegate.runs.kafka_protocol import Kafka
from tidegate.runs.spec_protocol import IngestSpec

FORMAT = 1

IntervalsOf = Mapping[str, Mapping[int, tuple[CoverageInterval, ...]]]


@dataclass(frozen=True)
class PartitionCoverage(Document):
    """The intervals of a partition, without a hole.

    From `expires_at` on, a time in ISO 8601, the first unseen record may be deleted. None if that
    is unknown.
    """

    intervals: tuple[CoverageInterval, ...]
    expires_at: str | None


@dataclass(frozen=True)
class TopicCoverage(Document):
    """A topic by its id, None if nobody knows it, and its partitions."""

    topic_id: str | None
    partitions: Mapping[int, PartitionCoverage]


@dataclass(frozen=True, kw_only=True)
class Coverage(Document):
    """Every offset that the ledger or the broker knows (contract: `coverage --json`).

    `broker` is its error if it does not answer.
    """

    format: int = FORMAT
    pipeline: str
    topics: Mapping[str, TopicCoverage]
    broker: str | None


def read_coverage(spec: IngestSpec, store: Store, kafka: Kafka) -> Coverage:
    """Return every partition's intervals."""
    state = read_state(spec, store, kafka)
    found = coverage_intervals(state)
    expire = kafka.expiries(_first_unseen(found), spec.isolation) if state.watermarks else {}
    return Coverage(
        pipeline=spec.name,
        topics={
            topic: TopicCoverage(
                state.topic_ids.get(topic),
                {
                    p: PartitionCoverage(intervals, iso(expire.get((topic, p))))
                    for p, intervals in partitions.items()
                },
            )
            for topic, partitions in found.items()
        },
        broker=state.problem,
    )


def coverage_intervals(state: PipelineState) -> IntervalsOf:
    """Return the intervals of each partition that the ledger or the broker knows, by topic."""
    recorded = _recorded(state.fold)
    found: dict[str, dict[int, tuple[CoverageInterval, ...]]] = {}
    for topic in state.topics:
        topic_id = state.topic_ids.get(topic, "")
        marks = state.watermarks.get(topic, {})
        found[topic] = {
            p: partition_coverage(
                marks[p].start if at.origin is None else at.origin,
                recorded.get((topic_id, p), ()),
                marks.get(p),
            )
            for p, at in positions(state.fold, topic_id, marks).items()
        }
    return found


def _recorded(fold: Fold) -> dict[tuple[str, int], list[CoverageInterval]]:
    """Return each partition's committed intervals by lane, and its skipped ones with the reason."""
    lanes: dict[tuple[str, int], dict[str, list[tuple[int, int]]]] = {}
    for n, commit in fold.live.items():
        for topic_id, r in fold.live_ranges(n):
            spans = lanes.setdefault((topic_id, r.partition), {})
            spans.setdefault(commit.lane, []).append((r.start, r.end))
    found = {
        key: [
            CoverageInterval(start, end, "covered", lane=lane)
            for lane, spans in by_lane.items()
            for start, end in Intervals.of(spans)
        ]
        for key, by_lane in lanes.items()
    }
    for gap in fold.gaps:
        key = gap.topic_id, gap.partition
        for start, end in fold.skipped[key].within(gap.start, gap.end):
            skipped = CoverageInterval(start, end, "skipped", reason=gap.reason, by=gap.by)
            found.setdefault(key, []).append(skipped)
    return found


def _first_unseen(found: IntervalsOf) -> Iterator[OffsetRange]:
    for topic, partitions in found.items():
        for p, of_partition in partitions.items():
            unseen = [each for each in of_partition if each.state == "unseen"]
            for each in unseen[:1]:
                yield OffsetRange(topic, p, each.start, each.end)
