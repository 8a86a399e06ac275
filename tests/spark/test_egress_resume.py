"""After a dead attempt, only the missing rows are sent, and all rows are counted."""

import random
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from support import topic_reader, topic_records
from support.egress_pipeline import EgressPipeline, begun
from tidegate import flows
from tidegate.egress.verify import verify
from tidegate.errors import RowsRefused, SendFailed, StageFailed
from tidegate.spark import readback, records
from tidegate.spark.egress_job import EgressJob

ROWS = 90  # over two files, three partitions and five keys


@pytest.fixture
def pipeline(pipeline: EgressPipeline) -> EgressPipeline:
    """Return a pipeline of two files with 90 numbers; row n of a file is number n or 45 + n."""
    for name, first in (("a", 0), ("b", 45)):
        lines = (f'{{"id":{i},"name":"n{i}"}}\n' for i in range(first, first + 45))
        pipeline.put(f"{name}.json", "".join(lines))
    pipeline.set_source("json", columns="id BIGINT, name STRING")
    key = {"key": "cast(id % 5 as string)", "value": "name"}
    pipeline.settings |= {"columns": {**key, "partition": "id % 3"}, "order_by": ["id"]}
    return pipeline


NAMES = ("a.json", "b.json")


def identity(number: int) -> tuple[int, int]:
    return (0, number) if number < 45 else (1, number - 45)


ALL = Counter(identity(number) for number in range(ROWS))


def produce(
    pipeline: EgressPipeline,
    plan: str,
    numbers: Iterable[int],
    *,
    partition: int | None = None,
    producer: Producer | None = None,
    value: bytes | None = None,
) -> None:
    """Send rows as an attempt of the plan would."""
    producer = producer or Producer({"bootstrap.servers": pipeline.bootstrap})
    for number in numbers:
        file, row = identity(number)
        producer.produce(
            pipeline.topic,
            key=str(number % 5).encode(),
            value=value or b"n%d" % number,
            partition=number % 3 if partition is None else partition,
            headers=[("tidegate", f"{plan}:{file}:{row}:".encode())],
        )
    producer.flush()


def send_and_die(
    pipeline: EgressPipeline, numbers: Sequence[int] = (), run_id: str = "r", **how: Any
) -> str:
    """Let an attempt claim its plan, send these rows and die; return the plan id."""

    def submit(given: EgressJob, _: Path) -> None:
        begun(given)
        produce(pipeline, pipeline.plan(run_id).plan.id, numbers, **how)
        raise StageFailed("killed")

    with pytest.raises(SendFailed):
        pipeline.run_all(run_id, submit=submit)
    (claim,) = pipeline.fold().egress.claims.values()
    return claim.plan_id


def numbers(found: Iterable[topic_reader.Record], partition: int) -> list[int]:
    return [int((each.value or b"n-1")[1:]) for each in found if each.partition == partition]


def assert_consistent(pipeline: EgressPipeline, report: dict[str, Any]) -> None:
    """Assert that report, ledger and `verify` agree with the records in the topic."""
    found = [  # others may write anything
        each for each in pipeline.records() if each.plan == report["plan_id"] and each.row in ALL
    ]
    counted = topic_reader.rows(found)
    assert set(counted) == set(ALL)
    assert report["rows"] == len(counted) == ROWS
    assert report["duplicates"] == len(found) - len(counted)
    verified = verify(pipeline.spec, flows.store(pipeline.spec), pipeline.run("v").kafka, print)
    assert verified.differences == 0, verified
    assert pipeline.fold().egress.claims == {}


def test_after_a_sent_prefix_the_rest_is_sent_in_order(pipeline: EgressPipeline) -> None:
    """Exactly the missing rows are sent, in the order of each partition."""
    plan = send_and_die(pipeline, range(50))
    before = pipeline.ends()
    report = pipeline.run_all()
    assert report["plan_id"] == plan
    assert (report["duplicates"], report["broken_order"]) == (0, [])
    found = pipeline.records()
    assert len(found) == ROWS
    for p, end in before.items():
        assert numbers(found, p) == list(range(p, ROWS, 3))
        assert end == len(range(p, 50, 3))
    assert_consistent(pipeline, report)


