"""The store in a local directory: durable, unlike obstore's local writes, which do no fsync."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO
from urllib.parse import quote

from tidegate.core import layout
from tidegate.lake.parallel import in_parallel
from tidegate.lake.store_errors import Reader, as_damage, as_lake_errors, refuse_another_size
from tidegate.lake.store_protocol import Listed, Result, T

_NO_LINK = {errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS}
"""Why a hard link may be refused where a copy is possible."""


class LocalStore:
    """A directory. Creating is: temporary file, fsync, link, fsync of the directory."""

    is_shared_by_nodes = False

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.url = _file_uri(self.root)

    def create(self, path: str, data: bytes) -> bool:
        target = self._at(path)
        with as_lake_errors(self.url):
            self._make_directory(target.parent)
            temporary = target.parent / f".{target.name}.{secrets.token_hex(8)}"
            try:
                _write_durably(temporary, io.BytesIO(data))
                target.hardlink_to(temporary)
                created = True
            except FileExistsError:
                created = target.read_bytes() == data
            finally:
                temporary.unlink(missing_ok=True)
            fsync_directory(target.parent)  # the loser of a race too: it acts on what it has read
        return created

    def get(self, path: str) -> bytes | None:
        with as_lake_errors(self.url), contextlib.suppress(FileNotFoundError):
            return self._at(path).read_bytes()
        return None

    def open(self, path: str) -> IO[bytes]:
        with as_lake_errors(self.url):
            file = self._at(path).open("rb", buffering=0)
        return io.BufferedReader(Reader(file, lambda: as_lake_errors(self.url)))

    def read(self, path: str, start: int, end: int) -> bytes:
        with self.open(path) as file:
            file.seek(start)
            return file.read(end - start)

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

    def names(self, directory: str, *, after: str = "") -> list[str]:
        with (
            as_lake_errors(self.url),
            contextlib.suppress(FileNotFoundError),
            os.scandir(self._at(directory)) as found,
        ):
            return sorted(each.name for each in found if each.name > after)
        return []

    def size(self, path: str) -> int | None:
        state = self._stat(path)
        return None if state is None else state.st_size

    def modified(self, path: str) -> float | None:
        state = self._stat(path)
        return None if state is None else state.st_mtime

    def _stat(self, path: str) -> os.stat_result | None:
        with as_lake_errors(self.url), contextlib.suppress(FileNotFoundError):
            return self._at(path).stat()
        return None

    def place(self, source: str, target: str, size: int) -> None:
        final = self._at(target)
        with as_lake_errors(self.url):
            self._make_directory(final.parent)
            if not final.exists():
                with as_damage(self.uri(source)):
                    refuse_another_size(self.uri(source), self._at(source).stat().st_size, size)
                    with contextlib.suppress(FileExistsError):
                        self._link_or_copy(self._at(source), final)
            fsync_directory(final.parent)
        if (there := self.size(target)) is not None:  # else it was replaced meanwhile
            refuse_another_size(self.uri(target), there, size)

    def check_placing(self, files: Sequence[tuple[str, str, int]]) -> None:
        with as_lake_errors(self.url):
            for directory in {self._at(target).parent for _, target, _ in files}:
                self._make_directory(directory)
                if not os.access(directory, os.W_OK | os.X_OK):
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(directory))
            for source, _, _ in files[:1]:
                probe = self._at(f"{layout.PLACING}{secrets.token_hex(8)}")
                self._make_directory(probe.parent)
                try:
                    probe.hardlink_to(self._at(source))
                except OSError as error:
                    if error.errno not in _NO_LINK:
                        raise
                    with self._at(source).open("rb"):  # then it is copied
                        pass
                finally:
                    probe.unlink(missing_ok=True)

    def _link_or_copy(self, source: Path, final: Path) -> None:
        """Give a file a second name. If the system refuses a link, copy it: whole, or not at all.

        `fs.protected_hardlinks` refuses links to files of other users that this one may not write.
        """
        try:
            final.hardlink_to(source)
            return
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
        # Not beside the final name: no file under data/ is ever partial.
        temporary = self._at(f"{layout.PLACING}{secrets.token_hex(8)}")
        self._make_directory(temporary.parent)
        try:
            with source.open("rb") as original:
                _write_durably(temporary, original)
            final.hardlink_to(temporary)
        finally:
            temporary.unlink(missing_ok=True)

    def check_writing(self) -> None:
        # Of a directory that does not exist yet, the nearest one above it must be writable.
        above = (self.root, *self.root.parents)
        with as_lake_errors(self.url):
            existing = next(each for each in above if each.exists())
            try:
                tempfile.TemporaryFile(dir=existing).close()
            except OSError as error:
                error.filename = str(existing)
                raise

    def each(self, request: Callable[[T], Result], items: Iterable[T]) -> Iterator[Result]:
        return in_parallel(request, items)

    def make_durable(self, paths: list[str]) -> None:
        with as_lake_errors(self.url):
            directories: set[Path] = set()
            for path in paths:
                with self._at(path).open("rb") as file:
                    os.fsync(file.fileno())
                directories.update((self.root / path).parents)
            for directory in directories:
                if directory.is_relative_to(self.root):
                    fsync_directory(directory)

    def delete(self, *paths: str) -> None:
        with as_lake_errors(self.url):
            directories = set()
            for path in paths:
                with contextlib.suppress(FileNotFoundError):
                    self._at(path).unlink()
                    directories.add(self._at(path).parent)
            for directory in directories:
                with contextlib.suppress(FileNotFoundError):  # pruned meanwhile
                    fsync_directory(directory)

    def prune(self, prefix: str) -> None:
        for directory, _, _ in os.walk(self._at(prefix), topdown=False):
            with contextlib.suppress(OSError):  # not empty, or gone
                Path(directory).rmdir()

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
        fsync_directory(directory.parent)


def _file_uri(path: Path) -> str:
    # Not Path.as_uri: it escapes "=", and readers of hive partitions look for that.
    return "file://" + quote(str(path), safe="/=~")


def _write_durably(path: Path, content: IO[bytes]) -> None:
    """Create a file with this content, and fsync it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
    with os.fdopen(descriptor, "wb") as file:
        shutil.copyfileobj(content, file, 1024 * 1024)
        file.flush()
        os.fsync(file.fileno())


def fsync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _raise_unless_absent(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
