"""A lake as a source: what of it was not sent, and which files hold a plan's window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from tidegate.core.accounting import StagedFile
from tidegate.core.intervals import NOTHING, Intervals
from tidegate.core.ledger import REPLAY, Fold
from tidegate.core.offsets import OffsetRange, Window
from tidegate.core.plan import Plan
from tidegate.errors import ConfigurationError, LakeDamaged, SourceChanged
from tidegate.lake.files import files_over
from tidegate.lake.footers import rows_within
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import Store, open_store
from tidegate.pipelines import files
from tidegate.pipelines.spec import Egress, Ingest
from tidegate.runs.topics import known

_AT_ONCE = 8


def lake_of(name: str) -> tuple[Ingest, Store, Fold]:
    """Return an ingest pipeline whose lake is a source, with its store and its ledger."""
    source = files.load_ingest(name)
    store = open_store(source.lake, source.name)
    fold = Ledger(store, source.name).fold
    return known(source, fold), store, fold


def lake_files(plan: Plan) -> list[StagedFile]:
    """Return the files of the lake with any offset of the plan's window, as they lie now.

    They are looked for where they were planned, whatever the pipeline says now.
    """
    store, lake, window = held_window(plan)
    found = files_over(store, lake, window, plan.topics)
    return [replace(file.staged, path=path) for file, path in found]


def files_and_counts(plan: Plan) -> tuple[tuple[tuple[str, str], ...], dict[str, int]]:
    """Return topic and Spark's name of each such file, and what the window has in rows of each
    `<topic id>/<partition>`; LakeDamaged where a file is not as committed.
    """
    store, _, window = held_window(plan)
    ranges = {(r.topic, r.partition): r for r in window}
    counts = {f"{plan.topics[topic]}/{p}": 0 for topic, p in ranges}
    files = []
    for file in _whole_files(plan, store):
        files.append((file.topic, store.native(file.path)))
        r = ranges[file.topic, file.partition]
        counts[f"{plan.topics[file.topic]}/{file.partition}"] += rows_within(store, file, r)
    return tuple(files), counts


def _whole_files(plan: Plan, store: Store) -> list[StagedFile]:
    """Return the files of a plan's window, each of the size that was committed.

    LakeDamaged where one is not, twice: a file that was placed, or replaced, since it was listed
    lies elsewhere when it is listed again.
    """
    damaged: set[StagedFile] = set()
    while True:
        files = lake_files(plan)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            sizes = list(pool.map(lambda file: store.size(file.path), files))
        found = {f: size for f, size in zip(files, sizes, strict=True) if size != f.size}
        for file in sorted(damaged & found.keys(), key=lambda f: f.path):
            size = found[file]
            state = "is missing" if size is None else f"has {size} bytes, not {file.size}"
            raise LakeDamaged(
                f"plan {plan.id}: {store.uri(file.path)}, a committed file of the source's lake, "
                f"{state}. `tidegate repair` of the source's pipeline places it again if there is "
                "a staged copy; else restore it, or read its window again by `tidegate replay`"
            )
        if not found:
            return files
        damaged |= found.keys()


def held_window(plan: Plan) -> tuple[Store, Fold, Window]:
    """Return the lake that a plan's window is of; SourceChanged if it does not hold all of it."""
    name = plan.byte_settings["source"]["lake"]
    _, store, lake = lake_of(name)
    window = tuple(r for chunk in plan.chunks for r in chunk)
    if not lake.covers(window, plan.topics):  # what is not there would count as sent
        raise SourceChanged(
            f"plan {plan.id}: the lake of {name!r} at {store.url} does not hold "
            f"{', '.join(map(str, window[:3]))}, which it did when this was planned: mount or "
            "restore what it was",
            files=[],
        )
    return store, lake, window


@dataclass(frozen=True)
class Unsent:
    """What a lake has for its egress: `ranges` are sent next, one of each partition.

    `late` are committed below offsets that were sent already: sent now, they break the order of
    their partition. `ahead` counts offsets behind an unseen one, which comes first; `unselected`
    those that are left of topics that were begun, and that `source.topics` has no more.
    """

    topic_ids: Mapping[str, str]
    ranges: Window
    late: tuple[tuple[str, OffsetRange], ...]  # with their topic ids
    ahead: int
    unselected: Mapping[str, int]


