"""What `validate` refuses, the schema refuses too; what it cannot know has its reason."""

import json
from functools import cache
from typing import Any

import jsonschema
import pytest

from tidegate.pipelines.schema import schema
from tidegate.pipelines.spec import parse

INGEST: dict[str, Any] = {"name": "a", "kind": "ingest", "topics": ["t"], "lake": "/lake"}
EGRESS: dict[str, Any] = {
    "name": "b", "kind": "egress", "source": {"path": "/in", "format": "csv"}, "lake": "/lake",
    "target": {"topic": "t"},
}  # fmt: skip
AT = "2026-03-14T00:00:00Z"
NONE: dict[str, Any] = {"topics": []}


def start(**keys: Any) -> dict[str, Any]:
    return {"start": keys}


def options(**keys: Any) -> dict[str, Any]:
    return {"options": {name.replace("__", "."): value for name, value in keys.items()}}


def conf(name: str, value: Any) -> dict[str, Any]:
    return {"spark": {"conf": {name: value}}}


def target(**keys: Any) -> dict[str, Any]:
    return {"target": keys}


def files(path: str = "/in", file_format: str = "csv", **keys: Any) -> dict[str, Any]:
    return {"source": {"path": path, "format": file_format, **keys}}


OF_INGEST: list[dict[str, Any]] = [
    {"topics": []}, {"topics": None}, {"topics": ["a", "a"]}, {"topics": ["a/b"]},
    {"topics": [".."]}, {"topics": ["a" * 250]}, {"topics": ["__HIVE_DEFAULT_PARTITION__"]},
    {"topics": [5]}, {"topics": "t"}, {"pattern": "f.*"}, {"assign": {"t": [0]}},
    {"exclude": "f.*"}, {**NONE, "pattern": ""}, {**NONE, "assign": {}},
    {**NONE, "assign": {"t": []}}, {**NONE, "assign": {"t": [0, 0]}},
    {**NONE, "assign": {"t": [-1]}}, {**NONE, "assign": {"a/b": [0]}}, {**NONE, "assign": ["t"]},
    {"lake": ""}, {"lake": "here"}, {"lake": "hdfs://nn/x"}, {"lake": "gs://b/x"},
    {"lake": "s3a://b/x"}, {"lake": "s3://b/a b"}, {"lake": "s3:///x"}, {"lake": "file://h/x"},
    {"lake": "s3://user:pw@b/x"}, {"lake": None},
    {"schedule": ""}, {"schedule": "every day"}, {"schedule": "* * *"}, {"schedule": 5},
    {"start": "first"}, start(), start(timestamp=AT, group="g"), start(otherwise="latest"),
    start(timestamp="2026-03-14T00:00:00"), start(timestamp="2026-03-14"), start(timestamps={}),
    start(timestamps={"t": {}}), start(timestamps={"t": {0: 5}}), start(offsets={"t": {0: -3}}),
    start(offsets={"t": {"x": 1}}), start(offsets={"t": {0: 1}}, otherwise="fail"),
    start(group=""), start(group="g", otherwise="none"), start(groups="g"),
    {"max_records": 0}, {"max_records": "0"}, {"max_records": "-5"}, {"max_records": 1.5},
    {"max_records": "007"}, {"retries": -1}, {"retries": "-1"}, {"retries": 101},
    {"isolation": "committed"}, {"on_expired": "gap"}, {"on_unreadable": "skip"},
    {"progress_group": ""}, {"kafka": 5}, {"max_recods": 5}, {"target": {"topic": "t"}},
    {"name": "A"}, {"name": "a__b"}, {"name": "a" * 65}, {"kind": "both"},
    options(minPartitions=0), options(minPartitions="0"), options(minPartitions="many"),
    options(failOnDataLoss=True), options(kafka__group__id=""), options(max__poll__records=5),
    options(kafka__check__crcs=False), options(kafka__isolation__level="committed"),
    options(includeHeaders="yes"), options(kafka__linger__ms=5), {"options": {"x": [1]}},
    conf("spark.master", "local"), conf("executor.memory", "2g"), conf("spark.x ", "1"),
    conf("spark.Master", "local"), conf("spark.log.level", "debug"),
    conf("spark.kafka.clusters.a.security.protocol", "SSL"), conf("spark.x.y", [1]),
    conf("spark.kafka.consumer.cache.timeout", "5x"), conf("spark.ssl.keyPassword", "pw"),
    conf("spark.kafka.consumer.cache.capacity", "0"), conf("spark.hadoop.fs.s3a.secret.key", "x"),
    {"spark": {"conection": "x"}},
]  # fmt: skip
OF_EGRESS: list[dict[str, Any]] = [
    {"source": {}}, {"source": {"path": "/in"}}, {"source": {"lake": "a", "path": "/in"}},
    {"source": {"lake": "a", "format": "csv"}}, {"source": {"lake": "a", "columns": "a INT"}},
    {"source": {"lake": "a", "options": {"sep": ";"}}}, {"source": {"lake": "A"}},
    {"source": {"lake": "a", "topics": ["a/b"]}}, files(topics=["t"]), files("in"),
    files("hdfs://nn/in"), files("ftp://h/in"), files("s3a://b/in"), files("s3://*/in"),
    files(file_format="avro"), files(options={"mode": "x"}), files(options={"inferSchema": True}),
    files(file_format="json", options={"multiLine": True}), files(options={"linesEp": [1]}),
    files(pth="/in"), target(), target(topic="t", topics=["u"]), target(topics=[]),
    target(topics=["t", "t"]), target(topic="a/b"), target(topics=["t"]),
    target(topic="t", partitions=0), target(topic="t", producer={"transactional.id": "x"}),
    target(topic="t", producer={"lingr.ms": 5}),
    target(topic="t", producer={"max.poll.records": 1}),
    target(topic="t", producer={"acks": 0}), target(topic="t", options={"kafka.acks": 3}),
    target(topic="t", options={"kafka.compression.type": "zip"}),
    target(topic="t", options={"kafka.compression.gzip.level": 0}),
    target(topic="t", options={"kafka.partitioner.ignore.keys": True}),
    target(topic="t", options={"topic": "u"}), target(topic="t", mode="append"),
    {"columns": {"value": "**"}}, {"columns": {"value": "'**'"}}, {"columns": {"partition": "'1'"}},
    {"columns": {"vlaue": "v"}}, {"order": "strict"}, {"order": "strict", "order_by": ["a"]},
    {"order_by": "a"}, {"on_bad_row": "skip"}, {"tombstones": "maybe"}, {"settle": -1},
    {"max_files": 0}, {"progress_group": "g"}, {"topics": ["t"]},
    conf("spark.task.maxFailures", 1), conf("spark.sql.legacy.x", 1),
]  # fmt: skip
UNKNOWABLE: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("regular expressions of Python", INGEST, {**NONE, "pattern": "f("}),
    ("when a schedule fires", INGEST, {"schedule": "0 0 31 2 *"}),
    ("what a day is", INGEST, start(timestamp="2026-02-31T00:00:00Z")),
    ("names that are compared", INGEST, start(offsets={"other": {0: 1}})),
    ("names that are compared", EGRESS, {"source": {"lake": "b"}}),
    ("values that are compared", INGEST,
     options(kafka__heartbeat__interval__ms=9, kafka__session__timeout__ms=9)),
    ("values that are compared", EGRESS,
     target(topic="t", producer={"linger.ms": 9, "delivery.timeout.ms": 9})),
    ("values that are compared", INGEST,
     {"isolation": "read_committed", **options(kafka__isolation__level="read_uncommitted")}),
    ("one setting in two forms", EGRESS,
     target(topic="t", producer={"linger.ms": 1}, options={"kafka.linger.ms": 1})),
    ("numbers in texts", INGEST, {"retries": "101"}),
    ("secrets within values", INGEST, conf("spark.jars", "https://u:pw@h/a.jar")),
    ("secrets of any name", INGEST, conf("spark.executorEnv.DB_PW", "x")),
    ("patterns of file names", EGRESS, files("/in/[9-0].csv")),
    ("encodings", EGRESS, files(options={"encoding": "UTF-16"})),
]  # fmt: skip


