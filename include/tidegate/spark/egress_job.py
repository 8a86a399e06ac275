"""The one file that the egress application is given, and the files it answers with.

All are in one private directory: the job file may hold secrets (the clients' options).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tidegate.core.offsets import Window, window_from_json, window_to_json

DONE = "done.json"
"""What was sent and verified; without it the attempt does not count."""
REFUSED = "refused.json"
"""Why nothing may be sent: bad rows, a file that cannot be read, columns that do not fit."""
SENDING = "sending"
"""Made before the first record is sent: while it is not there, none was."""


@dataclass(frozen=True)
class Rows:
    """What is read: `files` maps a name, of the plan, to the path by which Spark finds it.

    Of a lake, `files` holds the data files by topic, and `window` says which of their rows; of
    these only those of which `where`, if given, is true. `counts` are the rows that a file, or the
    window in a `<topic id>/<partition>`, must have, where footer or ledger tell; `late` are those
    of the latter of which later offsets are in the target already.
    """

    format: str
    options: Mapping[str, str]
    columns: str | None
    files: tuple[tuple[str, str], ...]
    topic_ids: Mapping[str, str]
    window: Window
    counts: Mapping[str, int]
    where: str | None = None
    late: tuple[str, ...] = ()

    @property
    def is_lake(self) -> bool:
        return bool(self.topic_ids)


@dataclass(frozen=True)
class Topic:
    """A topic that may be written to.

    `since` holds the ends of its partitions when the plan was first claimed; `largest` is the most
    bytes that a record may take, `compacted` whether older records of a key may vanish,
    `compression` the codec that brokers store its records with, or `producer`.
    """

    partitions: int
    since: Mapping[int, int]
    largest: int
    compacted: bool
    compression: str = "producer"


@dataclass(frozen=True)
class SendJob:
    """An egress application's work."""

    plan_id: str
    app_name: str
    rows: Rows
    columns: Mapping[str, str]
    topic: str | None
    order_by: tuple[str, ...]
    strict_order: bool
    tombstones: bool
    quarantine: str | None
    target: Mapping[str, Topic]
    reader: Mapping[str, str]
    producer: Mapping[str, str]
    client_id: str

    def __repr__(self) -> str:
        return f"SendJob({self.plan_id})"  # the options are secret

    def to_json(self) -> dict[str, Any]:
        form = asdict(self)
        form["rows"]["window"] = window_to_json(self.rows.window)
        return form

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> SendJob:
        rows, target = form["rows"], form["target"]
        return cls(
            **{
                **form,
                "rows": Rows(
                    **{
                        **rows,
                        "files": tuple((name, path) for name, path in rows["files"]),
                        "window": window_from_json(rows["window"]),
                        "late": tuple(rows["late"]),
                    }
                ),
                "order_by": tuple(form["order_by"]),
                "target": {
                    topic: Topic(**{**each, "since": {int(p): o for p, o in each["since"].items()}})
                    for topic, each in target.items()
                },
            }
        )

    @classmethod
    def read(cls, path: Path) -> SendJob:
        return cls.from_json(json.loads(path.read_text(encoding="utf-8")))
