"""The store of one pipeline: objects by relative path, created if absent and never changed.

A directory is a `LocalStore`. Every URL goes through obstore.
"""

from __future__ import annotations

import contextlib
import io
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import BaseError, NotFoundError, PermissionDeniedError
from obstore.store import ObjectStore as Obstore

from tidegate.core import layout, locations
from tidegate.core.plan import LeftOutFile
from tidegate.core.source_root import Root
from tidegate.core.wording import one_line
from tidegate.errors import ConfigurationError, LakeUnavailable, SourceUnavailable
from tidegate.lake import conditional_put
from tidegate.lake.bucket_kinds import buckets_of
from tidegate.lake.local_store import LocalStore
from tidegate.lake.parallel import in_parallel
from tidegate.lake.store_errors import (
    Reader,
    as_damage,
    as_lake_errors,
    refuse_another_size,
    without_bucket,
)
from tidegate.lake.store_protocol import Found, Listed, Result, SourceFiles, Store, T

__all__ = ["STORES", "LocalStore", "ObjectStore", "open_store"]

SLOW_COPY = 30.0  # seconds
_GONE = (NotFoundError, FileNotFoundError)


class ObjectStore:
    """A bucket and a prefix, or a store in memory, through obstore."""

    is_shared_by_nodes = True

    def __init__(self, url: str, store: Obstore) -> None:
        self.url = url.rstrip("/")
        self._store = store
        self._may_copy = False

    def create(self, path: str, data: bytes) -> bool:
        try:
            with as_lake_errors(self.url, but=_GONE):
                return conditional_put.create_object(self._store, path, data)
        except _GONE as error:
            raise without_bucket(self.url, error) from error

    def get(self, path: str) -> bytes | None:
        with as_lake_errors(self.url):
            return conditional_put.get(self._store, path)

    def open(self, path: str) -> IO[bytes]:
        with as_lake_errors(self.url):
            return open_object(self._store, path, errors=lambda: as_lake_errors(self.url))

    def read(self, path: str, start: int, end: int) -> bytes:
        with as_lake_errors(self.url), as_damage(self.uri(path)):
            return bytes(obstore.get_range(self._store, path, start=start, end=end))

    def objects(self, prefix: str) -> list[Listed]:
        with as_lake_errors(self.url):
            is_file = buckets_of(self.url).is_file
            found = (
                Listed(each["path"], each["size"])
                for batch in obstore.list(self._store, prefix.rstrip("/"))
                for each in batch
            )
            return sorted(each for each in found if is_file(each))

    def names(self, directory: str, *, after: str = "") -> list[str]:
        with as_lake_errors(self.url):
            return sorted(
                name
                for batch in obstore.list(
                    self._store, directory.rstrip("/"), offset=directory + after
                )
                for each in batch
                if (path := each["path"]).startswith(directory)  # else it is the directory itself
                and (name := path.removeprefix(directory)) > after  # not all servers do it
            )

    def size(self, path: str) -> int | None:
        head = self._head(path)
        return None if head is None else int(head["size"])

    def modified(self, path: str) -> float | None:
        head = self._head(path)
        return None if head is None else head["last_modified"].timestamp()

    def _head(self, path: str) -> obstore.ObjectMeta | None:
        with as_lake_errors(self.url), contextlib.suppress(*_GONE):
            return obstore.head(self._store, path)
        return None

    def place(self, source: str, target: str, size: int) -> None:
        there = self.size(target)
        if there is None or (there == 0 < size and buckets_of(self.url).copies_later):
            with as_lake_errors(self.url), as_damage(self.uri(source)):
                self._copy(source, target, size)
        else:
            refuse_another_size(self.uri(target), there, size)

    def check_placing(self, files: Sequence[tuple[str, str, int]]) -> None:
        # Once: the right to copy is the same for all files.
        if files and not self._may_copy:
            source, _, size = min(files, key=lambda file: file[2])
            probe = f"{layout.PLACING}{secrets.token_hex(8)}"
            with as_lake_errors(self.url), as_damage(self.uri(source)):
                self._copy(source, probe, size)
            self.delete(probe)
            self._may_copy = True

    def _copy(self, source: str, target: str, size: int) -> None:
        kind = buckets_of(self.url)
        kind.copy(self.url, self._store, source, target, size)
        until = time.monotonic() + SLOW_COPY
        while kind.copies_later and (there := self.size(target)) != size:
            if time.monotonic() > until:
                raise LakeUnavailable(f"{self.uri(target)} has {there} of {size} bytes yet")
            time.sleep(0.2)

    def check_writing(self) -> None:
        probe = f"{layout.PROBES}{secrets.token_hex(8)}"
        self.create(probe, b"may this be written?")
        self.delete(probe)

    def each(self, request: Callable[[T], Result], items: Iterable[T]) -> Iterator[Result]:
        return in_parallel(request, items)

    def make_durable(self, paths: list[str]) -> None:
        pass  # an object that can be listed is durable

    def delete(self, *paths: str) -> None:
        def delete(path: str) -> None:
            with contextlib.suppress(*_GONE):
                obstore.delete(self._store, path)

        with as_lake_errors(self.url):
            list(in_parallel(delete, paths))

    def prune(self, prefix: str) -> None:
        buckets_of(self.url).prune(self.url, prefix)

    def uri(self, path: str) -> str:
        return f"{self.url}/{path}"

    def native(self, path: str) -> str:
        return locations.native_url(self.uri(path))


