"""Specs of pipelines without a file: values that the rules of a run read."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NoReturn

from tidegate.core.decoding import Decoding
from tidegate.core.parquet_settings import DEFAULT, ParquetSettings, normalise_partition_by
from tidegate.errors import ConfigurationError
from tidegate.runs.spec_protocol import EgressSpec, IngestSpec, Pipelines, Spec


@dataclass(frozen=True)
class ToySpark:
    connection: str = "spark_default"
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ToyStart:
    """Offsets at which new partitions begin."""

    offsets: Mapping[str, Mapping[int, int]] | None
    timestamp: None = None
    timestamps: None = None
    group: None = None
    otherwise: None = None


@dataclass(frozen=True)
class ToyIngest:
    name: str
    topics: tuple[str, ...]
    lake: str
    start: str | ToyStart = "earliest"
    max_records: int = 5_000_000
    decoding: dict[str, Decoding] = field(default_factory=dict)
    partition_by: tuple[str, ...] = DEFAULT
    on_expired: Literal["fail", "skip"] = "fail"
    kafka: str = "kafka_default"
    spark: ToySpark = ToySpark()
    notices: tuple[str, ...] = ()
    kind: Literal["ingest"] = "ingest"
    pattern: str | None = None
    assign: Mapping[str, Sequence[int]] | None = None
    key_of_topics: str = "topics"
    subscription: str = ""
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    has_own_isolation: bool = False
    source_options: dict[str, str] = field(default_factory=dict)
    file_size: int = 256 << 20
    on_unreadable: Literal["fail", "gap"] = "fail"
    keep_replaced: int = 0
    progress_group: str | None = None

    def select(self, existing: Iterable[str]) -> tuple[str, ...]:
        del existing
        return self.topics

    def partitions_of(self, topic: str) -> frozenset[int] | None:
        del topic
        return None

    def parquet(self, max_records_per_file: int) -> ParquetSettings:
        by = normalise_partition_by(self.partition_by)
        return ParquetSettings("zstd", 1, max_records_per_file, partition_by=by, sort_by=())

    def with_topics(self, topics: tuple[str, ...]) -> "ToyIngest":
        return replace(self, topics=topics)


@dataclass(frozen=True)
class ToyFormat:
    """A format of files that nobody reads: nets have an engine without Spark."""

    name: str = "toy"
    value: str = "value"
    row: str = "*"

    def line_ends(self, options: Mapping[str, str]) -> str | None:
        del options
        return "\n"

    def complaint(self, columns: str | None, *, whole: bool, named: Collection[str]) -> str | None:
        del columns, whole, named
        return None

    def propose_columns(self, lines: Iterable[bytes]) -> str | None:
        del lines
        return None

    def needs_whole_spark(self, columns: str | None) -> bool:
        del columns
        return False

    def read(self, *_: object, **__: object) -> NoReturn:
        raise NotImplementedError

    listed = read


@dataclass(frozen=True)
class ToySource:
    path: str | None
    file_format: ToyFormat | None
    reader_options: dict[str, str] = field(default_factory=dict)
    columns: str | None = None
    lake: str | None = None
    topics: tuple[str, ...] = ()


@dataclass(frozen=True)
class ToyTarget:
    topic: str
    settings: dict[str, str] = field(default_factory=dict)
    producer_settings: dict[str, str] = field(default_factory=dict)
    reading_options: dict[str, str] = field(default_factory=dict)
    partitions: int | None = None
    timestamps: str = "sent"
    accept_expiry: bool = False
    key_of_producer: str = "producer"

    @property
    def names(self) -> tuple[str, ...]:
        return (self.topic,)


@dataclass(frozen=True)
class ToyEgress:
    name: str
    source: ToySource
    target: ToyTarget
    lake: str
    sends_tombstones: bool = False
    settle: int = 0
    kafka: str = "kafka_default"
    spark: ToySpark = ToySpark()
    notices: tuple[str, ...] = ()
    kind: Literal["egress"] = "egress"
    expressions: dict[str, str] = field(default_factory=dict)
    order_by: tuple[str, ...] = ()
    order: Literal["report", "strict"] = "report"
    proof: Literal["counts", "full"] = "counts"
    on_bad_row: Literal["fail", "quarantine"] = "fail"
    max_files: int = 10_000
    max_records: int = 50_000_000

    def with_max_files(self, max_files: int) -> "ToyEgress":
        return replace(self, max_files=max_files)


class NoPipelines:
    """There is no other pipeline."""

    def load_ingest(self, name: str) -> IngestSpec:
        raise ConfigurationError(f"there is no pipeline {name!r}")

    def load_valid(self) -> Mapping[str, Spec]:
        return {}


def as_ports(ingest: ToyIngest, egress: ToyEgress) -> tuple[IngestSpec, EgressSpec, Pipelines]:
    """Return them as what they are for: mypy compares the types."""
    return ingest, egress, NoPipelines()
