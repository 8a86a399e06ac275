"""What a run reads of a pipeline's file, and how it finds other pipelines.

All values are valid: a wrong file raises ConfigurationError before there is a spec. Values do not
change while a run lasts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol

from tidegate.core.decoding import Decoding
from tidegate.core.parquet_settings import ParquetSettings

if TYPE_CHECKING:
    from tidegate.spark.format_protocol import FileFormat


class SparkSpec(Protocol):
    """How Spark is started."""

    @property
    def connection(self) -> str:
        """The id of the Spark connection."""

    @property
    def settings(self) -> dict[str, str]:
        """The pipeline's settings of Spark, as Spark takes them."""


class StartSpec(Protocol):
    """Where a new partition begins. Exactly one of the first four values is given."""

    @property
    def timestamp(self) -> datetime | None:
        """Begin at the first record since this time."""

    @property
    def timestamps(self) -> Mapping[str, Mapping[int, datetime]] | None:
        """The same by topic and partition."""

    @property
    def offsets(self) -> Mapping[str, Mapping[int, int]] | None:
        """Begin at offsets, by topic and partition: -2 is the log start, -1 its end."""

    @property
    def group(self) -> str | None:
        """Begin at the committed offsets of a consumer group."""

    @property
    def otherwise(self) -> str | None:
        """The word for partitions without such an offset, or `fail`, which refuses them."""


class PipelineSpec(Protocol):
    """What both kinds of pipeline have."""

    @property
    def name(self) -> str:
        """The name of the pipeline: letters, digits, `_` and `-`."""

    @property
    def kafka(self) -> str:
        """The id of the Kafka connection."""

    @property
    def lake(self) -> str:
        """The directory or URL that has the pipeline's ledger."""

    @property
    def spark(self) -> SparkSpec:
        """How Spark is started."""

    @property
    def max_records(self) -> int:
        """The most records in a chunk of an ingest, or in a plan of an egress."""

    @property
    def notices(self) -> tuple[str, ...]:
        """What a user should know of accepted values."""


class IngestSpec(PipelineSpec, Protocol):
    """A pipeline that reads topics into a lake."""

    @property
    def kind(self) -> Literal["ingest"]:
        """The kind of pipeline."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics to read. A pattern has none before `with_topics`."""

    @property
    def pattern(self) -> str | None:
        """The regular expression that chooses topics, or None if they are named."""

    @property
    def assign(self) -> Mapping[str, Sequence[int]] | None:
        """The partitions to read, by topic. None reads all."""

    @property
    def key_of_topics(self) -> str:
        """The key of the file that chooses topics."""

    @property
    def subscription(self) -> str:
        """The choice of topics as text for messages."""

    @property
    def start(self) -> str | StartSpec:
        """Where a new partition begins: a word of Kafka, or more exactly."""

    @property
    def isolation(self) -> Literal["read_committed", "read_uncommitted"]:
        """Kafka's isolation level."""

    @property
    def has_own_isolation(self) -> bool:
        """Whether the file gives the isolation level."""

    @property
    def source_options(self) -> dict[str, str]:
        """The options of Spark's Kafka source, without the isolation level."""

    @property
    def decoding(self) -> dict[str, Decoding]:
        """How records are decoded, by topic. `*` stands for all others."""

    @property
    def file_size(self) -> int:
        """The size of a data file to aim at, in bytes."""

    @property
    def on_expired(self) -> Literal["fail", "skip"]:
        """What to do about records that Kafka has deleted before they were read."""

    @property
    def on_unreadable(self) -> Literal["fail", "gap"]:
        """What to do about records that the broker cannot give."""

    @property
    def keep_replaced(self) -> int:
        """How long files that a replay has replaced are kept, in seconds."""

    @property
    def progress_group(self) -> str | None:
        """The consumer group that shows the pipeline's offsets."""

    def select(self, existing: Iterable[str]) -> tuple[str, ...]:
        """Return the named topics, or the existing topics that match the pattern."""

    def partitions_of(self, topic: str) -> frozenset[int] | None:
        """Return the partitions of a topic to read. None reads all."""

    def parquet(self, max_records_per_file: int) -> ParquetSettings:
        """Return how data files are written, each with at most so many records."""

    def with_topics(self, topics: tuple[str, ...]) -> IngestSpec:
        """Return the spec with these topics in place of its own."""


