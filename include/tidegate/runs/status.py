"""Where a pipeline stands, and what it has in the lake: questions that change nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.broker.cluster import survey
from tidegate.broker.settings import KafkaSettings
from tidegate.errors import TidegateError
from tidegate.lake import publishing
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import open_store
from tidegate.pipelines.spec import Ingest

FORMAT = 1


def files(spec: Ingest) -> list[Mapping[str, Any]]:
    """List the files of the lake (contract: `files --json`)."""
    store = open_store(spec.lake, spec.name)
    return publishing.live_files(store, Ledger(store, spec.name).fold)


def status(spec: Ingest, kafka: KafkaSettings) -> dict[str, Any]:
    """Return where each partition stands (contract: `status --json`).

    `log_start`, `end` and `lag` are null, and `broker` says why, when the broker does not answer.
    """
    store = open_store(spec.lake, spec.name)
    fold = Ledger(store, spec.name).fold
    problem = None
    topic_ids: Mapping[str, str] = {}
    watermarks: Mapping[str, Mapping[int, Any]] = {}
    try:
        seen = survey(kafka, spec.topics, spec.isolation)
        topic_ids, watermarks = seen.topic_ids, seen.watermarks
    except TidegateError as error:
        problem = str(error)
    topics = {}
    for topic in spec.topics:
        topic_id = fold.topic_ids.get(topic, topic_ids.get(topic))
        if topic_ids.get(topic, topic_id) != topic_id:  # its offsets say nothing about ours
            problem = f"topic {topic} was recreated: it was {topic_id}, it is {topic_ids[topic]}"
            watermarks = {t: marks for t, marks in watermarks.items() if t != topic}
        origins = fold.origins.get(topic_id or "", {})
        marks = watermarks.get(topic, {})
        partitions = {}
        for p in sorted(origins.keys() | marks.keys()):
            cursor = fold.progress(topic_id or "", p).cursor if p in origins else None
            m = marks.get(p)
            partitions[str(p)] = {
                "origin": origins.get(p),
                "cursor": cursor,
                "log_start": m and m.start,
                "end": m and m.end,
                "lag": m and max(0, m.end - (m.start if cursor is None else cursor)),
            }
        topics[topic] = {"topic_id": topic_id, "partitions": partitions}
    return {
        "format": FORMAT,
        "pipeline": spec.name,
        "topics": topics,
        "commits": len(fold.live),
        "last_commit": max(fold.live, default=None),
        "gaps": [gap.to_json() for gap in fold.gaps],
        "open_claims": [],
        "broker": problem,
    }
