"""Scenarios of Spark's own tests of the Kafka batch source, as a user of Tidegate reaches them.

The names in the docstrings are those of `KafkaRelationSuite` and `KafkaOffsetReaderSuite` of Spark
4.0. What Spark decides when a query runs is decided here when the file is read, or by `plan`.
"""

import json
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from support import client_configs, ingest_steps, oracle_client, topic_records
from support.cli_user import Terminal
from support.handed_in import HERE
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core.requests import Asked, Backfill
from tidegate.errors import ConfigurationError, WindowRefused
from tidegate.pipelines.spec import Ingest, parse_spec
from tidegate.runs.run import LIVE, Run
from tidegate_local.kafka import Broker

DAY = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
LEAST = {"name": "p", "kind": "ingest", "lake": "/lake"}
Topic = Callable[..., str]


class Source:
    """Plans of pipelines of their own over the broker's topics; no Spark."""

    def __init__(self, broker: Broker, home: Path) -> None:
        self.broker, self.home = broker, home

    def run(self, *, name: str = "p", run_id: str = "r", asked: Asked = LIVE, **keys: Any) -> Run:
        spec = parse_spec({**LEAST, "name": name, "lake": str(self.home), **keys})
        assert isinstance(spec, Ingest)
        kafka = KafkaCluster("kafka_default", {"bootstrap.servers": self.broker.bootstrap})
        return Run(spec, kafka, "dag", run_id, date(2026, 1, 1), asked=asked, **HERE)

    def planned(self, **given: Any) -> dict[int, tuple[int, int]]:
        """Return what a run of one topic plans, by partition."""
        plan = ingest_steps.plan(self.run(**given)).plan
        return {r.partition: (r.start, r.end) for window in plan.chunks for r in window}

    def refused(self, **given: Any) -> str:
        with pytest.raises((ConfigurationError, WindowRefused)) as refused:
            ingest_steps.plan(self.run(**given))
        return str(refused.value)


@pytest.fixture
def source(broker: Broker, tmp_path: Path) -> Source:
    return Source(broker, tmp_path)


@pytest.fixture
def terminal(broker: Broker, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path, broker.bootstrap)


@pytest.fixture
def hours(broker: Broker, topic: Topic) -> str:
    """Three partitions; p has one record in each hour of DAY from p to 9 o'clock."""
    name = topic(partitions=3, config={"retention.ms": "-1"})
    for p in range(3):
        stamps = [int((DAY + n * HOUR).timestamp() * 1000) for n in range(p, 10)]
        topic_records.stamped(broker.bootstrap, name, p, stamps)
    return name


ALL = {0: (0, 10), 1: (0, 9), 2: (0, 8)}


def at(hour: float) -> str:
    return (DAY + hour * HOUR).isoformat()


# Starting offsets


def test_default_and_explicit_offsets(source: Source, hours: str) -> None:
    """KafkaRelationSuite: "explicit earliest to latest offsets", "default starting and ending
    offsets", "explicit offsets" (with -2 and -1). What arrives later is of the next run.
    """
    assert source.planned(topics=[hours]) == ALL
    assert source.planned(topics=[hours], name="e", start="earliest") == ALL
    assert source.planned(topics=[hours], name="s", start="smallest") == ALL
    assert source.planned(topics=[hours], name="l", start="latest") == {}
    given = {"offsets": {hours: {0: -2, 1: -1, 2: 1}}}
    run = source.run(topics=[hours], name="o", start=given)
    assert source.planned(topics=[hours], name="o", start=given) == {0: (0, 10), 2: (1, 8)}
    (origins,) = run.ledger(run.store()).fold.origins.values()
    assert origins == {0: 0, 1: 9, 2: 1}


@pytest.mark.slow
def test_records_that_expired_move_the_earliest_offset(
    source: Source, broker: Broker, hours: str
) -> None:
    """KafkaRelationSuite: "explicit offsets": -2 is the log start, which is not always 0."""
    topic_records.delete_records(broker.bootstrap, hours, {0: 4})
    given = {"offsets": {hours: {0: -2, 1: 0, 2: 0}}}
    assert source.planned(topics=[hours], start=given) == {**ALL, 0: (4, 10)}
    assert "-0: 3 is not in [4, 10]" in source.refused(
        topics=[hours], name="o", start={"offsets": {hours: {0: 3, 1: 0, 2: 0}}}
    )