@pytest.mark.slow
def test_after_any_sent_part_the_missing_rows_are_sent(pipeline: EgressPipeline) -> None:
    """Without an order, and with partitions chosen by Kafka."""
    pipeline.settings |= {
        "columns": {"key": "cast(id % 5 as string)", "value": "name"}, "order_by": [],
    }  # fmt: skip
    send_and_die(pipeline, random.Random(1).sample(range(ROWS), 37))
    report = pipeline.run_all()
    assert (report["duplicates"], len(pipeline.records()), report["broken_order"]) == (0, ROWS, [])
    assert topic_reader.rows(pipeline.records()) == ALL


@pytest.mark.slow
def test_a_broken_order_is_reported(pipeline: EgressPipeline) -> None:
    """Of a lost batch and a later one: the missing rows are sent last, and that is reported."""
    send_and_die(pipeline, [*range(0, 12, 3), *range(30, 45, 3), *range(1, 40, 3)])
    report = pipeline.run_all()
    assert report["broken_order"] == [f"{pipeline.topic}-0"]
    found = pipeline.records()
    assert numbers(found, 0) == [*range(0, 12, 3), *range(30, 45, 3), *range(12, 30, 3),
                                 *range(45, ROWS, 3)]  # fmt: skip
    assert numbers(found, 1) == list(range(1, ROWS, 3))
    assert numbers(found, 2) == list(range(2, ROWS, 3))
    assert_consistent(pipeline, report)


@pytest.mark.slow
def test_a_broken_order_of_keys_is_reported(pipeline: EgressPipeline) -> None:
    """If Kafka chooses the partitions, the order is that within a key; the topic is reported."""
    pipeline.settings["columns"].pop("partition")
    send_and_die(pipeline, [5, 1, 6], partition=0)
    report = pipeline.run_all()
    assert report["broken_order"] == [pipeline.topic]
    assert (report["rows"], report["duplicates"]) == (ROWS, 0)


