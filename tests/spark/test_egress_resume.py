"""What a dead attempt has sent is not sent again; what it has not, is; and all of it is counted."""

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
from support.egress_pipeline import EgressPipeline
from tidegate.egress.release import release
from tidegate.egress.verify import verify
from tidegate.errors import RowsRefused, SendFailed, StageFailed
from tidegate.launch.spark_submit import Submission
from tidegate.spark import readback, records
from tidegate.spark.egress_job import SENDING, EgressJob

ROWS = 90  # over two files, three partitions and five keys


@pytest.fixture
def pipeline(pipeline: EgressPipeline) -> EgressPipeline:
    """A pipeline with the numbers 0 to 89 in two files; row n of a file is number n or 45 + n."""
    for name, first in (("a", 0), ("b", 45)):
        lines = (f'{{"id":{i},"name":"n{i}"}}\n' for i in range(first, first + 45))
        pipeline.put(f"{name}.json", "".join(lines))
    pipeline.set_source("json")
    key = {"key": "cast(id % 5 as string)", "value": "name"}
    pipeline.settings |= {"columns": {**key, "partition": "id % 3"}, "order_by": ["id"]}
    return pipeline


def identity(number: int) -> tuple[str, int]:
    return ("a.json", number) if number < 45 else ("b.json", number - 45)


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
    """Send rows as an attempt of that plan would have."""
    producer = producer or Producer({"bootstrap.servers": pipeline.bootstrap})
    for number in numbers:
        file, row = identity(number)
        producer.produce(
            pipeline.topic,
            key=str(number % 5).encode(),
            value=value or b"n%d" % number,
            partition=number % 3 if partition is None else partition,
            headers=[
                ("tidegate-plan", plan.encode()),
                ("tidegate-file", file.encode()),
                ("tidegate-row", str(row).encode()),
            ],
        )
    producer.flush()


def dies(
    pipeline: EgressPipeline, numbers: Sequence[int] = (), run_id: str = "r", **how: Any
) -> str:
    """Let an attempt claim, send these rows, and die; return its plan."""

    def submit(given: Submission) -> None:
        Path(given.args[0]).with_name(SENDING).touch()
        produce(pipeline, pipeline.plan(run_id).plan.id, numbers, **how)
        raise StageFailed("killed")

    with pytest.raises(SendFailed):
        pipeline.run_all(run_id, submit=submit)
    (claim,) = pipeline.fold().claims.values()
    return claim.plan_id


def numbers(found: Iterable[topic_reader.Record], partition: int) -> list[int]:
    return [int((each.value or b"n-1")[1:]) for each in found if each.partition == partition]


def agrees(pipeline: EgressPipeline, report: dict[str, Any]) -> None:
    """Assert that report, ledger and `verify` say what another client finds in the topic."""
    found = [each for each in pipeline.records() if each.last("tidegate-plan") == report["plan_id"]]
    counted = topic_reader.rows(found)
    assert set(counted) == set(ALL)
    assert report["rows"] == len(counted) == ROWS
    assert report["duplicates"] == len(found) - len(counted)
    verified = verify(pipeline.spec, pipeline.run("v").kafka, print)
    assert verified["differences"] == 0, verified
    assert pipeline.fold().claims == {}


def test_of_a_prefix_the_rest_is_sent_in_order(pipeline: EgressPipeline) -> None:
    """Exactly the missing rows, each partition in its order."""
    plan = dies(pipeline, range(50))
    before = pipeline.ends()
    report = pipeline.run_all()
    assert report["plan_id"] == plan
    assert (report["duplicates"], report["broken_order"]) == (0, [])
    found = pipeline.records()
    assert len(found) == ROWS
    for p, end in before.items():
        assert numbers(found, p) == list(range(p, ROWS, 3))
        assert end == len(range(p, 50, 3))
    agrees(pipeline, report)


