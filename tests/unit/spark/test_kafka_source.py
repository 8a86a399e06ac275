"""The options of Spark's Kafka source: exactly the window, fast clients, refusals."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.offsets import OffsetRange
from tidegate.errors import ConfigurationError
from tidegate.spark.kafka_source import redact, render
from tidegate.spark.task_size import records_per_task

GIVEN = {"kafka.bootstrap.servers": "b:9092", "kafka.isolation.level": "read_committed"}
WINDOW = (
    OffsetRange("some-topic", 0, 110, 330),
    OffsetRange("some-topic", 10, 5, 5),
    OffsetRange("another", 2, 0, 1),
)


def test_a_window_becomes_explicit_offsets_on_both_sides() -> None:
    """No `earliest` and no `latest`: Spark would look those up again in every task."""
    assert render(WINDOW, GIVEN, max_records_per_task=7) == {
        "kafka.bootstrap.servers": "b:9092",
        "kafka.isolation.level": "read_committed",
        "kafka.max.poll.records": "10000",
        "kafka.fetch.max.wait.ms": "10",
        "kafka.max.partition.fetch.bytes": "2097152",
        "kafka.receive.buffer.bytes": "-1",
        "kafkaconsumer.polltimeoutms": "30000",
        "assign": '{"another": [2], "some-topic": [0, 10]}',
        "startingoffsets": '{"another":{"2":0},"some-topic":{"0":110,"10":5}}',
        "endingoffsets": '{"another":{"2":1},"some-topic":{"0":330,"10":5}}',
        "failondataloss": "true",
        "includeheaders": "true",
        "maxrecordsperpartition": "7",
    }


def test_a_given_option_overrides_a_default_in_any_case() -> None:
    rendered = render(
        WINDOW, {**GIVEN, "Kafka.Max.Poll.Records": "3", "kafka.group.id": "g"},
        max_records_per_task=1,
    )  # fmt: skip
    assert rendered["kafka.max.poll.records"] == "3"
    assert rendered["kafka.group.id"] == "g"
    assert not [name for name in rendered if name != name.lower()]


@pytest.mark.parametrize(
    "name",
    [
        "assign",
        "subscribePattern",
        "startingOffsets",
        "endingTimestamp",
        "failOnDataLoss",
        "minPartitions",
        "kafka.auto.offset.reset",
        "kafka.key.deserializer",
        "KAFKA.Value.Deserializer",
        "kafka.enable.auto.commit",
        "kafka.interceptor.classes",
    ],
)
def test_an_option_that_the_plan_decides_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name.lower()}: refused"):
        render(WINDOW, {**GIVEN, name: "x"}, max_records_per_task=1)


def test_all_complaints_come_at_once() -> None:
    """A missing isolation level is one: Kafka's default shows uncommitted records."""
    with pytest.raises(ConfigurationError) as refused:
        render(WINDOW, {"assign": "{}", "kafka.a": "1", "kafka.A": "2"}, max_records_per_task=1)
    assert refused.value.numbers["options"] == [
        "kafka.bootstrap.servers: missing",
        "kafka.isolation.level: missing",
        "kafka.a: given twice",
        "assign: refused: the plan decides what is read",
    ]


def test_no_secret_survives_in_a_message() -> None:
    jaas = 'ScramLoginModule required username="alice" password="hunter2";'
    secrets = {**GIVEN, "kafka.sasl.jaas.config": jaas, "kafka.ssl.key.password": "swordfish"}
    told = redact(f"cannot use {jaas} nor hunter2 nor swordfish at b:9092", secrets)
    assert told == "cannot use *** nor *** nor *** at b:9092"


def test_equal_ranges_are_not_cut() -> None:
    """Each cut makes one more file."""
    assert records_per_task(_window(500_000, 500_000, 500_000, 500_000), cores=2) == 500_000


def test_one_big_range_is_shared_by_all_cores() -> None:
    assert records_per_task(_window(1_000_000), cores=4) == 250_000


def test_small_ranges_stay_whole() -> None:
    assert records_per_task(_window(15_000), cores=8) == 15_000


@given(st.lists(st.integers(0, 3_000_000), min_size=1, max_size=30), st.integers(1, 32))
def test_no_core_works_much_longer_than_its_share(sizes: list[int], cores: int) -> None:
    """With any skew: tasks in order, each on the next free core, as Spark starts them."""
    limit = records_per_task(_window(*sizes), cores)
    assert limit >= 1
    busy = [0.0] * cores
    for size in sizes:
        pieces = -(-size // limit)
        for _ in range(pieces):
            busy[busy.index(min(busy))] += size / pieces
    share = sum(sizes) / cores
    assert max(busy) <= 1.25 * share + 20_000


def _window(*sizes: int) -> tuple[OffsetRange, ...]:
    return tuple(OffsetRange("t", p, 1000, 1000 + size) for p, size in enumerate(sizes))


def test_rendered_json_is_what_spark_parses() -> None:
    rendered = render(WINDOW, GIVEN, max_records_per_task=1)
    assigned = json.loads(rendered["assign"])
    for side in ("startingoffsets", "endingoffsets"):
        offsets = json.loads(rendered[side])
        assert {topic: [int(p) for p in offsets[topic]] for topic in offsets} == assigned
