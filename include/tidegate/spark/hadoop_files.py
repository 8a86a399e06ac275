"""Files by Hadoop's file systems: on a local disk, or in a bucket."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tidegate.core.locations import IN_USE, SCHEMES, find_scheme

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_FILES = "fs.file.impl"
"""Hadoop's setting: the class of the file system of local files."""
WITHOUT_SHELL = "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
"""One that is set where its jar is: Hadoop's runs `chmod` or `ls` for each file and directory."""
# The same two, without a checksum file beside each file: the seal has digests. Not for URLs,
# because the S3 client needs one with checksums for its buffers.
_NO_CHECKSUMS = {
    WITHOUT_SHELL: "com.globalmentor.apache.hadoop.fs.NakedLocalFileSystem",
    None: "org.apache.hadoop.fs.RawLocalFileSystem",
}


def give_secrets(hadoop_conf: Any) -> None:
    """Set in Hadoop's configuration what the environment has for the application's buckets.

    Tasks are sent it.
    """
    used = (hadoop_conf.get(IN_USE) or "").split(",")
    for scheme in (each for each in SCHEMES if each.name in used):
        for variable, name in scheme.secrets.items():
            if value := os.environ.get(variable):
                hadoop_conf.set(name, value)


def with_scheme(path: str) -> str:
    """Return a path with a scheme: without one, Spark would look in `fs.defaultFS`, say HDFS."""
    return path if "://" in path else f"file:{path}"


class HadoopDirectory:
    """A directory by its path or URL. `settings` are Hadoop's for writing into it."""

    def __init__(self, jvm: Any, hadoop_conf: Any, directory: str) -> None:
        self.settings: dict[str, str] = {}
        if "://" not in directory:
            usual = hadoop_conf.get(LOCAL_FILES)
            self.settings = {
                LOCAL_FILES: _NO_CHECKSUMS.get(usual, _NO_CHECKSUMS[None]),
                f"{LOCAL_FILES}.disable.cache": "true",  # the cached one writes checksums
            }
        self._hadoop = jvm.org.apache.hadoop
        self.configuration = self._hadoop.conf.Configuration(hadoop_conf)
        for key, value in self.settings.items():
            self.configuration.set(key, value)
        self._url = with_scheme(directory)
        self._files = self._path().getFileSystem(self.configuration)
        scheme = find_scheme(directory)
        self._writes_in_place = scheme is not None and scheme.is_atomic

    @classmethod
    def of(cls, spark: SparkSession, directory: str) -> HadoopDirectory:
        """Return a directory, with the settings of a session."""
        context: Any = spark.sparkContext
        return cls(context._jvm, context._jsc.hadoopConfiguration(), directory)

    def _path(self, *name: str) -> Any:
        return self._hadoop.fs.Path(self._url, *name)

    def files(self) -> Iterator[str]:
        """Yield the paths of all files below, relative to the directory."""
        base = self._files.makeQualified(self._path()).toUri()
        listed, seen = self._files.listFiles(self._path(), True), set[str]()
        while listed.hasNext():
            path = base.relativize(listed.next().getPath().toUri()).getPath()
            if path not in seen:  # abfs names each file of a directory with a marker twice
                yield path
            seen.add(path)

    def create(self, name: str, text: str) -> None:
        """Write a file atomically: it appears as a whole or not at all."""
        final = self._path(name)
        temporary = final if self._writes_in_place else self._path(f".{name}.tmp")
        out = self._files.create(temporary, True)
        try:
            out.write(bytearray(text.encode()))
        finally:
            out.close()
        if not self._writes_in_place and not self._files.rename(temporary, final):
            raise OSError(f"could not rename {temporary} to {name}")

    def read(self, name: str) -> bytes | None:
        """Return the content of a small file. None if it does not exist."""
        path = self._path(name)
        if not self._files.exists(path):
            return None
        file = self._files.open(path)
        try:
            return bytes(file.readAllBytes())
        finally:
            file.close()

    def delete(self, name: str) -> None:
        """Delete a file."""
        self._files.delete(self._path(name), False)