def test_of_any_part_the_missing_rows_are_sent(pipeline: EgressPipeline) -> None:
    """Where rows go in any order, and Kafka chooses the partition."""
    pipeline.settings |= {
        "columns": {"key": "cast(id % 5 as string)", "value": "name"}, "order_by": [],
    }  # fmt: skip
    some = random.Random(1).sample(range(ROWS), 37)
    dies(pipeline, some)
    report = pipeline.run_all()
    assert (report["duplicates"], len(pipeline.records()), report["broken_order"]) == (0, ROWS, [])
    assert topic_reader.rows(pipeline.records()) == ALL


def test_a_broken_order_is_reported(pipeline: EgressPipeline) -> None:
    """A middle batch was lost and a later one was not: the missing rows go behind, and the
    partition is reported.
    """
    dies(pipeline, [*range(0, 12, 3), *range(30, 45, 3), *range(1, 40, 3)])
    report = pipeline.run_all()
    assert report["broken_order"] == [f"{pipeline.topic}-0"]
    found = pipeline.records()
    assert numbers(found, 0) == [*range(0, 12, 3), *range(30, 45, 3), *range(12, 30, 3),
                                 *range(45, ROWS, 3)]  # fmt: skip
    assert numbers(found, 1) == list(range(1, ROWS, 3))
    assert numbers(found, 2) == list(range(2, ROWS, 3))
    agrees(pipeline, report)


def test_a_broken_order_of_keys_is_reported(pipeline: EgressPipeline) -> None:
    """Without partitions of its own a pipeline's order is that within a key; the topic is named."""
    pipeline.settings["columns"].pop("partition")
    dies(pipeline, [5, 1, 6], partition=0)
    report = pipeline.run_all()
    assert report["broken_order"] == [pipeline.topic]
    assert (report["rows"], report["duplicates"]) == (ROWS, 0)


