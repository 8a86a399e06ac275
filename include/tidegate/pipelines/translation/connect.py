"""The S3 sink and S3 source of Kafka Connect: Confluent's and Aiven's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from tidegate.pipelines.translation import connection, passed, spark_job, start, transforms
from tidegate.pipelines.translation.draft import TOPIC, Draft
from tidegate.pipelines.translation.given import Given, Read
from tidegate.settings.setting import Place

_BYTES = "key and value are kept as bytes; decode them in a view"
_LAYOUT = "the lake has directories of its own, topic=…/window_date=…"
_STORE = "Tidegate's own way to write to S3"
_KEYS = "keys come from the environment: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, or a role"
_DROPPED = {
    "tasks.max": "the number of Spark's tasks follows from cores and sizes",
    "flush.size": "a commit has up to max_records offsets, and the sizes of files follow from them",
    "rotate.interval.ms": "files are complete when a run commits; `schedule` says how often",
    "format.class": "the files of the lake are Parquet",
    "format.output.type": "the files of the lake are Parquet",
    "format.output.fields": "the lake has all fields of a record",
    "partitioner.class": _LAYOUT,
    "partition.duration.ms": _LAYOUT,
    "partition.field.name": _LAYOUT,
    "path.format": _LAYOUT,
    "locale": _LAYOUT,
    "timezone": _LAYOUT,
    "timestamp.extractor": _LAYOUT,
    "timestamp.field": _LAYOUT,
    "file.name.template": _LAYOUT,
    "filename.offset.zero.pad.width": _LAYOUT,
    "directory.delim": _LAYOUT,
    "file.delim": _LAYOUT,
    "storage.class": _STORE,
    "connector.class": "Tidegate is in its place",
    "behavior.on.null.values": "a record without a value is kept, as one",
    "schema.compatibility": _BYTES,
    "schema.generator.class": _BYTES,
    "schemas.cache.config": _BYTES,
    "enhanced.avro.schema.support": _BYTES,
    "connect.meta.data": _BYTES,
    "max.schemas.per.subject": _BYTES,
    "store.kafka.keys": "keys are always kept, in a column",
    "keys.format.class": "keys are always kept, in a column",
    "store.kafka.headers": "headers are always kept, in a column",
    "headers.format.class": "headers are always kept, in a column",
    "mode": "each run sends the files that were not sent before",
    "record.batch.max.size": "the size of requests is the producer's: target.options",
    "task.batch.size": "a run sends up to max_files files",
}
_DROPPED_PREFIXES = {
    "key.converter": _BYTES, "value.converter": _BYTES, "header.converter": _BYTES,
    "avro.": _BYTES, "parquet.": "the compression of files is Tidegate's",
    "confluent.": "of Confluent's licence", "aws.": _KEYS, "s3.credentials.": _KEYS,
    "errors.": "nothing is converted, so nothing fails to be; a record that Spark cannot read is "
    "`on_unreadable`",
    "s3.": _STORE, "kafka.api.": "it belongs in the Kafka connection", "format.": _BYTES,
    "file.": _LAYOUT, "kafka.auth.": "it belongs in the Kafka connection",
}  # fmt: skip
_CHOOSES_FILES = "it chooses the files, and others would be sent: narrow source.path by a pattern"
_NEEDED_OF_SOURCE = {
    "folders": _CHOOSES_FILES,
    "file.discovery.starting.timestamp": _CHOOSES_FILES,
    "file.name.regex.pattern": _CHOOSES_FILES,
    "file.name.template": _CHOOSES_FILES,
    "topics.prefix": "records would go to topics of other names: set target.topic",
}
_BUCKET = ("s3.bucket.name", "aws.s3.bucket.name")
_PREFIX = ("topics.dir", "aws.s3.prefix")
_REGION = ("s3.region", "aws.s3.region")
_ENDPOINT = ("store.url", "aws.s3.endpoint")
_INTERVAL = ("rotate.schedule.interval.ms", "s3.poll.interval.ms")
_OWN = spark_job.OWN | _DROPPED.keys() | {
    *_BUCKET, *_PREFIX, *_REGION, *_ENDPOINT, *_INTERVAL, *_NEEDED_OF_SOURCE, "name",
    "topics", "topics.regex", "topic.regex.list", "transforms", "predicates",
}  # fmt: skip
_FORMATS = {"json": "json", "parquet": "parquet", "string": "text", "csv": "csv"}


def is_one(read: Read) -> bool:
    """Return whether the settings are those of a connector."""
    return any(each.name == "connector.class" for each in read.settings)


def draft(read: Read, stem: str, called: str = "") -> Draft | None:
    """Return the pipeline for a connector; None if it is neither an S3 sink nor an S3 source.

    `stem` is the name of its file, `called` the name that the user has chosen.
    """
    given = {each.name: each for each in read.settings if each.name}
    class_ = given["connector.class"].value.lower()
    is_s3 = re.search(r"s3", class_) and "kcql" not in "".join(given)
    if not is_s3 or ("sink" in class_) == ("source" in class_):
        return None
    result = Draft("ingest" if "sink" in class_ else "egress", _OWN, read.where, called)
    name = given.pop("name", None)
    value = name and result.text(name)
    if result.kind == "ingest":
        _sink(result, given, name)
    else:
        _source(result, given)
    result.name(value or "", *result.form.get("topics", ()), stem)
    if name and value:
        result.comments.setdefault(("name",), []).append(result.label(name))
    transforms.pop(result, given)
    place = Place.SOURCE if result.kind == "ingest" else Place.SINK
    for each in (*given.values(), *(each for each in read.settings if not each.name)):
        _pass(result, place, each)
    if result.kind == "ingest":
        spark_job.default_isolation(result)
    else:
        result.commands.append(
            "Files that the connector has sent are sent again, unless source.path is narrowed"
        )
    result.commands.append(
        "The brokers and the login are settings of the Connect worker: give them to the Kafka "
        "connection"
    )
    spark_job.repeated(result, read)
    return result


def _sink(draft: Draft, given: dict[str, Given], name: Given | None) -> None:
    topics, pattern = given.pop("topics", None), given.pop("topics.regex", None)
    if topics and (value := draft.text(topics)):
        names = list(dict.fromkeys(filter(None, map(str.strip, value.split(",")))))
        draft.set(("topics",), names, topics)
        if pattern:
            draft.need(pattern, "give either topics or topics.regex, as Connect asks for")
    elif pattern and (value := draft.text(pattern)):
        why = "a regular expression of Java: check it, if unusual"
        draft.set(("pattern",), value, pattern, why)
    else:
        draft.missing.append("topics: no topic is named: add `topics: [NAME]` to the file")
    reset = given.pop("consumer.override.auto.offset.reset", None)
    group = given.pop("consumer.override.group.id", None)
    if group is None and name and name.value != "":
        group = replace(name, value=f"connect-{name.value.strip()}")
    if group is None and reset and reset.value.lower() != "earliest":
        draft.need(reset, "a connector without `name` has a group that is not known here, and "
                   "where that has stopped comes first")  # fmt: skip
    else:
        start.of_client(draft, reset, group, "earliest")
    bucket = _bucket(draft, given)
    if each := _first(given, _PREFIX):
        draft.drop(each, "the files there are the connector's; the lake has a directory of its own")
    if bucket:
        why = "not the directory of the connector's own files"
        draft.set(("lake",), f"s3://{bucket[0]}/tidegate", bucket[1], why)


def _source(draft: Draft, given: dict[str, Given]) -> None:
    restores = _restores(draft, given)
    bucket, (topic, names) = _bucket(draft, given), _target(draft, given)
    directory = _first(given, _PREFIX)
    if bucket:
        below = _below(draft, directory, is_confluent=bucket[1].name == _BUCKET[0])
        if restores:
            below, names = f"{below}/{topic or ''}", ""
        path = "/".join(filter(None, ["s3:/", bucket[0], below.strip("/")])) + f"/{names}"
        draft.set(("source", "path"), path, bucket[1], "narrow it by a pattern of names")
        if directory:
            draft.comments[("source", "path")].append(draft.label(directory))
    else:
        draft.missing.append("source.path: no bucket is named: add it to the file")
    format_ = given.pop("format.class", given.pop("input.format", None))
    value = format_.value.rpartition(".")[2].lower() if format_ else ""
    known = next((known for part, known in _FORMATS.items() if part in value), None)
    if format_ and known:
        draft.set(("source", "format"), known, format_)
    elif format_:
        draft.need(format_, "files of this format cannot be sent: parquet, json, csv and text can")
    else:
        draft.missing.append("source.format: no format.class is given")


def _below(draft: Draft, directory: Given | None, *, is_confluent: bool) -> str:
    """Return the directory of a source's files in the bucket."""
    if directory is None:
        return "topics" if is_confluent else ""
    value = draft.text(directory)
    if value is None and directory.value != "":
        draft.need(directory, "the directory of the files is not known: add it to source.path")
    return (value or "").strip("/")


