"""The spec of an ingest pipeline."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from tidegate.errors import ConfigurationError
from tidegate.pipelines.strict import Contradiction, Spark, Strict
from tidegate.pipelines.value_types import (
    Count,
    LakeTopics,
    Offset,
    Path,
    PipelineName,
    Regex,
    Schedule,
    Text,
    Time,
    TopicName,
    Whole,
)


class StartAt(Strict):
    """Begin at the first record since a timestamp, at offsets, or at a consumer group's offsets."""

    timestamp: Time | None = None
    offsets: dict[TopicName, dict[Offset, Offset]] | None = None
    group: Text | None = None

    @classmethod
    def contradiction(cls, key: str, value: Any, given: Mapping[str, Any]) -> Contradiction | None:
        if key == "group" and {"timestamp", "offsets"} <= given.keys():
            starts = [given["timestamp"], given["offsets"], value]
            if sum(each is not None for each in starts) != 1:
                return "", "give a timestamp, offsets, or a consumer group: one of the three"
        return None


# Distinguished by shape, so that complaints are about the form that was given.
Start = Annotated[
    Annotated[Literal["earliest", "latest"], Tag("Word")] | Annotated[StartAt, Tag("At")],
    Discriminator(lambda value: "At" if isinstance(value, dict | StartAt) else "Word"),
]


class Ingest(Strict):
    """An ingest pipeline: topics into the lake."""

    name: PipelineName
    kind: Literal["ingest"]
    kafka: str = "kafka_default"
    topics: LakeTopics = ()
    pattern: Regex | None = None
    exclude: Regex | None = None
    lake: Path
    schedule: Schedule | None = None
    start: Start = "earliest"
    max_records: Count = 5_000_000
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    on_expired: Literal["fail", "skip"] = "fail"
    on_unreadable: Literal["fail", "gap"] = "fail"
    progress_group: Text | None = None
    spark: Spark = Spark()
    retries: Annotated[Whole, Field(ge=0, le=100)] = 3

    @classmethod
    def contradiction(cls, key: str, value: Any, given: Mapping[str, Any]) -> Contradiction | None:
        match key:
            case "pattern" if "topics" in given and bool(given["topics"]) == bool(value):
                return "topics", "give either their names, or a pattern for them"
            case "exclude" if value and given.get("pattern", "wrong") is None:
                return "exclude", "only a pattern has exceptions"
            case "start" if isinstance(value, StartAt) and value.offsets:
                known = {"topics", "pattern", "exclude"} <= given.keys()
                if known and (unknown := value.offsets.keys() - _selected(value.offsets, given)):
                    return "start.offsets", f"not among the topics: {sorted(unknown)}"
        return None

    def topic_named(self, topic: str | None) -> str:
        """Return a topic of the pipeline; for None the only one."""
        return one_of(self.name, self.topics, topic)

    def select(self, existing: Iterable[str]) -> tuple[str, ...]:
        """Return the named topics, or those of `existing` that match; none of Kafka's own."""
        return _selected(existing, vars(self))

    @property
    def subscription(self) -> str:
        """The topics that the pipeline reads, as text."""
        if self.pattern is None:
            return ", ".join(self.topics)
        return f"/{self.pattern}/" + (f" without /{self.exclude}/" if self.exclude else "")


def one_of(pipeline: str, topics: Sequence[str], topic: str | None) -> str:
    """Return `topic`, for None the only one of `topics`; ConfigurationError if there are more."""
    if topic or len(topics) == 1:
        return topic or topics[0]
    raise ConfigurationError(
        f"pipeline {pipeline!r}: say which topic" + (f", of {', '.join(topics)}" if topics else "")
    )


def _selected(existing: Iterable[str], ingest: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the topics that `topics`, or `pattern` and `exclude`, select."""
    pattern, exclude = ingest["pattern"], ingest["exclude"]
    if pattern is None:
        return tuple(ingest["topics"])
    return tuple(
        topic
        for topic in sorted(set(existing))
        if re.fullmatch(pattern, topic)
        and not (exclude and re.fullmatch(exclude, topic))
        and not topic.startswith("__")
    )
