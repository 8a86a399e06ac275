"""The topics of an ingest pipeline, and the cluster that a ledger's offsets are of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidegate.core.fold import Fold
from tidegate.errors import ConfigurationError, IdentityChanged, UnknownTopic
from tidegate.runs.kafka_protocol import Kafka
from tidegate.runs.run import Run
from tidegate.runs.spec_protocol import IngestSpec, Spec


def resolve_topics(spec: IngestSpec, kafka: Kafka, fold: Fold) -> IngestSpec:
    """Return the spec with the topics that its pattern matches in Kafka or in the ledger.

    A topic that was deleted stays in the list, so that it is reported. UnknownTopic if no topic
    matches.
    """
    if spec.pattern is None:
        return spec
    names = kafka.topics()
    topics = spec.select({*names, *fold.topic_ids})
    if not topics:
        raise UnknownTopic(
            f"pipeline {spec.name!r}: no topic of Kafka at {kafka.bootstrap_servers} is "
            f"{spec.subscription}, or this user may not DESCRIBE them ({len(names)} may be seen): "
            "correct `pattern` or `exclude`, or grant DESCRIBE",
            topics=[],
        )
    return spec.with_topics(topics)


def recorded_topics(spec: IngestSpec, fold: Fold) -> IngestSpec:
    """Return the spec with the topics of the ledger that its pattern matches. No broker call."""
    if spec.pattern is None:
        return spec
    return spec.with_topics(spec.select(fold.topic_ids))


def choose_topic(pipeline: str, topics: Sequence[str], topic: str | None) -> str:
    """Return `topic`, or the only one if it is None. ConfigurationError if there are several."""
    if topic or len(topics) == 1:
        return topic or topics[0]
    raise ConfigurationError(
        f"pipeline {pipeline!r}: say which topic" + (f", of {', '.join(topics)}" if topics else "")
    )


def with_topics(run: Run, fold: Fold) -> Run:
    """Return the run with the topics of its pipeline resolved."""
    return replace(run, spec=resolve_topics(run.spec, run.kafka, fold))


def refuse_another_cluster(spec: Spec, kafka: Kafka, fold: Fold, cluster_id: str) -> None:
    """Raise IdentityChanged if the ledger's offsets are those of another cluster."""
    if fold.cluster_id in (None, cluster_id):
        return
    done = "read" if spec.kind == "ingest" else "written to"
    raise IdentityChanged(
        f"pipeline {spec.name!r} has {done} cluster {fold.cluster_id}; Kafka at "
        f"{kafka.bootstrap_servers} is cluster {cluster_id}. Point the connection "
        f"{kafka.connection!r} back, or give the new cluster a pipeline of its own",
        was=fold.cluster_id,
        now=cluster_id,
    )
