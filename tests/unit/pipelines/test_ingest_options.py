"""The key `options` of an ingest pipeline: judged when the file is read, all at once."""

from typing import Any

import pytest

from support.cases import each_of
from tidegate.pipelines.spec import Ingest, Spec, parse_spec
from tidegate.settings.setting import Answer, Place, Setting
from tidegate.settings.source import source_disagreements
from tidegate.settings.table import TABLE

LEAST = {"name": "p", "kind": "ingest", "topics": ["t"], "lake": "/lake"}
SECRET = "hunter2"
REFUSED = [each for each in TABLE if each.place is Place.SOURCE and each.answer is Answer.REFUSED]


def with_options(options: Any, **others: Any) -> Ingest:
    spec: Spec = parse_spec({**LEAST, **others, "options": options})
    assert isinstance(spec, Ingest)
    return spec


def complaints(options: Any, **others: Any) -> str:
    with pytest.raises(ValueError) as refused:
        with_options(options, **others)
    return str(refused.value)


@each_of(REFUSED)
def test_each_refused_setting_has_its_reason(setting: Setting) -> None:
    """Without a broker and without Java, and in any letter case; its value is not quoted."""
    for name in (setting.name, setting.name.upper()):
        said = complaints({name: SECRET})
        assert said.startswith(f"options: {name}: refused: {setting.why}")
        assert setting.use in said
        assert SECRET not in said


def test_all_at_once_and_beside_other_complaints() -> None:
    """One line for each."""
    said = complaints(
        {"kafka.max.pol.records": 1, "failOnDataLoss": True, "minPartitions": 0}, on_expired="later"
    )
    assert said.splitlines() == [
        "options: kafka.max.pol.records: no option of Spark's, and no setting of Kafka's consumer; "
        "did you mean 'kafka.max.poll.records'?",
        "options: failOnDataLoss: refused: records that are gone are a failure, or a gap in the "
        "ledger; use `on_expired`",
        "options: minPartitions: from 1 to 2147483647, or the client fails",
        "on_expired: 'later': must be fail or skip",
    ]


@pytest.mark.parametrize("options", [5, [1], {"a": [1]}, {5: 1}, {"minPartitions": None}])
def test_what_is_no_mapping_of_texts(options: Any) -> None:
    assert complaints(options).startswith("options")


def test_values_in_the_form_of_spark() -> None:
    """Numbers and booleans of YAML; by Spark's names, and old ones translated."""
    spec = with_options({
        "KAFKACONSUMER.pollTimeoutMs": 5000, "kafka.check.crcs": True, "includeHeaders": True,
        "fetch.message.max.bytes": "7",
    })  # fmt: skip
    assert spec.source_options == {
        "kafkaConsumer.pollTimeoutMs": "5000", "kafka.check.crcs": "true",
        "includeHeaders": "true", "kafka.max.partition.fetch.bytes": "7",
    }  # fmt: skip
    assert [notice.split(": ")[:2] for notice in spec.notices] == [
        ["options", "includeHeaders"], ["options", "fetch.message.max.bytes"],
    ]  # fmt: skip
    assert parse_spec(LEAST).notices == ()


def test_a_name_given_twice() -> None:
    said = complaints({"kafka.fetch.min.bytes": 1, "Kafka.fetch.min.bytes": 1})
    assert said == "options: Kafka.fetch.min.bytes: given twice, as kafka.fetch.min.bytes"


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_the_isolation_level_is_the_key(level: str) -> None:
    """Planning reads by the key, so the option is the key: it reaches Spark by that alone."""
    spec = with_options({"kafka.Isolation.level": level})
    assert (spec.isolation, spec.source_options) == (level, {})
    assert "read as isolation" in spec.notices[0]
    assert with_options({"kafka.isolation.level": level}, isolation=level).isolation == level
    other = "read_uncommitted" if level == "read_committed" else "read_committed"
    said = complaints({"kafka.isolation.level": level}, isolation=other)
    assert said.startswith("options: kafka.isolation.level: refused: it contradicts the key")


def test_a_wrong_isolation_level() -> None:
    said = complaints({"kafka.isolation.level": "committed"})
    assert said.startswith("options: kafka.isolation.level: one of read_committed, read_uncom")


def test_what_a_consumer_refuses_together() -> None:
    """On an executor it would be the failure of a task."""
    said = complaints({"kafka.heartbeat.interval.ms": 45000})
    assert said.startswith("options: kafka.heartbeat.interval.ms: not below kafka.session.timeout")
    with_options({"kafka.heartbeat.interval.ms": 45000, "kafka.session.timeout.ms": 45001})
    times = {"kafka.default.api.timeout.ms": 19_999, "kafka.request.timeout.ms": 20_000}
    assert complaints(times) == (
        "options: kafka.default.api.timeout.ms: less than kafka.request.timeout.ms, or the client "
        "fails"
    )
    assert source_disagreements({"kafka.heartbeat.interval.ms": "${UNSET}"}, {}) == []
    # A broker may hold the last fetch of a range so long, for records that no one is to read.
    slow = {"kafka.fetch.min.bytes": 1_000_000, "kafka.fetch.max.wait.ms": 30_000}
    assert complaints(slow).startswith(
        "options: kafka.fetch.max.wait.ms: not below kafkaConsumer.pollTimeoutMs"
    )
    with_options({**slow, "kafkaConsumer.pollTimeoutMs": 30_001})
    assert complaints({"kafka.fetch.max.wait.ms": 20, "kafka.request.timeout.ms": 20}).startswith(
        "options: kafka.fetch.max.wait.ms: not below kafka.request.timeout.ms"
    )
    # Alone, it depends on the connection: tests/unit/runs/test_connections.py.
    with_options({"kafka.default.api.timeout.ms": 19_999})


def test_the_planner_tries_no_longer_than_an_hour() -> None:
    hour = {"fetchOffset.numRetries": 1000, "fetchOffset.retryIntervalMs": 3600}
    with_options(hour)
    with_options({"fetchOffset.retryIntervalMs": 1_200_000})  # three times
    for longer in ({**hour, "fetchOffset.retryIntervalMs": 3601},
                   {"fetchOffset.retryIntervalMs": 1_200_001}):  # fmt: skip
        assert complaints(longer) == (
            "options: fetchOffset.numRetries: times fetchOffset.retryIntervalMs it is more than "
            "one hour"
        )


@pytest.mark.parametrize(
    ("options", "about"),
    [
        ({"kafka.group.id": "g"}, "queries that share a group id may disturb each other"),
        ({"includeHeaders": "false"}, "headers are always kept"),
        ({"maxOffsetsPerTrigger": 5}, "use `max_records`"),
        ({"groupIdPrefix": "a"}, None),
        ({"minPartitions": 5}, None),
    ],
)
def test_a_notice_says_what_follows(options: dict[str, Any], about: str | None) -> None:
    notices = with_options(options).notices
    assert [about in each for each in notices] == ([True] if about else [])


def test_a_prefix_beside_a_group_id() -> None:
    """The user's own group id is taken as it is."""
    both = {"GROUPIDPREFIX": "a", "kafka.group.id": "b"}
    of_group, of_prefix = with_options(both).notices
    assert of_group.startswith("options: kafka.group.id: ")
    assert of_prefix == "options: groupIdPrefix: it has no effect beside kafka.group.id"