@pytest.mark.slow
def test_timestamps(source: Source, hours: str) -> None:
    """KafkaRelationSuite: "timestamp provided for starting, ending not provided", "global timestamp
    provided for starting, ending not provided"; for each partition, and for all.
    """
    expected = {0: (4, 10), 1: (3, 9), 2: (2, 8)}
    assert source.planned(topics=[hours], start={"timestamp": at(3.5)}) == expected
    times = {hours: {0: at(3.5), 1: at(1), 2: at(8)}}
    by_partition = {0: (4, 10), 1: (0, 9), 2: (6, 8)}
    assert source.planned(topics=[hours], name="t", start={"timestamps": times}) == by_partition


@pytest.mark.slow
def test_no_matched_offset_for_a_starting_timestamp(source: Source, hours: str) -> None:
    """KafkaRelationSuite: "no matched offset for timestamp - startingOffsets", with the strategies
    error (`fail`) and latest, and with `earliest`, which Spark lacks. Without one it is latest.
    """
    times = {hours: {0: at(9), 1: at(9.5), 2: at(8)}}
    said = source.refused(topics=[hours], start={"timestamps": times, "otherwise": "fail"})
    assert f"start: {hours}-1: no record since 2026-01-01T09:30:00+00:00" in said
    assert f"{hours}-0" not in said
    assert not (source.home / "p/_tidegate/plans").exists()
    for name, otherwise, expected in (
        ("e", {"otherwise": "earliest"}, {0: (9, 10), 1: (0, 9), 2: (6, 8)}),
        ("l", {"otherwise": "latest"}, {0: (9, 10), 2: (6, 8)}),
        ("d", {}, {0: (9, 10), 2: (6, 8)}),
    ):
        start = {"timestamps": times, **otherwise}
        assert source.planned(topics=[hours], name=name, start=start) == expected


@pytest.mark.slow
def test_a_group_and_partitions_without_an_offset_of_it(source: Source, hours: str) -> None:
    """A group that is unknown: Spark's source has no such start, Kafka's `auto.offset.reset` has
    the same three words.
    """
    start = {"group": f"unknown-{hours}"}
    assert source.planned(topics=[hours], start=start) == ALL
    latest = {**start, "otherwise": "latest"}
    assert source.planned(topics=[hours], name="l", start=latest) == {}
    said = source.refused(topics=[hours], name="f", start={**start, "otherwise": "fail"})
    assert said.count("has committed no offset") == 3


@pytest.mark.slow
@pytest.mark.parametrize("key", ["offsets", "timestamps"])
def test_start_and_partitions_do_not_match(source: Source, hours: str, key: str) -> None:
    """KafkaOffsetReaderSuite: "SPARK-48383: START_OFFSET_DOES_NOT_MATCH_ASSIGNED",
    "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED" (two of three, four of three). All are named.
    """
    value: Any = 0 if key == "offsets" else at(0)
    two = {hours: dict.fromkeys((0, 2), value)}
    four = {hours: dict.fromkeys(range(4), value)}
    said = f"start.{key}: {hours}-1 has no start"
    assert source.refused(topics=[hours], start={key: two}).endswith(said)
    said = f"start.{key}: {hours}-3 does not exist"
    assert source.refused(topics=[hours], start={key: four}).endswith(said)


@pytest.mark.slow
def test_a_start_beyond_the_end(source: Source, hours: str) -> None:
    """KafkaRelationSuiteV1: "resolved start offset greater than end offset": Tidegate is the only
    one to refuse it; version 2 of Spark's source reads nothing, in silence.
    """
    start = {"offsets": {hours: {0: 11, 1: 9, 2: -1}}}
    said = source.refused(topics=[hours], start=start)
    assert said.endswith(f"start.offsets: {hours}-0: 11 is not in [0, 10]")


# Ending offsets: a live run reads to the end, a window is a backfill