class SourceSpec(Protocol):
    """What an egress sends: files of a path, or the lake of an ingest pipeline."""

    @property
    def path(self) -> str | None:
        """The directory or URL of the files, whose last parts may be globs."""

    @property
    def file_format(self) -> FileFormat | None:
        """The format of the files, or None for a lake."""

    @property
    def reader_options(self) -> dict[str, str]:
        """The options of Spark's reader of files."""

    @property
    def columns(self) -> str | None:
        """The schema of the files in Spark's DDL, if the file gives it."""

    @property
    def lake(self) -> str | None:
        """The name of the ingest pipeline, or None for files."""

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of the lake to send. Empty sends all."""


class TargetSpec(Protocol):
    """Where an egress sends rows."""

    @property
    def topic(self) -> str | None:
        """The topic of all rows, or None if a column names it."""

    @property
    def names(self) -> tuple[str, ...]:
        """The topics that rows may be sent to."""

    @property
    def partitions(self) -> int | None:
        """The partitions of a topic that is created. None creates no topic."""

    @property
    def timestamps(self) -> str:
        """`source` if records get the timestamps of their rows, `sent` if those of sending."""

    @property
    def accept_expiry(self) -> bool:
        """Whether rows are sent that the target's retention deletes at once."""

    @property
    def settings(self) -> dict[str, str]:
        """All settings, as options of Spark's sink."""

    @property
    def producer_settings(self) -> dict[str, str]:
        """The settings of the producer alone, by Kafka's names."""

    @property
    def reading_options(self) -> dict[str, str]:
        """The options of Spark's Kafka source for reading the topics back."""

    @property
    def key_of_producer(self) -> str:
        """The key of the file that has the producer's settings."""


class EgressSpec(PipelineSpec, Protocol):
    """A pipeline that sends files, or the rows of a lake, into topics."""

    @property
    def kind(self) -> Literal["egress"]:
        """The kind of pipeline."""

    @property
    def source(self) -> SourceSpec:
        """What is sent."""

    @property
    def target(self) -> TargetSpec:
        """Where it is sent."""

    @property
    def expressions(self) -> dict[str, str]:
        """The given SQL expressions, by the field of a record that they are for."""

    @property
    def order_by(self) -> tuple[str, ...]:
        """The expressions by which rows are sorted before they are sent."""

    @property
    def order(self) -> Literal["report", "strict"]:
        """Whether a broken order of rows is reported, or stops the run."""

    @property
    def proof(self) -> Literal["counts", "full"]:
        """How it is proven that all rows arrived."""

    @property
    def sends_tombstones(self) -> bool:
        """Whether rows without a value are sent."""

    @property
    def on_bad_row(self) -> Literal["fail", "quarantine"]:
        """What to do about a row that cannot be a record."""

    @property
    def settle(self) -> int:
        """The least age of a file before it is sent, in seconds."""

    @property
    def max_files(self) -> int:
        """The most files in a plan."""

    def with_max_files(self, max_files: int) -> EgressSpec:
        """Return the spec with another limit of files in a plan."""


Spec = IngestSpec | EgressSpec


class Pipelines(Protocol):
    """The pipelines that there are."""

    def load_ingest(self, name: str) -> IngestSpec:
        """Return an ingest pipeline. ConfigurationError if it is missing or its file is wrong."""

    def load_valid(self) -> Mapping[str, Spec]:
        """Return all pipelines whose files are valid, by name."""
