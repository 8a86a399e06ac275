"""The specs of pipelines: frozen, and validated with all complaints at once.

Contradictions between keys are found key by key, by the valid values of earlier keys, so that they
are reported beside all wrong values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError

from tidegate.core.source_root import Root
from tidegate.errors import ConfigurationError
from tidegate.pipelines import secret_settings
from tidegate.pipelines.complaints import complaint
from tidegate.pipelines.value_types import (
    Count,
    LakeTopics,
    Offset,
    Path,
    PipelineName,
    Regex,
    Scalar,
    Schedule,
    Sql,
    SqlOfPartition,
    Text,
    Time,
    TopicName,
    TopicNames,
    Whole,
    as_texts,
)
from tidegate.spark import file_reader_options, producer_settings
from tidegate.spark.egress_job import LINE

_LONGEST_WAIT = 10**9  # seconds

Contradiction = tuple[str, str]
"""The key that a complaint is about (empty: the mapping itself), and the complaint."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    @classmethod
    def contradiction(cls, key: str, value: Any, given: Mapping[str, Any]) -> Contradiction | None:
        """Return how a valid value contradicts itself, or the valid values of earlier keys."""
        del key, value, given  # of a mapping without contradictions
        return None

    @field_validator("*")
    @classmethod
    def _agrees(cls, value: Any, info: ValidationInfo) -> Any:
        if found := cls.contradiction(str(info.field_name), value, info.data):
            about, text = found
            raise PydanticCustomError("unquoted", "{text}", {"key": about, "text": text})
        return value


class StartAt(_Strict):
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


class Spark(_Strict):
    """The Spark connection, and Spark settings in addition to Tidegate's own."""

    connection: str = "spark_default"
    conf: dict[str, Scalar] = {}

    @classmethod
    def contradiction(cls, key: str, value: Any, given: Mapping[str, Any]) -> Contradiction | None:
        del given
        if key == "conf" and (wrong := secret_settings.refused(as_texts(value))):
            return "conf", wrong.removeprefix("spark.conf: ")
        return None


class Ingest(_Strict):
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


class Source(_Strict):
    """What is sent: files below a root, or the lake of an ingest pipeline.

    `columns` is a schema in Spark's DDL; without it the schema of Parquet files is read, and that
    of others inferred.
    """

    path: Path | None = None
    format: Literal["parquet", "json", "csv", "text"] | None = None
    options: dict[str, Scalar] = {}
    columns: str | None = None
    lake: PipelineName | None = None
    topics: tuple[TopicName, ...] = ()

    @classmethod
    def contradiction(cls, key: str, value: Any, given: Mapping[str, Any]) -> Contradiction | None:
        wrong: str | list[str] | None
        match key:
            case "path" if value is not None and (wrong := Root.of(value).complaint()):
                return "path", f"not a pattern of names: {wrong}"
            case "format" if value is None and given.get("path", "wrong") is not None:
                return "format", "missing; one of parquet, json, csv, text"
            case "options" if format_ := given.get("format"):
                if wrong := file_reader_options.complaints(format_, as_texts(value)):
                    return "options", "; ".join(wrong)
            case "lake" if "path" in given and (given["path"] is None) == (value is None):
                return "", "give either a path or the lake of an ingest pipeline, by its name"
            case "lake" if value and any(given.get(k) for k in ("format", "options", "columns")):
                return "", "a lake has its own format, options and columns"
            case "topics" if value and given.get("path") is not None:
                return "topics", "only a lake has topics"
        return None


class Target(_Strict):
    """Where rows are sent: one topic, or the one of `topics` that the row names.

    A missing topic is created only if `partitions` is given.
    """

    kafka: str = "kafka_default"
    topic: TopicName | None = None
    topics: Annotated[TopicNames, Field(min_length=1)] | None = None
    partitions: Count | None = None
    producer: dict[str, Scalar] = {}

    @classmethod
    def contradiction(cls, key: str, value: Any, given: Mapping[str, Any]) -> Contradiction | None:
        match key:
            case "topics" if "topic" in given and (given["topic"] is None) == (value is None):
                return "", "give either topic, or topics that columns.topic chooses from"
            case "producer" if wrong := producer_settings.complaints(as_texts(value)):
                return "producer", "; ".join(wrong)
        return None

    @property
    def names(self) -> tuple[str, ...]:
        """The topics that may be written to."""
        return self.topics or ((self.topic,) if self.topic else ())

    @property
    def producer_settings(self) -> dict[str, str]:
        return as_texts(self.producer)


