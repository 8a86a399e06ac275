"""An archive of Spark's loaded classes (AppCDS), with which a driver starts in half the time.

Its name is a hash of the JDK and the class path that it was made with. The JVM checks that too, and
ignores an archive that does not fit: it affects the speed of a run only. JDK 17 and 21 cannot
archive Scala's lambdas, about 3,600 of them.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path

from tidegate.launch import jars, spark_home
from tidegate.launch.file_lock import hold_lock

_KEPT = 3  # archives of 170 MB: this one, and those of other environments on the machine


def find_archive() -> Path | None:
    """Return the archive for this JDK and this class path, if it exists and may be read."""
    key = archive_key()
    with contextlib.suppress(OSError):
        for archive in _directory().glob(f"{key}-*.jsa"):
            # A truncated archive crashes the JVM, which does not compare the size.
            if archive.name == f"{key}-{archive.stat().st_size}.jsa":
                return archive
    return None


@contextlib.contextmanager
def create_archive() -> Iterator[Path | None]:
    """Give the caller a path to create the archive at, or None if there is one.

    Of concurrent callers one creates it and the others wait. Creating none is not an error.
    """
    directory = _directory()
    directory.mkdir(parents=True, exist_ok=True)
    with hold_lock(directory / ".lock"):
        if find_archive():
            yield None
            return
        for unfinished in directory.glob("*.new"):
            unfinished.unlink()
        key = archive_key()
        new = directory / f"{key}.new"
        yield new
        if new.is_file():
            new.replace(directory / f"{key}-{new.stat().st_size}.jsa")
        by_age = sorted(directory.glob("*.jsa"), key=lambda p: p.stat().st_mtime, reverse=True)
        for old in by_age[_KEPT:]:
            old.unlink()


def _directory() -> Path:
    return jars.cache_dir() / "cds"


def archive_key() -> str:
    java = jars.find_java().resolve()
    release = java.parents[1] / "release"
    parts = [str(java), release.read_text() if release.is_file() else ""]
    for jar in _class_path():
        stat = jar.stat()
        parts.append(f"{jar} {stat.st_size} {stat.st_mtime_ns}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _class_path() -> Iterator[Path]:
    yield from jars.lock_paths("spark-kafka")
    if home := spark_home.find_spark():
        yield from sorted(home.glob("jars/*.jar"))
