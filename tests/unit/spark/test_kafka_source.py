"""The options of Spark's Kafka source: exactly the window, fast clients, refusals."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.core.offsets import OffsetRange
from tidegate.errors import ConfigurationError
from tidegate.settings.setting import Answer, Place
from tidegate.settings.table import TABLE
from tidegate.spark.kafka_source import redact_options, source_options
from tidegate.spark.task_size import (
    WRITERS,
    Reading,
    count_files,
    count_splits,
    divide_window,
    records_per_task,
)

GIVEN = {"kafka.bootstrap.servers": "b:9092", "kafka.isolation.level": "read_committed"}
WINDOW = (
    OffsetRange("some-topic", 0, 110, 330),
    OffsetRange("some-topic", 10, 5, 5),
    OffsetRange("another", 2, 0, 1),
)


def test_a_window_becomes_explicit_offsets_on_both_sides() -> None:
    """No `earliest` and no `latest`: Spark would look those up again in every task."""
    assert source_options(WINDOW, GIVEN, max_records_per_task=7) == {
        "kafka.bootstrap.servers": "b:9092",
        "kafka.isolation.level": "read_committed",
        "kafka.max.poll.records": "10000",
        "kafka.fetch.max.wait.ms": "1",
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
    rendered = source_options(
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
        "kafka.auto.offset.reset",
        "kafka.key.deserializer",
        "KAFKA.Value.Deserializer",
        "kafka.enable.auto.commit",
        "kafka.interceptor.classes",
    ],
)
def test_an_option_that_the_plan_decides_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}: refused"):
        source_options(WINDOW, {**GIVEN, name: "x"}, max_records_per_task=1)


def test_the_groups_prefix_is_not_for_spark() -> None:
    """It would be ignored with a warning beside the group id."""
    rendered = source_options(WINDOW, {**GIVEN, "groupIdPrefix": "x"}, max_records_per_task=1)
    assert "groupidprefix" not in rendered


@settings(deadline=None)  # the machine may be busy
@given(st.data())
def test_every_accepted_setting_is_rendered_once(data: st.DataObject) -> None:
    """In any letter case; the plan's and Tidegate's own options cannot be changed."""
    accepted = [e for e in TABLE if e.place is Place.SOURCE and e.answer is Answer.ACCEPTED]
    chosen = data.draw(st.sampled_from([e for e in accepted if e.name != "groupIdPrefix"]))
    spelt = "".join(data.draw(st.sampled_from([c.lower(), c.upper()])) for c in chosen.name)
    check = chosen.check or (lambda _: None)
    value = next(v for v in ("1", "1000", "true", "none", "INFO") if not check(v))
    rendered = source_options(WINDOW, {**GIVEN, spelt: value}, max_records_per_task=7)
    expected = "7" if chosen.name == "maxRecordsPerPartition" else value
    assert {n: v for n, v in rendered.items() if n.lower() == chosen.name.lower()} == {
        chosen.name.lower(): expected
    }
    assert (rendered["maxrecordsperpartition"], rendered["failondataloss"]) == ("7", "true")


def test_all_complaints_come_at_once() -> None:
    """A missing isolation level is one: Kafka's default shows uncommitted records."""
    with pytest.raises(ConfigurationError) as refused:
        source_options(
            WINDOW, {"assign": "{}", "kafka.fetch.min.bytes": "1", "kafka.Fetch.min.bytes": "2"},
            max_records_per_task=1,
        )  # fmt: skip
    assert refused.value.numbers["options"] == [
        "kafka.bootstrap.servers: missing",
        "kafka.isolation.level: missing",
        "assign: refused: the topics of a pipeline are keys of its file; use `topics`, `pattern` "
        "or `assign`",
        "kafka.Fetch.min.bytes: given twice, as kafka.fetch.min.bytes",
    ]


def test_no_secret_survives_in_a_message() -> None:
    jaas = 'ScramLoginModule required username="alice" password="hunter2";'
    secrets = {**GIVEN, "kafka.sasl.jaas.config": jaas, "kafka.ssl.key.password": "swordfish"}
    told = redact_options(f"cannot use {jaas} nor hunter2 nor swordfish at b:9092", secrets)
    assert told == "cannot use *** nor *** nor *** at b:9092"


def test_equal_ranges_are_not_cut() -> None:
    """Each cut makes one more file."""
    assert records_per_task(_window(500_000, 500_000, 500_000, 500_000), cores=2) == 500_000


def test_one_big_range_is_shared_by_all_cores() -> None:
    assert records_per_task(_window(1_000_000), cores=4) == 250_000


def test_options_decide_over_cores() -> None:
    """A task has at most so many records, a chunk at least so many tasks; `explain` counts them."""
    window = _window(1_000_000, 10, 0)
    assert records_per_task(window, 4, {"maxRecordsPerPartition": "300000"}) == 300_000
    assert count_splits(window, 4, MOST, {"maxRecordsPerPartition": "300000"}) == [
        (4, 250_000),
        (1, 10),
    ]
    assert count_splits(_window(10), 4, MOST, {"maxRecordsPerPartition": "4"}) == [(2, 3), (1, 4)]
    for options in ({}, {"maxRecordsPerPartition": "500000"}):
        tasks = count_splits(window, 1, MOST, {"minPartitions": "9", **options})
        assert sum(number for number, _ in tasks) == 9
    few = {"minPartitions": "2", "maxRecordsPerPartition": "100"}
    assert records_per_task(window, 1, few) == 100


def test_no_more_tasks_than_records() -> None:
    assert count_splits(_window(3, 1), 1, MOST, {"minPartitions": "1000"}) == [(3, 1), (1, 1)]


