"""Egress pipeline files: what is wrong is all said at once; what is right becomes a frozen spec."""

from typing import Any

import pytest

from tidegate.pipelines.spec import Egress, parse_spec

CSV = {"path": "/in", "format": "csv", "columns": "id STRING"}
LEAST: dict[str, Any] = {
    "name": "out",
    "kind": "egress",
    "source": {"path": "/in", "format": "json"},
    "target": {"topic": "t"},
    "lake": "/lake",
}
OF_LAKE = {**LEAST, "source": {"lake": "flights"}}


def egress(form: dict[str, Any]) -> Egress:
    spec = parse_spec(form)
    assert isinstance(spec, Egress)
    return spec


def complaints(form: dict[str, Any]) -> list[str]:
    with pytest.raises(ValueError) as refused:
        parse_spec(form)
    return str(refused.value).splitlines()


def test_the_least_that_is_needed():
    """Everything else has the default of the contract."""
    spec = egress(LEAST)
    assert (spec.order, spec.on_bad_row, spec.settle, spec.order_by) == ("report", "fail", 60, ())
    assert (spec.max_files, spec.max_records, spec.retries) == (10_000, 50_000_000, 3)
    assert (spec.target.kafka, spec.target.names, spec.target.partitions) == (
        "kafka_default", ("t",), None,
    )  # fmt: skip
    assert {value for _, value in spec.columns} == {None}


def test_a_tombstone_is_a_record_of_a_lake():
    """In files a missing value is more likely a mistake; the pipeline may say otherwise."""
    assert not egress(LEAST).sends_tombstones
    assert egress(OF_LAKE).sends_tombstones
    assert egress({**LEAST, "tombstones": True}).sends_tombstones
    assert not egress({**OF_LAKE, "tombstones": False}).sends_tombstones


def test_settings_are_as_kafka_reads_them():
    """YAML's booleans and numbers become the client's words."""
    producer = {"enable.idempotence": True, "linger.ms": 5, "acks": "all"}
    spec = egress({**LEAST, "target": {"topic": "t", "producer": producer}})
    assert spec.target.producer_settings == {
        "enable.idempotence": "true", "linger.ms": "5", "acks": "all",
    }  # fmt: skip


def test_options_have_the_names_of_spark():
    """In any letter case; those of the source are for reading back."""
    options = {
        "KAFKA.Linger.ms": 5, "kafkaconsumer.POLLTIMEOUTMS": 90_000, "request.required.acks": -1,
        "kafka.max.poll.records": 7, "includeHeaders": True,
    }  # fmt: skip
    producer = {"Batch.Size": 1, "retries": 9}
    target = egress({**LEAST, "target": {"topic": "t", "options": options, "producer": producer}})
    assert target.target.producer_settings == {
        "linger.ms": "5", "acks": "all", "batch.size": "1", "retries": "9",
    }  # fmt: skip
    assert target.target.reading_options == {
        "kafkaConsumer.pollTimeoutMs": "90000", "kafka.max.poll.records": "7",
    }  # fmt: skip
    assert [n.partition(": ")[2].partition(":")[0] for n in target.notices] == [
        "request.required.acks", "includeHeaders",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("form", "notices"),
    [
        ({}, []),
        ({"target": {"topic": "t", "producer": {"acks": 1}}},
         ["target.producer: acks: 1: a leader that dies", "target.producer: without idempotence"]),
        ({"target": {"topic": "t", "options": {"kafka.acks": 1}}},
         ["target.options: acks: 1: a leader that dies", "target.options: without idempotence"]),
        ({"target": {"topic": "t", "producer": {"acks": -1}}},
         ["target.producer: acks: its value is read as all"]),
        ({"columns": {"topic": "a"}}, ["target.topic is used, columns.topic is not"]),
        ({"spark": {"conf": {"spark.sql.streaming.disabledV2Writers": "kafka"}}},
         ["spark.conf: spark.sql.streaming.disabledV2Writers: it has no effect: it concerns"]),
        ({"spark": {"conf": {"spark.sql.sources.useV1SourceList": "kafka"}}},
         ["spark.conf: spark.sql.sources.useV1SourceList: it has no effect: Tidegate reads"]),
        ({"spark": {"conf": {"spark.kafka.producer.cache.evictorThreadRunInterval": -1}}},
         ["spark.conf: spark.kafka.producer.cache.evictorThreadRunInterval: idle producers"]),
    ],
)  # fmt: skip
def test_what_is_accepted_with_a_notice(form, notices):
    """One for each, with the key."""
    told = egress({**LEAST, **form}).notices
    assert [t.startswith(n) for t, n in zip(told, notices, strict=True)] == [True for _ in told]


