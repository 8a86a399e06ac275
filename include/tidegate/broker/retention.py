"""When records will be deleted: a topic's retention, and the records' own timestamps."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from kafka import KafkaConsumer, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, KafkaAdminClient

from tidegate.broker.settings import KafkaSettings
from tidegate.core.offsets import OffsetRange

_PATIENCE_MS = 8_000

logger = logging.getLogger(__name__)


def expiries(
    settings: KafkaSettings, ranges: Iterable[OffsetRange], isolation: str, *, patience: float = 5.0
) -> dict[tuple[str, int], int]:
    """Return from when on the first record of a range may be deleted, in ms since the epoch.

    By (topic, partition), the first range of each. A broker deletes whole segments, so it may well
    be later. Missing are those of which nothing can be known: kept for ever, deleted by size, no
    visible record within `patience` seconds for all, or no right to DESCRIBE_CONFIGS or to READ.
    """
    first: dict[tuple[str, int], OffsetRange] = {}
    for r in sorted(ranges):
        first.setdefault((r.topic, r.partition), r)
    try:
        kept = _retention_ms(settings, {topic for topic, _ in first})
        wanted = [r for r in first.values() if len(r) and r.topic in kept]
        moments = first_timestamps(settings, wanted, isolation, patience)
    except (kafka_errors.KafkaError, OSError, ValueError) as error:
        logger.warning("when records expire is not known: %s", error or type(error).__name__)
        return {}
    # A record without a timestamp goes by the age of its file, which nobody tells.
    return {key: moment + kept[key[0]] for key, moment in moments.items() if moment >= 0}


def iso(moment: int | None) -> str | None:
    """Return a moment in ms since the epoch as text; None where there is none to tell."""
    try:
        if moment is None:
            return None
        return datetime.fromtimestamp(moment / 1000, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError):  # a producer's clock in a year that nobody will see
        return None


def _retention_ms(settings: KafkaSettings, topics: Iterable[str]) -> dict[str, int]:
    """Return how long a topic's records are kept, in ms, where time alone decides."""
    names = ("cleanup.policy", "retention.ms", "retention.bytes")
    asked = [ConfigResource("TOPIC", t, dict.fromkeys(names)) for t in sorted(topics)]
    admin = KafkaAdminClient(
        **{"request_timeout_ms": _PATIENCE_MS, **settings.for_python()},
        bootstrap_timeout_ms=_PATIENCE_MS,
    )
    try:
        found = admin.describe_configs(asked, config_filter="all").get("topic", {})
    finally:
        admin.close()
    kept = {}
    for topic, config in found.items():
        policy, ms, size = (config.get(name, {}).get("value") for name in names)
        if "delete" in str(policy).split(",") and size == "-1" and ms not in (None, "-1"):
            kept[topic] = int(ms)
    return kept


def first_timestamps(
    settings: KafkaSettings, ranges: Iterable[OffsetRange], isolation: str, patience: float
) -> Mapping[tuple[str, int], int]:
    """Return the timestamp of the first visible record at or after each range's start."""
    waiting = {TopicPartition(r.topic, r.partition): r for r in ranges}
    if not waiting:
        return {}
    consumer = KafkaConsumer(
        **settings.for_python(),
        isolation_level=isolation,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=4096,  # one batch is always returned, however big
        bootstrap_timeout_ms=_PATIENCE_MS,
    )
    found: dict[tuple[str, int], int] = {}
    try:
        consumer.assign(list(waiting))
        for tp, r in waiting.items():
            consumer.seek(tp, r.start)
        give_up = time.monotonic() + patience
        while len(found) < len(waiting) and time.monotonic() < give_up:
            for tp, records in consumer.poll(timeout_ms=200).items():
                found.setdefault((tp.topic, tp.partition), records[0].timestamp)
                consumer.pause(tp)
    finally:
        consumer.close()
    return found
