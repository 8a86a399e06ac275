"""The spec of an egress pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import Field

from tidegate.core.schema import SchemaError
from tidegate.core.source_root import Root
from tidegate.pipelines.airflow_spec import AirflowSettings
from tidegate.pipelines.strict import Contradiction, SendingSpark, Strict
from tidegate.pipelines.value_types import (
    AFTER_THE_LAKE,
    LONGEST_WAIT,
    Count,
    Lake,
    Path,
    PipelineName,
    Scalar,
    ScheduleOrLake,
    Sql,
    SqlOfPartition,
    TopicName,
    TopicNames,
    Whole,
    as_texts,
)
from tidegate.settings.setting import Place
from tidegate.settings.sink_settings import READING
from tidegate.settings.source import source_disagreements
from tidegate.settings.table import judge_settings
from tidegate.spark import formats, producer_settings
from tidegate.spark.egress_job import LINE
from tidegate.spark.formats import FileFormatName

if TYPE_CHECKING:
    from tidegate.spark.formats.declared import FileFormatBase


class Source(Strict):
    """What is sent: files below a root, or the lake of an ingest pipeline.

    `columns` is a schema in Spark's DDL, which CSV must have. Without it Parquet has its own, and
    JSON none.
    """

    path: Path | None = None
    format: FileFormatName | None = None
    options: dict[str, Scalar] = Field(default_factory=dict)
    columns: str | None = None
    lake: PipelineName | None = None
    topics: tuple[TopicName, ...] = ()

    @classmethod
    def contradiction(cls, key: str, value: Any, given: Mapping[str, Any]) -> Contradiction | None:
        wrong: str | Sequence[str] | None
        match key:
            case "path" if value is not None and (wrong := Root.of(value).complaint()):
                return "path", f"not a pattern of names: {wrong}"
            case "format" if value is None and given.get("path", "wrong") is not None:
                return "format", f"missing; one of {', '.join(get_args(FileFormatName))}"
            case "options" if format_ := given.get("format"):
                if wrong := formats.format_of_files(format_).complaints_of_options(as_texts(value)):
                    return "options", wrong
            case "columns" if (format_ := given.get("format")) and value is None:
                if formats.format_of_files(format_).needs_columns and given.get("path"):
                    return "columns", (
                        f"missing: {format_.upper()} needs its columns, as 'id BIGINT, name "
                        "STRING'; `tidegate init` proposes them from the header of a file"
                    )
            case "columns" if (format_ := given.get("format")) and value is not None:
                try:
                    formats.format_of_files(format_).check_columns(value)
                except SchemaError as error:
                    return "columns", str(error)
            case "lake" if "path" in given and (given["path"] is None) == (value is None):
                return "", "give either a path or the lake of an ingest pipeline, by its name"
            case "lake" if value and any(given.get(k) for k in ("format", "options", "columns")):
                return "", "a lake has its own format, options and columns"
            case "topics" if value and given.get("path") is not None:
                return "topics", "only a lake has topics"
        return None

    @property
    def file_format(self) -> FileFormatBase | None:
        """The format of the files, or None for a lake."""
        return formats.format_of_files(self.format) if self.format else None

    @property
    def reader_options(self) -> dict[str, str]:
        """The options of Spark's reader of files."""
        return as_texts(self.options)


class Target(Strict):
    """Where rows are sent: one topic, or the one of `topics` that the row names.

    A missing topic is created only if `partitions` is given. `options` are those of Spark's sink,
    `producer` is their short form, without `kafka.`. `timestamps`: records get the time of sending,
    or that of their row. `accept_expiry`: also rows that the topic's retention deletes at once.
    """

    kafka: str = "kafka_default"
    topic: TopicName | None = None
    topics: Annotated[TopicNames, Field(min_length=1)] | None = None
    partitions: Count | None = None
    timestamps: Literal["sent", "source"] = "sent"
    accept_expiry: bool = False
    producer: dict[str, Scalar] = Field(default_factory=dict)
    options: dict[str, Scalar] = Field(default_factory=dict)

    @classmethod
    def contradiction(cls, key: str, value: Any, given: Mapping[str, Any]) -> Contradiction | None:
        match key:
            case "topics" if "topic" in given and (given["topic"] is None) == (value is None):
                return "", "give either topic, or topics that columns.topic chooses from"
            case "accept_expiry" if value and given.get("timestamps") == "sent":
                return "accept_expiry", "not used: give timestamps: source"
            case "producer" if wrong := producer_settings.judge_producer(
                as_texts(value)
            ).complaints:
                return "producer", wrong
            case "options" if wrong := judge_settings(Place.SINK, as_texts(value)).complaints:
                return "options", wrong
            case "options" if "producer" in given:
                return _together(as_texts(given["producer"]), as_texts(value))
        return None

    @property
    def names(self) -> tuple[str, ...]:
        """The topics that may be written to."""
        return self.topics or ((self.topic,) if self.topic else ())

    @property
    def settings(self) -> dict[str, str]:
        """The options of both forms, by the names that Spark has."""
        return _settings(as_texts(self.producer), as_texts(self.options))

    @property
    def producer_settings(self) -> dict[str, str]:
        """The producer's settings, without `kafka.`."""
        return _of_producer(self.settings)

    @property
    def reading_options(self) -> dict[str, str]:
        """The options of Spark's source by which the target is read back."""
        return _of_reading(self.settings)

    @property
    def key_of_producer(self) -> str:
        """The key that has the producer's settings."""
        return _key_of_producer(self.producer, self.options)

    @property
    def notices(self) -> tuple[str, ...]:
        """What a user should know of accepted settings."""
        short = producer_settings.judge_producer(as_texts(self.producer)).notices
        weak = producer_settings.weakened_guarantees(self.producer_settings)
        return (
            *(f"target.producer: {each}" for each in short),
            *(
                f"target.options: {n}"
                for n in judge_settings(Place.SINK, as_texts(self.options)).notices
            ),
            *(f"target.{self.key_of_producer}: {each}" for each in weak),
        )


