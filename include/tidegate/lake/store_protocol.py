"""The protocol of stores: what the lake needs of a directory or a bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, NamedTuple, Protocol, TypeVar

from tidegate.core.plan import LeftOutFile, SourceFile
from tidegate.core.source_root import Root

T = TypeVar("T")
Result = TypeVar("Result")


class Listed(NamedTuple):
    """An object by its path and its size in bytes."""

    path: str
    size: int


class Found(NamedTuple):
    """A file of a source, and when it was changed, in seconds since 1970."""

    file: SourceFile
    modified: float


class SourceFiles(Protocol):
    """The files of an egress source: those below its root whose names match.

    `has_content_etags`: the etag of a file changes only with its content.
    """

    root: Root
    has_content_etags: bool

    def files(self) -> Iterator[Found | LeftOutFile]:
        """Yield the files that match, and those that match and have to be excluded, with the
        reason.

        SourceUnavailable, with the number `missing`, where the root or a directory below it cannot
        be listed now.
        """

    def open(self, name: str) -> IO[bytes]:
        """Open a file for random reads.

        It and each read raise SourceUnavailable if a retry may help, PermissionError if not.
        """


class Stores(Protocol):
    """The stores that there are."""

    def open(self, lake: str, pipeline: str) -> Store:
        """Return the store of `<lake>/<pipeline>/`. `lake` is a directory or a URL.

        Asks nobody. ConfigurationError for a lake that no store can be.
        """

    def source(self, root: Root) -> SourceFiles:
        """Return the files below the root of an egress source. Asks nobody."""


class Store(Protocol):
    """Objects by relative path, in a directory or a bucket.

    `url` names the place, with its scheme. `is_shared_by_nodes`: every machine finds the objects
    under the names that `native` returns. Any request raises LakeUnavailable if it may succeed
    later, LakeReadOnly if nothing may be written.
    """

    url: str
    is_shared_by_nodes: bool

    def __hash__(self) -> int:
        """Return the hash of this one object: stores are compared by identity."""

    def create(self, path: str, data: bytes) -> bool:
        """Create an object durably. False where one with other bytes exists already."""

    def get(self, path: str) -> bytes | None:
        """Return an object's bytes, or None if it does not exist."""

    def open(self, path: str) -> IO[bytes]:
        """Open an object for random reads."""

    def read(self, path: str, start: int, end: int) -> bytes:
        """Return the bytes `[start, end)` of an object that exists: of a bucket, one request."""

    def objects(self, prefix: str) -> list[Listed]:
        """Return the objects below a directory (`prefix` ends with a slash), sorted by path."""

    def names(self, directory: str, *, after: str = "") -> list[str]:
        """Return the names of the objects in a directory that follow `after`, sorted.

        For directories of many objects, with none below them: cheaper than `objects`.
        """

    def size(self, path: str) -> int | None:
        """Return an object's size in bytes, or None if it does not exist."""

    def modified(self, path: str) -> float | None:
        """Return when an object was written, in seconds since the epoch, by the lake's clock."""

    def place(self, source: str, target: str, size: int) -> None:
        """Give an object of this size a second name, durably. Does nothing if it has the name.

        LakeDamaged if neither exists, or what exists has another size.
        """

    def check_placing(self, files: Sequence[tuple[str, str, int]]) -> None:
        """Raise what is known to keep objects (source, target, size) from being placed."""

    def check_writing(self) -> None:
        """Raise LakeReadOnly or LakeUnavailable if nothing can be written. Leave nothing behind."""

    def each(self, request: Callable[[T], Result], items: Iterable[T]) -> Iterator[Result]:
        """Yield the result of a request for each item, in order. The first error ends it.

        As many are made at a time as the store answers well.
        """

    def make_durable(self, paths: list[str]) -> None:
        """Make objects that another process wrote survive a power loss."""

    def delete(self, *paths: str) -> None:
        """Delete objects, durably; those that do not exist are skipped."""

    def prune(self, prefix: str) -> None:
        """Delete a directory and those below it, as far as they are empty."""

    def uri(self, path: str) -> str:
        """Return an absolute URI with its scheme."""

    def native(self, path: str) -> str:
        """Return the name of an object or directory for Spark and Parquet readers."""