def test_all_complaints_come_at_once():
    """Of every part of the file, with the nearest known key."""
    told = complaints(
        {
            "name": "out",
            "kind": "egress",
            "source": {"path": "in", "format": "xml", "pth": 1},
            "target": {"topic": "a b", "producer": {"linger.ms": [1]}, "partitions": 0},
            "columns": {"vlaue": "x"},
            "order_by": "ts",
            "order": "maybe",
            "settle": -1,
            "max_files": 0,
            "on_bad_row": "skip",
            "tombstone": True,
        }
    )
    expected = (
        "source.format: 'xml'",
        "source.pth: unknown key; did you mean 'path'?",
        "target.topic: 'a b'",
        "target.producer.linger.ms",
        "target.partitions: 0",
        "columns.vlaue: unknown key; did you mean 'value'?",
        "order_by: 'ts'",
        "order: 'maybe'",
        "settle: -1",
        "max_files: 0",
        "on_bad_row: 'skip'",
        "tombstone: unknown key; did you mean 'tombstones'?",
        "lake: missing",
    )
    for start in expected:
        assert any(line.startswith(start) for line in told), (start, told)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"source": {}}, "give either a path or the lake"),
        ({"source": {**CSV, "lake": "x"}}, "give either a path or the"),
        ({"source": {"path": "in", "format": "csv"}}, "path: 'in': neither an absolute path nor"),
        ({"source": {"path": "/in"}}, "format: missing; one of parquet, json, csv, text"),
        ({"source": {"path": "/in", "format": "jsonl"}},
         "must be parquet, json, csv or text; did you mean 'json'?"),
        ({"source": {"path": "/in", "format": "csv"}}, "source.columns: missing: CSV needs its"),
        ({"source": {**CSV, "topics": ["a"]}}, "only a lake has topics"),
        ({"source": {**CSV, "options": {"MODE": "DROPMALFORMED"}}},
         "options: mode: refused: bad rows go by on_bad_row"),
        ({"source": {**CSV, "options": {"pathGlobFilter": "*"}}},
         "options: pathglobfilter: refused: put the pattern into path"),
        ({"source": {"path": "/in", "format": "json", "options": {"multiLine": True}}},
         "multiline: refused: Spark reads only the first object of a file then: give a JSON"),
        ({"source": {**CSV, "options": {"inferSchema": True}}},
         "inferschema: refused: types would depend on which files a run takes: give"),
        ({"source": {"path": "/in", "format": "json", "options": {"allowComments": True}}},
         "allowcomments: not an option of json that may be given; known: dateformat, line"),
        ({"source": {"path": "/in", "format": "parquet", "options": {"mergeSchema": True}}},
         "mergeschema: refused: columns would depend on which files a run takes: give"),
        ({"source": {**CSV, "options": {"encoding": "UTF-16"}}},
         "encoding: lines are cut at a byte; convert the files to UTF-8"),
        ({"source": {**CSV, "options": {"sep": ";", "SEP": ","}}},
         "options: sep: given twice"),
        ({"source": {"lake": "x", "format": "csv"}}, "a lake has its own format"),
        ({"source": {"lake": "out"}}, "source.lake: 'out' is this pipeline itself"),
        ({"target": {}}, "give either topic, or topics"),
        ({"target": {"topic": "a", "topics": ["b"]}}, "give either topic, or topics"),
        ({"target": {"topics": []}}, "target.topics: []: give at least one, for example [orders]"),
        ({"target": {"topics": ["a"]}}, "columns.topic: missing: target.topics needs it"),
        ({"target": {"topic": "t", "producer": {"acks": 0, "transactional.id": "x"}}},
         "target.producer: acks: 0 would lose records silently; use all\n"
         "target.producer: transactional.id: refused: "),
        ({"target": {"topic": "t", "options": {"kafka.acks": 0, "mode": "x"}}},
         "target.options: kafka.acks: 0 would lose records silently; use all\n"
         "target.options: mode: no option of"),
        ({"target": {"topic": "t", "options": {"kafka.acks": 3}}},
         "target.options: kafka.acks: a number of replicas is of Kafka 0.8; use all"),
        ({"target": {"topic": "t", "options": {"kafka.linger.ms": 3, "Kafka.Linger.ms": 3}}},
         "target.options: Kafka.Linger.ms: given twice, as kafka.linger.ms"),
        ({"target": {"topic": "t", "options": {"Kafka.Linger.ms": 3},
                     "producer": {"LINGER.ms": 3}}},
         "target.options: kafka.linger.ms: given twice, in producer too"),
        ({"target": {"topic": "t", "options": {"kafka.buffer.memory": 9},
                     "producer": {"batch.size": 10}}},
         "target.producer: buffer.memory: less than batch.size: no record could be sent; give"),
        ({"target": {"topic": "t", "options": {"kafka.retries": 0}}},
         "target.options: retries: 0 excludes enable.idempotence"),
        ({"target": {"topic": "t", "options": {"kafka.fetch.max.wait.ms": 30_000}}},
         "target.options: kafka.fetch.max.wait.ms: not below kafkaConsumer.pollTimeoutMs"),
        ({"target": {"topic": "t", "options": {"fetchOffset.retryIntervalMs": 3_600_000}}},
         "target.options: fetchOffset.numRetries: times fetchOffset.retryIntervalMs it is more"),
        ({"target": {"topic": "t", "options": {"topic": "u"}}},
         "target.options: topic: refused: the target's topic is a key of the pipeline's file; use"),
        ({"target": {"topic": "t", "options": {"kafka.ssl.key.password": "x"}}},
         "options: kafka.ssl.key.password: refused: it says which cluster is used, and how it is"),
        ({"target": {"topic": "t", "options": {"kafka.lingr.ms": "x"}}},
         "Kafka's producer; did you mean 'kafka.linger.ms'?"),
        ({"target": {"topic": "t", "mode": "append"}},
         "target.mode: unknown key: records are appended, as Kafka has nothing else"),
        ({"columns": {"timestamp": "ts"}},
         "columns.timestamp: not used: give target.timestamps"),
        ({"target": {"topic": "t", "timestamps": "source"}},
         "columns.timestamp: missing: target.timestamps"),
        ({"source": {**CSV, "options": {"mode": "x", "inferSchema": 1}}},
         "give source.columns\nsource.options: mode: refused: bad rows go by on_bad_row"),
        ({"spark": {"conf": {"spark.remote": "x", "spark.master": "y"}}},
         "; use `spark.connection`\nspark.conf: spark.master: refused: Tidegate sets it: "),
        ({"spark": {"conf": {"spark.task.maxFailures": 1}}},
         "spark.conf: spark.task.maxFailures: refused: Tidegate sets it: Spark retries nothing"),
        ({"spark": {"conf": {"spark.sql.session.timeZone": "CET"}}},
         "spark.conf: spark.sql.session.timeZone: refused: Tidegate sets it: a retry must make"),
        ({"spark": {"conf": {"spark.sql.Parquet.writeLegacyFormat": 1}}},
         "Spark's settings have their letter case: spark.sql.parquet.writeLegacyFormat"),
        ({"target": {"topics": ["a", "a"]}}, "topics: one is named twice in ['a', 'a']"),
        ({"order": "strict"}, "order: strict: rows of files have no order without order_by"),
        ({"order": "strict", "order_by": ["a"]},
         "order: strict: without columns.key and columns.partition Kafka spreads the rows over"),
        ({"order": "strict", "source": {"lake": "x"},
          "columns": {"key": "null", "partition": " NULL "}},
         "order: strict: without columns.key and columns.partition Kafka spreads the rows over"),
        ({"source": CSV, "columns": {"value": "**"}},
         "columns: '**' is the line of a JSON file"),
        ({"columns": {"value": "'**'"}},
         "columns.value: \"'**'\": is text: in YAML with one pair of quotes: '**'"),
        ({"columns": {"key": ' "*" '}},
         "is text: in YAML with one pair of quotes: '*'"),
        ({"source": {"lake": "x"}, "columns": {"partition": "'NULL'"}},
         "partition: \"'NULL'\": is text, not an integer: in YAML with one pair of quotes: 'NULL'"),
        ({"lake": "here"}, "lake: 'here': neither an absolute path nor a URL"),
        ({"mode": "overwrite"}, "mode: unknown key"),
        ({"topics": ["a"]}, "topics: unknown key; did you mean 'source.topics' or 'target.top"),
        ({"source": {"lake": "x"}, "where": "key = 'AA'"},
         "where: unknown key: a pipeline reads or sends all rows; a filter is for a replay of a"),
        ({"source": {"lake": "x", "where": "true"}}, "source.where: unknown key: a pipeline reads"),
        ({"tombstones": "maybe"}, "tombstones: 'maybe': must be true or false"),
        ({"target": {"topic": "t", "producer": "acks"}},
         "target.producer: must be a mapping, for example {acks: all}"),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_named(change, complaint):
    """Each contradiction within a file is one line, also beside a wrong value."""
    told = complaints({**LEAST, **change})
    assert complaint in "\n".join(told)
    assert len(told) == 1 + complaint.count("\n")
    more = complaints({**LEAST, "schedule": "every day", "settle": -1, **change})
    assert {*told} <= {*more}
    assert len(more) == len(told) + 2


