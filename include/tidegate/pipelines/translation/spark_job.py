"""The options of a Spark job, of a direct stream, and the properties of a consumer or producer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from tidegate.pipelines.translation import connection, file_job, start
from tidegate.pipelines.translation.direct_stream import CHECKPOINT, OFFSETS
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
    "queryName", "schema", "StringDecoder", "trigger", "outputMode", "topic", "topics",
    "processingTime", "availableNow", "once", CHECKPOINT, OFFSETS, *file_reader_options.NAMES,
}  # fmt: skip
_BROKERS = ("bootstrap.servers", "kafka.bootstrap.servers", "metadata.broker.list")
_DECIDING = {
    "ingest": (*_SUBSCRIPTIONS, *start.STARTS, "auto.offset.reset", "group.id", *_BROKERS),
    "egress": ("topic", "path", *_BROKERS),
}
"""What a program has once for each pipeline that it would be."""
_NO_CODE = (
    "Settings alone are translated, not what the program does with rows (filter, select, join, "
    "limit)."
)
_OLD_CONSUMER = {"zookeeper.connect", "auto.commit.enable", "offsets.storage"}
_OLD_PRODUCER = {"request.required.acks", "compression.codec", "queue.buffering.max.ms"}


def is_one(read: Read) -> bool:
    """Return whether any of the settings is one of Spark or of a Kafka client."""
    return any(_is_known(_lower(each)) for each in read.settings)


def draft(read: Read, stem: str, called: str = "") -> Draft:
    """Return the pipeline for a job or a client.

    `stem` is the name of its file, `called` the name that the user has chosen.
    """
    given = {(_lower(each) or f"{each.line}", each.part): each for each in read.settings}
    names = {name for name, _ in given}
    reads = bool(names & {*_SUBSCRIPTIONS, *start.STARTS, *start.ENDS})
    writes = not reads and ("topic" in names or _is_producer(names, stem))
    result = Draft("egress" if writes else "ingest", OWN, read.where, called)
    options: dict[str, Given] = {}
    for (name, part), each in given.items():
        sinks = name.startswith("kafka.") and part == "write"
        if reads and (sinks or name == "topic"):
            result.refuse(each, "of the job's sink: translate it apart, as an egress pipeline")
        elif name not in options or part == "read":
            options[name] = each
    if writes:
        file_job.of_files(result, options, stem)
    else:
        _ingest(result, options, stem, is_stream=read.is_stream)
    repeated(result, read)
    result.remark = _NO_CODE if read.is_program else ""
    return result


def _ingest(draft: Draft, options: Mapping[str, Given], stem: str, *, is_stream: bool) -> None:
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
    has_start = bool(options.keys() & {*start.STARTS})
    unread = [each for each in options.values() if not each.name and each.value is None
              and (not each.part or (each.part == "read" and not has_start))]  # fmt: skip
    if unread:
        draft.need(unread[0], "it is not known where to begin, for not all settings here are in "
                   "the text, or other maps of settings are, too; add `start` to the file: "
                   "{group: NAME}, or the offsets")  # fmt: skip
    elif OFFSETS.lower() in options:
        start.of_given_offsets(draft, options)
        answered |= {OFFSETS.lower(), "auto.offset.reset", "group.id"}
    elif has_start or not _is_client(options):
        is_stream |= bool(options.keys() & {*start.CHECKPOINTS, "maxoffsetspertrigger", "trigger"})
        answered |= {start.STRATEGY}
        start.of_spark(draft, options, is_stream=is_stream)
    else:
        answered |= {"auto.offset.reset", "group.id"}
        _client(draft, options)
    answered |= start.of_checkpoint(draft, options, is_stream=is_stream)
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
    if group and storage and (storage.value or "").lower() == "kafka":
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
    """Note settings that are given again with another value: the last one counts.

    In a program, two values of a setting that decides what is read or sent are two pipelines.
    """
    seen: dict[tuple[str, str], Given] = {}
    for each in read.settings:
        name = _lower(each)
        other = "write" if draft.kind == "ingest" or name == "path" else "read"
        decides = read.is_program and name in _DECIDING[draft.kind] and each.part != other
        first = seen.setdefault((name, "" if decides else each.part), each)
        known = each.name and each.name != "StringDecoder"
        if first is each or not known or first.value == each.value:
            continue
        again = f"given again at {draft.where} {each.line}"
        if decides:
            draft.need(first, f"{again}, with another value: a pipeline has one source and one "
                       "target; translate the parts of the program apart")  # fmt: skip
        else:
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