@cache
def validator() -> jsonschema.Draft7Validator:
    return jsonschema.Draft7Validator(schema())


def refused_by_schema(form: dict[str, Any]) -> bool:
    return not validator().is_valid(json.loads(json.dumps(form)))


@pytest.mark.parametrize(
    "form",
    [{**INGEST, **each} for each in OF_INGEST] + [{**EGRESS, **each} for each in OF_EGRESS],
    ids=str,
)
def test_both_refuse(form: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        parse(form)
    assert refused_by_schema(form)


@pytest.mark.parametrize(
    ("form", "key"), [(form, key) for form in (INGEST, EGRESS) for key in form], ids=str
)
def test_both_need_a_key(form: dict[str, Any], key: str) -> None:
    less = {name: value for name, value in form.items() if name != key}
    with pytest.raises(ValueError):
        parse(less)
    assert refused_by_schema(less)


@pytest.mark.parametrize(("reason", "form", "change"), UNKNOWABLE, ids=str)
def test_what_only_validate_knows(
    reason: str, form: dict[str, Any], change: dict[str, Any]
) -> None:
    """Each is refused by `validate` and, for its reason, not by the schema."""
    assert reason
    with pytest.raises(ValueError):
        parse({**form, **change})
    assert not refused_by_schema({**form, **change})


@pytest.mark.parametrize(
    ("form", "change"),
    [
        (INGEST, {**NONE, "pattern": "f.*", "exclude": "g", "assign": None}),
        (INGEST, {"topics": [], "assign": {"t": ["0", 1]}}),
        (INGEST, {"schedule": "@quarterly"}),
        (INGEST, {"schedule": "*/10 6-8 * * MON-FRI"}),
        (INGEST, {"schedule": "0 0 6 * * *"}),
        (INGEST, start(timestamp="2026-03-14 00:00:00.5+01:00", otherwise="smallest", group=None)),
        (INGEST, start(offsets={"t": {0: -2, 1: "7"}}, timestamps=None)),
        (INGEST, options(kafka__check__crcs="TRUE", minPartitions="007", includeHeaders="False")),
        (INGEST, options(kafka__group__protocol="CLASSIC", kafka__group__id=5)),
        (INGEST, conf("spark.kafka.consumer.cache.timeout", "5m")),
        (INGEST, conf("spark.kafka.producer.cache.timeout", 500)),
        (INGEST, conf("spark.log.level", "INFO")),
        (INGEST, conf("spark.ssl.keyPassword", "")),
        (INGEST, conf("spark.sql.catalog.lake.uri", "x")),
        (EGRESS, files("s3://b/in/*.csv", options={"SEP": ";", "header": True}, lake=None)),
        (EGRESS, files("/in/[a-z]?.json", "json") | {"columns": {"value": "**"}}),
        (EGRESS, {"source": {"lake": "a", "topics": ["t"]}, "order": "strict"}),
        (EGRESS, {"order": "strict", "order_by": ["a"], "columns": {"key": "a"}}),
        (EGRESS, target(topic="t", producer={"acks": -1, "compression.gzip.level": "9"})),
        (EGRESS, target(topic="t", options={"kafka.enable.idempotence": True})),
        (EGRESS, target(topics=["t"]) | {"columns": {"topic": "a"}, "tombstones": True}),
    ],
    ids=str,
)  # fmt: skip
def test_both_take(form: dict[str, Any], change: dict[str, Any]) -> None:
    """No rule is narrower than the judge."""
    parse({**form, **change})
    assert not refused_by_schema({**form, **change})
