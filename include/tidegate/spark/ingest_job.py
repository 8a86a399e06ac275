"""The job file of an ingest application: what to read from Kafka and where to write it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.core.canonical import FORMAT
from tidegate.core.decoding import Decoding
from tidegate.core.json_codec import Document
from tidegate.core.offsets import Window
from tidegate.core.parquet_settings import ParquetSettings
from tidegate.spark.job_files import KafkaJob

DONE = "_done.json"
"""The record of a finished attempt, a `StagedChunk`: written last, and atomically."""


@dataclass(frozen=True)
class Chunk:
    """One chunk to stage. `directory` is its attempt's own path or URL and must not exist yet."""

    number: int
    window: Window
    directory: str


@dataclass(frozen=True, kw_only=True)
class StagedChunk(Document):
    """What Spark has written for a chunk: rows, data files, and the largest record in bytes.

    `largest` is None without rows. `versions` are those of Spark and its clients.
    """

    format: int = FORMAT
    plan_id: str
    chunk: int
    rows: int
    largest: int | None
    files: tuple[str, ...]
    versions: Mapping[str, str]


@dataclass(frozen=True)
class IngestJob(KafkaJob):
    """The chunks to stage, in order, all read with the same options of Spark's source.

    `decode` has the decoding of each topic that has one.
    """

    plan_id: str
    chunks: tuple[Chunk, ...]
    parquet: ParquetSettings
    decode: Mapping[str, Decoding] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"IngestJob({self.plan_id}, {len(self.chunks)} chunks)"  # the options are secret