@pytest.mark.slow
def test_timestamps_of_a_window(source: Source, hours: str) -> None:
    """KafkaRelationSuite: "timestamp provided for starting, ending", "timestamp provided for
    ending, starting not provided" (the epoch stands for it), "no matched offset for timestamp -
    endingOffsets" (the end).
    """
    for name, start, end, expected in (
        ("both", at(3), at(5), {0: (3, 5), 1: (2, 4), 2: (1, 3)}),
        ("end", "1970-01-01T00:00:00Z", at(2), {0: (0, 2), 1: (0, 1)}),
        ("late", at(8), at(24), {0: (8, 10), 1: (7, 9), 2: (6, 8)}),
    ):
        asked = Backfill(topic=hours, start=start, end=end)
        assert source.planned(topics=[hours], name=name, asked=asked) == expected


@pytest.mark.slow
def test_an_offset_at_one_edge_and_a_timestamp_at_the_other(source: Source, hours: str) -> None:
    """KafkaRelationSuite: "timestamp provided for starting, offset provided for ending", and the
    reverse. A difference: Tidegate refuses such a window, because only windows with two offsets, or
    two frozen boundaries, divide a log without overlap.
    """
    for start, end in ((at(3), "5"), ("3", at(5))):
        said = source.refused(topics=[hours], asked=Backfill(topic=hours, start=start, end=end))
        assert "give both as offsets, or both as timestamps" in said


# Subscriptions


@pytest.mark.slow
def test_assigned_partitions(source: Source, broker: Broker, topic: Topic) -> None:
    """`assign`: only these; one that is added to it later begins by `start`, one that does not
    exist is excluded by name until Kafka has it.
    """
    name = topic(partitions=3)
    topic_records.numbers(broker.bootstrap, name, 30, partitions=3)
    assert source.planned(assign={name: [0, 2]}) == {0: (0, 10), 2: (0, 10)}
    assert source.planned(name="l", assign={name: [2]}, start="latest") == {}
    topic_records.numbers(broker.bootstrap, name, 30, first=30)
    changed: dict[str, Any] = {"name": "l", "assign": {name: [0, 2, 4]}, "start": "latest"}
    later = source.run(**changed, run_id="later")
    plan = ingest_steps.plan(later).plan
    assert [(r.partition, r.start, r.end) for w in plan.chunks for r in w] == [(2, 10, 20)]
    assert [str(each) for each in plan.left_out] == [f"{name}-4: no such partition"]
    origins = later.ledger(later.store()).fold.origins
    assert list(origins.values()) == [{0: 20, 2: 10}]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_partitions([NewPartitions(name, 5)])[name].result(30)
    while len(admin.list_topics(name, timeout=30).topics[name].partitions) < 5:
        time.sleep(0.01)  # the controller has them, the broker not yet
    there = source.run(**changed, run_id="there")
    assert ingest_steps.plan(there).plan.left_out == ()
    (origins_now,) = there.ledger(there.store()).fold.origins.values()
    assert origins_now == {0: 20, 2: 10, 4: 0}


@pytest.mark.slow
def test_a_whole_run_of_assigned_partitions(
    terminal: Terminal, broker: Broker, topic: Topic
) -> None:
    """With Spark: the lake has exactly the records of these partitions, and lag is theirs."""
    name = topic(partitions=3)
    topic_records.numbers(broker.bootstrap, name, 300, partitions=3)
    terminal.pipeline("some", [], assign={name: [0, 2]})
    assert terminal.json("run", "some")["rows"] == 200
    ranges = {name: {"0": (0, 100), "2": (0, 100)}}
    oracle_client.agree(broker.bootstrap, terminal.lake, "some", [name], ranges=ranges)
    partitions = terminal.json("status", "some")["topics"][name]["partitions"]
    assert {p: each["lag"] for p, each in partitions.items()} == {"0": 0, "2": 0}
    terminal.pipeline("some", [], assign={name: [0, 1, 7]})
    error = terminal.json("run", "some", code=3)["error"]
    left_out = [{"topic": name, "partition": 7, "reason": "no such partition"}]
    assert error["numbers"]["left_out"] == left_out
    oracle_client.agree(broker.bootstrap, terminal.lake, "some", [name])


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"topics": [], "assign": {}},
        {"assign": {"t": []}},
        {"pattern": ""},
        {"topics": ["t"], "pattern": "t"},
        {"topics": ["t"], "assign": {"t": [0]}},
        {"pattern": "t", "assign": {"t": [0]}},
        {"topics": ["t"], "pattern": "t", "assign": {"t": [0]}},
    ],
)
def test_no_strategy_or_two(settings: dict[str, Any]) -> None:
    """KafkaRelationSuite: "bad batch query options": no strategy, two or three, and empty ones."""
    with pytest.raises(ValueError, match=r"^(topics|assign|assign\.t|pattern): "):
        parse_spec({**LEAST, **settings})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("startingOffsets", "latest"),
        ("startingOffsets", '{"t":{"0":-1}}'),
        ("endingOffsets", "earliest"),
        ("endingOffsets", '{"t":{"0":-2}}'),
        ("kafka.isolation.level", "read_everything"),
    ],
)
def test_options_that_a_batch_refuses(option: str, value: str) -> None:
    """KafkaRelationSuite: "bad batch query options"; KafkaOffsetReaderSuite: "isolationLevel must
    throw exception when set to an invalid value". With no broker.
    """
    with pytest.raises(ValueError, match=rf"^options: {option}: "):
        parse_spec({**LEAST, "topics": ["t"], "options": {option: value}})


