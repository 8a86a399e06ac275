"""When records expire: what decides it, and when it is not known."""

from typing import Any

import pytest

from tidegate.broker import retention
from tidegate.broker.client_settings import KafkaSettings
from tidegate.broker.retention import Retention, earliest_expiries, read_retentions
from tidegate.core.offsets import OffsetRange
from tidegate.errors import NotAuthorised

KAFKA = KafkaSettings("kafka_default", {"bootstrap.servers": "nowhere:1"})
WRITTEN, HOUR = 1_700_000_000_000, 3_600_000


class Cluster:
    """A cluster whose topics have settings; None for one that may not be described."""

    def __init__(self, topics: dict[str, tuple[str, int, int] | None]) -> None:
        self.topics = topics

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def configs(self, topics: set[str], names: tuple[str, ...]) -> dict[str, dict[str, str]]:
        assert names == ("cleanup.policy", "retention.ms", "retention.bytes")
        return {
            topic: dict(zip(names, map(str, config), strict=True))
            for topic, config in self.topics.items()
            if topic in topics and config
        }


@pytest.mark.parametrize(
    ("config", "expected", "expires"),
    [
        (("delete", HOUR, -1), Retention(HOUR, None), WRITTEN + HOUR),
        (("delete", -1, -1), Retention(None, None), None),
        (("delete", HOUR, 1_000), Retention(HOUR, 1_000), None),
        (("delete", -1, 1_000), Retention(None, 1_000), None),
        (("compact", HOUR, 1_000), Retention(None, None), None),
        (("compact,delete", HOUR, -1), Retention(HOUR, None), WRITTEN + HOUR),
        (("delete,compact", HOUR, 0), Retention(HOUR, 0), None),
        (("", HOUR, -1), Retention(None, None), None),
        (None, None, None),
    ],
)
def test_what_decides_when_records_expire(
    monkeypatch: pytest.MonkeyPatch, config: Any, expected: Retention | None, expires: int | None
) -> None:
    """The doctor and planning have one answer; with retention.bytes it is not known."""
    cluster = Cluster({"t": config, "other": ("delete", 1, -1)})
    monkeypatch.setattr(retention, "Cluster", lambda _: cluster)
    written = {("t", 0): WRITTEN, ("t", 1): WRITTEN + 5}

    def first_batches(_: Any, starts: Any, *__: Any, **___: Any) -> dict[tuple[str, int], int]:
        assert set(starts.values()) <= {10}  # of each partition, the first range
        return {key: written[key] for key in starts}

    monkeypatch.setattr(retention, "first_batches", first_batches)
    assert read_retentions(cluster, {"t"}).get("t") == expected  # type: ignore[arg-type]
    ranges = [OffsetRange("t", 0, 50, 60), OffsetRange("t", 0, 10, 20), OffsetRange("t", 1, 10, 11)]
    known = {} if expires is None else {("t", 0): expires, ("t", 1): expires + 5}
    assert earliest_expiries(KAFKA, ranges, "read_committed") == known


def test_a_record_without_a_timestamp_and_a_broker_that_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not known, and no error: it is an estimate."""
    cluster = Cluster({"t": ("delete", HOUR, -1)})
    monkeypatch.setattr(retention, "Cluster", lambda _: cluster)
    monkeypatch.setattr(retention, "first_batches", lambda *_, **__: {("t", 0): -1})
    assert earliest_expiries(KAFKA, [OffsetRange("t", 0, 0, 1)], "read_committed") == {}

    def refuse(*_: Any, **__: Any) -> None:
        raise NotAuthorised("not permitted: READ on the topic")

    monkeypatch.setattr(retention, "first_batches", refuse)
    assert earliest_expiries(KAFKA, [OffsetRange("t", 0, 0, 1)], "read_committed") == {}
