"""The options of Spark's Kafka source, as an ingest pipeline's `options` take them.

Source: Spark's integration guide for Kafka, and `KafkaSourceProvider` of the connector 4.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidegate.settings.client_answers import client_answers, setup_timeouts
from tidegate.settings.kafka_clients import CONSUMER
from tidegate.settings.setting import (
    INT,
    LONG,
    Answer,
    Place,
    Setting,
    check_boolean,
    check_text,
    check_whole,
    check_words,
    without_unset,
)

# For `fetch.max.wait.ms`, 10 costs 600 short ranges two seconds more, and 0 gains nothing. Metrics
# for the broker and JMX cost one second there, and stay on for those who operate brokers and Spark.
DEFAULTS = {
    "max.poll.records": "10000",  # 500: Spark polls twenty times as often
    # At the log's end a waiting fetch holds up Spark's look-ups behind it: 500 ms a partition.
    "fetch.max.wait.ms": "1",
    "max.partition.fetch.bytes": str(2 * 1024 * 1024),  # more falls out of the cores' caches
    "receive.buffer.bytes": "-1",  # else Spark sets 64 KiB, which throttles long round trips
}
"""Tidegate's own values for the consumer. A given option wins."""
_OUTSIDE = {
    "auto.offset.reset": "none",
    "fetch.max.bytes": "52428800",
    "fetch.max.wait.ms": "500",
    "fetch.min.bytes": "1",
    "isolation.level": "read_uncommitted",
    "max.partition.fetch.bytes": "1048576",
    "max.poll.records": "500",
    "receive.buffer.bytes": "65536",
    "request.timeout.ms": "30000",
    "retry.backoff.ms": "100",
}
_NO_GROUP = "it has no effect: the partitions are assigned, and no consumer joins the group"


def _refused(why: str, use: str, *names: str) -> Iterable[Setting]:
    for name in names:
        yield Setting(name=name, place=Place.SOURCE, answer=Answer.REFUSED, why=why, use=use)


def _warned(why: str, use: str, *names: str) -> Iterable[Setting]:
    for name in names:
        yield Setting(name=name, place=Place.SOURCE, answer=Answer.WARNED, why=why, use=use)


def _checked(value: str) -> str | None:
    if check_boolean(value) is None and value.lower() == "false":
        return "false would write records that were damaged on the way into the lake; use true"
    return check_boolean(value)


_OWN = {
    each.name.removeprefix("kafka."): each
    for each in (
        *_refused(
            "the plan's offsets are the only start, and nothing falls back to another",
            "`start` for the first run, `start.otherwise` for partitions without a record since "
            "their time or an offset of their group, `on_expired` for records that are gone",
            "kafka.auto.offset.reset",
        ),
        *_refused(
            "the ledger keeps the progress, and is written with the data",
            "`progress_group`, which shows it to tools that watch consumer groups",
            "kafka.enable.auto.commit", "kafka.auto.commit.interval.ms",
        ),
        *_refused(
            "keys are read as bytes", "a view, or `columns` of an egress", "kafka.key.deserializer"
        ),
        *_refused(
            "values are read as bytes", "a view, or `columns` of an egress",
            "kafka.value.deserializer",
        ),
        *_refused("Tidegate names the run in it", "`client.id` of the connection",
                  "kafka.client.id"),
        *_refused(
            "no consumer joins a group, so it has no members to name", "", "kafka.group.instance.id"
        ),
        *_refused(
            "it names code to run, and the partitions are assigned", "",
            "kafka.partition.assignment.strategy", "kafka.group.remote.assignor",
        ),
        *_warned(
            _NO_GROUP, "", "kafka.heartbeat.interval.ms", "kafka.max.poll.interval.ms",
            "kafka.session.timeout.ms",
        ),
        Setting(
            name="kafka.group.protocol", place=Place.SOURCE, answer=Answer.WARNED,
            check=check_words("classic", ignore_case=True), outside="classic", why=_NO_GROUP,
        ),
        *_warned(
            "the partitions are assigned by the topics of the plan", "`topics`, `pattern`",
            "kafka.exclude.internal.topics",
        ),
        Setting(
            name="kafka.group.id", place=Place.SOURCE, answer=Answer.WARNED, check=check_text,
            why="Spark warns about it: queries that share a group id may disturb each other. "
            "Nothing is committed to the group",
            use="`groupIdPrefix`",
        ),
        Setting(
            name="kafka.check.crcs", place=Place.SOURCE, check=_checked, outside="true",
            why="only true is accepted: records damaged on the way are never written into the lake",
        ),
        Setting(
            name="kafka.isolation.level", place=Place.SOURCE, answer=Answer.TRANSLATED,
            check=CONSUMER["isolation.level"], becomes="isolation",
            why="planning and reading need the same level",
            default="read_committed", outside="read_uncommitted",
        ),
    )
}  # fmt: skip

