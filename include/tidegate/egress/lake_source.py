"""A lake as a source: its unsent offsets, and the files that contain a plan's window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tidegate.core.files import LakeFile
from tidegate.core.fold import REPLAY, Fold
from tidegate.core.intervals import Intervals
from tidegate.core.nearest import did_you_mean
from tidegate.core.offsets import OffsetRange, Window
from tidegate.core.plan import Plan
from tidegate.egress.byte_settings import settings_of_plan
from tidegate.errors import ConfigurationError, LakeDamaged, SourceChanged
from tidegate.lake import attempts
from tidegate.lake.committed_files import files_over
from tidegate.lake.footers import rows_within
from tidegate.lake.ledger import Ledger
from tidegate.lake.store_protocol import Store, Stores
from tidegate.runs.spec_protocol import EgressSpec, IngestSpec, Pipelines
from tidegate.runs.topics import recorded_topics


@dataclass(frozen=True)
class SourceLake:
    """The lake of an ingest pipeline, opened once for all that a step reads of it."""

    pipeline: IngestSpec
    store: Store
    ledger: Ledger

    @property
    def fold(self) -> Fold:
        return self.ledger.fold


def open_source_lake(name: str, stores: Stores, pipelines: Pipelines) -> SourceLake:
    """Open the lake of an ingest pipeline, and read its ledger."""
    pipeline = pipelines.load_ingest(name)
    store = stores.open(pipeline.lake, pipeline.name)
    ledger = Ledger(store, pipeline.name)
    return SourceLake(recorded_topics(pipeline, ledger.fold), store, ledger)


def open_lake_of(plan: Plan, stores: Stores, pipelines: Pipelines) -> SourceLake:
    """Open the lake that a plan names. The pipeline may name another one today.

    SourceChanged if it does not hold all of the plan's window.
    """
    name = settings_of_plan(plan).source.lake
    assert name is not None
    lake = open_source_lake(name, stores, pipelines)
    window = window_of(plan)
    if not lake.fold.covers(window, plan.topics):  # missing rows would count as sent
        raise SourceChanged(
            f"plan {plan.id}: the lake of {lake.pipeline.name!r} at {lake.store.url} does not hold "
            f"{', '.join(map(str, window[:3]))}, which it did when this was planned: mount or "
            "restore what it was",
            files=[],
        )
    return lake


def window_of(plan: Plan) -> Window:
    """Return all ranges of a plan."""
    return tuple(r for chunk in plan.chunks for r in chunk)


def planned_files(lake: SourceLake, plan: Plan) -> list[LakeFile]:
    """Return the files with any offset of a plan's window, under the paths that they have now."""
    found = files_over(lake.store, lake.fold, window_of(plan), plan.topics)
    return [replace(file, path=path) for file, path in found]


def files_and_counts(
    lake: SourceLake, plan: Plan
) -> tuple[tuple[tuple[str, str], ...], dict[str, int]]:
    """Return topic and Spark path of each file of a plan's window, and the window's rows by
    `<topic id>/<partition>`. LakeDamaged if a file does not have its committed size.
    """
    window = window_of(plan)
    spans: dict[str, dict[int, tuple[int, int]]] = {r.topic: {} for r in window}
    for r in window:
        spans[r.topic][r.partition] = r.start, r.end
    counts = {f"{plan.topics[r.topic]}/{r.partition}": 0 for r in window}
    files = []
    for file in check_committed_files(lake, plan):
        files.append((file.topic, lake.store.native(file.path)))
        for p, rows in rows_within(lake.store, file, spans[file.topic]).items():
            counts[f"{plan.topics[file.topic]}/{p}"] += rows
    return tuple(files), counts


def largest_in_lake(lake: SourceLake, plan: Plan) -> int | None:
    """Return the bytes of the largest record of the commits that hold a plan's window, by their
    manifests. None without rows.
    """
    over = lake.fold.commits_over(window_of(plan), plan.topics)
    entries = [lake.fold.live[n] for n in over]
    manifests = lake.store.each(
        lambda entry: attempts.committed_manifest(lake.store, entry), entries
    )
    return max((each.largest for each in manifests if each.largest is not None), default=None)


def check_committed_files(lake: SourceLake, plan: Plan) -> list[LakeFile]:
    """Return the files of a plan's window, each of its committed size.

    LakeDamaged if one differs in two listings: a file that was placed or replaced between listing
    and check has another path in the second listing.
    """
    damaged: set[LakeFile] = set()
    while True:
        files = planned_files(lake, plan)
        sizes = lake.store.each(lambda file: lake.store.size(file.path), files)
        found = {f: size for f, size in zip(files, sizes, strict=True) if size != f.size}
        for file in sorted(damaged & found.keys(), key=lambda f: f.path):
            size = found[file]
            state = "is missing" if size is None else f"has {size} bytes, not {file.size}"
            raise LakeDamaged(
                f"plan {plan.id}: {lake.store.uri(file.path)}, a committed file of the source's "
                f"lake, {state}. `tidegate repair` of the source's pipeline places it again if "
                "there is a staged copy; else restore it, or read its window again by `tidegate "
                "replay`"
            )
        if not found:
            return files
        damaged |= found.keys()
        lake.ledger.refresh()


