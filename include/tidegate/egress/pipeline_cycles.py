"""Loops: pipelines that lead from a target back into its own source, in any number of hops."""

from __future__ import annotations

import functools
import logging
from collections import deque
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import NamedTuple

from tidegate.core import layout
from tidegate.core.fold import Fold
from tidegate.core.source_root import Root
from tidegate.errors import ConfigurationError, TidegateError
from tidegate.lake.ledger import Ledger
from tidegate.lake.store_protocol import Stores
from tidegate.runs.spec_protocol import EgressSpec, IngestSpec, Pipelines, Spec

_DATA = f"/{layout.DATA}topic="
_MOST_LAKES = 10  # a ledger is opened for each

logger = logging.getLogger(__name__)


class _Topic(NamedTuple):
    """A topic that rows of the pipeline reach.

    `cluster_id` is None if nothing was sent there yet, or the sending ledger is unreadable.
    """

    name: str
    cluster_id: str | None
    connection: str


def refuse_loop(spec: EgressSpec, cluster_id: str, stores: Stores, pipelines: Pipelines) -> None:
    """Raise ConfigurationError if pipelines lead from the target back into the source."""
    specs = pipelines.load_valid()
    read_fold = functools.cache(lambda name: _read_fold(specs[name], stores))
    senders = [each for each in specs.values() if each.kind == "egress"]
    to_visit = deque((_Topic(name, cluster_id, spec.kafka), name) for name in spec.target.names)
    seen = {topic for topic, _ in to_visit}
    while to_visit:
        topic, path = to_visit.popleft()
        for lake in specs.values():
            if lake.kind != "ingest" or topic.name not in lake.select([topic.name]):
                continue
            others = [each for each in senders if _sends(each, lake, topic.name)]
            is_loop = _sends(spec, lake, topic.name)
            if not (is_loop or others):
                continue  # opens no ledger needlessly
            if not _reads(lake, topic, read_fold(lake.name) if topic.cluster_id else None):
                continue
            if is_loop:
                raise ConfigurationError(
                    f"pipeline {spec.name!r}: {path} feeds the lake of {lake.name!r}, which is the "
                    "source: what is sent would come back and be sent again, without end"
                )
            for other in others:
                fold = read_fold(other.name)
                cluster = fold.cluster_id if fold else None
                for name in other.target.names:
                    reached = _Topic(name, cluster, other.kafka)
                    if reached not in seen:
                        seen.add(reached)
                        step = (
                            f"the lake of {lake.name!r}, which {other.name!r} sends to {name}; it"
                        )
                        to_visit.append((reached, f"{path} feeds {step}"))


def notices_of_path(
    spec: EgressSpec, names: Iterable[str], cluster_id: str, stores: Stores
) -> list[str]:
    """Return what a user should know if files of a path are those of a lake of any pipeline.

    `names` are of the files that would be sent. Raises ConfigurationError if that lake has rows of
    a target topic: what is sent would come back. Pipeline files do not matter, only ledgers.
    """
    if spec.source.path is None:
        return []
    root, notices = Root.of(spec.source.path), []
    base = root.native if root.url.startswith("file://") else root.url
    levels: dict[str, set[str]] = {}  # by lake, the directories of its files below a topic's
    for before, found, path in (f"{base}/{name}".partition(_DATA) for name in names):
        if found:
            below = f"/{path.partition('/')[2]}"
            levels.setdefault(before, set()).add(below.rpartition("/")[0])
    for url in sorted(levels)[:_MOST_LAKES]:
        lake, _, pipeline = url.rpartition("/")
        try:
            fold = Ledger(stores.open(lake, pipeline), pipeline).fold
        except TidegateError as error:
            logger.warning("%s: the ledger at %s cannot be read: %s", spec.name, url, error)
            continue
        if not fold.n:
            continue
        fed = [
            topic
            for topic in sorted(fold.topic_ids.keys() & set(spec.target.names))
            for of_topic in (f"{url}{_DATA}{topic}",)
            if any(root.may_hold_path(f"{of_topic}{level}/part-0.parquet") for level in levels[url])
        ]
        if fed and fold.cluster_id in (None, cluster_id):
            raise ConfigurationError(
                f"pipeline {spec.name!r}: {', '.join(fed)} feeds the lake at {url}, which "
                "source.path leads into: what is sent would come back and be sent again, without "
                "end"
            )
        notices.append(
            f"source.path leads into the lake at {url}: files that a replay replaces, or that are "
            f"placed late, are not seen. `source.lake: {pipeline}` sends its rows by the ledger"
        )
    return notices


def _reads(lake: IngestSpec, topic: _Topic, fold: Fold | None) -> bool:
    """Say whether a pipeline reads a topic's cluster: by cluster ids, or by the names of the
    connections if an id is unknown.
    """
    if fold is None:
        return topic.connection == lake.kafka
    return fold.cluster_id in (None, topic.cluster_id)


def _read_fold(pipeline: Spec, stores: Stores) -> Fold | None:
    """Return the state of a pipeline's ledger. None if it is unreadable, which must not stop other
    pipelines.
    """
    try:
        return Ledger(stores.open(pipeline.lake, pipeline.name), pipeline.name).fold
    except TidegateError as error:
        logger.warning(
            "loop check: the ledger of %r cannot be read; its connection %r is compared in place "
            "of its cluster id: %s",
            pipeline.name, pipeline.kafka, error,
        )  # fmt: skip
        return None


def _sends(spec: EgressSpec, lake: IngestSpec, topic: str) -> bool:
    """Say whether an egress sends a topic of a lake, by the lake's name or by a path to it."""
    if spec.source.lake is not None:
        chosen = not spec.source.topics or topic in spec.source.topics
        return spec.source.lake == lake.name and chosen
    assert spec.source.path is not None
    source = PurePosixPath(Root.of(spec.source.path).native)
    data = PurePosixPath(Root.of(lake.lake).native, lake.name)
    return source.is_relative_to(data) or data.is_relative_to(source)