def _settings(short: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    return {
        **producer_settings.judge_producer(short).settings,
        **judge_settings(Place.SINK, options).settings,
    }


def _of_producer(settings: Mapping[str, str]) -> dict[str, str]:
    return {
        name.removeprefix("kafka."): value
        for name, value in settings.items()
        if name.startswith("kafka.") and name not in READING
    }


def _of_reading(settings: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in settings.items() if name in READING}


def _together(short: Mapping[str, str], options: Mapping[str, str]) -> Contradiction | None:
    """Return what contradicts itself in valid settings of both forms."""
    of_options = judge_settings(Place.SINK, options).settings
    if twice := sorted(producer_settings.judge_producer(short).settings.keys() & of_options.keys()):
        return "options", [f"{name}: given twice, in producer too" for name in twice]
    both = _settings(short, options)
    if wrong := producer_settings.producer_contradictions(_of_producer(both)):
        return _key_of_producer(short, options), wrong
    if wrong := source_disagreements(_of_reading(both)):
        return "options", wrong
    return None


def _key_of_producer(short: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    return "options" if options and not short else "producer"


class Columns(Strict):
    """The fields of a row's record: names of columns, or SQL expressions over them."""

    key: Sql | None = None
    value: Sql | None = None
    headers: Sql | None = None
    partition: SqlOfPartition | None = None
    topic: Sql | None = None
    timestamp: Sql | None = None


class Egress(Strict):
    """An egress pipeline: files or a lake into topics. `lake` is where its ledger is."""

    name: PipelineName
    kind: Literal["egress"]
    source: Source
    target: Target
    lake: Lake
    columns: Columns = Columns()
    order_by: tuple[str, ...] = ()
    order: Literal["report", "strict"] = "report"
    proof: Literal["counts", "full"] = "counts"
    tombstones: bool | None = None
    on_bad_row: Literal["fail", "quarantine"] = "fail"
    settle: Annotated[Whole, Field(ge=0, le=LONGEST_WAIT)] = 60
    max_files: Count = 10_000
    max_records: Count = 50_000_000
    schedule: ScheduleOrLake | None = None
    spark: SendingSpark = SendingSpark()
    retries: Annotated[Whole, Field(ge=0, le=100)] = 3
    airflow: AirflowSettings = AirflowSettings()

    @classmethod
    def contradiction(cls, key: str, value: Any, given: Mapping[str, Any]) -> Contradiction | None:
        source, target, columns = (given.get(each) for each in ("source", "target", "columns"))
        match key:
            case "source" if value.lake and value.lake == given.get("name"):
                return "source.lake", f"{value.lake!r} is this pipeline itself"
            case "schedule" if value == AFTER_THE_LAKE and source and not source.lake:
                return (
                    "schedule",
                    "'lake' needs source.lake: give a cron expression",
                )
            case "columns" if target and target.topics and not value.topic:
                return "columns.topic", "missing: target.topics needs it to choose by"
            case "columns" if target and value.timestamp and target.timestamps == "sent":
                return "columns.timestamp", "not used: give target.timestamps: source"
            case "columns" if (
                target and target.timestamps == "source" and source and source.path
            ) and not value.timestamp:
                return (
                    "columns.timestamp",
                    "missing: target.timestamps: source needs it for files",
                )
            case "columns" if source and LINE in dict(value).values():
                if not (source.file_format and source.file_format.row == LINE):
                    return "columns", f"'{LINE}' is the line of a JSON file"
            case "order_by" if source and target and columns and (value or source.lake):
                by_key = _is_null("partition", source, columns)
                settings = target.producer_settings
                if wrong := producer_settings.order_complaints(settings, by_key=by_key):
                    return f"target.{target.key_of_producer}", wrong
            case "order" if value == "strict" and source:
                if given.get("order_by") == () and not source.lake:
                    return "order", "strict: rows of files have no order without order_by"
                if columns and _spreads(source, columns):
                    return "order", (
                        "strict: without columns.key and columns.partition Kafka spreads the rows "
                        "over partitions in any order: give one of them"
                    )
        return None

    def with_max_files(self, max_files: int) -> Egress:
        """Return the spec with another limit of files in a plan."""
        return self.model_copy(update={"max_files": max_files})

    @property
    def expressions(self) -> dict[str, str]:
        """The given SQL expressions, by the field of a record that they are for."""
        return {name: sql for name, sql in self.columns if sql is not None}

    @property
    def kafka(self) -> str:
        """The connection of the target."""
        return self.target.kafka

    @property
    def notices(self) -> tuple[str, ...]:
        """What a user should know of what is accepted."""
        unused = "target.topic is used, columns.topic is not"
        return (
            *self.target.notices,
            *((unused,) if self.target.topic and self.columns.topic else ()),
            *self.spark.notices,
        )

    @property
    def sends_tombstones(self) -> bool:
        """Whether rows without a value are sent, as tombstones: by default those of a lake."""
        return self.source.lake is not None if self.tombstones is None else self.tombstones


def _spreads(source: Source, columns: Columns) -> bool:
    """Return whether neither a row's partition nor its key determines its target partition."""
    return _is_null("partition", source, columns) and _is_null("key", source, columns)


def _is_null(name: Literal["key", "partition"], source: Source, columns: Columns) -> bool:
    chosen: str = getattr(columns, name) or (name if source.lake else "null")
    return chosen.strip().lower() == "null"