def _restores(draft: Draft, given: Mapping[str, Given]) -> bool:
    """Return whether a source of Confluent's has a directory for each topic: the default."""
    mode = given.get("mode")
    if mode is None:
        return _BUCKET[0] in given and "topic.regex.list" not in given
    if mode.value not in ("RESTORE_BACKUP", "GENERALIZED"):
        draft.need(mode, "neither RESTORE_BACKUP nor GENERALIZED, so the files are not known")
    return mode.value == "RESTORE_BACKUP"


def _target(draft: Draft, given: dict[str, Given]) -> tuple[str | None, str]:
    """Return the topic of a source, and set it; and the pattern of its files' names.

    It is the topic of `topic.regex.list`, or of `topics`.
    """
    each = given.pop("topic.regex.list", given.pop("topics", given.pop("topic", None)))
    value = draft.text(each) if each else None
    parts = [part.partition(":") for part in (value or "").split(",")]
    name, _, pattern = map(str.strip, parts[0])
    if each and len(parts) == 1 and TOPIC.fullmatch(name):
        draft.set(("target", "topic"), name, each)
        if ending := re.fullmatch(r"\.[*+]\\(\.[a-z0-9]{1,20})\$?", pattern):
            return name, f"**/*{ending[1]}"
        if not re.fullmatch(r"(\^?\.[*+]\$?)?", pattern):
            draft.need(each, _CHOOSES_FILES)
        return name, ""
    if each:
        draft.need(each, "a pipeline sends to one topic here: make one for each")
    else:
        draft.missing.append("target.topic: no topic is named: add `target: {topic: NAME}`")
    return None, ""


