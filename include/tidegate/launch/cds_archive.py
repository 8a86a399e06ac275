"""An archive of Spark's loaded classes (AppCDS), from which a driver starts in half the time.

It fits one JDK and one class path, which name it. The JVM itself checks that it fits, and goes on
without it when it does not: an archive can make a run faster, and nothing else.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path

from tidegate.launch import jars

_KEPT = 3  # archives of 170 MB: this one, and those of other environments on the machine


def find() -> Path | None:
    """Return the archive for this JDK and this class path, if there is one."""
    key = _key()
    for archive in _directory().glob(f"{key}-*.jsa"):
        # A JVM that is given a truncated archive crashes; it does not compare the size, so we do.
        if archive.name == f"{key}-{archive.stat().st_size}.jsa":
            return archive
    return None


@contextlib.contextmanager
def made() -> Iterator[Path | None]:
    """Give the caller a path to make the archive at, or None when there is one already.

    Callers may race: one makes it, the others wait. What is not there at the end is forgotten.
    """
    directory = _directory()
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if find():
            yield None
            return
        for left_behind in directory.glob("*.new"):
            left_behind.unlink()
        key = _key()
        new = directory / f"{key}.new"
        yield new
        if new.is_file():
            new.replace(directory / f"{key}-{new.stat().st_size}.jsa")
        by_age = sorted(directory.glob("*.jsa"), key=lambda p: p.stat().st_mtime, reverse=True)
        for old in by_age[_KEPT:]:
            old.unlink()


def _directory() -> Path:
    return jars.cache_dir() / "cds"


def _key() -> str:
    java = jars.java().resolve()
    release = java.parents[1] / "release"
    known = [str(java), release.read_text() if release.is_file() else ""]
    for jar in _class_path():
        stat = jar.stat()
        known.append(f"{jar} {stat.st_size} {stat.st_mtime_ns}")
    return hashlib.sha256("\n".join(known).encode()).hexdigest()[:16]


def _class_path() -> Iterator[Path]:
    yield from jars.paths("spark-kafka")
    spec = importlib.util.find_spec("pyspark")
    if spec and spec.origin:
        yield from sorted((Path(spec.origin).parent / "jars").glob("*.jar"))
