"""A lake in a directory of this machine, which survives a power loss.

obstore's local writes do no fsync: this is an implementation of its own.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path
from typing import IO
from urllib.parse import quote

from tidegate.lake.objects import Listed
from tidegate.lake.refusals import as_damage, as_lake_errors


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

    def names(self, directory: str, *, after: str = "") -> list[str]:
        with (
            as_lake_errors(self.url),
            contextlib.suppress(FileNotFoundError),
            os.scandir(self._at(directory)) as found,
        ):
            return sorted(each.name for each in found if each.name > after)
        return []

    def size(self, path: str) -> int | None:
        with as_lake_errors(self.url):
            try:
                return self._at(path).stat().st_size
            except FileNotFoundError:
                return None

    def modified(self, path: str) -> float | None:
        with as_lake_errors(self.url):
            try:
                return self._at(path).stat().st_mtime
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
        _fsync_directory(directory.parent)


def _file_uri(path: Path) -> str:
    # Not Path.as_uri: it escapes "=", and readers of hive partitions look for that.
    return "file://" + quote(str(path), safe="/=~")


def _fsync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _raise_unless_absent(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
