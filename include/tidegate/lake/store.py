"""Objects of one pipeline's directory, by relative path: create if absent, never change.

`LocalStore` survives a power loss: obstore's local writes do no fsync, so the directory tree of
one machine has an implementation of its own; every URL goes through obstore.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import quote, unquote, urlsplit

import obstore
import tenacity
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError
from obstore.exceptions import PermissionDeniedError as StorePermissionDenied
from obstore.store import ObjectStore as Obstore
from obstore.store import from_url

from tidegate.errors import ConfigurationError
from tidegate.lake import s3
from tidegate.lake.refusals import as_damage, as_lake_errors, told

if TYPE_CHECKING:
    from obstore.store import RetryConfig

# obstore tries again by itself; 3 minutes, its default, are too long to say that nobody answers.
_PATIENCE: RetryConfig = {"retry_timeout": timedelta(seconds=20)}


class Listed(NamedTuple):
    """An object by its path and its size in bytes."""

    path: str
    size: int


class Store(Protocol):
    """What the lake needs of a directory or a bucket."""

    url: str

    def create(self, path: str, data: bytes) -> bool:
        """Create an object durably; False where one with other bytes exists already."""
        ...

    def get(self, path: str) -> bytes | None:
        """Return an object's bytes; None where there is none."""
        ...

    def open(self, path: str) -> IO[bytes]:
        """Open an object for random reads."""
        ...

    def objects(self, prefix: str) -> list[Listed]:
        """Return the objects below a directory (`prefix` ends with a slash), sorted by path."""
        ...

    def size(self, path: str) -> int | None:
        """Return an object's size in bytes; None where there is none."""
        ...

    def place(self, source: str, target: str) -> None:
        """Give an object a second name, durably; where the name exists already, do nothing.

        LakeDamaged where neither is there.
        """
        ...

    def settle(self, paths: list[str]) -> None:
        """Make objects that another process wrote survive a power loss."""
        ...

    def delete(self, path: str) -> None:
        """Remove an object; nothing happens where there is none."""
        ...

    def uri(self, path: str) -> str:
        """Return an absolute URI with its scheme."""
        ...

    def native(self, path: str) -> str:
        """Return what Spark and Parquet readers call this object or directory."""
        ...


class LocalStore:
    """A directory. Creating is: temporary file, fsync, link, fsync of the directory."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.url = _file_uri(self.root)

    def create(self, path: str, data: bytes) -> bool:
        target = self._at(path)
        with as_lake_errors(self.url):
            self._make_directory(target.parent)
            temporary = target.parent / f".{target.name}.{secrets.token_hex(8)}"
            try:
                descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                target.hardlink_to(temporary)
                created = True
            except FileExistsError:
                created = target.read_bytes() == data
            finally:
                temporary.unlink(missing_ok=True)
            _fsync_directory(target.parent)  # the loser too: it may act on what it has read
        return created

    def get(self, path: str) -> bytes | None:
        with as_lake_errors(self.url):
            try:
                return self._at(path).read_bytes()
            except FileNotFoundError:
                return None

    def open(self, path: str) -> IO[bytes]:
        with as_lake_errors(self.url):
            return self._at(path).open("rb")

    def objects(self, prefix: str) -> list[Listed]:
        with as_lake_errors(self.url):
            found = []
            for directory, _, names in os.walk(self._at(prefix), onerror=_raise_unless_absent):
                for name in names:
                    file = Path(directory, name)
                    with contextlib.suppress(FileNotFoundError):
                        path = file.relative_to(self.root).as_posix()
                        found.append(Listed(path, file.lstat().st_size))
            return sorted(found)

    def size(self, path: str) -> int | None:
        with as_lake_errors(self.url):
            try:
                return self._at(path).stat().st_size
            except FileNotFoundError:
                return None

    def place(self, source: str, target: str) -> None:
        final = self._at(target)
        with as_lake_errors(self.url):
            self._make_directory(final.parent)
            if not final.exists():
                with as_damage(self.uri(source)), contextlib.suppress(FileExistsError):
                    final.hardlink_to(self._at(source))
            _fsync_directory(final.parent)

    def settle(self, paths: list[str]) -> None:
        with as_lake_errors(self.url):
            directories: set[Path] = set()
            for path in paths:
                with self._at(path).open("rb") as file:
                    os.fsync(file.fileno())
                directories.update((self.root / path).parents)
            for directory in directories:
                if directory.is_relative_to(self.root):
                    _fsync_directory(directory)

    def delete(self, path: str) -> None:
        with as_lake_errors(self.url):
            self._at(path).unlink(missing_ok=True)

    def uri(self, path: str) -> str:
        return _file_uri(self.root / path)

    def native(self, path: str) -> str:
        return str(self.root / path)

    def _at(self, path: str) -> Path:
        if path.startswith("/") or ".." in path.split("/"):
            raise ValueError(f"not a path in the lake: {path!r}")
        return self.root / path

    def _make_directory(self, directory: Path) -> None:
        """Create a directory and make its name durable, as deep as needed."""
        if directory.is_dir():
            return
        self._make_directory(directory.parent)
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=0o750)
        _fsync_directory(directory.parent)


class ObjectStore:
    """A bucket and a prefix, or a store in memory, through obstore."""

    def __init__(self, url: str, store: Obstore) -> None:
        self.url = url.rstrip("/")
        self._store = store

    def create(self, path: str, data: bytes) -> bool:
        # A put that timed out may have landed: the retry then meets its own first write.
        with as_lake_errors(self.url):
            try:
                _put(self._store, path, data)
            except AlreadyExistsError:
                return self.get(path) == data
        return True

    def get(self, path: str) -> bytes | None:
        with as_lake_errors(self.url):
            try:
                return bytes(obstore.get(self._store, path).bytes())
            except (NotFoundError, FileNotFoundError):
                return None

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

    def size(self, path: str) -> int | None:
        with as_lake_errors(self.url):
            try:
                return int(obstore.head(self._store, path)["size"])
            except (NotFoundError, FileNotFoundError):
                return None

    def place(self, source: str, target: str) -> None:
        if self.size(target) is None:
            with as_lake_errors(self.url), as_damage(self.uri(source)):
                obstore.copy(self._store, source, target)

    def settle(self, paths: list[str]) -> None:
        pass  # an object that can be listed is durable

    def delete(self, path: str) -> None:
        with as_lake_errors(self.url), contextlib.suppress(NotFoundError, FileNotFoundError):
            obstore.delete(self._store, path)

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
        s3.place()
        return from_url(url, retry_config=_PATIENCE)
    return from_url(url)


def _file_uri(path: Path) -> str:
    # Not Path.as_uri: it escapes "=", and readers of hive partitions look for that.
    return "file://" + quote(str(path), safe="/=~")


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


def _fsync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _raise_unless_absent(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
