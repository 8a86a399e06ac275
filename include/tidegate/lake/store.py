"""Objects of one pipeline's directory, by relative path: create if absent, never change.

A directory has an implementation of its own; every URL goes through obstore.
"""

from __future__ import annotations

import contextlib
import io
import re
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import obstore
import tenacity
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError
from obstore.exceptions import PermissionDeniedError as StorePermissionDenied
from obstore.store import ObjectStore as Obstore
from obstore.store import from_url

from tidegate.core import layout
from tidegate.errors import ConfigurationError
from tidegate.lake import large_copies, s3_settings
from tidegate.lake.local_store import LocalStore
from tidegate.lake.store_errors import as_damage, as_lake_errors, refuse_another_size, told
from tidegate.lake.store_protocol import Listed, Store

if TYPE_CHECKING:
    from obstore.store import RetryConfig

__all__ = ["Listed", "LocalStore", "ObjectStore", "Store", "open_store"]

_AT_ONCE = 8  # requests
# obstore tries again by itself; 3 minutes, its default, are too long to say that nobody answers.
_PATIENCE: RetryConfig = {"retry_timeout": timedelta(seconds=20)}


class ObjectStore:
    """A bucket and a prefix, or a store in memory, through obstore."""

    def __init__(self, url: str, store: Obstore) -> None:
        self.url = url.rstrip("/")
        self._store = store
        self._may_copy = False

    def create(self, path: str, data: bytes) -> bool:
        with as_lake_errors(self.url):
            return _create(self._store, path, data)

    def get(self, path: str) -> bytes | None:
        with as_lake_errors(self.url):
            return _get(self._store, path)

    def open(self, path: str) -> IO[bytes]:
        with as_lake_errors(self.url):
            return reader(self._store, path, errors=lambda: as_lake_errors(self.url))

    def objects(self, prefix: str) -> list[Listed]:
        with as_lake_errors(self.url):
            return sorted(
                Listed(each["path"], each["size"])
                for batch in obstore.list(self._store, prefix.rstrip("/"))
                for each in batch
            )

    def names(self, directory: str, *, after: str = "") -> list[str]:
        with as_lake_errors(self.url):
            return sorted(
                each["path"].removeprefix(directory)
                for batch in obstore.list(
                    self._store, directory.rstrip("/"), offset=directory + after
                )
                for each in batch
            )

    def size(self, path: str) -> int | None:
        with as_lake_errors(self.url):
            try:
                return int(obstore.head(self._store, path)["size"])
            except (NotFoundError, FileNotFoundError):
                return None

    def modified(self, path: str) -> float | None:
        with as_lake_errors(self.url):
            try:
                return obstore.head(self._store, path)["last_modified"].timestamp()
            except (NotFoundError, FileNotFoundError):
                return None

    def place(self, source: str, target: str, size: int) -> None:
        there = self.size(target)
        if there is None:
            with as_lake_errors(self.url), as_damage(self.uri(source)):
                self._copy(source, target, size)
        else:
            refuse_another_size(self.uri(target), there, size)

    def check_placing(self, files: Sequence[tuple[str, str, int]]) -> None:
        # Once: that this user may copy here does not change from file to file.
        if files and not self._may_copy:
            source, _, size = min(files, key=lambda file: file[2])
            probe = f"{layout.PLACING}{secrets.token_hex(8)}"
            with as_lake_errors(self.url), as_damage(self.uri(source)):
                self._copy(source, probe, size)
            self.delete(probe)
            self._may_copy = True

    def _copy(self, source: str, target: str, size: int) -> None:
        if size > large_copies.PART and self.url.startswith("s3://"):
            large_copies.copy(self.url, source, target, size)
        else:
            obstore.copy(self._store, source, target)

    def settle(self, paths: list[str]) -> None:
        pass  # an object that can be listed is durable

    def delete(self, *paths: str) -> None:
        def delete(path: str) -> None:
            with contextlib.suppress(NotFoundError, FileNotFoundError):
                obstore.delete(self._store, path)

        with as_lake_errors(self.url):
            if len(paths) == 1:
                delete(*paths)
            else:
                with ThreadPoolExecutor(_AT_ONCE) as pool:
                    list(pool.map(delete, paths))

    def prune(self, prefix: str) -> None:
        pass  # a bucket has no directories

    def uri(self, path: str) -> str:
        return f"{self.url}/{path}"

    def native(self, path: str) -> str:
        return self.uri(path).replace("s3://", "s3a://", 1)


