"""The options of a Spark job, of a direct stream, and the properties of a consumer or producer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from tidegate.pipelines.translation import connection, start
from tidegate.pipelines.translation.draft import TOPIC, Draft, cron
from tidegate.pipelines.translation.given import Given, Read
from tidegate.settings.kafka_clients import COMMON, CONSUMER, PRODUCER
from tidegate.settings.setting import Place
from tidegate.settings.table import TABLE, find

_PROGRESS = "the ledger keeps the progress, and is written with the data"
_FILES = "files of the lake are Parquet, in directories of their own"
_BYTES = "keys and values stay bytes: decode them in a view, or by `columns` of an egress"
_DROPPED = {
    "checkpointlocation": f"{_PROGRESS}; to begin where the stream has stopped, give start.offsets "
    "the offsets in its directory `offsets`, of the last batch that is in `commits`",
    "path": "the lake is the key `lake`",
    "format": _FILES,
    "partitionby": _FILES,
    "compression": _FILES,
    "maxrecordsperfile": _FILES,
    "queryname": "runs are named by their pipeline",
    "schema": _BYTES,
    "stringdecoder": _BYTES,
    "failonnodata": "a run without new records does nothing",
    "--class": "no program is submitted",
}
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
    "processingTime", "availableNow", "once",
}  # fmt: skip
_STREAMS = "spark.streaming.", "spark.sql.streaming."
_UNITS = {
    "ms": 1, "millisecond": 1, "s": 1000, "sec": 1000, "second": 1000, "m": 60_000, "min": 60_000,
    "minute": 60_000, "h": 3_600_000, "hour": 3_600_000, "day": 86_400_000,
}  # fmt: skip
_INTERVAL = re.compile(r"(?:interval\s+)?(\d{1,9})\s*([a-z]+)", re.IGNORECASE)
_BROKERS = ("bootstrap.servers", "kafka.bootstrap.servers", "metadata.broker.list")
_DECIDING = {
    "ingest": (*_SUBSCRIPTIONS, *start.STARTS, "auto.offset.reset", "group.id", *_BROKERS),
    "egress": ("topic", "path", *_BROKERS),
}
"""What a program has once for each pipeline that it would be."""
_EXPRESSIONS = "settings that are expressions: write what they are into the file"
_NO_CODE = (
    "Settings alone are translated, not what the program does with rows (filter, select, join, "
    "limit)."
)
_OLD_CONSUMER = {"zookeeper.connect", "auto.commit.enable", "offsets.storage"}
_OLD_PRODUCER = {"request.required.acks", "compression.codec", "queue.buffering.max.ms"}


def is_one(read: Read) -> bool:
    """Return whether any of the settings is one of Spark or of a Kafka client."""
    return any(_is_known(_lower(each)) for each in read.settings)


def draft(read: Read, stem: str) -> Draft:
    """Return the pipeline for a job or a client; `stem` is the name of its file."""
    given = {(_lower(each) or f"{each.line}", each.part): each for each in read.settings}
    names = {name for name, _ in given}
    reads = bool(names & {*_SUBSCRIPTIONS, *start.STARTS, *start.ENDS})
    writes = not reads and ("topic" in names or _is_producer(names, stem))
    result = Draft("egress" if writes else "ingest", OWN, read.where)
    options: dict[str, Given] = {}
    for (name, part), each in given.items():
        sinks = name.startswith("kafka.") and part == "write"
        if reads and (sinks or name == "topic"):
            result.refuse(each, "of the job's sink: translate it apart, as an egress pipeline")
        elif name not in options or part == "read":
            options[name] = each
    if writes:
        _egress(result, options, stem)
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
    elif has_start or not _is_client(options):
        is_stream |= bool(options.keys() & {*start.CHECKPOINTS, "maxoffsetspertrigger", "trigger"})
        answered |= {start.STRATEGY}
        start.of_spark(draft, options, is_stream=is_stream)
    else:
        answered |= {"auto.offset.reset", "group.id"}
        _client(draft, options)
    answered |= start.of_checkpoint(draft, options)
    start.windows(draft, options, topics)
    for name, each in options.items():
        if name not in answered:
            _pass(draft, Place.SOURCE, name, each)
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
        for each in filter(None, (group, reset)):
            draft.drop(each, "start.offsets says where to begin")
        return
    if group and (old or "metadata.broker.list" in options):
        draft.drop(group, "of Kafka 0.8: the group's offsets are not in Kafka")
        group = None
    start.of_client(draft, reset, group, "latest")


def _egress(draft: Draft, options: Mapping[str, Given], stem: str) -> None:
    source = [options[name] for name in ("path", "format") if name in options]
    path, format_ = ([each for each in source if _lower(each) == n] for n in ("path", "format"))
    if path and path[0].part != "write" and (value := draft.text(path[0])):
        draft.set(("source", "path"), value.replace("s3a://", "s3://", 1), path[0])
        if format_ and format_[0].value in ("parquet", "json", "csv", "text"):
            draft.set(("source", "format"), format_[0].value, format_[0])
    if "source" not in draft.form:
        draft.missing.append(
            "source: no files are named: add `source: {path: …, format: parquet}`, or "
            "`source: {lake: NAME}`, to the file"
        )
    if (topic := options.get("topic")) and (value := draft.text(topic)):
        draft.set(("target", "topic"), value, topic)
        draft.name(f"{value}_out")
    else:
        draft.missing.append("target.topic: no topic is named: add `target: {topic: NAME}`")
        draft.name(stem)
    for name, each in options.items():
        if name not in ("topic", "path", "format"):
            _pass(draft, Place.SINK, name, each)


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


def _pass(draft: Draft, place: Place, name: str, each: Given) -> None:
    """Translate a setting that is neither about topics nor about where to begin and end."""
    bare = name.removeprefix("kafka.")
    if not each.name:
        draft.refuse(each, "not a setting" if each.value is not None else _EXPRESSIONS)
    elif connection.belongs(bare):
        draft.connect(each, bare)
    elif name == "failondataloss":
        value = (draft.text(each) or "").lower()
        if value in ("true", "false"):
            on_expired = "skip" if value == "false" else "fail"
            draft.set(("on_expired",), on_expired, each, "records that are gone: a gap, or a fault")
        elif value:
            draft.refuse(each, "neither true nor false")
    elif name == "maxoffsetspertrigger":
        _max_records(draft, each)
    elif name == "trigger":
        schedule(draft, each, _milliseconds(each.value or ""))
    elif name == "outputmode":
        appends = (each.value or "").lower() == "append"
        (draft.drop if appends else draft.refuse)(each, "the lake is only ever appended to")
    elif name in _DROPPED:
        draft.drop(each, _DROPPED[name])
    elif name.startswith("spark."):
        spark = Place.SENDING if place is Place.SINK else Place.SPARK
        if name.startswith(_STREAMS) and not find(spark, each.name):
            draft.drop(each, "of streams: a run reads to the end of the log, by max_records")
        else:
            draft.judged(spark, each)
    elif find(place, each.name) or find(place, f"kafka.{bare}"):
        known = find(place, each.name)
        draft.judged(place, each, each.name if known else f"kafka.{each.name}")
    elif "." in name or name in {**COMMON, **CONSUMER, **PRODUCER}:
        draft.judged(place, each)  # nothing is known about it; the table offers the nearest
    else:
        draft.unknown(each)


def _max_records(draft: Draft, each: Given) -> None:
    value = draft.text(each)
    if value and re.fullmatch("[1-9][0-9]{0,17}", value):
        why = "offsets per commit; a run has as many commits as it needs"
        draft.set(("max_records",), int(value), each, why)
    elif value:
        draft.refuse(each, "not a whole number above 0")


def schedule(draft: Draft, each: Given, milliseconds: int) -> None:
    """Set `schedule` from the interval of a trigger; without one, note why there is none."""
    if expression := cron(milliseconds):
        draft.set(("schedule",), expression, each, "a run at each interval, in UTC")
    elif (each.value or "").lower() == "once":
        draft.drop(each, "each run ends; `schedule` says when Airflow starts one")
    else:
        draft.drop(each, "no cron expression has this interval; `schedule` says when a run starts")


def _milliseconds(text: str) -> int:
    if not (match := _INTERVAL.fullmatch(text.strip())):
        return 0
    unit = match[2].lower()
    return int(match[1]) * _UNITS.get(unit, _UNITS.get(unit.removesuffix("s"), 0))


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
    known = name in _MAPPED or name in _DROPPED or name.startswith("spark.")
    if known or connection.belongs(bare):
        return True
    places = (Place.SOURCE, Place.SINK)
    return any(find(place, each) for place in places for each in (name, f"kafka.{bare}"))


def _lower(each: Given) -> str:
    return each.name if each.name.startswith("spark.") else each.name.lower()
