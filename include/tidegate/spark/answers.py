"""What an application answers: small files beside its job file or, in cluster mode, in the lake."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from tidegate.spark.hadoop_files import HadoopDirectory

IN_LAKE = "--in-lake"
"""An application's argument before the directory of an attempt, in place of a job file's path."""
DRIVER = "driver.json"
"""The container or pod of a driver in cluster mode, named before it reads its job."""
JOB, WITHDRAWN = "job.encrypted", b"withdrawn"
"""The job of a driver in cluster mode, and what is there in its place."""
FAILURE = "failure"
"""Why an application has failed, in one line without secrets."""
ReadAnswer = Callable[[str], str | None]
"""Returns an answer by its name, or None."""


class Answers(Protocol):
    """A directory of an attempt's own."""

    def read(self, name: str) -> str | None:
        """Return what was answered. None: nothing."""

    def create(self, name: str, text: str = "") -> None:
        """Write an answer: durable when this returns, and there as a whole or not at all."""


class LocalAnswers:
    """Answers in a directory of this machine."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def read(self, name: str) -> str | None:
        try:
            return (self._directory / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def create(self, name: str, text: str = "") -> None:
        self._make(self._directory)
        new = self._directory / f".{name}.{secrets.token_hex(4)}"
        with new.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._directory / name)
        self._sync(self._directory)

    def _make(self, directory: Path) -> None:
        if not directory.is_dir():
            self._make(directory.parent)
            directory.mkdir(exist_ok=True)
            self._sync(directory.parent)

    def _sync(self, directory: Path) -> None:
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def take(self, name: str) -> bytes:
        """Return the content of a file, and delete it. FileNotFoundError if it is not there."""
        path = self._directory / name
        content = path.read_bytes()
        path.unlink()
        return content


class HadoopAnswers:
    """Answers in a bucket, by Hadoop's file system. An object appears when it is closed."""

    def __init__(self, directory: HadoopDirectory) -> None:
        self._directory = directory

    def read(self, name: str) -> str | None:
        content = self._directory.read(name)
        return None if content is None else content.decode()

    def create(self, name: str, text: str = "") -> None:
        self._directory.create(name, text)

    def take(self, name: str) -> bytes:
        content = self._directory.read(name)
        if content is None:
            raise FileNotFoundError(name)
        self._directory.delete(name)
        return content


def answers_in_lake(directory: str, jvm: Any) -> LocalAnswers | HadoopAnswers:
    """Return the answers in a directory of the lake, a path or a URL, without a session."""
    if "://" not in directory:
        return LocalAnswers(Path(directory))
    # Made here: an older one would not find the jars that Spark was given, as those for S3.
    util = jvm.org.apache.spark.deploy.SparkHadoopUtil.get()
    hadoop_conf = util.newConfiguration(jvm.org.apache.spark.SparkConf())
    return HadoopAnswers(HadoopDirectory(jvm, hadoop_conf, directory))