@given(
    st.lists(st.integers(0, 10**12), min_size=1, max_size=9), st.integers(1, 2000),
    st.integers(1, 64),
)  # fmt: skip
def test_at_least_so_many_tasks(sizes: list[int], least: int, cores: int) -> None:
    """And no record is in none of them."""
    tasks = count_splits(_window(*sizes), cores, MOST, {"minPartitions": str(least)})
    assert sum(number * records for number, records in tasks) == sum(sizes)
    assert sum(number for number, _ in tasks) >= min(least, sum(sizes))


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


MOST = 1_000_000
"""Records of a file."""


def _window(*sizes: int) -> tuple[OffsetRange, ...]:
    return tuple(OffsetRange("t", p, 1000, 1000 + size) for p, size in enumerate(sizes))


def test_rendered_json_is_what_spark_parses() -> None:
    rendered = source_options(WINDOW, GIVEN, max_records_per_task=1)
    assigned = json.loads(rendered["assign"])
    for side in ("startingoffsets", "endingoffsets"):
        offsets = json.loads(rendered[side])
        assert {topic: [int(p) for p in offsets[topic]] for topic in offsets} == assigned


def test_short_ranges_share_tasks() -> None:
    """As many as their records, or their number, keep busy; never more than cores."""
    few = _window(*[1_000] * 4)
    assert divide_window(few, 2, MOST) == [Reading(few, 1)]
    assert divide_window(_window(*[9_000] * 4), 2, MOST) == [Reading(_window(*[9_000] * 4), 2)]
    many = _window(*[1] * 2_000)
    assert [len(each.window) for each in divide_window(many, 2, MOST)] == [2_000]
    assert [each.tasks for each in divide_window(many, 2, MOST)] == [2]
    assert [each.tasks for each in divide_window(many, 64, MOST)] == [20]
    assert count_splits(many, 2, MOST) == [(2, 1_000)]
    assert (count_files(many, 2, 1_000_000), count_files(many, 2, 100)) == (2, 63)


@pytest.mark.parametrize(
    ("ranges", "records", "most", "tasks"),
    [(600, 50, MOST, 2), (1_000, 2_000, 1_000_000, 16), (1_000, 19_000, 1_000_000, 32),
     (600, 50, 1_024, 20), (600, 50, 131_072, 2), (5, 19_000, 1_024, 2)],
)  # fmt: skip
def test_a_task_keeps_a_bounded_number_of_fetches(
    ranges: int, records: int, most: int, tasks: int
) -> None:
    """Of each range the last one, until the task ends: 1 MiB, or what the range has; 32 MiB."""
    window = tuple(OffsetRange(f"t{i:04d}", 0, 0, records) for i in range(ranges))
    found = divide_window(window, 2, most)
    assert sum(each.tasks or 0 for each in found) == tasks
    assert max(len(each.window) / (each.tasks or 1) for each in found) < ranges / tasks + 2


def test_a_long_range_shares_no_task() -> None:
    """Nor does a single short one; nor any, if the options of the source decide."""
    window = _window(20_000, 5, 30_000, 6, 0)
    long = tuple(r for r in window if len(r) >= 20_000)
    short = tuple(r for r in window if 0 < len(r) < 20_000)
    assert divide_window(window, 2, MOST) == [Reading(long), Reading(short, 1)]
    assert divide_window(_window(20_000, 5), 2, MOST) == [Reading(_window(20_000, 5))]
    for name in ("minPartitions", "maxRecordsPerPartition"):
        assert divide_window(window, 2, MOST, {name: "1"}) == [Reading(window)]


def test_the_ranges_of_a_topic_are_read_together() -> None:
    """A topic in two readings would have a file of each."""
    window = tuple(OffsetRange(f"t{i:03d}", p, 0, 1) for i in range(300) for p in range(2))
    found = divide_window(window, 2, MOST)
    assert [(len(each.window), each.tasks) for each in found] == [(300, 1), (300, 1)]
    assert not {r.topic for r in found[0].window} & {r.topic for r in found[1].window}
    assert count_files(window, 2, 1_000_000) == 300
    one = tuple(OffsetRange("t", p, 0, 1) for p in range(999)) + window[:2]
    assert len(divide_window(one, 8, MOST)) == 2


@pytest.mark.parametrize("cores", [1, 2, 8])
def test_files_that_a_topic_is_cut_into_cannot_overlap(cores: int) -> None:
    """Spark sorts the rows of a task with as many topics as writers, by topic alone, and they may
    leave their order: no topic is cut there.
    """
    sizes = {f"t{i:02d}": 5_000 if i % 2 else 100 for i in range(40)}
    window = tuple(OffsetRange(t, p, 0, n) for t, n in sizes.items() for p in range(3))
    found = divide_window(window, cores, 8_192)
    assert sorted(r for each in found for r in each.window) == list(window)
    for each in found:
        topics = {r.topic for r in each.window}
        assert len(topics) < WRITERS or max(3 * sizes[topic] for topic in topics) <= 8_192
    assert len(found) >= 4


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 60_000)), max_size=40), st.integers(1, 9)
)
def test_each_range_is_read_once(sizes: list[tuple[int, int]], cores: int) -> None:
    window = tuple(OffsetRange(f"t{t}", p, 0, size) for p, (t, size) in enumerate(sizes))
    found = divide_window(window, cores, MOST)
    read = [r for each in found for r in each.window if len(r)]
    assert sorted(read) == sorted(r for r in window if len(r))
    assert sum(n * records for n, records in count_splits(window, cores, MOST)) == sum(
        map(len, window)
    )