# What is read


@pytest.mark.slow
def test_transactions_are_read_uncommitted(
    terminal: Terminal, broker: Broker, topic: Topic
) -> None:
    """KafkaRelationSuite: "read Kafka transactional messages: read_uncommitted": aborted records
    and those of an open transaction are rows; KafkaOffsetReaderSuite: "isolationLevel
    READ_UNCOMMITTED", by the option's name.
    """
    name = topic(partitions=1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction, producer.flush):
        producer.begin_transaction()
        for n in range(5):
            producer.produce(name, b"%d" % n)
        producer.flush(30)
        end(30)
    try:
        terminal.pipeline("all", [name], options={"kafka.isolation.level": "read_uncommitted"})
        assert terminal.json("run", "all")["rows"] == 15
        oracle_client.agree(
            broker.bootstrap, terminal.lake, "all", [name], isolation="read_uncommitted"
        )
        terminal.pipeline("some", [name])
        assert terminal.json("run", "some")["rows"] == 5
    finally:
        producer.abort_transaction(30)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "splits"),
    [({"minPartitions": 6}, 6), ({"maxRecordsPerPartition": 25}, 12), ({"minPartitions": 3}, 3)],
)
def test_ranges_are_split(
    terminal: Terminal, broker: Broker, topic: Topic, options: dict[str, Any], splits: int
) -> None:
    """KafkaRelationSuite: "SPARK-30656: minPartitions"; KafkaOffsetReaderSuite: "SPARK-30656:
    getOffsetRangesFromUnresolvedOffsets - specific offsets", "multiple topic partitions"; and
    "SPARK-49259: maxRecordsPerPartition". No row is lost or duplicated at a cut.
    """
    name = topic(partitions=3)
    topic_records.numbers(broker.bootstrap, name, 300, partitions=3)
    terminal.pipeline("split", [name], options=options)
    assert terminal.json("explain", "split")["splits"] >= splits
    assert terminal.json("run", "split")["rows"] == 300
    oracle_client.agree(broker.bootstrap, terminal.lake, "split", [name])


@pytest.mark.slow
def test_offsets_fetched_the_old_way(terminal: Terminal, broker: Broker, topic: Topic) -> None:
    """KafkaOffsetReaderSuite with a consumer in place of the admin client
    (`useDeprecatedOffsetFetching`): the plan's offsets are read all the same, and the driver has no
    admin client.
    """
    name = topic(partitions=3)
    topic_records.numbers(broker.bootstrap, name, 300, partitions=3)
    terminal.processes = True  # with a session of its own
    conf = {
        "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": True,
        "spark.log.level": "INFO",
    }
    start = {"offsets": {name: {0: 50, 1: -2, 2: -1}}}
    terminal.pipeline("old", [name], spark={"conf": conf}, start=start)
    done = terminal.run("run", "old", "--json")
    assert json.loads(done.stdout)["rows"] == 150
    output = client_configs.output_of(done)
    assert client_configs.logged(output, "ConsumerConfig")
    assert client_configs.logged(output, "AdminClientConfig") == []
    ranges = {name: {"0": (50, 100), "1": (0, 100)}}
    oracle_client.agree(broker.bootstrap, terminal.lake, "old", [name], ranges=ranges)
