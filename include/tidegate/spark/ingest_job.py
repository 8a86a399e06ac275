"""The job file of an ingest application: what to read from Kafka and where to write it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.core.decoding import Decoding
from tidegate.core.offsets import Window
from tidegate.core.parquet_settings import ParquetSettings
from tidegate.spark.job_files import JobFile, Login


@dataclass(frozen=True)
class Chunk:
    """One chunk to stage; `directory` is its attempt's own path or URL and must not exist yet."""

    number: int
    window: Window
    directory: str


@dataclass(frozen=True)
class IngestJob(JobFile):
    """The chunks to stage, in order, all read with the same options of Spark's source.

    `logins` are of the clusters for which the driver obtains delegation tokens. `decode` has the
    decoding of each topic that has one.
    """

    plan_id: str
    app_name: str
    options: Mapping[str, str]
    chunks: tuple[Chunk, ...]
    parquet: ParquetSettings
    logins: tuple[Login, ...] = ()
    decode: Mapping[str, Decoding] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"IngestJob({self.plan_id}, {len(self.chunks)} chunks)"  # the options are secret