class Columns(_Strict):
    """The fields of a row's record: names of columns, or SQL expressions over them."""

    key: Sql | None = None
    value: Sql | None = None
    headers: Sql | None = None
    partition: SqlOfPartition | None = None
    topic: Sql | None = None


class Egress(_Strict):
    """An egress pipeline: files or a lake into topics. `lake` is where its ledger is."""

    name: PipelineName
    kind: Literal["egress"]
    source: Source
    target: Target
    lake: Path
    columns: Columns = Columns()
    order_by: tuple[str, ...] = ()
    order: Literal["report", "strict"] = "report"
    tombstones: bool | None = None
    on_bad_row: Literal["fail", "quarantine"] = "fail"
    settle: Annotated[Whole, Field(ge=0, le=_LONGEST_WAIT)] = 60
    max_files: Count = 10_000
    max_records: Count = 50_000_000
    schedule: Schedule | None = None
    spark: Spark = Spark()
    retries: Annotated[Whole, Field(ge=0, le=100)] = 3

    @classmethod
    def contradiction(cls, key: str, value: Any, given: Mapping[str, Any]) -> Contradiction | None:
        source, target, columns = (given.get(each) for each in ("source", "target", "columns"))
        match key:
            case "source" if value.lake and value.lake == given.get("name"):
                return "source.lake", f"{value.lake!r} is this pipeline itself"
            case "columns" if target and target.topics and not value.topic:
                return "columns.topic", "missing: target.topics needs it to choose by"
            case "columns" if source and source.format != "json" and LINE in dict(value).values():
                return "columns", f"'{LINE}' is the line of a JSON file"
            case "order_by" if source and target and columns and (value or source.lake):
                by_key = _is_null("partition", source, columns)
                settings = target.producer_settings
                if wrong := producer_settings.disorders(settings, by_key=by_key):
                    return "target.producer", "; ".join(wrong)
            case "order" if value == "strict" and source:
                if given.get("order_by") == () and not source.lake:
                    return "order", "strict: rows of files have no order without order_by"
                if columns and _spreads(source, columns):
                    return "order", (
                        "strict: without columns.key and columns.partition Kafka spreads the rows "
                        "over partitions in any order: give one of them"
                    )
        return None

    @property
    def kafka(self) -> str:
        """The connection of the target."""
        return self.target.kafka

    @property
    def sends_tombstones(self) -> bool:
        """Whether rows without a value are sent, as tombstones: by default those of a lake."""
        return self.source.lake is not None if self.tombstones is None else self.tombstones


Spec = Ingest | Egress

_KINDS: Mapping[str, type[Ingest] | type[Egress]] = {"ingest": Ingest, "egress": Egress}
_PARTS: Mapping[str, Mapping[str, type[BaseModel]]] = {
    "ingest": {"": Ingest, "spark": Spark, "start": StartAt},
    "egress": {"": Egress, "spark": Spark, "source": Source, "target": Target, "columns": Columns},
}
_KNOWN_KEYS = {
    kind: {path: sorted(model.model_fields) for path, model in parts.items()}
    for kind, parts in _PARTS.items()
}


def parse(form: dict[str, Any]) -> Spec:
    """Return the spec; ValueError with one complaint a line if it is not valid."""
    kind = form.get("kind")
    if kind not in tuple(_KINDS):
        kind = "egress" if {"source", "target"} & form.keys() else "ingest"
    try:
        return _KINDS[kind].model_validate(form)
    except ValidationError as error:
        complaints = (complaint(each, _KNOWN_KEYS[kind]) for each in error.errors())
        raise ValueError("\n".join(dict.fromkeys(complaints))) from None


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


def _spreads(source: Source, columns: Columns) -> bool:
    """Return whether neither a row's partition nor its key determines its target partition."""
    return _is_null("partition", source, columns) and _is_null("key", source, columns)


def _is_null(name: Literal["key", "partition"], source: Source, columns: Columns) -> bool:
    chosen: str = getattr(columns, name) or (name if source.lake else "null")
    return chosen.strip().lower() == "null"
