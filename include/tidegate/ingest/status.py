"""Where a pipeline stands, and what it has in the lake: questions that change nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.broker.cluster import survey
from tidegate.broker.open_transactions import open_since
from tidegate.broker.retention import iso
from tidegate.broker.settings import KafkaSettings
from tidegate.core.cursor import Watermarks
from tidegate.core.ledger import Fold
from tidegate.errors import BrokerUnreachable, NotAuthenticated, TidegateError
from tidegate.ingest.unfinished import unfinished
from tidegate.lake import publishing
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import open_store
from tidegate.pipelines.spec import Ingest
from tidegate.runs.topics import known, resolved

FORMAT = 1


def files(spec: Ingest) -> list[Mapping[str, Any]]:
    """List the files of the lake (contract: `files --json`)."""
    store = open_store(spec.lake, spec.name)
    return publishing.live_files(store, Ledger(store, spec.name).fold)


@dataclass(frozen=True)
class Look:
    """What the ledger says, and what the broker has of the topics that the ledger means.

    `topics` are those of the pipeline now; `problem` says why the broker's part is missing, or
    that a topic was recreated. `unreachable`: the same holds for all pipelines of its connection.
    """

    fold: Fold
    topics: tuple[str, ...]
    topic_ids: Mapping[str, str]
    watermarks: Mapping[str, Mapping[int, Watermarks]]
    problem: str | None
    unreachable: bool = False


def look(spec: Ingest, kafka: KafkaSettings, *, down: str | None = None) -> Look:
    """Read the ledger and ask the broker; one that does not answer is no error.

    A broker that is known to be `down`, and why, is not asked.
    """
    store = open_store(spec.lake, spec.name)
    fold = Ledger(store, spec.name).fold
    if down:
        return Look(fold, known(spec, fold).topics, fold.topic_ids, {}, down)
    try:
        topics = resolved(spec, kafka, fold).topics
        seen = survey(kafka, topics, spec.isolation)
    except TidegateError as error:
        away = isinstance(error, BrokerUnreachable | NotAuthenticated)
        return Look(fold, known(spec, fold).topics, fold.topic_ids, {}, str(error), away)
    problem = None
    watermarks = dict(seen.watermarks)
    for topic, topic_id in seen.topic_ids.items():
        was = fold.topic_ids.get(topic, topic_id)
        if was != topic_id:  # its offsets say nothing about ours
            problem = f"topic {topic} was recreated: it was {was}, it is {topic_id}"
            del watermarks[topic]
    return Look(fold, topics, {**seen.topic_ids, **fold.topic_ids}, watermarks, problem)


def status(spec: Ingest, kafka: KafkaSettings, looked: Look | None = None) -> dict[str, Any]:
    """Return where each partition stands (contract: `status --json`).

    `log_start`, `end`, `high` and `lag` are null, and `broker` says why, when the broker does not
    answer. `lag` counts to the high watermark: what an open transaction hides is not read either.
    """
    looked = looked or look(spec, kafka)
    since = open_since(kafka, looked.watermarks)
    fold = looked.fold
    topics = {}
    for topic in looked.topics:
        topic_id = looked.topic_ids.get(topic)
        origins = fold.origins.get(topic_id or "", {})
        marks = looked.watermarks.get(topic, {})
        partitions = {}
        for p in sorted(origins.keys() | marks.keys()):
            cursor = fold.progress(topic_id or "", p).cursor if p in origins else None
            m = marks.get(p)
            partitions[str(p)] = {
                "origin": origins.get(p),
                "cursor": cursor,
                "log_start": m and m.start,
                "end": m and m.end,
                "high": m and m.high,
                "lag": m and max(0, m.high - (m.start if cursor is None else cursor)),
                "open_since": iso(since.get((topic, p))),
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
        "unfinished": unfinished(open_store(spec.lake, spec.name), fold),
        "broker": looked.problem,
    }