def test_a_broken_order_is_read_from_the_topic(
    pipeline: EgressPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt that sent the missing rows late dies before its report; the next one finds no row
    missing, and reports the broken order. Duplicates alone break no order.
    """
    plan = send_and_die(
        pipeline, [*range(0, 12, 3), *range(30, 45, 3), *range(1, 40, 3), *range(2, 9, 3)]
    )
    produce(pipeline, plan, range(2, 9, 3))
    monkeypatch.setenv("TIDEGATE_FAULT", "send.sent:raise")
    with pytest.raises(SendFailed):
        pipeline.run_all()
    monkeypatch.delenv("TIDEGATE_FAULT")
    ends = pipeline.ends()
    assert sum(ends.values()) == ROWS + 3
    report = pipeline.run_all()
    assert pipeline.ends() == ends
    assert (report["broken_order"], report["duplicates"]) == ([f"{pipeline.topic}-0"], 3)
    assert_consistent(pipeline, report)


@pytest.mark.slow
def test_strict_order_refuses_rows_sent_in_another_order(pipeline: EgressPipeline) -> None:
    """No row is missing, but two are in the wrong order: an operator must decide."""
    pipeline.settings["order"] = "strict"
    send_and_die(pipeline, [*range(0, ROWS, 3), *range(1, ROWS, 3), 5, 2, *range(8, ROWS, 3)])
    ends = pipeline.ends()
    with pytest.raises(
        RowsRefused, match=f"{pipeline.topic}-2: all rows are in the target, but not"
    ):
        pipeline.run_all()
    assert (pipeline.ends(), len(pipeline.fold().egress.claims)) == (ends, 1)


def test_strict_order_sends_no_missing_rows_after_later_ones(pipeline: EgressPipeline) -> None:
    """The claim stays open until an operator decides; a sent prefix is not refused."""
    pipeline.settings["order"] = "strict"
    send_and_die(pipeline, [0, 1, 5])
    before = pipeline.ends()
    with pytest.raises(RowsRefused, match=f"{pipeline.topic}-2: later rows were sent and earlier"):
        pipeline.run_all()
    assert pipeline.ends() == before
    assert pipeline.fold().egress.claims
    pipeline.release("resend")
    # Rows of the released claim no longer count as sent.
    assert pipeline.run_all()["rows"] == ROWS
    assert topic_reader.rows(pipeline.records())[identity(5)] == 2


def test_a_log_that_has_lost_what_was_sent_is_refused(pipeline: EgressPipeline) -> None:
    """Records since the claim have expired: sent rows are unknown, so nothing more is sent."""
    topic_records.numbers(pipeline.bootstrap, pipeline.topic, 30)
    send_and_die(pipeline, range(50))
    topic_records.delete_records(pipeline.bootstrap, pipeline.topic, {0: 15})
    before = pipeline.ends()
    with pytest.raises(
        RowsRefused, match=r"log starts at 15 .* claimed at 10: .*`tidegate release"
    ):
        pipeline.run_all()
    assert pipeline.ends() == before
    pipeline.release("declare sent")
    assert pipeline.run_all("next")["commit"] is None
    assert pipeline.ends() == before


def test_an_open_transaction_of_others_hides_nothing(pipeline: EgressPipeline) -> None:
    """Records of the plan count although a read_committed consumer cannot see them yet."""
    foreign = Producer(
        {"bootstrap.servers": pipeline.bootstrap, "transactional.id": pipeline.topic}
    )
    foreign.init_transactions(30)
    foreign.begin_transaction()
    for p in range(3):
        foreign.produce(pipeline.topic, b"foreign", partition=p)
    foreign.flush()
    send_and_die(pipeline, range(50))
    assert pipeline.records(isolation="read_committed") == []
    report = pipeline.run_all()
    assert len(pipeline.records()) == ROWS + 3
    foreign.abort_transaction(30)
    until = time.monotonic() + 10
    while len(pipeline.records(isolation="read_committed")) < ROWS and time.monotonic() < until:
        time.sleep(0.1)  # until the markers are written
    assert topic_reader.rows(pipeline.records(isolation="read_committed")) == ALL
    assert report["duplicates"] == 0


def test_only_records_of_the_plan_count(pipeline: EgressPipeline) -> None:
    """Not those of other plans or without headers, nor what others write into such a header."""
    plan = send_and_die(pipeline, range(10))
    producer = Producer({"bootstrap.servers": pipeline.bootstrap})
    ours = map(plan.__add__, ("", ":x:y:", ":99:0:", f":0:{10**30}:", ":0:999:\n"))
    _ = [producer.produce(pipeline.topic, headers=[("tidegate", x)]) for x in (None, "", *ours)]
    producer.flush()
    produce(pipeline, "0123456789abcdef", range(ROWS))
    topic_records.numbers(pipeline.bootstrap, pipeline.topic, 20)
    report = pipeline.run_all()
    found = topic_reader.rows(pipeline.records(), report["plan_id"])
    assert Counter({row: n for row, n in found.items() if row in ALL}) == ALL
    assert_consistent(pipeline, report)


@pytest.mark.slow
def test_duplicates_are_counted_in_all_partitions(pipeline: EgressPipeline) -> None:
    """Late records of dead attempts, in the same and in another partition."""
    pipeline.settings |= {"columns": {"key": "cast(id % 5 as string)", "value": "name"},
                        "order_by": []}  # fmt: skip
    plan = send_and_die(pipeline, range(50))
    produce(pipeline, plan, range(20))
    produce(pipeline, plan, range(7), partition=2)
    report = pipeline.run_all()
    assert report["duplicates"] == 27
    assert_consistent(pipeline, report)


@pytest.mark.slow
def test_another_run_finishes_an_open_claim(pipeline: EgressPipeline) -> None:
    """It sends no row twice; a retry of the first run finds the plan committed."""
    plan = send_and_die(pipeline, range(60), run_id="A")
    report = pipeline.run_all("B")
    assert report["plan_id"] == plan
    assert_consistent(pipeline, report)
    ends = pipeline.ends()
    assert pipeline.run_all("A")["commit"] == report["commit"]
    assert pipeline.ends() == ends


@pytest.mark.slow
def test_many_attempts_die(pipeline: EgressPipeline) -> None:
    """Each sends a part; the target's ends at the first claim apply to all of them."""
    topic_records.numbers(pipeline.bootstrap, pipeline.topic, 9)
    for some in (range(10), range(10, 40), (), range(40, ROWS)):
        send_and_die(pipeline, list(some))
    report = pipeline.run_all()
    assert {r["before"] for r in report["receipts"]} == {3}
    assert len(pipeline.records()) == ROWS + 9
    assert_consistent(pipeline, report)


@pytest.mark.parametrize(
    "point", [pytest.param("send.before", marks=pytest.mark.slow), "send.sent"]
)
def test_the_application_dies(
    pipeline: EgressPipeline, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """Before the first record: the claim is released. After the last: the retry sends nothing."""
    monkeypatch.setenv("TIDEGATE_FAULT", f"{point}:raise")
    with pytest.raises(SendFailed):
        pipeline.run_all()
    monkeypatch.delenv("TIDEGATE_FAULT")
    ends = pipeline.ends()
    assert sum(ends.values()) == (0 if point == "send.before" else ROWS)
    assert bool(pipeline.fold().egress.claims) == (point == "send.sent")
    report = pipeline.run_all()
    assert pipeline.ends() == ends or point == "send.before"
    assert_consistent(pipeline, report)


@pytest.mark.slow
def test_a_partition_is_added_meanwhile(pipeline: EgressPipeline) -> None:
    """It was empty at the claim, so all of its records came later."""
    pipeline.settings["columns"].pop("partition")
    send_and_die(pipeline, range(30))
    admin = AdminClient({"bootstrap.servers": pipeline.bootstrap})
    admin.create_partitions([NewPartitions(pipeline.topic, 4)])[pipeline.topic].result(30)
    report = pipeline.run_all()
    assert [r["before"] for r in report["receipts"]] == [0, 0, 0, 0]
    assert_consistent(pipeline, report)


def test_a_record_of_the_plan_with_other_content(pipeline: EgressPipeline) -> None:
    """As others make it that copy records with their headers: a duplicate, which `verify` names."""
    send_and_die(pipeline, [7], value=b"n777")
    report = pipeline.run_all()
    assert (report["rows"], report["duplicates"], report["broken_order"]) == (ROWS, 1, [])
    found = verify(pipeline.spec, flows.store(pipeline.spec), pipeline.kafka, print).first
    assert "1 duplicates have other content" in str(found)


def test_the_read_back_detects_a_missing_record(
    pipeline: EgressPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that the sink loses silently fails the attempt; the retry sends it."""
    with_provenance = records.add_provenance
    monkeypatch.setattr(
        records,
        "add_provenance",
        lambda rows, job: with_provenance(rows.where("row <> 7 or file <> 'b.json'"), job),
    )
    with pytest.raises(SendFailed):
        pipeline.run_all()
    assert len(pipeline.records()) == ROWS - 1
    monkeypatch.setattr(records, "add_provenance", with_provenance)
    report = pipeline.run_all()
    assert report["duplicates"] == 0
    assert_consistent(pipeline, report)


def test_the_read_back_detects_a_missing_header(
    pipeline: EgressPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sink that drops headers of a row fails the attempt. A header that an agent appends after
    Tidegate's is accepted, also on rows without headers.
    """
    monkeypatch.setattr(readback, "WAIT", 0.1)
    pipeline.settings["columns"] |= {"headers": "if(id = 7, null, map('h', name, 'n', null))"}
    with_provenance = records.add_provenance

    def without(rows: DataFrame, job: EgressJob) -> DataFrame:
        cut = F.when(F.expr("file = 'b.json' and row = 3"), F.slice("headers", 1, 1))
        return with_provenance(rows.withColumn("headers", cut.otherwise(F.col("headers"))), job)

    monkeypatch.setattr(records, "add_provenance", without)
    with pytest.raises(SendFailed):
        pipeline.run_all()
    assert len(pipeline.records()) == ROWS
    assert pipeline.fold().egress.claims
    with pytest.raises(SendFailed):  # it is sent again, and is wrong again
        pipeline.run_all()
    assert len(pipeline.records()) == ROWS + 1

    def agent(rows: DataFrame, job: EgressJob) -> DataFrame:
        more = F.array(F.struct(F.lit("trace").alias("key"), F.lit(b"1").alias("value")))
        shaped = with_provenance(rows, job)
        return shaped.withColumn("headers", F.concat("headers", more))

    monkeypatch.setattr(records, "add_provenance", agent)
    pipeline.release("resend")
    report = pipeline.run_all("again")
    assert (report["rows"], report["duplicates"]) == (ROWS, 0)
    assert pipeline.fold().egress.claims == {}


@pytest.mark.slow
def test_in_a_compacted_topic_the_last_row_of_a_key_stays_last(
    pipeline: EgressPipeline, topic: str
) -> None:
    """Sent rows may be compacted: rows of a key are sent again from the first missing one on."""
    create_compacted(pipeline, topic)
    send_and_die(
        pipeline, [*range(0, 30, 3), *range(60, ROWS, 3)]
    )  # the middle of partition 0 is missing
    report = pipeline.run_all()
    assert report["broken_order"] == []
    found = pipeline.records()
    assert numbers(found, 0)[-len(range(30, ROWS, 3)) :] == list(range(30, ROWS, 3))
    for p in range(3):
        last = {number % 5: number for number in numbers(found, p)}
        assert sorted(last.values()) == list(range(p, ROWS, 3))[-5:]
    assert_consistent(pipeline, report)


def lose_rows(monkeypatch: pytest.MonkeyPatch, *numbers: int) -> None:
    """Let the sink lose rows silently."""
    with_provenance = records.add_provenance
    lost = [f"(file = '{NAMES[file]}' and row = {row})" for file, row in map(identity, numbers)]
    monkeypatch.setattr(
        records, "add_provenance",
        lambda rows, job: with_provenance(rows.where(f"not ({' or '.join(lost)})"), job),
    )  # fmt: skip


def create_compacted(pipeline: EgressPipeline, topic: str, **config: str) -> None:
    pipeline.topic = f"{topic}-compacted"
    given = {name.replace("_", "."): value for name, value in config.items()}
    topic_records.create(
        pipeline.bootstrap,
        pipeline.topic,
        partitions=3,
        config={"cleanup.policy": "compact", **given},
    )


def add_hole(pipeline: EgressPipeline, partition: int) -> None:
    """Add an offset without a record: the end marker of a transaction."""
    foreign = Producer(
        {"bootstrap.servers": pipeline.bootstrap, "transactional.id": pipeline.topic}
    )
    foreign.init_transactions(30)
    foreign.begin_transaction()
    foreign.produce(pipeline.topic, b"foreign", key=b"foreign", partition=partition)
    foreign.commit_transaction(30)


@pytest.mark.slow
def test_in_a_compacted_topic_a_missing_row_must_leave_a_hole(
    pipeline: EgressPipeline, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing row of a key with a later row counts as compacted only if there is a hole."""
    create_compacted(pipeline, topic)
    lose_rows(monkeypatch, 0)
    with pytest.raises(SendFailed):
        pipeline.run_all()
    add_hole(pipeline, 1)
    with pytest.raises(SendFailed):
        pipeline.run_all()
    add_hole(pipeline, 0)
    report = pipeline.run_all()
    assert report["rows"] == ROWS
    assert identity(0) not in topic_reader.rows(pipeline.records())
    verified = verify(pipeline.spec, flows.store(pipeline.spec), pipeline.run("v").kafka, print)
    assert (verified.differences, verified.against_kafka.expired) == (0, 1), verified


@pytest.mark.slow
def test_in_a_compacted_topic_the_last_row_of_a_key_must_exist(
    pipeline: EgressPipeline, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its absence fails the attempt, also if there is a hole."""
    create_compacted(pipeline, topic)
    add_hole(pipeline, 2)
    lose_rows(monkeypatch, ROWS - 1)
    with pytest.raises(SendFailed):
        pipeline.run_all()
    assert pipeline.fold().egress.claims


@pytest.mark.slow
def test_compaction_between_sending_and_reading_back(
    pipeline: EgressPipeline, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker deletes rows that later rows of a key replace: the attempt is still complete."""
    create_compacted(pipeline, topic, segment_ms="50", min_cleanable_dirty_ratio="0.001")
    verified = readback.verify_target

    def later(*args: Any, **named: Any) -> dict[str, Any]:
        until = time.monotonic() + 60
        while len(topic_reader.rows(pipeline.records(), pipeline.jobs[0].plan_id)) == ROWS:
            assert time.monotonic() < until
            for p in range(3):
                add_hole(pipeline, p)  # a new segment: the one before it is cleaned
            time.sleep(0.5)
        return verified(*args, **named)

    monkeypatch.setattr(readback, "verify_target", later)
    report = pipeline.run_all()
    there = topic_reader.rows(pipeline.records(), report["plan_id"])
    assert len(there) < ROWS
    assert {identity(n) for n in range(ROWS - 15, ROWS)} <= there.keys()
    assert (report["rows"], report["duplicates"]) == (ROWS, 0)
    found = verify(pipeline.spec, flows.store(pipeline.spec), pipeline.run("v").kafka, print)
    assert (found.differences, found.against_kafka.expired) == (0, ROWS - len(there))
