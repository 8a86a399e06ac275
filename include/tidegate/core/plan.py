"""The plan: the frozen description of a run's work, identified by the digest of its bytes.

An ingest plan has windows of offsets. An egress plan has one chunk, which is a window of a lake or
a list of files, and a target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self

from tidegate.core.canonical import FORMAT
from tidegate.core.json_codec import OMITTED, Document, Form, Name, StoredDocument
from tidegate.core.offsets import Window
from tidegate.core.parquet_settings import ParquetSettings
from tidegate.core.partition import LeftOut
from tidegate.core.replacement import Replaced, replaces_from_json


@dataclass(frozen=True)
class LeftOutFile(Document):
    """A source file that an egress plan leaves out, and the reason."""

    file: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file}: {self.reason}"


def _read_left_out(form: Mapping[str, Any]) -> LeftOut | LeftOutFile:
    return LeftOutFile.from_json(form) if "file" in form else LeftOut.from_json(form)


Exclusion = Annotated[LeftOut | LeftOutFile, Form(lambda each: each.to_json(), _read_left_out)]


Columns = tuple[tuple[str, str], ...]
"""Names and types of the columns of a file."""


@dataclass(frozen=True, order=True, slots=True)
class SourceFile(Document):
    """A file of an egress source when it was planned.

    `name` is relative to the source's root, `size` in bytes. `rows` is None if it is not known
    without reading the whole file.
    """

    name: str
    size: int
    etag: str
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class TargetTopic:
    """A topic that an egress plan may write to, when it was planned."""

    topic_id: str
    partitions: int


@dataclass(frozen=True)
class Plan(StoredDocument):
    """A run's work. It holds no run id, time or watermarks, so that equal work has an equal id.

    `topics` maps each topic that is read to its topic id. `chunks` are staged, sealed and committed
    one by one, in any order. `byte_settings` are the settings that decide the bytes of what is
    written. Only egress has `files`, in place of windows, and a `target`. `columns` are those that
    its files must have, where `source.columns` does not say and they are known.
    """

    pipeline: str
    kind: str
    lane: str
    window_date: str
    cluster_id: str
    isolation: str
    topics: Mapping[str, str]
    chunks: tuple[Window, ...]
    destination: str
    byte_settings: Annotated[Mapping[str, Any], Name("bytes")]
    left_out: tuple[Exclusion, ...] = ()
    replay: Mapping[str, Any] | None = None
    files: Annotated[tuple[SourceFile, ...], OMITTED] = ()
    target: Annotated[Mapping[str, TargetTopic] | None, OMITTED] = None
    columns: Annotated[Columns | None, OMITTED] = None

    def to_json(self) -> dict[str, Any]:
        form = {"format": FORMAT, **super().to_json()}
        if self.files:
            form["chunks"] = [{"files": form.pop("files")}]
        return form

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Self:
        chunks = form["chunks"]
        if chunks and isinstance(chunks[0].get("files"), list):  # else a topic of that name
            (chunk,) = chunks
            form = {**form, "chunks": [], "files": chunk["files"]}
        return super().from_json(form)

    @property
    def id(self) -> str:
        """The first 16 hex digits of the digest."""
        return self.sha256[:16]

    def replaces(self, chunk: int) -> tuple[Replaced, ...]:
        """Return the parts of commits that a chunk of a re-ingest replaces."""
        replaces = (self.replay or {}).get("replaces", ())
        return replaces_from_json(replaces[chunk]) if replaces else ()

    @property
    def keep_replaced(self) -> int:
        """For how many seconds the files that a re-ingest replaces stay under `data/`."""
        return int((self.replay or {}).get("keep_replaced", 0))

    @property
    def parquet(self) -> ParquetSettings:
        """How the data files of an ingest are written."""
        return ParquetSettings.from_json(self.byte_settings)

    @property
    def where(self) -> str | None:
        """The SQL condition for the rows of its window that a replay sends. None for all."""
        asked = (self.replay or {}).get("asked") or {}
        where: str | None = asked.get("where")
        return where

    @property
    def has_work(self) -> bool:
        """Whether there is anything to stage or to send."""
        return bool(self.chunks or self.files)

    @property
    def records(self) -> int:
        """The planned offsets, an upper bound of the rows; of files, the rows that are known."""
        rows = sum(file.rows or 0 for file in self.files)
        return rows + sum(len(r) for window in self.chunks for r in window)