def test_a_broken_order_is_read_from_the_topic(
    pipeline: EgressPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt that sent the missing rows behind the others dies before it can tell; the next
    one finds nothing missing, and tells it. Doubles alone break no order.
    """
    plan = dies(pipeline, [*range(0, 12, 3), *range(30, 45, 3), *range(1, 40, 3), *range(2, 9, 3)])
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
    agrees(pipeline, report)


def test_strict_order_takes_no_other_one_for_sent(pipeline: EgressPipeline) -> None:
    """Nothing is missing, and two rows stand the other way round: an operator must decide."""
    pipeline.settings["order"] = "strict"
    dies(pipeline, [*range(0, ROWS, 3), *range(1, ROWS, 3), 5, 2, *range(8, ROWS, 3)])
    ends = pipeline.ends()
    with pytest.raises(
        RowsRefused, match=f"{pipeline.topic}-2: all rows are in the target, but not"
    ):
        pipeline.run_all()
    assert (pipeline.ends(), len(pipeline.fold().claims)) == (ends, 1)


def test_strict_order_sends_nothing_behind(pipeline: EgressPipeline) -> None:
    """The claim stands until an operator decides; a prefix is no reason to refuse."""
    pipeline.settings["order"] = "strict"
    dies(pipeline, [0, 1, 5])
    before = pipeline.ends()
    with pytest.raises(RowsRefused, match=f"{pipeline.topic}-2: later rows were sent and earlier"):
        pipeline.run_all()
    assert pipeline.ends() == before
    assert pipeline.fold().claims
    release(pipeline.spec, None, "resend", "looked", run="me")
    assert pipeline.run_all()["duplicates"] == 0
    assert (
        topic_reader.rows(pipeline.records())[identity(5)] == 2
    )  # what was released is nobody's any more


def test_a_log_that_has_lost_what_was_sent_is_refused(pipeline: EgressPipeline) -> None:
    """Retention has passed the claim: what was sent cannot be told, nothing more is sent."""
    topic_records.numbers(pipeline.bootstrap, pipeline.topic, 30)
    dies(pipeline, range(50))
    topic_records.delete_records(pipeline.bootstrap, pipeline.topic, {0: 15})
    before = pipeline.ends()
    with pytest.raises(
        RowsRefused, match=r"log starts at 15 .* claimed at 10: .*`tidegate release"
    ):
        pipeline.run_all()
    assert pipeline.ends() == before
    release(pipeline.spec, None, "declare sent", "looked", run="me")
    assert pipeline.run_all("next")["commit"] is None
    assert pipeline.ends() == before


def test_an_open_transaction_of_others_hides_nothing(pipeline: EgressPipeline) -> None:
    """What a read_committed consumer cannot see yet is seen: it is of this plan, and counts."""
    foreign = Producer(
        {"bootstrap.servers": pipeline.bootstrap, "transactional.id": pipeline.topic}
    )
    foreign.init_transactions(30)
    foreign.begin_transaction()
    for p in range(3):
        foreign.produce(pipeline.topic, b"foreign", partition=p)
    foreign.flush()
    dies(pipeline, range(50))
    assert pipeline.records(isolation="read_committed") == []
    report = pipeline.run_all()
    assert len(pipeline.records()) == ROWS + 3
    foreign.abort_transaction(30)
    until = time.monotonic() + 10
    while len(pipeline.records(isolation="read_committed")) < ROWS and time.monotonic() < until:
        time.sleep(0.1)  # the markers are on their way
    assert topic_reader.rows(pipeline.records(isolation="read_committed")) == ALL
    assert report["duplicates"] == 0


def test_only_records_of_the_plan_count(pipeline: EgressPipeline) -> None:
    """Another pipeline's, another plan's, and those of nobody, of the same names and numbers."""
    dies(pipeline, range(10))
    produce(pipeline, "0123456789abcdef", range(ROWS))
    topic_records.numbers(pipeline.bootstrap, pipeline.topic, 20)
    report = pipeline.run_all()
    assert topic_reader.rows(pipeline.records(), report["plan_id"]) == ALL
    agrees(pipeline, report)


def test_doubles_are_counted_wherever_they_are(pipeline: EgressPipeline) -> None:
    """Late records of dead attempts, in the same partition and in another one."""
    pipeline.settings |= {"columns": {"key": "cast(id % 5 as string)", "value": "name"},
                        "order_by": []}  # fmt: skip
    plan = dies(pipeline, range(50))
    produce(pipeline, plan, range(20))
    produce(pipeline, plan, range(7), partition=2)
    report = pipeline.run_all()
    assert report["duplicates"] == 27
    agrees(pipeline, report)


def test_another_run_finishes_what_was_begun(pipeline: EgressPipeline) -> None:
    """And sends none of it twice; the first run, tried again, finds all done."""
    plan = dies(pipeline, range(60), run_id="A")
    report = pipeline.run_all("B")
    assert report["plan_id"] == plan
    agrees(pipeline, report)
    ends = pipeline.ends()
    assert pipeline.run_all("A")["commit"] == report["commit"]
    assert pipeline.ends() == ends


def test_many_attempts_die(pipeline: EgressPipeline) -> None:
    """Each leaves a part; the claim's first offsets hold for all of them."""
    topic_records.numbers(pipeline.bootstrap, pipeline.topic, 9)
    for some in (range(10), range(10, 40), (), range(40, ROWS)):
        dies(pipeline, list(some))
    report = pipeline.run_all()
    assert {r["before"] for r in report["receipts"]} == {3}
    assert len(pipeline.records()) == ROWS + 9
    agrees(pipeline, report)


@pytest.mark.parametrize("point", ["send.before", "send.sent"])
def test_the_application_dies(
    pipeline: EgressPipeline, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """Before the first record: the claim is released. After the last: the retry only looks."""
    monkeypatch.setenv("TIDEGATE_FAULT", f"{point}:raise")
    with pytest.raises(SendFailed):
        pipeline.run_all()
    monkeypatch.delenv("TIDEGATE_FAULT")
    ends = pipeline.ends()
    assert sum(ends.values()) == (0 if point == "send.before" else ROWS)
    assert bool(pipeline.fold().claims) == (point == "send.sent")
    report = pipeline.run_all()
    assert pipeline.ends() == ends or point == "send.before"
    agrees(pipeline, report)


def test_a_partition_is_added_meanwhile(pipeline: EgressPipeline) -> None:
    """It was empty when the plan was claimed: what is in it came later."""
    pipeline.settings["columns"].pop("partition")
    dies(pipeline, range(30))
    admin = AdminClient({"bootstrap.servers": pipeline.bootstrap})
    admin.create_partitions([NewPartitions(pipeline.topic, 4)])[pipeline.topic].result(30)
    report = pipeline.run_all()
    assert [r["before"] for r in report["receipts"]] == [0, 0, 0, 0]
    agrees(pipeline, report)


def test_a_poisoned_file_does_not_stick_to_a_dead_attempt(pipeline: EgressPipeline) -> None:
    """Killed before it had sent anything: a scan proves it, and the claim is released."""
    pipeline.put("c.json", "poison\n")
    dies(pipeline)
    with pytest.raises(RowsRefused, match=r"c\.json, row 0: .* Nothing was sent"):
        pipeline.run_all()
    assert pipeline.fold().claims == {}
    assert [f.name for f in pipeline.plan("next").plan.files] == ["a.json", "b.json"]


def test_a_record_of_the_plan_that_is_no_row(pipeline: EgressPipeline) -> None:
    """Other bytes under a row's number: the attempt is not sealed, and what is wrong is counted."""
    dies(pipeline, [7], value=b"n777")
    with pytest.raises(SendFailed):
        pipeline.run_all()
    assert pipeline.fold().claims


def test_the_read_back_sees_a_record_that_is_not_there(
    pipeline: EgressPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sink that loses a row without a word is not believed; the retry sends it."""
    with_provenance = records.with_provenance
    monkeypatch.setattr(
        records,
        "with_provenance",
        lambda rows, job: with_provenance(rows.where("row <> 7 or file <> 'b.json'"), job),
    )
    with pytest.raises(SendFailed):
        pipeline.run_all()
    assert len(pipeline.records()) == ROWS - 1
    monkeypatch.setattr(records, "with_provenance", with_provenance)
    report = pipeline.run_all()
    assert report["duplicates"] == 0
    agrees(pipeline, report)


def test_the_read_back_sees_a_header_that_is_not_there(
    pipeline: EgressPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Content is key, value and headers: a sink that leaves a row's headers out is not believed.
    Records that have them, and one more behind ours, are the rows; also without any header.
    """
    monkeypatch.setattr(readback, "_WAIT", 0.1)
    pipeline.settings["columns"] |= {"headers": "if(id = 7, null, map('h', name, 'n', null))"}
    with_provenance = records.with_provenance

    def without(rows: DataFrame, job: EgressJob) -> DataFrame:
        cut = F.when(F.expr("file = 'b.json' and row = 3"), F.slice("headers", 1, 1))
        return with_provenance(rows.withColumn("headers", cut.otherwise(F.col("headers"))), job)

    monkeypatch.setattr(records, "with_provenance", without)
    with pytest.raises(SendFailed):
        pipeline.run_all()
    assert len(pipeline.records()) == ROWS
    assert pipeline.fold().claims
    with pytest.raises(
        SendFailed
    ):  # the target does not hold what should be there, for any attempt
        pipeline.run_all()
    assert len(pipeline.records()) == ROWS

    def agent(rows: DataFrame, job: EgressJob) -> DataFrame:
        more = F.array(F.struct(F.lit("trace").alias("key"), F.lit(b"1").alias("value")))
        shaped = with_provenance(rows, job)
        return shaped.withColumn("headers", F.concat("headers", more))

    monkeypatch.setattr(records, "with_provenance", agent)
    release(pipeline.spec, None, "resend", "looked", run="me")
    report = pipeline.run_all("again")
    assert (report["rows"], report["duplicates"]) == (ROWS, 0)
    assert pipeline.fold().claims == {}


def test_of_a_compacted_topic_the_last_stays_the_last(pipeline: EgressPipeline, topic: str) -> None:
    """Rows that were seen may be gone: all of a key is sent again from the first missing one on."""
    compacted(pipeline, topic)
    dies(pipeline, [*range(0, 30, 3), *range(60, ROWS, 3)])  # the middle of partition 0 is missing
    report = pipeline.run_all()
    assert report["broken_order"] == []
    found = pipeline.records()
    assert numbers(found, 0)[-len(range(30, ROWS, 3)) :] == list(range(30, ROWS, 3))
    for p in range(3):
        last = {number % 5: number for number in numbers(found, p)}
        assert sorted(last.values()) == list(range(p, ROWS, 3))[-5:]
    agrees(pipeline, report)


def loses(monkeypatch: pytest.MonkeyPatch, *numbers: int) -> None:
    """Let the sink lose rows without a word."""
    with_provenance = records.with_provenance
    lost = [f"(file = '{file}' and row = {row})" for file, row in map(identity, numbers)]
    monkeypatch.setattr(
        records, "with_provenance",
        lambda rows, job: with_provenance(rows.where(f"not ({' or '.join(lost)})"), job),
    )  # fmt: skip


def compacted(pipeline: EgressPipeline, topic: str, **config: str) -> None:
    pipeline.topic = f"{topic}-compacted"
    given = {name.replace("_", "."): value for name, value in config.items()}
    topic_records.create(
        pipeline.bootstrap,
        pipeline.topic,
        partitions=3,
        config={"cleanup.policy": "compact", **given},
    )


def holes(pipeline: EgressPipeline, partition: int) -> None:
    """Leave an offset without a record: the end of a transaction of others."""
    foreign = Producer(
        {"bootstrap.servers": pipeline.bootstrap, "transactional.id": pipeline.topic}
    )
    foreign.init_transactions(30)
    foreign.begin_transaction()
    foreign.produce(pipeline.topic, b"foreign", key=b"foreign", partition=partition)
    foreign.commit_transaction(30)


@pytest.mark.slow
def test_of_a_compacted_topic_what_is_gone_has_left_a_hole(
    pipeline: EgressPipeline, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that is not there, of a key that has a later one: without a hole it was never sent."""
    compacted(pipeline, topic)
    loses(monkeypatch, 0)
    with pytest.raises(SendFailed):
        pipeline.run_all()
    holes(pipeline, 1)
    with pytest.raises(SendFailed):
        pipeline.run_all()
    holes(pipeline, 0)
    report = pipeline.run_all()
    assert report["rows"] == ROWS
    assert identity(0) not in topic_reader.rows(pipeline.records())
    verified = verify(pipeline.spec, pipeline.run("v").kafka, print)
    assert (verified["differences"], verified["against_kafka"]["expired"]) == (0, 1), verified


def test_of_a_compacted_topic_the_last_of_a_key_must_be_there(
    pipeline: EgressPipeline, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No hole excuses that."""
    compacted(pipeline, topic)
    holes(pipeline, 2)
    loses(monkeypatch, ROWS - 1)
    with pytest.raises(SendFailed):
        pipeline.run_all()
    assert pipeline.fold().claims


@pytest.mark.slow
def test_compaction_between_sending_and_reading_back(
    pipeline: EgressPipeline, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker takes what later rows of a key have replaced: the attempt is whole still."""
    compacted(pipeline, topic, segment_ms="50", min_cleanable_dirty_ratio="0.001")
    verified = readback.verify

    def later(*args: Any, **named: Any) -> dict[str, Any]:
        until = time.monotonic() + 60
        while len(topic_reader.rows(pipeline.records(), pipeline.jobs[0].plan_id)) == ROWS:
            assert time.monotonic() < until
            for p in range(3):
                holes(pipeline, p)  # a new segment: the one before it is cleaned
            time.sleep(0.5)
        return verified(*args, **named)

    monkeypatch.setattr(readback, "verify", later)
    report = pipeline.run_all()
    there = topic_reader.rows(pipeline.records(), report["plan_id"])
    assert len(there) < ROWS
    assert {identity(n) for n in range(ROWS - 15, ROWS)} <= there.keys()
    assert (report["rows"], report["duplicates"]) == (ROWS, 0)
    found = verify(pipeline.spec, pipeline.run("v").kafka, print)
    assert (found["differences"], found["against_kafka"]["expired"]) == (0, ROWS - len(there))