def open_object(
    store: Obstore, path: str, *, errors: Callable[[], AbstractContextManager[None]] = nullcontext
) -> IO[bytes]:
    """Open an object of any obstore for random reads, each of them within `errors()`."""
    return io.BufferedReader(Reader(obstore.open_reader(store, path), errors))


def open_store(lake: str, pipeline: str) -> Store:
    """Return the store of `<lake>/<pipeline>/`. `lake` is a directory or a URL.

    ConfigurationError for a wrong URL, and for a path that leads through a file.
    """
    scheme = urlsplit(lake).scheme
    if scheme in ("", "file"):
        directory = unquote(lake.removeprefix("file://")) if scheme else lake
        if scheme and not directory.startswith("/"):
            raise ConfigurationError(f"lake {lake!r}: a file URL is file:///and/a/path")
        root = Path(directory) / pipeline
        if in_the_way := _file_on(root):
            raise ConfigurationError(f"lake {lake!r}: {in_the_way} is a file, not a directory")
        return LocalStore(root)
    url = f"{lake.rstrip('/')}/{pipeline}"
    if strange := locations.unsafe_characters(url):
        raise ConfigurationError(f"lake {lake!r}: a URL here has no {' '.join(map(repr, strange))}")
    try:
        return ObjectStore(url, buckets_of(url).open(url))
    except (BaseError, ValueError) as error:
        raise ConfigurationError(f"lake {lake!r}: {one_line(error)}") from None


def _file_on(path: Path) -> Path | None:
    """Return the part of a path that is a file. None also if that cannot be seen."""
    with contextlib.suppress(OSError):
        return next((each for each in (path, *path.parents) if each.is_file()), None)
    return None


class FileSource:
    """The files of a directory or a bucket: `tidegate.lake.store_protocol.SourceFiles`."""

    def __init__(self, root: Root) -> None:
        self.root = root
        self.has_content_etags = not root.url.startswith("file://")

    def files(self) -> Iterator[Found | LeftOutFile]:
        from tidegate.lake import source_names

        return source_names.list_source_files(self.root, self._store)

    def open(self, name: str) -> IO[bytes]:
        with self._reading(name):
            return open_object(self._store, name, errors=lambda: self._reading(name))

    @cached_property
    def _store(self) -> Obstore:
        try:
            return buckets_of(self.root.url).open(self.root.url)
        except (BaseError, ValueError, OSError) as error:
            raise SourceUnavailable(
                f"source {self.root.url} cannot be opened: {one_line(error)}; make it, or correct "
                "`source.path`"
            ) from error

    @contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        try:
            yield
        except PermissionError:
            raise
        except PermissionDeniedError as error:
            raise PermissionError(one_line(error)) from error
        except (BaseError, OSError) as error:
            raise SourceUnavailable(
                f"source {self.root.url}: {name} cannot be read now: {one_line(error)}. Nothing "
                "was sent"
            ) from error


class KnownStores:
    """A directory, or a bucket."""

    def open(self, lake: str, pipeline: str) -> Store:
        return open_store(lake, pipeline)

    def source(self, root: Root) -> SourceFiles:
        return FileSource(root)


STORES = KnownStores()
