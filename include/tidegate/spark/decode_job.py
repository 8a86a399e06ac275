"""The job file of an application that decodes a sample of records."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.decoding import Decoding
from tidegate.spark.job_files import JobFile


@dataclass(frozen=True)
class Sample(JobFile):
    """Records that are decoded alike: key and value of each in hex digits, None for null.

    Their rows are written to `directory`: `offset`, their place in `records`, and the columns of
    the decoding.
    """

    records: tuple[tuple[str | None, ...], ...]
    decoding: Decoding
    directory: str


@dataclass(frozen=True)
class DecodeJob(JobFile):
    """The samples to decode."""

    samples: tuple[Sample, ...]