class _Reader(io.RawIOBase):
    """An object as a file of Python's: obstore's own is none (no `with`, no `closed`)."""

    def __init__(
        self, file: obstore.ReadableFile, errors: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._file, self._errors = file, errors

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._file.seek(offset, whence)

    def readinto(self, buffer: Any, /) -> int:
        with self._errors():
            data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def reader(
    store: Obstore, path: str, *, errors: Callable[[], AbstractContextManager[None]] = nullcontext
) -> IO[bytes]:
    """Open an object of any obstore for random reads, each of them within `errors()`."""
    return io.BufferedReader(_Reader(obstore.open_reader(store, path), errors))


def open_store(lake: str, pipeline: str) -> Store:
    """Return the store of `<lake>/<pipeline>/`; `lake` is a directory or a URL."""
    scheme = urlsplit(lake).scheme
    if scheme in ("", "file"):
        directory = unquote(lake.removeprefix("file://")) if scheme else lake
        if scheme and not directory.startswith("/"):
            raise ConfigurationError(f"lake {lake!r}: a file URL is file:///and/a/path")
        return LocalStore(Path(directory) / pipeline)
    url = f"{lake.rstrip('/')}/{pipeline}"
    if strange := sorted(set(re.findall(r"[\s%?#]", url))):
        # Of these obstore, Spark and pyarrow do not make the same key.
        raise ConfigurationError(f"lake {lake!r}: a URL here has no {' '.join(map(repr, strange))}")
    try:
        return ObjectStore(url, opened(url))
    except (BaseError, ValueError) as error:
        raise ConfigurationError(f"lake {lake!r}: {told(error)}") from None


def opened(url: str) -> Obstore:
    """Open a URL with obstore; ConfigurationError for what is wrong with the environment of S3."""
    if urlsplit(url).scheme == "s3":
        s3_settings.place()
        return from_url(url, retry_config=_PATIENCE)
    return from_url(url)


@tenacity.retry(
    retry=tenacity.retry_if_exception(
        lambda e: (
            isinstance(e, BaseError)
            and not isinstance(e, AlreadyExistsError | StorePermissionDenied)
        )
    ),
    stop=tenacity.stop_after_attempt(4),
    wait=tenacity.wait_exponential(multiplier=0.2),
    reraise=True,
)
def _put(store: Obstore, path: str, data: bytes) -> None:
    obstore.put(store, path, data, mode="create")


class _Conflict(BaseError):
    """The store refused to create an object that does not exist."""


@tenacity.retry(
    retry=tenacity.retry_if_exception_type(_Conflict),
    stop=tenacity.stop_after_attempt(10),
    wait=tenacity.wait_random_exponential(multiplier=0.1, max=3),
    reraise=True,
)
def _create(store: Obstore, path: str, data: bytes) -> bool:
    """Create an object; say whether the one that exists then has these bytes.

    obstore raises AlreadyExistsError for two answers of S3: 412, the object exists, and 409
    (ConditionalRequestConflict), another request for this key was in progress and may have failed.
    Only the object itself tells which one it was. A put whose answer was lost may have landed: the
    retry then finds its own bytes.
    """
    try:
        _put(store, path, data)
        return True
    except AlreadyExistsError:
        there = _get(store, path)
        if there is None:
            raise _Conflict(
                f"{path} could not be created: the store reports a conflicting request, and there "
                "is no such object; try again"
            ) from None
        return there == data


def _get(store: Obstore, path: str) -> bytes | None:
    try:
        return bytes(obstore.get(store, path).bytes())
    except (NotFoundError, FileNotFoundError):
        return None
