"""The servers of buckets that a local stack may have, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from tidegate_local import gcs, s3
from tidegate_local.home import Store

_BUCKET = "tidegate"


class Server(Protocol):
    """A running server. `environment` are the variables with which a client uses it."""

    @property
    def endpoint(self) -> str: ...
    @property
    def pid(self) -> int: ...
    @property
    def environment(self) -> dict[str, str]: ...


@dataclass(frozen=True)
class Kind:
    """How a server is run in a directory of its own, and the lake in its bucket."""

    lake: str
    variables: str
    """How the names of its clients' variables begin."""
    start: Callable[[Path], Server]
    find: Callable[[Path], Server | None]
    stop: Callable[[Path], bool]


KINDS: Mapping[str, Kind] = {
    Store.S3: Kind(
        f"s3://{_BUCKET}/lake", "AWS_", partial(s3.start, bucket=_BUCKET), s3.find, s3.stop
    ),
    Store.GCS: Kind(
        f"gs://{_BUCKET}/lake", "GOOGLE_", partial(gcs.start, bucket=_BUCKET), gcs.find, gcs.stop
    ),
}


def find(home: Path, name: str) -> Server | None:
    """Return the server of a stack's home. None for no name, and for one that does not run."""
    return KINDS[name].find(home / name) if name else None
