"""What a topic holds, by a client that does not know Tidegate, and where each record came from."""

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

_LEADERLESS = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
PROVENANCE = "tidegate"
"""The header `<plan>:<index of the file>:<row>:<timestamp>`, the last one of a record."""


@dataclass(frozen=True)
class Record:
    """A record as it stands in a topic; `headers` with all that was added."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int

    @property
    def said(self) -> list[str]:
        """Plan, index of the file, row and timestamp, by the provenance header."""
        found = [value or b"" for key, value in self.headers if key == PROVENANCE]
        said = found[-1].decode().split(":") if found else []
        return said if len(said) == 4 and said[2].isdigit() else ["", "-1", "-1", ""]

    @property
    def plan(self) -> str:
        return self.said[0]

    @property
    def row(self) -> tuple[int, int]:
        """The index of the file in its plan, and the row."""
        return int(self.said[1]), int(self.said[2])

    @property
    def content(self) -> tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]:
        """Key, value, and the headers without the last one that egress adds."""
        kept = list(self.headers)
        if at := [i for i, (key, _) in enumerate(kept) if key == PROVENANCE]:
            del kept[at[-1]]
        return self.key, self.value, tuple(kept)


def ends(bootstrap: str, topic: str) -> dict[int, int]:
    """Return the high watermarks, whatever a transaction hides."""
    return {p: high for p, (_, high) in _marks(bootstrap, topic).items()}


def read(
    bootstrap: str, topic: str, *, isolation: str = "read_uncommitted", since: int = 0
) -> list[Record]:
    """Return a topic's records, by partition and offset."""
    consumer = _consumer(bootstrap, isolation)
    try:
        marks = _marks(bootstrap, topic, isolation)
        wanted = {p: high for p, (low, high) in marks.items() if max(low, since) < high}
        starts = {p: max(marks[p][0], since) for p in wanted}
        consumer.assign([TopicPartition(topic, p, start) for p, start in starts.items()])
        found: list[Record] = []
        while any(
            (starts[at.partition] if at.offset < 0 else at.offset) < wanted[at.partition]
            for at in consumer.position(consumer.assignment())
        ):
            for record in consumer.consume(5_000, timeout=0.2):
                assert record.error() is None, record.error()
                if record.offset() < wanted[record.partition()]:
                    found.append(
                        Record(
                            topic, record.partition(), record.offset(), record.key(),
                            record.value(), tuple(record.headers() or ()), record.timestamp()[1],
                        )
                    )  # fmt: skip
        return sorted(found, key=lambda each: (each.partition, each.offset))
    finally:
        consumer.close()


def rows(sent: Iterable[Record], plan: str | None = None) -> Counter[tuple[int, int]]:
    """Count the records of each row, of one plan or of any."""
    return Counter(s.row for s in sent if plan is None or s.plan == plan)


def _marks(
    bootstrap: str, topic: str, isolation: str = "read_uncommitted"
) -> dict[int, tuple[int, int]]:
    """Return the log start and end of each partition; wait for a leader after a restart."""
    consumer = _consumer(bootstrap, isolation)
    until = time.monotonic() + 30
    try:
        while True:
            try:
                partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
                return {
                    p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=30)
                    for p in sorted(partitions)
                }
            except KafkaException as error:
                if error.args[0].code() not in _LEADERLESS or time.monotonic() > until:
                    raise
                time.sleep(0.2)
    finally:
        consumer.close()


def _consumer(bootstrap: str, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "independent",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
