"""The specs of pipelines: frozen, and validated with all complaints at once."""

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
    model_validator,
)

from tidegate.core.source_root import Root
from tidegate.errors import ConfigurationError
from tidegate.pipelines import secret_settings
from tidegate.pipelines.complaints import complaint
from tidegate.pipelines.value_types import (
    Count,
    LakeTopic,
    Offset,
    PipelineName,
    Regex,
    Schedule,
    Time,
    TopicName,
    Whole,
)
from tidegate.spark import file_reader_options, producer_settings

_LONGEST_WAIT = 10**9  # seconds


class _Strict(BaseModel):
    # Python's regular expressions: pydantic's own have no look-ahead.
    model_config = ConfigDict(extra="forbid", frozen=True, regex_engine="python-re")


class StartAt(_Strict):
    """Begin at the first record since a timestamp, at offsets, or at a consumer group's offsets."""

    timestamp: Time | None = None
    offsets: dict[TopicName, dict[Offset, Offset]] | None = None
    group: Annotated[str, Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _is_one_of_the_three(self) -> StartAt:
        given = [self.timestamp, self.offsets, self.group]
        if sum(each is not None for each in given) != 1:
            raise ValueError("give a timestamp, offsets, or a consumer group: one of the three")
        return self


# Distinguished by shape, so that complaints are about the form that was given.
Start = Annotated[
    Annotated[Literal["earliest", "latest"], Tag("Word")] | Annotated[StartAt, Tag("At")],
    Discriminator(lambda value: "At" if isinstance(value, dict | StartAt) else "Word"),
]


Scalar = str | int | float | bool


class Spark(_Strict):
    """The Spark connection, and Spark settings in addition to Tidegate's own."""

    connection: str = "spark_default"
    conf: dict[str, Scalar] = {}

    @model_validator(mode="after")
    def _holds_no_secret(self) -> Spark:
        conf = {name: as_text(value) for name, value in self.conf.items()}
        if secrets := secret_settings.secret_settings(conf):
            raise ValueError(secret_settings.complaint(secrets).removeprefix("spark."))
        return self


class Ingest(_Strict):
    """An ingest pipeline: topics into the lake."""

    name: PipelineName
    kind: Literal["ingest"]
    kafka: str = "kafka_default"
    topics: tuple[LakeTopic, ...] = ()
    pattern: Regex | None = None
    exclude: Regex | None = None
    lake: Annotated[str, Field(min_length=1)]
    schedule: Schedule | None = None
    start: Start = "earliest"
    max_records: Count = 5_000_000
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    on_expired: Literal["fail", "skip"] = "fail"
    on_unreadable: Literal["fail", "gap"] = "fail"
    progress_group: Annotated[str, Field(min_length=1)] | None = None
    spark: Spark = Spark()
    retries: Annotated[Whole, Field(ge=0, le=100)] = 3

    def topic_named(self, topic: str | None) -> str:
        """Return a topic of the pipeline; for None the only one."""
        return one_of(self.name, self.topics, topic)

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Ingest:
        if bool(self.topics) == bool(self.pattern):
            raise ValueError("topics: give either their names, or a pattern for them")
        if self.exclude and not self.pattern:
            raise ValueError("exclude: only a pattern has exceptions")
        if len(set(self.topics)) < len(self.topics):
            raise ValueError(f"topics: one is named twice in {list(self.topics)}")
        _refuse_relative("lake", self.lake)
        if isinstance(self.start, StartAt) and self.start.offsets:
            unknown = self.start.offsets.keys() - set(self.select(self.start.offsets))
            if unknown:
                raise ValueError(f"start.offsets: not among the topics: {sorted(unknown)}")
        return self

    def select(self, existing: Iterable[str]) -> tuple[str, ...]:
        """Return the pipeline's topics: the named ones, or those of `existing` that match.

        The whole name must match; Kafka's internal topics never do.
        """
        if self.pattern is None:
            return self.topics
        return tuple(
            topic
            for topic in sorted(set(existing))
            if re.fullmatch(self.pattern, topic)
            and not (self.exclude and re.fullmatch(self.exclude, topic))
            and not topic.startswith("__")
        )

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

    path: str | None = None
    format: Literal["parquet", "json", "csv", "text"] | None = None
    options: dict[str, Scalar] = {}
    columns: str | None = None
    lake: PipelineName | None = None
    topics: tuple[TopicName, ...] = ()

    @model_validator(mode="after")
    def _is_one_of_the_two(self) -> Source:
        if (self.path is None) == (self.lake is None):
            raise ValueError("give either a path or the lake of an ingest pipeline, by its name")
        if self.path is not None:
            _refuse_relative("path", self.path)
            if wrong_pattern := Root.of(self.path).complaint():
                raise ValueError(f"path: not a pattern of names: {wrong_pattern}")
            if self.format is None:
                raise ValueError("format: missing; one of parquet, json, csv, text")
            if self.topics:
                raise ValueError("topics: only a lake has topics")
            given = {name: as_text(value) for name, value in self.options.items()}
            if wrong := file_reader_options.complaints(self.format, given):
                raise ValueError(f"options: {'; '.join(wrong)}")
        elif self.format or self.options or self.columns:
            raise ValueError("a lake has its own format, options and columns")
        return self


class Target(_Strict):
    """Where rows are sent: one topic, or the one of `topics` that the row names.

    A missing topic is created only if `partitions` is given.
    """

    kafka: str = "kafka_default"
    topic: TopicName | None = None
    topics: Annotated[tuple[TopicName, ...], Field(min_length=1)] | None = None
    partitions: Count | None = None
    producer: dict[str, Scalar] = {}

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Target:
        if (self.topic is None) == (self.topics is None):
            raise ValueError("give either topic, or topics that columns.topic chooses from")
        if len(set(self.names)) < len(self.names):
            raise ValueError(f"topics: one is named twice in {list(self.names)}")
        if wrong := producer_settings.complaints(self.producer_settings):
            raise ValueError(f"producer: {'; '.join(wrong)}")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The topics that may be written to."""
        return self.topics or ((self.topic,) if self.topic else ())

    @property
    def producer_settings(self) -> dict[str, str]:
        return {name: as_text(value) for name, value in self.producer.items()}


class Columns(_Strict):
    """The fields of a row's record: names of columns, or SQL expressions over them."""

    key: str | None = None
    value: str | None = None
    headers: str | None = None
    partition: str | None = None
    topic: str | None = None


class Egress(_Strict):
    """An egress pipeline: files or a lake into topics. `lake` is where its ledger is."""

    name: PipelineName
    kind: Literal["egress"]
    source: Source
    target: Target
    lake: Annotated[str, Field(min_length=1)]
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

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Egress:
        _refuse_relative("lake", self.lake)
        if self.target.topics and not self.columns.topic:
            raise ValueError("columns.topic: missing: target.topics needs it to choose by")
        if self.order == "strict" and not (self.order_by or self.source.lake):
            raise ValueError("order: strict: rows of files have no order without order_by")
        if self.order == "strict" and self._spreads():
            raise ValueError(
                "order: strict: without columns.key and columns.partition Kafka spreads the rows "
                "over partitions in any order: give one of them"
            )
        if wrong := self._disorders():
            raise ValueError(f"target.producer: {'; '.join(wrong)}")
        if self.source.lake == self.name:
            raise ValueError(f"source.lake: {self.name!r} is this pipeline itself")
        return self

    def _disorders(self) -> list[str]:
        """Return complaints about producer settings that would break the order, if there is one."""
        if not (self.order_by or self.source.lake):
            return []
        by_key = self._is_null("partition")
        return producer_settings.disorders(self.target.producer_settings, by_key=by_key)

    def _spreads(self) -> bool:
        """Return whether neither a row's partition nor its key determines its target partition."""
        return self._is_null("partition") and self._is_null("key")

    def _is_null(self, name: Literal["key", "partition"]) -> bool:
        chosen: str = getattr(self.columns, name) or (name if self.source.lake else "null")
        return chosen.strip().lower() == "null"

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
    kind = "egress" if form.get("kind") == "egress" else "ingest"
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


def as_text(value: Scalar) -> str:
    """Return a setting's value in the form of Spark and Kafka."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _refuse_relative(key: str, path: str) -> None:
    if secret_settings.has_login(path):
        # It would be written to the ledger, to plans and to the DAG's documentation.
        raise ValueError(f"{key}: a URL here holds no password: give keys by the environment")
    if "://" not in path and not path.startswith("/"):
        # Airflow and a terminal have different working directories.
        raise ValueError(f"{key}: {path!r} is neither an absolute path nor a URL")