SOURCE: tuple[Setting, ...] = (
    *client_answers(Place.SOURCE, CONSUMER, DEFAULTS, _OUTSIDE, _OWN),
    Setting(
        name="kafkaConsumer.pollTimeoutMs", place=Place.SOURCE, check=check_whole(1, LONG),
        default="30000", outside="120000 (spark.network.timeout)",
        why="the time until a record that does not come is a failure; more for a throttled cluster",
    ),
    Setting(
        name="fetchOffset.numRetries", place=Place.SOURCE, check=check_whole(1, 1000),
        default="3", outside="3", why="tries, the first one included, of the look-ups of Spark and "
        "of the planner; if it is given, also of the planner's connecting to a broker. Times "
        "fetchOffset.retryIntervalMs at most one hour; of a consumer group at least 3 tries",
    ),
    Setting(
        name="fetchOffset.retryIntervalMs", place=Place.SOURCE, check=check_whole(0, INT),
        default="1000", outside="1000", why="between the tries of fetchOffset.numRetries",
    ),
    Setting(
        name="minPartitions", place=Place.SOURCE, check=check_whole(1, INT),
        why="at least so many tasks for each chunk, if it has as many offsets",
    ),
    Setting(
        name="maxRecordsPerPartition", place=Place.SOURCE, check=check_whole(1, LONG),
        why="at most so many offsets for each task; without it Tidegate decides by cores and size",
    ),
    Setting(
        name="groupIdPrefix", place=Place.SOURCE, check=check_text, default="tidegate",
        outside="spark-kafka-relation",
        why="the group id is this and the plan's id; a broker's ACLs may ask for a prefix",
    ),
    Setting(
        name="includeHeaders", place=Place.SOURCE, answer=Answer.WARNED, check=check_boolean,
        why="it has no effect: headers are always kept", outside="false",
    ),
    *_refused(
        "the topics of a pipeline are keys of its file", "`topics`, `pattern` or `assign`",
        "assign", "subscribe", "subscribePattern",
    ),
    *_refused(
        "the plan decides where a run begins", "`start` for the first run, `tidegate backfill` for "
        "a window",
        "startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp",
    ),
    *_refused(
        "the plan decides where a run begins", "`start.otherwise`",
        "startingOffsetsByTimestampStrategy",
    ),
    *_refused(
        "a run reads to the end that its plan has found", "`tidegate backfill` for a window",
        "endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp",
    ),
    *_refused(
        "records that are gone are a failure, or a gap in the ledger", "`on_expired`",
        "failOnDataLoss",
    ),
    *_warned(
        "Spark ignores it outside of streams", "`max_records`", "maxOffsetsPerTrigger",
    ),
    *_warned(
        "Spark ignores it outside of streams", "`schedule`",
        "minOffsetsPerTrigger", "maxTriggerDelay",
    ),
)  # fmt: skip


_PAIRS = (
    (
        "kafka.heartbeat.interval.ms", "kafka.session.timeout.ms",
        "not below kafka.session.timeout.ms, or the client fails",
    ),
    (
        "kafka.fetch.max.wait.ms", "kafkaConsumer.pollTimeoutMs",
        "not below kafkaConsumer.pollTimeoutMs: Spark would not wait for a fetch that is held",
    ),
    (
        "kafka.fetch.max.wait.ms", "kafka.request.timeout.ms",
        "not below kafka.request.timeout.ms: each fetch that is held would fail",
    ),
)  # fmt: skip
"""Names of which the first has to be less than the second, and what is said if it is not."""
_COMPARED = {
    "kafka.heartbeat.interval.ms": "3000",
    "kafka.session.timeout.ms": "45000",
    "kafkaConsumer.pollTimeoutMs": "30000",
    "fetchOffset.numRetries": "3",
    "fetchOffset.retryIntervalMs": "1000",
}
_LONGEST_RETRYING = 3_600_000  # ms


def source_disagreements(
    given: Mapping[str, str], connection: Mapping[str, str] | None = None
) -> list[str]:
    """Return which valid settings a consumer, or the driver's admin client, refuses together, or
    with which they cannot work.

    `connection` has those of the Kafka connection. None: they are not known. Only values that are
    known are compared.
    """
    defaults = dict(_COMPARED)
    if connection is not None:
        defaults |= {"kafka.request.timeout.ms": _OUTSIDE["request.timeout.ms"], **connection}
    found = without_unset({**defaults, **given})
    wrong = [
        f"{name}: {said}"
        for name, other, said in _PAIRS
        if name in found and other in found and int(found[name]) >= int(found[other])
    ]
    api, request = (found.get(f"kafka.{n}.timeout.ms") for n in ("default.api", "request"))
    if api and request and int(api) < int(request):
        wrong.append(
            "kafka.default.api.timeout.ms: less than kafka.request.timeout.ms, or the client fails"
        )
    of_consumer = {n.removeprefix("kafka."): v for n, v in found.items()}
    wrong += [f"kafka.{each}" for each in setup_timeouts(of_consumer)]
    tries, pause = (found.get(f"fetchOffset.{n}") for n in ("numRetries", "retryIntervalMs"))
    if tries and pause and int(tries) * int(pause) > _LONGEST_RETRYING:
        wrong.append(
            "fetchOffset.numRetries: times fetchOffset.retryIntervalMs it is more than one hour"
        )
    return wrong


def without_effect(given: Mapping[str, str]) -> list[str]:
    """Return which accepted options have no effect beside another one."""
    if {"kafka.group.id", "groupIdPrefix"} <= given.keys():
        return ["groupIdPrefix: it has no effect beside kafka.group.id"]
    return []
