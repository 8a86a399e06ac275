"""`verify` of an egress against a target that a test fills: rows, their content, and duplicates."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.kafka_answers import answer
from tidegate import flows
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core import layout, row_digest
from tidegate.core.cluster_answers import Record, Survey, TopicIdentity
from tidegate.core.cursor import Watermarks
from tidegate.core.entries import Receipt
from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import Plan, SourceFile, TargetTopic
from tidegate.egress import verify as verifying
from tidegate.egress.byte_settings import record_settings
from tidegate.egress.sent_records import digest_record
from tidegate.errors import BrokerError
from tidegate.lake import deliveries
from tidegate.lake.deliveries import Delivery, SentFile
from tidegate.lake.ledger import Appended, Ledger
from tidegate.lake.store import open_store
from tidegate.pipelines.spec import Egress, parse_spec

KAFKA = KafkaCluster("k", {"bootstrap.servers": "nowhere:1"})
OWN = (("h", b"1"), ("h", None))

Log = dict[int, list[Record]]


class Target:
    """The log of topic t, and the ledger of a pipeline that has sent to it. The partitions in
    `leaderless` have no leader now.
    """

    leaderless: frozenset[int] = frozenset()
    start: int = 0  # of the log of partition 0
    before_read: Callable[[], None] = staticmethod(lambda: None)

    def __init__(self, home: Path) -> None:
        form = {
            "name": "out", "kind": "egress", "lake": str(home), "target": {"topic": "t"},
            "source": {"path": "/in", "format": "text"},
        }  # fmt: skip
        spec = parse_spec(form)
        assert isinstance(spec, Egress)
        self.spec = spec
        self.settings = record_settings(spec).to_json()
        self.store = open_store(spec.lake, spec.name)
        self.log: Log = {0: [], 1: []}

    def put(self, plan: str, row: int, partition: int = 0, **others: Any) -> None:
        """Append a row of file `a` as an attempt of the plan sends it; `after`: an agent's."""
        after = others.pop("after", ())
        form = {"key": b"k", "value": b"v%d" % row, "headers": OWN, **others}
        provenance = "tidegate", f"{plan}:0:{row}:".encode()
        form["headers"] = (*form["headers"], provenance, *after)
        log = self.log.setdefault(partition, [])
        log.append(Record(offset=len(log), timestamp=0, timestamp_type=0, **form))

    def plan(self, name: str, etag: str | None = None) -> Plan:
        return Plan(
            pipeline="out", kind="egress", lane="live", window_date=name, cluster_id="c",
            isolation="read_uncommitted", topics={}, chunks=(), destination="kafka",
            byte_settings=self.settings, files=(SourceFile("a", 1, etag or name),),
            target={"t": TargetTopic("id-t", 2)},
        )  # fmt: skip

    def sends(
        self,
        name: str,
        rows: int,
        *,
        again: Sequence[dict[str, Any]] = (),
        etag: str | None = None,
    ) -> str:
        """Send rows of one plan to partition 0, the first of them `again`, and commit them; return
        the plan's id.
        """
        plan = self.plan(name, etag)
        before = {p: len(log) for p, log in self.log.items()}
        for row in range(rows):
            self.put(plan.id, row)
        for others in again:
            self.put(plan.id, 0, **others)
        digests = [digest_record("a", i, "t", b"k", b"v%d" % i, OWN) for i in range(rows)]
        receipts = tuple(
            Receipt(
                "t", "id-t", p, before[p], len(log), *((rows, len(again)) if p == 0 else (0, 0))
            )
            for p, log in self.log.items()
        )
        (file,) = plan.files
        delivery = Delivery(
            plan.id, "x",
            (SentFile("a", rows, 0, row_digest.combine_digests(digests), file.size, file.etag),),
            receipts, (), "full", {},
        )  # fmt: skip
        ledger = Ledger(self.store, "out")
        self.store.create(layout.plan(plan.id), plan.encoded)
        deliveries.create_delivery(self.store, delivery)
        outcome = deliveries.commit_delivery(ledger, plan, delivery, run="r")
        assert isinstance(outcome, Appended)
        return plan.id

    def verify(self) -> list[dict[str, Any]]:
        found = verifying.verify(self.spec, flows.store(self.spec), KAFKA, lambda _: None).to_json()
        assert found["differences"] == len(found["first"])
        return [{k: v for k, v in each.items() if v is not None} for each in found["first"]]


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    target = Target(tmp_path)

    def survey(*_: Any) -> Survey:
        ends = {p: len(log) for p, log in target.log.items() if p not in target.leaderless}
        marks = {p: Watermarks(0 if p else target.start, end, end) for p, end in ends.items()}
        topic = TopicIdentity("id-t", dict.fromkeys(ends, 0), target.leaderless)
        return Survey("c", {"t": topic}, {"t": marks})

    @contextmanager
    def reading(_: Any) -> Iterator[Callable[..., Iterator[Record]]]:
        def read(r: OffsetRange, isolation: str) -> Iterator[Record]:
            assert isolation == "read_uncommitted"
            target.before_read()
            start = max(r.start, 0 if r.partition else target.start)
            yield from target.log[r.partition][start : r.end]

        yield read

    answer(monkeypatch, survey=survey)
    answer(monkeypatch, reading=reading)
    answer(monkeypatch, compacted=lambda *_: set())
    return target


