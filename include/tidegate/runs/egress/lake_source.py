"""A lake as a source: what of it was not sent, and which files hold a plan's window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tidegate.core.accounting import StagedFile
from tidegate.core.intervals import NOTHING
from tidegate.core.ledger import Fold
from tidegate.core.offsets import OffsetRange, Window
from tidegate.core.plan import Plan
from tidegate.errors import ConfigurationError, SourceChanged
from tidegate.lake import publishing
from tidegate.lake.footers import rows_within
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import Store, open_store
from tidegate.pipelines import files
from tidegate.pipelines.spec import Egress, Ingest
from tidegate.runs.subscription import known


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
    found = publishing.files_over(store, lake, window, plan.topics)
    return [replace(file.staged, path=path) for file, path in found]


def files_and_counts(plan: Plan) -> tuple[tuple[tuple[str, str], ...], dict[str, int]]:
    """Return topic and Spark's name of each such file, and what the window has in rows of each
    `<topic id>/<partition>`; LakeDamaged where a file is not as committed.
    """
    store, _, window = held_window(plan)
    ranges = {(r.topic, r.partition): r for r in window}
    counts = {f"{plan.topics[topic]}/{p}": 0 for topic, p in ranges}
    files = []
    for file in lake_files(plan):
        files.append((file.topic, store.native(file.path)))
        r = ranges[file.topic, file.partition]
        counts[f"{plan.topics[file.topic]}/{file.partition}"] += rows_within(store, file, r)
    return tuple(files), counts


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


def unsent(spec: Egress, name: str, fold: Fold) -> tuple[Mapping[str, str], Window]:
    """Return what a lake holds and the pipeline has not sent: topic ids, and ranges to begin with.

    `fold` is the pipeline's own.
    """
    source, _, lake = lake_of(name)
    topics = spec.source.topics or source.topics
    if strangers := sorted(set(topics) - set(source.topics)):
        raise ConfigurationError(
            f"pipeline {spec.name!r}: source.topics: {', '.join(strangers)}: not of {source.name!r}"
        )
    ids: dict[str, str] = {}
    ranges: list[OffsetRange] = []
    for topic in topics:
        if topic not in lake.topic_ids:
            continue
        # What it held before it was recreated comes first.
        for topic_id in (*lake.earlier_ids.get(topic, ()), lake.topic_ids[topic]):
            ids[topic] = topic_id
            if unsent := _unsent(lake, fold, topic, topic_id):
                ranges += unsent
                break
    return ids, tuple(sorted(ranges))


def unsent_offsets(spec: Egress, name: str, fold: Fold) -> int:
    """Return how many offsets a lake holds and the pipeline has not sent, under any topic id."""
    source, _, lake = lake_of(name)
    topic_ids = _ids_of(lake, spec.source.topics or source.topics)
    return sum(
        len(covered.subtract(fold.covered.get((topic_id, p), NOTHING)))
        for (topic_id, p), covered in lake.covered.items()
        if topic_id in topic_ids
    )


def _ids_of(lake: Fold, topics: Iterable[str]) -> set[str]:
    """Return every topic id that the topics have and had."""
    known = [topic for topic in topics if topic in lake.topic_ids]
    return {i for t in known for i in (*lake.earlier_ids.get(t, ()), lake.topic_ids[t])}


def _unsent(lake: Fold, fold: Fold, topic: str, topic_id: str) -> list[OffsetRange]:
    """Return what a lake holds of a topic and was not sent, one span of each partition.

    What lies between two spans is not in the lake yet, or never will be.
    """
    ranges = []
    for partition in lake.origins.get(topic_id, {}):
        covered = lake.progress(topic_id, partition).covered
        unsent = covered.subtract(fold.covered.get((topic_id, partition), NOTHING))
        ranges += [OffsetRange(topic, partition, *span) for span in unsent.spans[:1]]
    return ranges
