"""What Java's Kafka client needs to reach a cluster as a connection says."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class JavaClient:
    """Options and files of Java's client; both may hold secrets.

    `options` have the names that Spark's source and sink take. `files` has the contents of files
    that the options name, by their name in the directory that was given. `instead` says of each
    setting that becomes such a file which settings need none.
    """

    options: Mapping[str, str] = field(repr=False)
    files: Mapping[str, bytes] = field(repr=False)
    instead: Mapping[str, str]


class PrivateFiles:
    """Collects the files of a JavaClient, which will be in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.contents: dict[str, bytes] = {}

    def add(self, ending: str, content: bytes) -> str:
        """Take the content of a file, and return the path that it will have."""
        name = f"kafka-{secrets.token_hex(8)}{ending}"
        self.contents[name] = content
        return str(self._directory / name)