def _bucket(draft: Draft, given: dict[str, Given]) -> tuple[str, Given] | None:
    """Return the bucket, and note what the environment has to say about it."""
    if (each := _first(given, _REGION)) and (value := draft.text(each)):
        known = re.fullmatch("[a-z0-9-]{1,40}", value)
        draft.drop(each, "set it in the environment: AWS_REGION" + (f"={value}" if known else ""))
    if each := _first(given, _ENDPOINT):
        draft.drop(each, "set it in the environment: AWS_ENDPOINT_URL")
    bucket = _first(given, _BUCKET)
    value = draft.text(bucket) if bucket else None
    if bucket and value and re.fullmatch("[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", value):
        return value, bucket
    if bucket and value:
        draft.refuse(bucket, "not the name of a bucket")
    return None


def _pass(draft: Draft, place: Place, each: Given) -> None:
    for prefix in ("consumer.override.", "producer.override."):
        if each.name.startswith(prefix):
            bare = each.name.removeprefix(prefix)
            if connection.belongs(bare):
                draft.connect(each, bare)
            else:
                draft.judged(place, each, f"kafka.{bare}")
            return
    if each.name in _INTERVAL:
        number = each.value
        passed.schedule(draft, each, int(number) if re.fullmatch("[0-9]{1,12}", number) else 0)
        return
    dropped = _DROPPED.get(each.name) or _by_prefix(each.name, _DROPPED_PREFIXES)
    needed = _NEEDED_OF_SOURCE.get(each.name) if draft.kind == "egress" else None
    if needed and each.value != "":
        draft.need(each, needed)
    elif dropped:
        draft.drop(each, dropped)
    elif not each.name:
        draft.refuse(each, "not a setting")
    else:
        draft.unknown(each)


def _by_prefix(name: str, table: Mapping[str, str]) -> str | None:
    return next((why for prefix, why in table.items() if name.startswith(prefix)), None)


def _first(given: dict[str, Given], names: tuple[str, ...]) -> Given | None:
    found = [given.pop(name) for name in names if name in given]
    return found[0] if found else None
