"""The options of a Spark job, and the properties of a consumer or producer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from tidegate.pipelines.translation import connection, file_job, start
from tidegate.pipelines.translation.draft import TOPIC, Draft
from tidegate.pipelines.translation.given import Given, Read
from tidegate.pipelines.translation.passed import DROPPED, pass_on
from tidegate.settings.kafka_clients import COMMON, CONSUMER, PRODUCER
from tidegate.settings.setting import Place
from tidegate.settings.table import TABLE, find
from tidegate.spark import file_reader_options

_SUBSCRIPTIONS = ("assign", "subscribe", "subscribepattern")
_MAPPED = (
    *_SUBSCRIPTIONS, *start.STARTS, *start.ENDS, start.STRATEGY, "failondataloss",
    "maxoffsetspertrigger", "trigger", "outputmode", "topic", "auto.offset.reset", "group.id",
)  # fmt: skip
OWN = frozenset(
    name
    for each in TABLE
    for name in (each.name,)
    if each.place is Place.SOURCE and "." not in name
) | {
    "checkpointLocation", "path", "format", "partitionBy", "compression", "maxRecordsPerFile",
    "queryName", "schema", "trigger", "outputMode", "topic", "topics", "processingTime",
    "availableNow", "once", *file_reader_options.NAMES,
}  # fmt: skip
_OLD_CONSUMER = {"zookeeper.connect", "auto.commit.enable", "offsets.storage"}
_OLD_PRODUCER = {"request.required.acks", "compression.codec", "queue.buffering.max.ms"}


def is_one(read: Read) -> bool:
    """Return whether any of the settings is one of Spark or of a Kafka client."""
    return any(_is_known(_lower(each)) for each in read.settings)


def draft(read: Read, stem: str, called: str = "") -> Draft:
    """Return the pipeline for a job or a client.

    `stem` is the name of its file, `called` the name that the user has chosen.
    """
    options = {_lower(each) or f"{each.line}": each for each in read.settings}
    reads = bool(options.keys() & {*_SUBSCRIPTIONS, *start.STARTS, *start.ENDS})
    writes = not reads and ("topic" in options or _is_producer(options, stem))
    result = Draft("egress" if writes else "ingest", OWN, read.where, called)
    if reads and "topic" in options:
        why = "of the job's sink: translate it apart, as an egress pipeline"
        result.refuse(options.pop("topic"), why)
    if writes:
        file_job.of_files(result, options, stem)
    else:
        _ingest(result, options, stem)
    repeated(result, read)
    return result


def _ingest(draft: Draft, options: Mapping[str, Given], stem: str) -> None:
    if "topics" in options and not options.keys() & {*_SUBSCRIPTIONS}:
        options = {**options, "subscribe": options["topics"]}  # no tool's name, but a usual one
        del options["topics"]
    for name in _SUBSCRIPTIONS:
        if each := options.get(name):
            _subscribe(draft, name, each)
    topics = list(draft.form.get("topics", draft.form.get("assign", ())))
    draft.name(*topics, stem)
    if not options.keys() & {*_SUBSCRIPTIONS}:
        draft.missing.append("topics: no topic is named: add `topics: [NAME]` to the file")
    answered = {*_SUBSCRIPTIONS, *start.STARTS, *start.ENDS}
    if options.keys() & {*start.STARTS} or not _is_client(options):
        answered |= {start.STRATEGY}
        is_stream = bool(options.keys() & {*start.CHECKPOINTS, "maxoffsetspertrigger", "trigger"})
        start.of_spark(draft, options, is_stream=is_stream)
    else:
        answered |= {"auto.offset.reset", "group.id"}
        _client(draft, options)
    answered |= start.of_checkpoint(draft, options)
    start.windows(draft, options, topics)
    for name, each in options.items():
        if name not in answered:
            pass_on(draft, Place.SOURCE, name, each)
    default_isolation(draft)


def _client(draft: Draft, options: Mapping[str, Given]) -> None:
    """Set `start` as a consumer begins, of Kafka 0.8, too."""
    group, reset = options.get("group.id"), options.get("auto.offset.reset")
    old = [each for name, each in options.items() if name in _OLD_CONSUMER]
    storage = options.get("offsets.storage")
    if group and storage and storage.value.lower() == "kafka":
        old = []
    if old and not (reset and start.is_earliest(reset)):
        draft.need(old[0], "the offsets of a group of Kafka 0.8 are in ZooKeeper, at "
                   "/consumers/GROUP/offsets/TOPIC/PARTITION: give them to start.offsets; latest "
                   "would skip records")  # fmt: skip
        start.without(draft, options)
        return
    if group and (old or "metadata.broker.list" in options):
        draft.drop(group, "of Kafka 0.8: the group's offsets are not in Kafka")
        group = None
    start.of_client(draft, reset, group, "latest")


def _subscribe(draft: Draft, name: str, each: Given) -> None:
    value = draft.text(each)
    if value is None:
        draft.need(each, "the topics are not known")
    elif any(key in draft.form for key in ("topics", "pattern", "assign")):
        draft.need(each, "give one of assign, subscribe and subscribePattern, as Spark asks for")
    elif name == "subscribepattern":
        draft.set(("pattern",), value, each, "a regular expression of Java: check it, if unusual")
    elif name == "subscribe":
        topics = list(dict.fromkeys(filter(None, map(str.strip, value.split(",")))))
        draft.set(("topics",), topics, each)
    elif (pairs := _pairs(value)) is None:
        draft.need(each, "not topics with lists of partitions in JSON, so no topic is known")
    else:
        draft.set(("assign",), pairs, each)


def _pairs(value: str) -> dict[str, list[int]] | None:
    try:
        form = json.loads(value)
        pairs = {topic: sorted(set(numbers)) for topic, numbers in form.items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    whole = all(type(number) is int for numbers in pairs.values() for number in numbers)
    return pairs if pairs and whole and all(map(TOPIC.fullmatch, pairs)) else None


def repeated(draft: Draft, read: Read) -> None:
    """Note settings that are given again with another value: the last one counts."""
    seen: dict[str, Given] = {}
    for each in read.settings:
        first = seen.setdefault(_lower(each), each)
        if each.name and first.value != each.value:
            again = f"given again at {draft.where} {each.line}"
            draft.drop(first, f"{again}: the last one counts")


def default_isolation(draft: Draft) -> None:
    """Name the isolation level if none was given: Kafka's default is not Tidegate's."""
    if "isolation" not in draft.form:
        why = "not given: Kafka's default, read_uncommitted, also reads what was aborted"
        draft.set(("isolation",), "read_committed", None, why)


def _is_client(options: Mapping[str, Given]) -> bool:
    """Return whether a consumer's settings are without the prefix that Spark's reader asks for."""
    own = {"bootstrap.servers", "metadata.broker.list", "zookeeper.connect"}
    return bool(options.keys() & {*COMMON, *CONSUMER, *own})


def _is_producer(names: Iterable[str], stem: str) -> bool:
    bare = {name.removeprefix("kafka.") for name in names}
    producer = bare & ((PRODUCER.keys() - CONSUMER.keys()) | _OLD_PRODUCER)
    consumer = bare & ((CONSUMER.keys() - PRODUCER.keys()) | _OLD_CONSUMER)
    return len(producer) > len(consumer) or (not consumer and not producer and "producer" in stem)


def _is_known(name: str) -> bool:
    bare = name.removeprefix("kafka.")
    known = name in _MAPPED or name in DROPPED or name.startswith("spark.")
    if known or connection.belongs(bare):
        return True
    places = (Place.SOURCE, Place.SINK)
    return any(find(place, each) for place in places for each in (name, f"kafka.{bare}"))


def _lower(each: Given) -> str:
    return each.name if each.name.startswith("spark.") else each.name.lower()
