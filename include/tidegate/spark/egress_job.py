"""The job file of an egress application, and the files that it answers with, beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.core.cluster_answers import NO_LIMITS, TimeLimits
from tidegate.core.json_codec import Document
from tidegate.core.offsets import Window
from tidegate.spark.job_files import KafkaJob

DONE = "done.json"
"""What was sent and verified. Without this file the attempt does not count."""
REFUSED = "refused.json"
"""Why nothing may be sent: bad rows, an unreadable file, columns that do not fit."""
SENDING = "sending"
"""Created before the first record is sent. If it is absent, nothing was sent."""
WHOLE = "*"
"""In place of a column's expression: the whole row of a file, as JSON."""
LINE = "**"
"""In place of a column's expression: the line of a file of JSON, as it stands there."""


@dataclass(frozen=True)
class SentRows(Document):
    """A file, or a partition of a lake: rows sent, `bad` rows, and the digest of what was sent."""

    file: str
    rows: int
    bad: int
    digest: str


@dataclass(frozen=True)
class SentTo(Document):
    """A target partition: its ends `before` and `after`, rows sent, and duplicates of them."""

    topic: str
    partition: int
    before: int
    after: int
    sent: int
    duplicates: int


@dataclass(frozen=True, kw_only=True)
class Proven(Document):
    """The answer DONE: what is in the target, by `counts` of the brokers or by reading it back.

    `broken_order` names partitions or topics. `versions` are those of Spark and its clients.
    """

    proof: str
    broken_order: tuple[str, ...]
    files: tuple[SentRows, ...]
    receipts: tuple[SentTo, ...]
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Refusal(Document):
    """The answer REFUSED: why nothing may be sent, and the files that cannot, with reasons."""

    message: str
    files: Mapping[str, str]


@dataclass(frozen=True)
class RowSource:
    """The rows to send: all rows of files, or a window of a lake.

    `names` are the files, or the partitions of the lake, in the order of `core.provenance`.
    `files` holds pairs. For files: the plan's name and the path by which Spark finds it; `counts`
    are the rows by name, where the footer has their number. For a lake: topic and data file;
    `window` selects rows, and `where`, if given, filters them. `counts` are then the rows of the
    window by `<topic id>/<partition>`, and `late` are the partitions whose later offsets were sent
    before; `largest` is the size of the largest record of the commits that hold the window.
    """

    format: str
    options: Mapping[str, str]
    columns: str | None
    files: tuple[tuple[str, str], ...]
    names: tuple[str, ...]
    topic_ids: Mapping[str, str]
    window: Window
    counts: Mapping[str, int]
    where: str | None = None
    late: tuple[str, ...] = ()
    largest: int | None = None

    @property
    def named_options(self) -> dict[str, str]:
        """The options by their names in small letters: Spark ignores the case."""
        return {name.lower(): value for name, value in self.options.items()}

    @property
    def is_lake(self) -> bool:
        return bool(self.topic_ids)


@dataclass(frozen=True)
class TargetTopic:
    """A topic that may be written to.

    `since` holds the end offsets of its partitions when the plan was first claimed; `largest` is
    the maximum size of a record in bytes; `compacted`: older records of a key may vanish;
    `compression` is the codec that brokers store its records with, or `producer`. `times` are the
    limits of a timestamp that rows give to their records, as times since the epoch.
    """

    partitions: int
    since: Mapping[int, int]
    largest: int
    compacted: bool
    compression: str = "producer"
    times: TimeLimits = NO_LIMITS


@dataclass(frozen=True)
class EgressJob(KafkaJob):
    """The rows to send, how they become records, and the target.

    `producer` are options of the producer. `reading` are further ones of Spark's source, by which
    the target is read back. `spark` is the minor version that the claim names. `resumed`: an
    earlier attempt has begun to send. `proof`: `counts`, where they can prove what was sent, or
    `full`. `mark` is a directory of the lake, in which SENDING is created before the first record.
    `keeps_time`: a record gets the timestamp of its row.
    """

    plan_id: str
    source: RowSource
    columns: Mapping[str, str]
    topic: str | None
    order_by: tuple[str, ...]
    strict_order: bool
    tombstones: bool
    quarantine: str | None
    target: Mapping[str, TargetTopic]
    producer: Mapping[str, str]
    client_id: str
    mark: str
    reading: Mapping[str, str] = field(default_factory=dict)
    spark: str | None = None
    resumed: bool = False
    proof: str = "full"
    keeps_time: bool = False

    def __repr__(self) -> str:
        return f"EgressJob({self.plan_id})"  # the options are secret
