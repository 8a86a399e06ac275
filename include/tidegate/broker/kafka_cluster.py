"""The cluster of a Kafka connection, by kafka-python: the port `tidegate.runs.kafka_protocol`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.broker import cluster as admin
from tidegate.broker import (
    consumer,
    consumer_groups,
    open_transactions,
    retention,
    target,
    unreadable,
)
from tidegate.broker import epochs as leader_epochs
from tidegate.broker.client_settings import KafkaSettings
from tidegate.broker.cluster import Cluster
from tidegate.core.cluster_answers import Probe, Reader, Survey, TargetSurvey
from tidegate.core.cursor import Watermarks
from tidegate.core.offsets import OffsetRange
from tidegate.core.unreadable_records import Scan

if TYPE_CHECKING:
    from tidegate.broker.outage import BrokerWatch
    from tidegate.broker.target_watch import TargetWatch


@dataclass(frozen=True)
class ClusterWatch:
    """What was seen of brokers and target topics while an application ran."""

    brokers: BrokerWatch
    topics: TargetWatch | None

    @property
    def changed(self) -> list[str]:
        return self.topics.changed if self.topics else []

    def outage(self) -> str | None:
        return self.brokers.outage()


class KafkaCluster(KafkaSettings):
    """A connection's settings, and the questions to its cluster. Each opens clients of its own."""

    def topics(self) -> list[str]:
        with Cluster(self) as cluster:
            return cluster.topics()

    def nearest(self, missing: Iterable[str]) -> str:
        with Cluster(self) as cluster:
            return cluster.nearest(missing)

    def survey(self, topics: Iterable[str], isolation: str) -> Survey:
        return admin.survey(self, topics, isolation)

    def offsets_at(
        self, partitions: Mapping[str, Collection[int]], times: Sequence[int]
    ) -> dict[int, dict[str, dict[int, int | None]]]:
        with Cluster(self) as cluster:
            return {time: cluster.offsets_at(partitions, time) for time in times}

    def offsets_since(
        self, times: Mapping[str, Mapping[int, int]]
    ) -> dict[str, dict[int, int | None]]:
        with Cluster(self) as cluster:
            return cluster.offsets_since(times)

    def probe(self, holes: Iterable[OffsetRange], isolation: str) -> list[Probe]:
        return consumer.probe_holes(self, holes, isolation)

    def reading(self) -> AbstractContextManager[Reader]:
        return consumer.open_reader(self)

    def unreadable(
        self,
        ranges: Iterable[OffsetRange],
        isolation: str,
        too_late: Mapping[str, Mapping[int, int]],
        *,
        first_only: bool,
    ) -> dict[OffsetRange, Scan]:
        return unreadable.scan_unreadable(self, ranges, isolation, too_late, first_only=first_only)

    def expiries(self, ranges: Iterable[OffsetRange], isolation: str) -> dict[tuple[str, int], int]:
        return retention.earliest_expiries(self, ranges, isolation)

    def epoch_ends(self, epochs: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        return leader_epochs.epoch_ends(self, epochs)

    def open_since(
        self, watermarks: Mapping[str, Mapping[int, Watermarks]]
    ) -> dict[tuple[str, int], int]:
        return open_transactions.open_since(self, watermarks)

    def mean_size(self, ranges: Sequence[OffsetRange], isolation: str) -> float | None:
        from tidegate.broker import sampling  # for a plan alone

        return sampling.largest_mean_size(self, ranges, isolation)

    def committed(self, group: str) -> dict[str, dict[int, int]]:
        return consumer_groups.read_group_offsets(self, group)

    def commit(self, group: str, offsets: Mapping[str, Mapping[int, int]]) -> None:
        consumer_groups.commit_offsets(self, group, offsets)

    def survey_target(
        self, topics: Iterable[str], *, create_with: int | None, make: bool = True
    ) -> TargetSurvey:
        return target.survey_target(self, topics, create_with=create_with, make=make)

    def compacted(self, topics: Iterable[str]) -> set[str]:
        return target.compacted(self, topics)

    @contextmanager
    def watch(
        self, target_ids: Mapping[str, str], stop: Callable[[], object]
    ) -> Iterator[ClusterWatch]:
        from tidegate.broker.outage import BrokerWatch  # for an engine alone
        from tidegate.broker.target_watch import TargetWatch

        topics = TargetWatch(self, target_ids, stop) if target_ids else None
        with BrokerWatch(self, stop) as brokers, topics or nullcontext():
            yield ClusterWatch(brokers, topics)
