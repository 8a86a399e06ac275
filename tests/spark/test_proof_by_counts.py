"""What an egress of a lake has sent, by the brokers' counts; else all is read back.

`../unit/core/test_count_proof.py` has what the tables may hold.
"""

import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from support import topic_records
from support.egress_pipeline import EgressPipeline, begun
from tidegate import flows
from tidegate.egress.verify import verify
from tidegate.errors import LakeDamaged, RowsRefused, SendFailed, StageFailed
from tidegate.spark import egress_driver, preflight, producer_table, readback
from tidegate.spark.egress_job import EgressJob

ROWS = 40  # in each of the first two of three partitions


@pytest.fixture
def target(pipeline: EgressPipeline, topic: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A lake with keys, tombstones and headers, and a target; small plans are proven by counts."""
    monkeypatch.setattr(producer_table, "FEWEST_ROWS", 1)
    name, back = f"{topic}-source", f"{topic}-back"
    for each in (name, back):
        topic_records.create(pipeline.bootstrap, each, partitions=3)
    producer = Producer({"bootstrap.servers": pipeline.bootstrap})
    for n in range(ROWS):
        for p in (0, 1):
            value = None if n % 7 == 3 else b"%d" % n
            headers = [("h", b"x"), ("h", None)][: n % 3]
            producer.produce(name, value, b"k%d" % n if n % 2 else None, p, headers=headers)
    producer.flush()
    pipeline.settings |= {"source": {"lake": "lake"}, "target": {"topic": back}}
    pipeline.run_ingest(name, "one")
    return back


@pytest.fixture
def read_back(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """The times that all was read back."""
    found: list[bool] = []
    real = readback.verify_target

    def verifying(*given: Any) -> Any:
        found.append(True)
        return real(*given)

    monkeypatch.setattr(readback, "verify_target", verifying)
    return found


def compared(pipeline: EgressPipeline) -> int:
    """Compare every row with its record; return how many were compared."""
    findings = verify(pipeline.spec, flows.store(pipeline.spec), pipeline.kafka, lambda _: None)
    assert findings.differences == 0
    return int(findings.against_kafka.rows)


def whole(pipeline: EgressPipeline, target: str, report: dict[str, Any]) -> None:
    """Assert that each row is in the target once, and that the receipts and `verify` say so."""
    found = Counter((each.partition, each.row[1]) for each in pipeline.records(target) if each.plan)
    assert found == Counter((p, n) for p in (0, 1) for n in range(ROWS))
    assert {r["partition"]: (r["sent"], r["duplicates"]) for r in report["receipts"]} == {
        0: (ROWS, 0), 1: (ROWS, 0), 2: (0, 0),
    }  # fmt: skip
    assert compared(pipeline) == 2 * ROWS


def while_sending(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Do something when the plan's records are written."""
    write = egress_driver.write_records

    def writing(*given: Any, **how: Any) -> Any:
        found = write(*given, **how)
        do()
        return found

    monkeypatch.setattr(egress_driver, "write_records", writing)


def produced(pipeline: EgressPipeline, topic: str, count: int, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": pipeline.bootstrap, "enable.idempotence": True})
    for n in range(count):
        producer.produce(topic, b"foreign %d" % n, partition=partition)
    producer.flush()


def test_counts_prove_what_was_sent(
    pipeline: EgressPipeline, target: str, read_back: list[bool]
) -> None:
    """Nothing is read back but the first record of each partition; two runs one after another."""
    produced(pipeline, target, 5)  # a producer that is there before
    report = pipeline.run_all("one")
    assert (report["proof"], report["rows"], read_back) == ("counts", 2 * ROWS, [])
    whole(pipeline, target, report)
    ends = {r["partition"]: (r["before"], r["after"]) for r in report["receipts"]}
    assert ends == {0: (5, 5 + ROWS), 1: (0, ROWS), 2: (0, 0)}


@pytest.mark.parametrize(
    "settings",
    [
        {"columns": {"partition": "null"}},
        {"columns": {"partition": "partition", "value": "concat(value, 'x')"}},
        {"tombstones": False, "on_bad_row": "quarantine"},
        {"order": "strict"},
    ],
    ids=["Kafka chooses", "a column", "bad rows", "strict"],
)
def test_whatever_is_sent_of_a_lake(
    pipeline: EgressPipeline, target: str, read_back: list[bool], settings: dict[str, Any]
) -> None:
    pipeline.settings |= settings
    report = pipeline.run_all("one")
    bad = 2 * len(range(3, ROWS, 7)) if "on_bad_row" in settings else 0
    assert (report["proof"], report["rows"], read_back) == ("counts", 2 * ROWS - bad, [])
    assert compared(pipeline) == 2 * ROWS - bad


def test_all_is_read_back_if_the_pipeline_says_so(
    pipeline: EgressPipeline, target: str, read_back: list[bool]
) -> None:
    pipeline.settings["proof"] = "full"
    report = pipeline.run_all("one")
    assert (report["proof"], read_back) == ("full", [True])
    whole(pipeline, target, report)


def test_a_small_plan_is_read_back(
    pipeline: EgressPipeline, target: str, read_back: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_table, "FEWEST_ROWS", 2 * ROWS + 1)
    assert pipeline.run_all("one")["proof"] == "full"
    assert read_back == [True]


@pytest.mark.slow
@pytest.mark.parametrize(("count", "partition"), [(3, 0), (ROWS, 1)])
def test_another_new_producer(
    pipeline: EgressPipeline, target: str, read_back: list[bool],
    monkeypatch: pytest.MonkeyPatch, count: int, partition: int,
) -> None:  # fmt: skip
    """Also one that has sent as many records: the table does not say whose they are."""
    while_sending(monkeypatch, lambda: produced(pipeline, target, count, partition))
    report = pipeline.run_all("one")
    assert (report["proof"], read_back) == ("full", [True])
    whole(pipeline, target, report)


@pytest.mark.slow
def test_another_producer_beside_one_without_numbers(
    pipeline: EgressPipeline, target: str, read_back: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has sent as many records: the only new one in the table is not ours."""

    def produce() -> None:
        for p in (0, 1):
            produced(pipeline, target, ROWS, p)

    producer = {"enable.idempotence": "false", "max.in.flight.requests.per.connection": 1}
    pipeline.settings["target"] = {"topic": target, "producer": producer}
    while_sending(monkeypatch, produce)
    report = pipeline.run_all("one")
    assert (report["proof"], read_back) == ("full", [True])
    whole(pipeline, target, report)


def test_a_partition_that_was_added_meanwhile(
    pipeline: EgressPipeline, target: str, read_back: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first look at the tables: Kafka would choose it, too, and it has no receipt."""
    pipeline.settings["columns"] = {"partition": "null"}
    look = producer_table.ask_leaders

    def adding(*given: Any, **how: Any) -> Any:
        if how["is_before"]:
            admin = AdminClient({"bootstrap.servers": pipeline.bootstrap})
            admin.create_partitions([NewPartitions(target, 5)])[target].result(30)
        return look(*given, **how)

    monkeypatch.setattr(producer_table, "ask_leaders", adding)
    monkeypatch.setattr(readback, "WAIT", 0.1)
    with pytest.raises(SendFailed):  # rows in the new partitions: the retry knows them
        pipeline.run_all("one")
    monkeypatch.setattr(producer_table, "ask_leaders", look)
    report = pipeline.run_all("one")
    assert (report["proof"], report["rows"]) == ("full", 2 * ROWS)
    assert sum(r["sent"] for r in report["receipts"]) == 2 * ROWS


def test_an_earlier_attempt_that_may_have_sent(
    pipeline: EgressPipeline, target: str, read_back: list[bool]
) -> None:
    """Whatever its scan has found: a batch of it may land later."""

    def dies(given: EgressJob, _: Path) -> None:
        begun(given)
        raise StageFailed("killed", exit_code=137)

    with pytest.raises(SendFailed):
        pipeline.run_all("one", submit=dies)
    report = pipeline.run_all("one")
    assert (report["proof"], read_back) == ("full", [True])
    whole(pipeline, target, report)


@pytest.mark.slow
def test_a_row_that_is_dropped_before_the_sink(
    pipeline: EgressPipeline, target: str, read_back: list[bool],
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """The counts do not fit, the read-back names the row, and the retry sends it."""
    order, dropped = egress_driver.order_rows, []

    def lossy(job: Any, rows: Any, inputs: Any) -> Any:
        found = order(job, rows, inputs)
        if dropped:
            return found
        dropped.append(True)
        return found.where("row != 5 OR partition != 0")

    monkeypatch.setattr(egress_driver, "order_rows", lossy)
    monkeypatch.setattr(readback, "WAIT", 0.1)
    with pytest.raises(SendFailed):
        pipeline.run_all("one")
    assert "1 rows are not in the target as they are in the source" in caplog.text
    report = pipeline.run_all("one")
    assert report["proof"] == "full"
    whole(pipeline, target, report)


def exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let attempts send row 6 twice in the place of row 5."""
    order = egress_driver.order_rows

    def exchanging(*given: Any) -> Any:
        rows = order(*given)
        return rows.where("row != 5").union(rows.where("row = 6"))

    monkeypatch.setattr(egress_driver, "order_rows", exchanging)


def test_a_row_twice_and_another_not_at_all_beside_another_producer(
    pipeline: EgressPipeline, target: str, read_back: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are looked at before they are compared: digests of what was sent would fit."""
    exchanged(monkeypatch)
    while_sending(monkeypatch, lambda: produced(pipeline, target, 1))
    monkeypatch.setattr(readback, "WAIT", 0.1)
    with pytest.raises(SendFailed):
        pipeline.run_all("one")
    assert read_back == [True]


def test_one_row_twice_and_another_not_at_all(
    pipeline: EgressPipeline, target: str, read_back: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What counts cannot see, if it is not the first row: Spark's determinism carries it, and
    `verify` finds it.
    """
    exchanged(monkeypatch)
    report = pipeline.run_all("one")
    assert report["proof"] == "counts"
    found = verify(pipeline.spec, flows.store(pipeline.spec), pipeline.kafka, lambda _: None)
    assert found.differences > 0


def test_first_rows_with_other_content(
    pipeline: EgressPipeline, target: str, read_back: list[bool],
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """The sink writes something else: the first record of a partition shows it."""
    caplog.set_level(logging.INFO, "tidegate")
    write = egress_driver.write_records

    def altered(job: Any, rows: Any, answers: Any, **how: Any) -> Any:
        return write(job, rows.selectExpr("* EXCEPT (value)", "key AS value"), answers, **how)

    monkeypatch.setattr(egress_driver, "write_records", altered)
    monkeypatch.setattr(readback, "WAIT", 0.1)
    with pytest.raises(SendFailed):
        pipeline.run_all("one")
    assert "its first record has other content than its row" in caplog.text
    assert "rows are not in the target as they are in the source" in caplog.text
    assert read_back == [True]


@pytest.mark.slow
def test_brokers_that_do_not_say(
    pipeline: EgressPipeline, target: str, read_back: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before sending: nothing is asked after it."""

    def silent(*_: object) -> Any:
        raise producer_table.NotProven("its brokers do not say who has written")

    monkeypatch.setattr(producer_table, "read_producers", silent)
    assert pipeline.run_all("one")["proof"] == "full"
    assert read_back == [True]


@pytest.mark.slow
def test_brokers_that_do_not_say_any_more(
    pipeline: EgressPipeline, target: str, read_back: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object) -> Any:
        raise producer_table.NotProven("its brokers do not say who has written")

    while_sending(
        monkeypatch, lambda: monkeypatch.setattr(producer_table, "read_producers", silent)
    )
    report = pipeline.run_all("one")
    assert (report["proof"], read_back) == ("full", [True])
    whole(pipeline, target, report)


# Without a look at the rows: the ledger and the manifests know what it would find.


def looks(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return, as it grows, the times that all rows were looked at."""
    found: list[bool] = []
    real = preflight.read_all

    def reading(*given: Any) -> Any:
        found.append(True)
        return real(*given)

    monkeypatch.setattr(preflight, "read_all", reading)
    monkeypatch.setattr(egress_driver, "read_all", reading)
    return found


@pytest.mark.slow
def test_rows_that_are_sent_as_they_are_need_no_look(
    pipeline: EgressPipeline, target: str, read_back: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest has the digests of what was sent: `verify` compares them with the records."""
    looked = looks(monkeypatch)
    report = pipeline.run_all("one")
    assert (report["proof"], read_back, looked) == ("counts", [], [])
    whole(pipeline, target, report)
    assert {(each["rows"], each["bad"]) for each in pipeline.sealed()} == {(ROWS, 0)}
    assert len({each["digest"] for each in pipeline.sealed()}) == 2


LOOKED_AT: dict[str, dict[str, Any]] = {
    "another value": {"columns": {"value": "concat(value, 'x')"}},
    "Kafka chooses": {"columns": {"partition": "null"}},
    "no tombstones": {"tombstones": False, "on_bad_row": "quarantine"},
    "full": {"proof": "full"},
    "without numbers": {
        "producer": {"enable.idempotence": "false", "max.in.flight.requests.per.connection": 1}
    },
    "acknowledged by one": {
        "producer": {"acks": 1, "max.in.flight.requests.per.connection": 1}
    },
}  # fmt: skip


@pytest.mark.parametrize("case", LOOKED_AT)
def test_what_is_looked_at(
    pipeline: EgressPipeline, target: str, read_back: list[bool],
    monkeypatch: pytest.MonkeyPatch, case: str,
) -> None:  # fmt: skip
    """What the ledger does not know of the records, and what counts cannot prove."""
    settings = dict(LOOKED_AT[case])
    producer = settings.pop("producer", None)
    if producer:
        settings["target"] = {"topic": target, "producer": producer}
    pipeline.settings |= settings
    done: list[str] = []
    read_all, write = preflight.read_all, egress_driver.write_records
    monkeypatch.setattr(preflight, "read_all", lambda *a: done.append("looked") or read_all(*a))
    monkeypatch.setattr(
        egress_driver, "write_records", lambda *a, **b: done.append("sent") or write(*a, **b)
    )
    report = pipeline.run_all("one")
    assert done == ["looked", "sent"]
    assert (report["proof"] == "full", len(read_back)) == (case == "full" or bool(producer),) * 2


@pytest.mark.slow
def test_rows_that_were_not_looked_at_are_before_they_are_read_back(
    pipeline: EgressPipeline, target: str, read_back: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another pass than that which has sent them: it would not see what that one has dropped."""
    looked = looks(monkeypatch)
    while_sending(monkeypatch, lambda: produced(pipeline, target, 1))
    report = pipeline.run_all("one")
    assert (report["proof"], read_back, looked) == ("full", [True], [True])
    whole(pipeline, target, report)


@pytest.mark.parametrize(
    ("partitions", "limit", "says"),
    [
        (1, None, "40 rows: partition 1 is out of range, the topic has 1"),
        (3, 200, "bytes as a record, and 200 is the most"),
    ],
)
def test_what_does_not_fit_is_found_before_anything_is_sent(
    pipeline: EgressPipeline, target: str, monkeypatch: pytest.MonkeyPatch,
    partitions: int, limit: int | None, says: str,
) -> None:  # fmt: skip
    """By the window and the manifests; the look says which rows."""
    small = f"{target}-small"
    config = {"max.message.bytes": str(limit)} if limit else {}
    topic_records.create(pipeline.bootstrap, small, partitions=partitions, config=config)
    pipeline.settings["target"] = {"topic": small}
    looked = looks(monkeypatch)
    with pytest.raises(RowsRefused, match=says):
        pipeline.run_all("one")
    assert looked
    assert sum(pipeline.ends(small).values()) == 0


@pytest.mark.slow
@pytest.mark.leaves("file", "offsets")
def test_a_file_that_is_damaged(
    pipeline: EgressPipeline, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found while it is sent: the file is named, the claim stands, and nothing counts as sent."""
    (file,) = (pipeline.home / "lake/lake/data").rglob("*.parquet")
    content = bytearray(file.read_bytes())
    content[40:60] = bytes(20)  # in a page; the footer is right
    file.chmod(0o644)
    file.write_bytes(content)
    with pytest.raises(LakeDamaged, match="cannot be read") as damaged:
        pipeline.run_all("one")
    assert file.name in str(damaged.value)
    assert not pipeline.sealed()
