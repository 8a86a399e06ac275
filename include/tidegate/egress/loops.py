"""Loops: pipelines that lead from a target back into its own source, over any number of hops."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from tidegate.core.ledger import Fold
from tidegate.errors import ConfigurationError, TidegateError
from tidegate.lake.ledger import Ledger
from tidegate.lake.sources import Root
from tidegate.lake.store import open_store
from tidegate.pipelines import files
from tidegate.pipelines.spec import Egress, Ingest, Spec

logger = logging.getLogger(__name__)


class _Topic(NamedTuple):
    """A topic that rows arrive in; `cluster_id` is None where nobody has sent there yet, or the
    ledger that would have it cannot be read.
    """

    name: str
    cluster_id: str | None
    connection: str


def refuse_loop(spec: Egress, cluster_id: str) -> None:
    """Refuse a target from which pipelines lead back into the source: it would never end."""
    pipelines = list(_pipelines())
    todo = deque((_Topic(name, cluster_id, spec.kafka), name) for name in spec.target.names)
    seen = {topic for topic, _ in todo}
    while todo:
        topic, way = todo.popleft()
        for lake in pipelines:
            if not isinstance(lake, Ingest) or topic.name not in lake.select([topic.name]):
                continue
            others = [e for e in pipelines if isinstance(e, Egress) and _sends(e, lake, topic.name)]
            closes = _sends(spec, lake, topic.name)
            if not (closes or others) or not _reads(lake, topic):  # ledgers are opened for this
                continue
            if closes:
                raise ConfigurationError(
                    f"pipeline {spec.name!r}: {way} feeds the lake of {lake.name!r}, which is the "
                    "source: what is sent would come back and be sent again, without end"
                )
            for other in others:
                fold = _fold_of(other)
                cluster = fold.cluster_id if fold else None
                for name in other.target.names:
                    reached = _Topic(name, cluster, other.kafka)
                    if reached not in seen:
                        seen.add(reached)
                        how = f"the lake of {lake.name!r}, which {other.name!r} sends to {name}; it"
                        todo.append((reached, f"{way} feeds {how}"))


def _pipelines() -> Iterator[Spec]:
    for name in files.names():
        try:
            yield files.load_named(name)
        except ConfigurationError:
            continue


def _reads(lake: Ingest, topic: _Topic) -> bool:
    """Say whether a pipeline reads a topic of this cluster, as far as the ledgers tell. Where one
    of the two clusters is unknown, the names of the connections are compared.
    """
    fold = _fold_of(lake) if topic.cluster_id is not None else None
    if fold is None:
        return topic.connection == lake.kafka
    return fold.cluster_id in (None, topic.cluster_id)


def _fold_of(pipeline: Spec) -> Fold | None:
    """Return what a pipeline's ledger adds up to; None where it cannot be read: a pipeline whose
    ledger is damaged or out of reach stops no other.
    """
    try:
        return Ledger(open_store(pipeline.lake, pipeline.name), pipeline.name).fold
    except TidegateError as error:
        logger.warning(
            "loop check: the ledger of %r cannot be read, so its connection %r stands for its "
            "cluster: %s",
            pipeline.name, pipeline.kafka, error,
        )  # fmt: skip
        return None


def _sends(spec: Egress, lake: Ingest, topic: str) -> bool:
    """Say whether an egress sends what a lake has of a topic, by its name or by a path to it."""
    if spec.source.lake is not None:
        chosen = not spec.source.topics or topic in spec.source.topics
        return spec.source.lake == lake.name and chosen
    assert spec.source.path is not None
    ours = PurePosixPath(Root.of(spec.source.path).native)
    theirs = PurePosixPath(Root.of(lake.lake).native, lake.name)
    return ours.is_relative_to(theirs) or theirs.is_relative_to(ours)
