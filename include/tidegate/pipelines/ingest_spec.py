"""The spec of an ingest pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from tidegate import linear_regex
from tidegate.core import parquet_settings
from tidegate.core.decoding import Decoding
from tidegate.core.nearest import did_you_mean
from tidegate.core.parquet_settings import ParquetSettings
from tidegate.core.schema import Fields
from tidegate.pipelines.airflow_spec import AirflowSettings
from tidegate.pipelines.decode_spec import Decode, TopicDecode, unknown_topics
from tidegate.pipelines.strict import Contradiction, Spark, Strict
from tidegate.pipelines.value_types import (
    LONGEST_WAIT,
    Count,
    FileSize,
    Lake,
    LakeTopic,
    LakeTopics,
    Listed,
    Partition,
    Partitions,
    PipelineName,
    Regex,
    Scalar,
    Schedule,
    Text,
    Time,
    TopicName,
    Whole,
    as_texts,
)
from tidegate.settings.old_names import word_of_today
from tidegate.settings.setting import Place, without_unset
from tidegate.settings.source import source_disagreements, without_effect
from tidegate.settings.table import judge_settings

_EXAMPLES = {
    "offsets": "{orders: {0: 120}}",
    "timestamps": "{orders: {0: 2026-03-14T00:00:00Z}}",
}
_LEVELS = ("read_committed", "read_uncommitted")

_Word = Literal["earliest", "latest", "smallest", "largest", "beginning", "end"]
StartOffset = Annotated[Whole, Field(ge=-2)]
"""An offset. -2 is the log start, -1 the end."""


class StartAt(Strict):
    """Begin at the first record since a timestamp, at offsets, or at a consumer group's offsets.

    `otherwise` is for partitions without a record since their time, or without an offset of the
    group. It is not for partitions that `timestamps` or `offsets` do not name: they are an error.
    """

    timestamp: Time | None = None
    timestamps: dict[TopicName, dict[Partition, Time]] | None = None
    offsets: dict[TopicName, dict[Partition, StartOffset]] | None = None
    group: Text | None = None
    otherwise: Literal[_Word, "fail"] | None = None

    @classmethod
    def contradiction(cls, key: str, value: Any, given: Mapping[str, Any]) -> Contradiction | None:
        forms = ("timestamp", "timestamps", "offsets")
        if key in _EXAMPLES and value is not None and not (value and all(value.values())):
            return key, f"for each topic give its partitions, for example {_EXAMPLES[key]}"
        if key == "group" and {*forms} <= given.keys():
            if sum(each is not None for each in (*(given[form] for form in forms), value)) != 1:
                return "", f"give {', '.join(forms)} or group: one of the four"
        elif key == "otherwise" and value and given.get("offsets") is not None:
            return "otherwise", "offsets name every partition: nothing is left to it"
        return None


# Distinguished by shape, so that complaints are about the form that was given.
Start = Annotated[
    Annotated[_Word, Tag("Word")] | Annotated[StartAt, Tag("At")],
    Discriminator(lambda value: "At" if isinstance(value, dict | StartAt) else "Word"),
]


class Ingest(Strict):
    """An ingest pipeline: topics into the lake."""

    name: PipelineName
    kind: Literal["ingest"]
    kafka: str = "kafka_default"
    topics: LakeTopics = ()
    pattern: Regex | None = None
    assign: dict[LakeTopic, Partitions] | None = None
    exclude: Regex | None = None
    lake: Lake
    schedule: Schedule | None = None
    start: Start = "earliest"
    max_records: Count = 5_000_000
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    options: dict[str, Scalar] = Field(default_factory=dict)
    decode: Decode = Field(default_factory=dict)
    partition_by: Listed = parquet_settings.DEFAULT
    sort_by: Listed = ()
    file_size: FileSize = 256 << 20
    compression: Literal["zstd", "snappy", "gzip", "none"] = "zstd"
    on_expired: Literal["fail", "skip"] = "fail"
    on_unreadable: Literal["fail", "gap"] = "fail"
    keep_replaced: Annotated[Whole, Field(ge=0, le=LONGEST_WAIT)] = 0
    progress_group: Text | None = None
    spark: Spark = Spark()
    retries: Annotated[Whole, Field(ge=0, le=100)] = 3
    airflow: AirflowSettings = AirflowSettings()

    @model_validator(mode="before")
    @classmethod
    def _isolation_of_options(cls, form: Any) -> Any:
        """Return the form with the key `isolation` if only `options` has the level."""
        if isinstance(form, dict) and "isolation" not in form:
            options = form.get("options")
            for name, value in options.items() if isinstance(options, dict) else ():
                if str(name).lower() == "kafka.isolation.level" and value in _LEVELS:
                    return {**form, "isolation": value}
        return form

    @classmethod
    def contradiction(cls, key: str, value: Any, given: Mapping[str, Any]) -> Contradiction | None:
        match key:
            case "options" if wrong := _wrong_options(as_texts(value), given.get("isolation")):
                return "options", wrong
            case "assign" if value is not None and not value:
                return "assign", "names no partition; give some, for example {orders: [0, 2]}"
            case "assign" if {"topics", "pattern"} <= given.keys():
                if sum(map(bool, (given["topics"], given["pattern"], value))) != 1:
                    return "topics", "give either their names, a pattern for them, or `assign`"
            case "exclude" if value and given.get("pattern", "wrong") is None:
                return "exclude", "only a pattern has exceptions"
            case "decode" if value and {"topics", "pattern", "assign", "exclude"} <= given.keys():
                if unknown := unknown_topics(value, _selected(value, given)):
                    near = did_you_mean(unknown, given.get("topics") or given.get("assign") or ())
                    return "decode", f"not among the topics: {unknown}{near}"
            case "partition_by" if "decode" in given:
                if wrong := parquet_settings.complaints(value, _columns(given["decode"])):
                    return "partition_by", wrong
            case "sort_by" if value and "decode" in given:
                if unsorted := parquet_settings.unsortable(value, _columns(given["decode"])):
                    return "sort_by", unsorted
            case "start" if isinstance(value, StartAt):
                if {"topics", "pattern", "assign", "exclude"} <= given.keys():
                    return _start_complaint(value, given)
        return None

    def select(self, existing: Iterable[str]) -> tuple[str, ...]:
        """Return the named topics, or those of `existing` that match. None of Kafka's own."""
        return _selected(existing, vars(self))

    def partitions_of(self, topic: str) -> frozenset[int] | None:
        """Return the partitions of a topic that the pipeline reads. None: all."""
        return None if self.assign is None else frozenset(self.assign.get(topic, ()))

    def with_topics(self, topics: tuple[str, ...]) -> Ingest:
        """Return the spec with these topics in place of its own."""
        return self.model_copy(update={"topics": topics})

    @property
    def has_own_isolation(self) -> bool:
        """Whether the file gives the isolation level."""
        return "isolation" in self.model_fields_set

    @property
    def decoding(self) -> dict[str, Decoding]:
        """How records are decoded, by topic. `*` stands for all others."""
        return {topic: each.decoding for topic, each in self.decode.items()}

    def parquet(self, max_records_per_file: int) -> ParquetSettings:
        """Return how data files are written, each of at most so many records."""
        return ParquetSettings(
            compression=self.compression,
            level=1 if self.compression == "zstd" else None,
            max_records_per_file=max_records_per_file,
            partition_by=parquet_settings.normalise_partition_by(self.partition_by),
            sort_by=self.sort_by,
        )

    @property
    def source_options(self) -> dict[str, str]:
        """The options for Spark's source, by its names, without the isolation level."""
        given = judge_settings(Place.SOURCE, as_texts(self.options)).settings
        return {name: value for name, value in given.items() if name != "isolation"}

    @property
    def notices(self) -> tuple[str, ...]:
        """What a user should know of values that are accepted."""
        verdict = judge_settings(Place.SOURCE, as_texts(self.options))
        of_options = (*verdict.notices, *without_effect(verdict.settings))
        return (
            *_notices_of_start(self.start),
            *(f"options: {notice}" for notice in of_options),
            *self.spark.notices,
        )

    @property
    def key_of_topics(self) -> str:
        """The key of the pipeline's file that says which topics it reads."""
        return "assign" if self.assign else "pattern" if self.pattern else "topics"

    @property
    def subscription(self) -> str:
        """The topics that the pipeline reads, as text."""
        if self.assign is not None:
            return ", ".join(f"{topic} {sorted(ps)}" for topic, ps in self.assign.items())
        if self.pattern is None:
            return ", ".join(self.topics)
        return f"/{self.pattern}/" + (f" without /{self.exclude}/" if self.exclude else "")


