"""Names below a source's root: an unusable name excludes its own file, and stops no other.

A directory is listed here and not by obstore, which gives up at the first name that it cannot
represent.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from obstore.exceptions import BaseError
from obstore.store import ObjectStore as Obstore

from tidegate.core.plan import LeftOutFile, SourceFile
from tidegate.core.printable import printable_name
from tidegate.core.source_root import Root
from tidegate.core.wording import one_line
from tidegate.errors import SourceUnavailable
from tidegate.lake.bucket_kinds import buckets_of
from tidegate.lake.store_protocol import Found

_UNUSABLE = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_OF_FILE_SYSTEMS = {"lost+found"}
_MOST_DIRECTORIES = 100_000
_LOOP = "a loop of symbolic links"
_UNREADABLE: dict[int | None, str] = {
    errno.ELOOP: _LOOP,
    errno.EACCES: "may not be read",
    errno.ENAMETOOLONG: "its path, or what it links to, is too long",
}

_Identity = tuple[int, int]


def list_source_files(root: Root, store: Obstore) -> Iterator[Found | LeftOutFile]:
    """Yield what `SourceFiles.files` does. `store` is that of the root."""
    is_local = root.url.startswith("file:")
    try:
        for each in _on_disk(root) if is_local else buckets_of(root.url).files(root, store):
            if isinstance(each, LeftOutFile):
                yield each
            elif _matches(root, each.file.name):
                reason = _unusable(each.file.name, is_local=is_local)
                yield LeftOutFile(printable_name(each.file.name), reason) if reason else each
    except BaseError as error:
        raise SourceUnavailable(f"source {root.url} cannot be listed: {one_line(error)}") from error
    except OSError as error:
        said = printable_name(str(error))
        raise SourceUnavailable(
            f"source {root.url} cannot be listed: {said}",
            missing=isinstance(error, FileNotFoundError | NotADirectoryError),
        ) from error


def _matches(root: Root, name: str) -> bool:
    hidden = any(part[:1] in (".", "_") for part in _below_named(root, name).split("/") if part)
    return not hidden and root.matches(name)


def _below_named(root: Root, name: str) -> str:
    """Return the part of a name that the path does not give itself, whatever that looks like."""
    return name.removeprefix(root.named) if root.named else name


def _unusable(name: str, *, is_local: bool) -> str | None:
    """Return why a file of this name cannot be sent, or None."""
    if is_local and ":" in name.rpartition("/")[2]:
        return "a colon in its name: Hadoop takes what is before it for a scheme; rename it"
    if _UNUSABLE.search(name):
        return "its name holds a control character, or is not UTF-8: rename it"
    if not all(name.split("/")):
        return "a part of its name is empty: Spark would read it by another name"
    return None


def _on_disk(root: Root) -> Iterator[Found | LeftOutFile]:
    """Walk a directory, following links that stay below it."""
    top = os.path.realpath(root.native)
    waiting: list[tuple[str, tuple[_Identity, ...]]] = [("", (_identity(Path(top).stat()),))]
    directories = 0
    while waiting:
        directory, above = waiting.pop()
        try:
            with os.scandir(Path(root.native, directory)) as scan:
                entries = list(scan)
        except (FileNotFoundError, NotADirectoryError):
            if directory:
                continue  # gone since it was listed
            raise
        except PermissionError as error:
            if not directory:
                raise
            reason = f"may not be listed: {error.strerror}"
            yield LeftOutFile(printable_name(f"{directory}/"), reason)
            continue
        for entry in entries:
            name = f"{directory}/{entry.name}" if directory else entry.name
            state = _state(root, top, entry, name)
            if isinstance(state, LeftOutFile):
                yield state
            elif state is None:
                continue
            elif not stat.S_ISDIR(state.st_mode):
                # Not the inode: a restore or a move keeps time and size.
                etag = f"{max(0, state.st_mtime_ns // 1000):x}-{state.st_size:x}"
                yield Found(SourceFile(name, state.st_size, etag), state.st_mtime)
            elif _identity(state) in above:
                yield LeftOutFile(name, _LOOP)
            elif (directories := directories + 1) > _MOST_DIRECTORIES:
                raise OSError(errno.E2BIG, f"more than {_MOST_DIRECTORIES:,} directories", name)
            else:
                waiting.append((name, (*above, _identity(state))))


def _state(
    root: Root, top: str, entry: os.DirEntry[str], name: str
) -> os.stat_result | LeftOutFile | None:
    """Return what a file or directory is. None if it does not count, or why it is excluded."""

    def excluded(reason: str, *, sign: str = "") -> LeftOutFile:
        return LeftOutFile(printable_name(f"{name}{sign}"), printable_name(reason))

    if (entry.name[0] in "._" and name != root.named) or name in _OF_FILE_SYSTEMS:
        return None
    try:
        state = entry.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None  # gone since it was listed, or a link to nothing
    except OSError as error:
        if not (_matches(root, name) or root.may_hold(name)):
            return None
        if (reason := _UNREADABLE.get(error.errno)) is None:
            raise
        return excluded(reason)
    is_directory = stat.S_ISDIR(state.st_mode)
    if not (
        root.may_hold(name)
        if is_directory
        else stat.S_ISREG(state.st_mode) and _matches(root, name)
    ):
        return None
    if (
        entry.is_symlink()
        and name != root.named
        and not _is_below(top, target := os.path.realpath(entry.path))
    ):
        return excluded(f"a symbolic link that leaves the source's root, to {target}")
    if is_directory and (reason := _unusable(name, is_local=False)):
        return excluded(reason, sign="/")
    return state


def _identity(state: os.stat_result) -> _Identity:
    return state.st_dev, state.st_ino


def _is_below(top: str, path: str) -> bool:
    return os.path.commonpath((top, path)) == top
