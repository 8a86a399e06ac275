"""When records expire: by their topic's retention and their own timestamps.

Planning, reports and the doctor all ask here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.broker.client_settings import KafkaSettings
from tidegate.broker.cluster import Cluster
from tidegate.broker.consumer import first_batches
from tidegate.core.offsets import OffsetRange
from tidegate.errors import TidegateError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Retention:
    """What makes records expire: an age of `ms`, or a partition of more than `size` bytes.

    None is no limit. With a limit by size the time at which a record expires is not known: it
    depends on the records that follow.
    """

    ms: int | None
    size: int | None

    @property
    def lifetime_ms(self) -> int | None:
        """How long a record is kept. None if only its age does not decide, or it never expires."""
        return self.ms if self.size is None else None


def read_retentions(cluster: Cluster, topics: Iterable[str]) -> dict[str, Retention]:
    """Return the retention of each topic; those without DESCRIBE_CONFIGS are missing.

    The broker answers with what applies: a topic's own settings, else its `log.retention.*`.
    """
    names = ("cleanup.policy", "retention.ms", "retention.bytes")
    return {
        topic: _retention(*(config[name] for name in names))
        for topic, config in cluster.configs(topics, names).items()
        if config.keys() >= set(names)
    }


def _retention(policy: str, ms: str, size: str) -> Retention:
    if "delete" not in policy.split(","):
        return Retention(None, None)
    return Retention(*(limit if limit >= 0 else None for limit in (int(ms), int(size))))


def earliest_expiries(
    settings: KafkaSettings, ranges: Iterable[OffsetRange], isolation: str, *, patience: float = 5.0
) -> dict[tuple[str, int], int]:
    """Return the earliest time at which the first record of a range may expire, in epoch ms.

    By (topic, partition), of the first range of each. A broker deletes whole segments, so it may
    be later. Ranges whose expiry is not known are missing: no limit by time, a limit by size, no
    visible record within `patience` seconds for all, or no right to DESCRIBE_CONFIGS or to READ.
    """
    starts: dict[tuple[str, int], int] = {}
    for r in sorted(ranges):
        if len(r):
            starts.setdefault((r.topic, r.partition), r.start)
    if not starts:
        return {}
    try:
        with Cluster(settings) as cluster:
            by_topic = read_retentions(cluster, {topic for topic, _ in starts})
        lifetimes = {t: ms for t, each in by_topic.items() if (ms := each.lifetime_ms) is not None}
        starts = {key: offset for key, offset in starts.items() if key[0] in lifetimes}
        written = first_timestamps(settings, starts, isolation, patience)
    except TidegateError as error:
        logger.warning("when records expire is not known: %s", error)
        return {}
    return {key: timestamp + lifetimes[key[0]] for key, timestamp in written.items()}


def first_timestamps(
    settings: KafkaSettings,
    starts: Mapping[tuple[str, int], int],
    isolation: str,
    patience: float,
) -> dict[tuple[str, int], int]:
    """Return the timestamp, in epoch ms, of the first visible record from an offset on.

    By (topic, partition). Missing where there is no record within `patience` seconds, or it has no
    timestamp: then it expires with its file, whose age is not known.
    """
    timestamps = first_batches(
        settings, starts, isolation, _first_timestamp, patience=patience, fetch_bytes=4096
    )
    return {key: timestamp for key, timestamp in timestamps.items() if timestamp >= 0}


def _first_timestamp(records: list[Any]) -> int:
    return int(records[0].timestamp)