def unsent(spec: Egress, name: str, fold: Fold, *, in_order: bool) -> Unsent:
    """Return what a lake holds and the pipeline has not sent; `fold` is the pipeline's own.

    A partition is sent up to its first unseen offset, so that a later run does not send behind what
    should have come after it. With `in_order` late ranges are not among those that are sent.
    """
    source, _, lake = lake_of(name)
    # Of a topic that has left the ingest pipeline, too, what was committed is sent.
    topics = spec.source.topics or tuple(lake.topic_ids)
    if strangers := sorted(set(topics) - {*source.topics, *lake.topic_ids}):
        raise ConfigurationError(
            f"pipeline {spec.name!r}: source.topics: {', '.join(strangers)}: not of {source.name!r}"
        )
    ids: dict[str, str] = {}
    ranges: list[OffsetRange] = []
    late: list[tuple[str, OffsetRange]] = []
    ahead = 0
    for topic in topics:
        if topic not in lake.topic_ids:
            continue
        # What it held before it was recreated comes first.
        for topic_id in (*lake.earlier_ids.get(topic, ()), lake.topic_ids[topic]):
            ids[topic] = topic_id
            now, behind, waits = _unsent(lake, fold, topic, topic_id, in_order=in_order)
            late += [(topic_id, r) for r in behind]
            ahead += waits
            ranges += now
            if now:
                break
    unselected = {topic: _begun(lake, fold, topic) for topic in lake.topic_ids.keys() - set(topics)}
    return Unsent(
        ids,
        tuple(sorted(ranges)),
        tuple(sorted(late)),
        ahead,
        {topic: left for topic, left in sorted(unselected.items()) if left},
    )


def _begun(lake: Fold, fold: Fold, topic: str) -> int:
    """Return how many offsets of a topic are unsent, if any were sent before."""
    ids = _ids_of(lake, [topic])
    if not any(topic_id in ids for topic_id, _ in fold.covered):
        return 0
    return sum(len(_not_done(fold, k, held)) for k, held in lake.covered.items() if k[0] in ids)


def unsent_offsets(spec: Egress, name: str, fold: Fold) -> int:
    """Return how many offsets a lake holds and the pipeline has not sent, under any topic id."""
    _, _, lake = lake_of(name)
    topic_ids = _ids_of(lake, spec.source.topics or lake.topic_ids)
    return sum(
        len(_not_done(fold, key, covered))
        for key, covered in lake.covered.items()
        if key[0] in topic_ids
    )


def _ids_of(lake: Fold, topics: Iterable[str]) -> set[str]:
    """Return every topic id that the topics have and had."""
    known = [topic for topic in topics if topic in lake.topic_ids]
    return {i for t in known for i in (*lake.earlier_ids.get(t, ()), lake.topic_ids[t])}


def _not_done(fold: Fold, key: tuple[str, int], covered: Intervals) -> Intervals:
    """Return what was neither sent nor counted as sent."""
    return covered.subtract(fold.covered.get(key, NOTHING)).subtract(fold.skipped.get(key, NOTHING))


def _unsent(
    lake: Fold, fold: Fold, topic: str, topic_id: str, *, in_order: bool
) -> tuple[list[OffsetRange], list[OffsetRange], int]:
    """Return of a topic the spans to be sent now, one of each partition; the late ones; and how
    many offsets lie behind an unseen one.
    """
    ranges: list[OffsetRange] = []
    late: list[OffsetRange] = []
    ahead = 0
    recreated = topic_id != lake.topic_ids[topic]  # what is unseen of it will never be seen
    for partition in lake.origins.get(topic_id, {}):
        key = topic_id, partition
        progress = lake.progress(topic_id, partition)
        left = _not_done(fold, key, progress.covered)
        spans = [OffsetRange(topic, partition, *span) for span in left]
        if not recreated:
            ahead += sum(len(r) for r in spans if r.start >= progress.cursor)
            spans = [r for r in spans if r.start < progress.cursor]
        behind = [r for r in spans if is_late(lake, fold, topic_id, r)]
        late += behind
        ranges += [r for r in spans if not (in_order and r in behind)][:1]
    return ranges, late, ahead


def is_late(lake: Fold, fold: Fold, topic_id: str, r: OffsetRange) -> bool:
    """Say whether later offsets of a range's partition were sent already, of a topic that was
    recreated perhaps under its later id.
    """
    ids = [*lake.earlier_ids.get(r.topic, ()), lake.topic_ids[r.topic]]
    behind = fold.covered.get((topic_id, r.partition), NOTHING).next_start(r.end) is not None
    later = ids[ids.index(topic_id) + 1 :] if topic_id in ids else ()
    return behind or any(fold.covered.get((each, r.partition)) for each in later)


def late_of(plan: Plan, fold: Fold) -> Window:
    """Return the ranges of a live plan's window below what the pipeline has sent since."""
    if not plan.chunks or plan.lane == REPLAY:  # a replay is out of order on purpose
        return ()
    _, _, lake = lake_of(plan.byte_settings["source"]["lake"])
    window = (r for chunk in plan.chunks for r in chunk)
    return tuple(r for r in window if is_late(lake, fold, plan.topics[r.topic], r))