@dataclass(frozen=True)
class Unsent:
    """The offsets of `lake` that its egress has not sent.

    `ranges` are sent next, at most one per partition, with their `topic_ids`; `offsets` counts all
    unsent offsets. `late` ranges, with topic ids, were committed below offsets that were already
    sent: sending them breaks the order of their partition. `ahead` counts offsets above an unseen
    one, which must be sent first; `unselected` those of partly sent topics that are no longer in
    `source.topics`.
    """

    lake: SourceLake | None = None
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    ranges: Window = ()
    offsets: int = 0
    late: tuple[tuple[str, OffsetRange], ...] = ()
    ahead: int = 0
    unselected: Mapping[str, int] = field(default_factory=dict)


def read_unsent(spec: EgressSpec, source: SourceLake, fold: Fold, *, in_order: bool) -> Unsent:
    """Return the unsent offsets of a lake. `fold` is that of the egress pipeline.

    A partition is sent up to its first unseen offset, which later runs may still ingest and send in
    order. With `in_order`, late ranges are not among `ranges`.
    """
    lake = source.fold
    # Committed rows of topics that the ingest pipeline no longer reads are sent, too.
    topics = spec.source.topics or tuple(lake.topic_ids)
    known = {*source.pipeline.topics, *lake.topic_ids}
    if unknown := sorted(set(topics) - known):
        raise ConfigurationError(
            f"pipeline {spec.name!r}: source.topics: {', '.join(unknown)}: not of "
            f"{source.pipeline.name!r}{did_you_mean(unknown, sorted(known))}"
        )
    ids: dict[str, str] = {}
    ranges: list[OffsetRange] = []
    late: list[tuple[str, OffsetRange]] = []
    ahead = 0
    for topic in topics:
        # Rows from before a topic was recreated are sent first.
        for topic_id in _ids_of(lake, topic):
            ids[topic] = topic_id
            to_send, late_of_topic, above_unseen = _unsent_of(
                lake, fold, topic, topic_id, in_order=in_order
            )
            late += [(topic_id, r) for r in late_of_topic]
            ahead += above_unseen
            ranges += to_send
            if to_send:
                break
    sent_ids = {topic_id for topic_id, _ in fold.covered}
    unselected = {
        topic: count
        for topic in sorted(lake.topic_ids.keys() - set(topics))
        if sent_ids.intersection(_ids_of(lake, topic)) and (count := _offsets(lake, fold, [topic]))
    }
    return Unsent(
        source,
        ids,
        tuple(sorted(ranges)),
        _offsets(lake, fold, topics),
        tuple(sorted(late)),
        ahead,
        unselected,
    )


def _ids_of(lake: Fold, topic: str) -> list[str]:
    """Return all topic ids of a topic in the lake, the current one last."""
    current = lake.topic_ids.get(topic)
    return [*lake.earlier_ids.get(topic, ()), current] if current is not None else []


def _offsets(lake: Fold, fold: Fold, topics: Iterable[str]) -> int:
    """Return how many offsets of topics are unsent, under any topic id."""
    ids = {topic_id for topic in topics for topic_id in _ids_of(lake, topic)}
    return sum(
        len(_not_sent(fold, key, covered)) for key, covered in lake.covered.items() if key[0] in ids
    )


def _not_sent(fold: Fold, key: tuple[str, int], covered: Intervals) -> Intervals:
    """Return the offsets that were neither sent nor declared sent."""
    return covered.subtract(fold.covered[key]).subtract(fold.skipped[key])


def _unsent_of(
    lake: Fold, fold: Fold, topic: str, topic_id: str, *, in_order: bool
) -> tuple[list[OffsetRange], list[OffsetRange], int]:
    """Return a topic's ranges to send now, at most one per partition. Its late ranges; and the
    number of offsets above an unseen one.
    """
    ranges: list[OffsetRange] = []
    late: list[OffsetRange] = []
    ahead = 0
    recreated = topic_id != lake.topic_ids[topic]  # its unseen offsets will never be seen
    for partition in lake.origins.get(topic_id, {}):
        progress = lake.progress(topic_id, partition)
        left = _not_sent(fold, (topic_id, partition), progress.covered)
        spans = [OffsetRange(topic, partition, *span) for span in left]
        if not recreated:
            ahead += sum(len(r) for r in spans if r.start >= progress.cursor)
            spans = [r for r in spans if r.start < progress.cursor]
        late_spans = [r for r in spans if _is_late(lake, fold, topic_id, r)]
        late += late_spans
        ranges += [r for r in spans if not (in_order and r in late_spans)][:1]
    return ranges, late, ahead


def _is_late(lake: Fold, fold: Fold, topic_id: str, r: OffsetRange) -> bool:
    """Say whether later offsets of a range's partition were sent already, under this topic id or
    a later one.
    """
    ids = _ids_of(lake, r.topic)
    later_sent = fold.covered[topic_id, r.partition].next_start(r.end) is not None
    later_ids = ids[ids.index(topic_id) + 1 :] if topic_id in ids else ()
    return later_sent or any(fold.covered[each, r.partition] for each in later_ids)


def late_ranges(lake: SourceLake, plan: Plan, fold: Fold) -> Window:
    """Return the ranges of a live plan's window that are below offsets sent meanwhile."""
    if plan.lane == REPLAY:  # a replay is out of order on purpose
        return ()
    lake_fold = lake.ledger.refresh()
    return tuple(r for r in window_of(plan) if _is_late(lake_fold, fold, plan.topics[r.topic], r))
