"""Loops: pipelines that lead from a target back into its own source, over any number of hops."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from tidegate.errors import ConfigurationError
from tidegate.lake.ledger import Ledger
from tidegate.lake.sources import Root
from tidegate.lake.store import open_store
from tidegate.pipelines import files
from tidegate.pipelines.spec import Egress, Ingest, Spec


class _Topic(NamedTuple):
    """A topic that rows arrive in; `cluster_id` is None where nobody has sent there yet."""

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
                cluster = Ledger(open_store(other.lake, other.name), other.name).fold.cluster_id
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
    """Say whether a pipeline reads a topic of this cluster, as far as the ledgers tell."""
    if topic.cluster_id is None:
        return topic.connection == lake.kafka
    fold = Ledger(open_store(lake.lake, lake.name), lake.name).fold
    return fold.cluster_id in (None, topic.cluster_id)


def _sends(spec: Egress, lake: Ingest, topic: str) -> bool:
    """Say whether an egress sends what a lake has of a topic, by its name or by a path to it."""
    if spec.source.lake is not None:
        chosen = not spec.source.topics or topic in spec.source.topics
        return spec.source.lake == lake.name and chosen
    assert spec.source.path is not None
    ours = PurePosixPath(Root.of(spec.source.path).native)
    theirs = PurePosixPath(Root.of(lake.lake).native, lake.name)
    return ours.is_relative_to(theirs) or theirs.is_relative_to(ours)
