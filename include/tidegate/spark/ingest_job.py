"""The one file a Spark application is given: what to read, and where to put it.

It may hold secrets (the client's options): mode 0600, written and removed by the parent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.core.offsets import Window, window_from_json, window_to_json
from tidegate.spark.private_file import write_private

_REFUSED = "configuration_error"


@dataclass(frozen=True)
class Chunk:
    """One chunk to stage; `directory` is its attempt's own path or URL and must not exist yet."""

    number: int
    window: Window
    directory: str


@dataclass(frozen=True)
class Bytes:
    """The plan's settings that decide the bytes of the files."""

    compression: str
    level: int
    max_records_per_file: int


@dataclass(frozen=True)
class Job:
    """An application's work: the chunks, in order, read with the same options.

    `max_records_per_task` cuts longer ranges into several tasks; None leaves it to the job, which
    knows the cores.
    """

    plan_id: str
    app_name: str
    options: Mapping[str, str]
    chunks: tuple[Chunk, ...]
    bytes: Bytes
    max_records_per_task: int | None = None

    def __repr__(self) -> str:
        return f"Job({self.plan_id}, {len(self.chunks)} chunks)"  # the options are secret

    def to_json(self) -> dict[str, Any]:
        return {
            "plan_id": self.plan_id,
            "app_name": self.app_name,
            "options": dict(self.options),
            "chunks": [
                {
                    "number": chunk.number,
                    "window": window_to_json(chunk.window),
                    "directory": chunk.directory,
                }
                for chunk in self.chunks
            ],
            "bytes": vars(self.bytes),
            "max_records_per_task": self.max_records_per_task,
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> Job:
        return cls(
            plan_id=form["plan_id"],
            app_name=form["app_name"],
            options=form["options"],
            chunks=tuple(
                Chunk(each["number"], window_from_json(each["window"]), each["directory"])
                for each in form["chunks"]
            ),
            bytes=Bytes(**form["bytes"]),
            max_records_per_task=form["max_records_per_task"],
        )

    def write(self, path: Path) -> None:
        """Create the file, readable by its owner only from the first byte on."""
        write_private(path, self.to_json())

    @classmethod
    def read(cls, path: Path) -> Job:
        return cls.from_json(json.loads(path.read_text(encoding="utf-8")))


def refuse(directory: Path, message: str) -> None:
    """Leave word, beside the job file, that the same job would fail again."""
    (directory / _REFUSED).write_text(message, encoding="utf-8")


def refusal(directory: Path) -> str | None:
    """Return why an application refused its job for good; None if it did not."""
    path = directory / _REFUSED
    return path.read_text(encoding="utf-8") if path.exists() else None