def _columns(decode: Mapping[str, TopicDecode]) -> list[Fields]:
    """Return the decoded columns of each topic that `decode` names; of one without any, none."""
    return [each.decoding.columns for each in decode.values()] or [()]


def _notices_of_start(start: str | StartAt) -> Iterator[str]:
    word = start.otherwise if isinstance(start, StartAt) else start
    if word is not None and (today := word_of_today(word)) != word:
        key = "start.otherwise" if isinstance(start, StartAt) else "start"
        yield f"{key}: read as {today}: {word} is an older word for it"


def _start_complaint(start: StartAt, given: Mapping[str, Any]) -> Contradiction | None:
    """Return which topics or partitions a start names that are not read, or fails to name."""
    key = "offsets" if start.offsets is not None else "timestamps"
    named: Mapping[str, Mapping[int, Any]] | None = getattr(start, key)
    if named is None:
        return None
    complaints = []
    if unknown := named.keys() - _selected(named, given):
        complaints.append(f"not among the topics: {sorted(unknown)}")
    for topic, partitions in (given["assign"] or {}).items():
        found = named.get(topic, {})
        if missing := sorted(set(partitions) - found.keys()):
            complaints.append(f"{topic}: no start for partitions {missing}")
        if others := sorted(found.keys() - set(partitions)):
            complaints.append(f"{topic}: partitions {others} are not assigned")
    return (f"start.{key}", complaints) if complaints else None


def _selected(existing: Iterable[str], ingest: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the topics that `topics`, `assign`, or `pattern` and `exclude`, select."""
    pattern, exclude = ingest["pattern"], ingest["exclude"]
    if pattern is None:
        return tuple(ingest["topics"] or ingest["assign"] or ())
    return tuple(
        topic
        for topic in sorted(set(existing))
        if linear_regex.fullmatch(pattern, topic)
        and not (exclude and linear_regex.fullmatch(exclude, topic))
        and not topic.startswith("__")
    )


def _wrong_options(given: Mapping[str, str], isolation: str | None) -> list[str]:
    verdict = judge_settings(Place.SOURCE, given)
    level = without_unset(verdict.settings).get("isolation")
    if isolation and level not in (None, isolation):
        text = (
            "kafka.isolation.level: refused: it contradicts the key `isolation`; give one of them"
        )
        return [*verdict.complaints, text]
    return [*verdict.complaints, *source_disagreements(verdict.settings)]