def test_duplicates_that_come_later_are_found(target: Target) -> None:
    """Of a sender that survived: behind its own receipt, within that of a later commit, and in a
    partition that was added since. What others write is none of it.
    """
    first = target.sends("1", 3)
    assert target.verify() == []
    target.put(first, 0)
    second = target.sends("2", 2)
    target.put("another plan", 0)
    target.put(first, 1)
    target.put(second, 1, partition=2)
    came = "duplicates came after the run had read it back: a sender that was taken for dead has"
    assert target.verify() == [
        {"what": f"2 {came} survived", "commit": 1, "topic": "t", "partition": 0},
        {"what": f"1 {came} survived", "commit": 2, "topic": "t", "partition": 2},
    ]


def test_a_record_with_headers_that_others_have_written(target: Target) -> None:
    """It is no record of a plan, and ends nothing; nor is one of a file that the plan has not."""
    plan = target.sends("1", 2)
    numbers = "", ":9:0:", ":0:0:\n", ":0:x:", ":-1:0:", ":²:0:"
    for said in ("", "\xff", ":::", *(f"{plan}{each}" for each in numbers)):
        log = target.log[1]
        log.append(Record(len(log), b"k", b"v", 0, 0, (("tidegate", said.encode()),)))
    log.append(Record(len(log), b"k", b"v", 0, 0, (("tidegate", None),)))
    assert target.verify() == []


@pytest.mark.parametrize("partition", [0, 1, 2])
def test_a_partition_without_a_leader_is_not_passed(target: Target, partition: int) -> None:
    """With rows, without any, or added since: an error that may pass and names the partition."""
    target.sends("1", 3)
    target.log[2] = []
    target.leaderless = frozenset({partition})
    with pytest.raises(BrokerError, match=rf"topic t: partitions \[{partition}\] have no leader"):
        target.verify()
    target.leaderless = frozenset()
    assert target.verify() == []


@pytest.mark.parametrize(
    "other",
    [
        {"value": b"another"},
        {"value": None},
        {"key": None},
        {"key": b""},
        {"headers": (("h", b"1"), ("h", b""))},
        {"headers": (*OWN, ("tidegate", b"x:0:1:"))},
        {"headers": ()},
    ],
)
def test_content_is_compared(target: Target, other: dict[str, Any]) -> None:
    """Key, value and each header: a row with other content is found by its file; a duplicate with
    other content, too.
    """
    plan = target.sends("1", 3)
    right = target.log[0][1]
    target.put(plan, 1, partition=9, **other)
    (wrong,) = target.log.pop(9)
    target.log[0][1] = wrong._replace(offset=1)
    (found,) = target.verify()
    assert found == {
        "what": "its rows in the target have other content than was sent", "commit": 1, "file": "a",
    }  # fmt: skip
    target.log[0][1] = right
    assert target.verify() == []


def test_a_duplicate_with_other_content_is_found(target: Target) -> None:
    """Within the reach of the receipt, where duplicates are counted: it is not that row again."""
    target.sends("1", 2, again=[{}])
    assert target.verify() == []
    target.sends("2", 2, again=[{}, {"value": b"another"}, {"headers": ()}])
    assert target.verify() == [
        {"what": "2 duplicates have other content than the first", "commit": 2, "file": "a"}
    ]


def test_what_the_target_still_has_is_compared(target: Target) -> None:
    """Once the first records of a commit have expired; the commit before it is gone as a whole."""
    target.sends("1", 3)
    target.sends("2", 5, again=[{}])
    target.start = 5
    assert target.verify() == []
    counts = verifying.verify(
        target.spec, flows.store(target.spec), KAFKA, lambda _: None
    ).to_json()["against_kafka"]
    # Row 0 is counted by its duplicate, which is retained.
    assert counts == {"rows": 4, "expired": 4}
    target.log[0][6] = target.log[0][6]._replace(headers=())
    assert target.verify() == [
        {"what": "3 rows and 0 duplicates, the receipt says 5 and 1", "commit": 2, "topic": "t",
         "partition": 0},
    ]  # fmt: skip


def test_what_compaction_and_retention_have_left(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a topic with both: what is gone is counted, and is no difference."""
    answer(monkeypatch, compacted=lambda *_: {"t"})
    target.sends("1", 20)
    del target.log[0][2:17]
    assert target.verify() == []
    target.start = 2
    assert target.verify() == []


def test_what_expires_meanwhile_is_no_difference(target: Target) -> None:
    """The log start is asked for again."""
    target.sends("1", 3)
    target.before_read = lambda: setattr(target, "start", 2)
    assert target.verify() == []


def test_headers_of_an_agent_are_not_compared(target: Target) -> None:
    """Those that an agent puts behind all others."""
    target.sends("1", 1)
    old = target.log[0][0]
    target.log[0][0] = old._replace(headers=(*old.headers, ("traceparent", b"00-1")))
    assert target.verify() == []


def test_a_digest_as_it_is_stored() -> None:
    """Of a key, no value, a header and one without a value; `spark/` compares Spark's own."""
    headers = [("h", b"1"), ("n", None)]
    assert digest_record("a.csv", 7, "t", b"k", None, headers) == 7846084661820770075