def test_a_constant_text_that_is_no_word():
    """Other texts may be constants, and an expression of a partition may begin and end with one."""
    columns = {"key": "'k'", "value": "'**' || a || '*'", "partition": "'1' + '2'"}
    assert dict(egress({**LEAST, "columns": columns}).columns).items() >= columns.items()


def test_options_that_may_be_given():
    """Whatever their case."""
    options = {"escape": "\\", "Encoding": "ISO-8859-1", "header": False, "SEP": "|"}
    spec = egress({**LEAST, "source": {**CSV, "options": options}})
    assert spec.source.options == options


ROUND_ROBIN = {"partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"}
BY_KEY = "producer: partitioner.class: it would send the rows of a key to many partitions"
REORDERS = "producer: without idempotence (acks: 1 switches it off) a producer's retry reorders"


@pytest.mark.parametrize(
    ("change", "producer", "complaint"),
    [
        ({}, ROUND_ROBIN, None),
        ({}, {"acks": 1}, None),
        ({"order_by": ["id"]}, ROUND_ROBIN, BY_KEY),
        ({"order_by": ["id"], "columns": {"partition": " NULL "}}, ROUND_ROBIN, BY_KEY),
        ({"order_by": ["id"], "columns": {"partition": "id % 3"}}, ROUND_ROBIN, None),
        ({"source": {"lake": "flights"}}, ROUND_ROBIN, None),
        ({"source": {"lake": "flights"}, "columns": {"partition": "null"}}, ROUND_ROBIN, BY_KEY),
        ({"order_by": ["id"]}, {"acks": 1}, REORDERS),
        ({"order_by": ["id"]}, {"enable.idempotence": False}, REORDERS),
        ({"source": {"lake": "flights"}}, {"acks": 1}, REORDERS),
        ({"order_by": ["id"]}, {"acks": 1, "max.in.flight.requests.per.connection": 1}, None),
        ({"order_by": ["id"]}, {"max.in.flight.requests.per.connection": 3}, None),
        ({"order_by": ["id"]}, {"partitioner.ignore.keys": False}, None),
    ],
)
def test_a_producer_that_would_break_the_order_is_refused(change, producer, complaint):
    """With the way out; where no order is promised it may be given."""
    form = {**LEAST, **change, "target": {"topic": "t", "producer": producer}}
    if complaint is None:
        egress(form)
        return
    (told,) = complaints(form)
    assert complaint in told
    assert "and their order is promised: " in told


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("/in/[9-0]*", r"[9-0]: no character lies between '9' and '0'"),
        ("/in/[a--b]*", r"[a--b]: no character lies between 'a' and '-'"),
        ("file:///in/%5B9-0%5D*", r"[9-0]: no character lies between '9' and '0'"),
        ("s3://bucket/x/*/[z-a]", r"[z-a]: no character lies between 'z' and 'a'"),
        ("/in/[!]*", r"[!]: no character stands between the brackets"),
        ("/in/[]", r"[]: no character stands between the brackets"),
        ("/in/[*", r"[*: the bracket is not closed in this part of the path"),
        ("/in/x[", r"x[: the bracket is not closed in this part of the path"),
        ("/in/*/[abc", r"[abc: the bracket is not closed in this part of the path"),
        ("/in/*.csv**", r"*.csv**: `**` stands for directories, and is a part of its own"),
        ("/in/[a/b]*", r"[a: the bracket is not closed in this part of the path"),
    ],
)
def test_a_pattern_of_names_that_is_none(path: str, what: str) -> None:
    """Refused when the file is read, with the part that is wrong."""
    told = complaints({**LEAST, "source": {"path": path, "format": "json"}})
    assert told == [f"source.path: not a pattern of names: {what}"]
