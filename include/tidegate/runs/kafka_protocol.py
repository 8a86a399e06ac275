"""What a run asks of a Kafka cluster.

Each method may raise BrokerError, BrokerUnreachable, NotAuthenticated or NotAuthorised. Offsets are
half-open ranges. Times are milliseconds since 1970, in UTC. `isolation` is `read_committed` or
`read_uncommitted`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from tidegate.core.cluster_answers import Probe, Reader, Survey, TargetSurvey
from tidegate.core.cursor import Watermarks
from tidegate.core.java_client import DelegationToken, JavaClient
from tidegate.core.offsets import OffsetRange
from tidegate.core.unreadable_records import Scan

FirstOffsets = Mapping[str, Mapping[int, int | None]]
"""By topic and partition the first offset at or after a time. None if no record is that late."""


class Kafka(Protocol):
    """One cluster, by the login of one connection."""

    @property
    def connection(self) -> str:
        """The id of the connection."""

    @property
    def bootstrap_servers(self) -> str:
        """The addresses, as they were given."""

    @property
    def cluster(self) -> str:
        """The cluster as messages name it."""

    @property
    def options(self) -> Mapping[str, str]:
        """The connection's settings as options of Spark's source, without those of the login."""

    def client_id(self, name: str) -> str:
        """Return what a client calls itself: the connection's `client.id`, or else this name."""

    def to_json(self) -> dict[str, str | None]:
        """Return which cluster it is, and who logs in. Nothing of it is secret."""

    def topics(self) -> Sequence[str]:
        """Return the names of all topics that may be seen."""

    def nearest(self, missing: Iterable[str]) -> str:
        """Return the end of a message that offers topics with similar names. It may be empty."""

    def survey(self, topics: Iterable[str], isolation: str) -> Survey:
        """Return identities and watermarks of those of the topics that there are."""

    def offsets_at(
        self, partitions: Mapping[str, Collection[int]], times: Sequence[int]
    ) -> Mapping[int, FirstOffsets]:
        """Return the first offset at or after each time."""

    def offsets_since(self, times: Mapping[str, Mapping[int, int]]) -> FirstOffsets:
        """Return the first offset at or after each partition's time."""

    def probe(self, holes: Iterable[OffsetRange], isolation: str) -> Sequence[Probe]:
        """Return what is in each range in which Spark has found no record."""

    def reading(self) -> AbstractContextManager[Reader]:
        """Give what reads the records of ranges."""

    def unreadable(
        self,
        ranges: Iterable[OffsetRange],
        isolation: str,
        too_late: Mapping[str, Mapping[int, int]],
        *,
        first_only: bool,
    ) -> Mapping[OffsetRange, Scan]:
        """Return a scan of each range that may hold records which Spark cannot read.

        `too_late` is the survey's. With `first_only` a scan ends at the first such record.
        """

    def expiries(
        self, ranges: Iterable[OffsetRange], isolation: str
    ) -> Mapping[tuple[str, int], int]:
        """Return by topic and partition when the first record of a range expires, if it does."""

    def epoch_ends(self, epochs: Mapping[tuple[str, int], int]) -> Mapping[tuple[str, int], int]:
        """Return by topic and partition the offset at which a leader epoch ends."""

    def open_since(
        self, watermarks: Mapping[str, Mapping[int, Watermarks]]
    ) -> Mapping[tuple[str, int], int]:
        """Return by topic and partition when a transaction began that holds up readers."""

    def mean_size(self, ranges: Sequence[OffsetRange], isolation: str) -> float | None:
        """Return the largest mean size of the records of a range, in bytes. None: not known."""

    def committed(self, group: str) -> Mapping[str, Mapping[int, int]]:
        """Return the offsets that a consumer group has committed, by topic and partition."""

    def commit(self, group: str, offsets: Mapping[str, Mapping[int, int]]) -> None:
        """Commit offsets for a consumer group without members."""

    def survey_target(
        self, topics: Iterable[str], *, create_with: int | None, make: bool = True
    ) -> TargetSurvey:
        """Return the state of topics that rows are sent to.

        A missing one is created with so many partitions; with `make` False it has no id.
        """

    def compacted(self, topics: Iterable[str]) -> Collection[str]:
        """Return those of the topics in which older records of a key may vanish."""


class Watch(Protocol):
    """What was seen of a cluster while an application ran."""

    @property
    def changed(self) -> Sequence[str]:
        """The target topics that were deleted or recreated, for which it was stopped."""

    def outage(self) -> str | None:
        """Return why the cluster counts as away, or None if a broker answers."""


class JavaCluster(Protocol):
    """The same cluster for an engine, whose driver uses Java's client."""

    @property
    def connection(self) -> str:
        """The id of the connection."""

    @property
    def cluster(self) -> str:
        """The cluster as messages name it."""

    @property
    def java_options(self) -> tuple[str, ...]:
        """The options that each JVM needs for the login."""

    @property
    def delegation_token(self) -> DelegationToken | None:
        """The token with which Spark logs in, or None if it uses the connection's own login."""

    def for_java(self, directory: Path) -> JavaClient:
        """Return what Java's client needs. The engine writes its files into `directory`."""

    def watch(
        self, target_ids: Mapping[str, str], stop: Callable[[], object]
    ) -> AbstractContextManager[Watch]:
        """Watch brokers and target topics while a block runs, and call `stop` once if it must end.

        `target_ids` has the topic ids that were planned, by topic. It may be empty.
        """
