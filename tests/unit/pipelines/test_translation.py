"""Settings of Spark jobs, clients and Kafka Connect become pipeline files, with all answers."""

import re
from pathlib import Path
from typing import Any

import pytest

from support.doc_pages import fenced, page
from support.translated import CANARY, SOURCE, TOPIC, comments, keys, loaded, of
from tidegate import __version__
from tidegate.pipelines.spec import Egress, Ingest
from tidegate.pipelines.translation import translate
from tidegate.settings.setting import Answer, Place
from tidegate.settings.table import TABLE, find

HERE = Path(__file__).parent / "translated"


# Three configurations as they are in the world


@pytest.mark.parametrize("name", ["consumer.properties", "s3_sink.json", "structured_stream.json"])
def test_the_whole_file(name: str, tmp_path: Path) -> None:
    """Each setting has its key or its reason, and nothing has a secret."""
    source = HERE / name
    made = translate(source.read_bytes(), source.stem)
    expected = source.with_suffix(".yaml").read_text().replace("VERSION", __version__)
    assert (made.missing, made.text) == ((), expected)
    assert loaded(made, tmp_path).name == made.name
    assert "s3cr3t" not in made.text


def test_the_example_of_the_docs() -> None:
    """The page shows what is printed, but for the heading."""
    text = page("docs/how-to/translate.md")
    (settings,), (expected,) = fenced(text, "text"), fenced(text, "yaml")
    assert translate(settings.encode()).text.partition("\n\n")[2] == expected


# Readers


def test_properties_as_java_reads_them() -> None:
    text = rb"""
! a comment
# another
topics.regex:   a\\.b\
                .c
connector.class = io.confluent.connect.s3.S3SinkConnector
s3.bucket.name	raw-\u0064ata
consumer.override.isolation.level=read_committed
"""
    form = keys(translate(text))
    assert form["pattern"] == "a\\.b.c"
    assert form["lake"] == "s3://raw-data/tidegate"


def test_lines_of_a_key_are_no_settings() -> None:
    """Neither the body of a PEM text nor a login that goes on in the next line is shown."""
    text = f"""
bootstrap.servers=b:9092
group.id=g
ssl.keystore.key=-----BEGIN PRIVATE KEY-----
{CANARY}AAAA=
{CANARY}.BBBB CCCC
-----END PRIVATE KEY-----
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required
  username="{CANARY}"
  password="{CANARY}";
{CANARY}
{CANARY} required
""".encode()
    made = translate(text)
    assert CANARY not in made.text + "".join(made.missing)
    assert "line 8" not in made.text  # a part of the text above it


def test_a_command_line() -> None:
    """It has Spark's settings, but no topic: the file is not complete."""
    text = rb"""spark-submit --master yarn --class x.Y \
      --conf spark.sql.shuffle.partitions=10 --conf "spark.app.name=a b" \
      --executor-memory 4g job.py --input /x"""
    made = translate(text, "job")
    assert keys(made)["spark"]["conf"] == {
        "spark.sql.shuffle.partitions": 10, "spark.executor.memory": "4g",
    }  # fmt: skip
    assert made.missing == ("topics: no topic is named: add `topics: [NAME]` to the file",)


# Where to begin


@pytest.mark.parametrize(
    ("options", "start"),
    [
        ({}, None),
        ({"trigger": "1 minute"}, "latest"),
        ({"startingOffsets": "latest"}, "latest"),
        ({"StartingOffsets": "EARLIEST"}, "earliest"),
        ({"startingOffsets": '{"t":{"0":-2,"1":-2}}'}, "earliest"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "latest"),
        ({"startingOffsets": {"t": {"0": 5}}}, {"offsets": {"t": {0: 5}}}),
        (
            {"startingTimestamp": "1000", "startingOffsets": "latest",
             "startingOffsetsByTimestampStrategy": "latest"},
            {"timestamp": "1970-01-01T00:00:01Z"},
        ),
        (
            {"startingOffsets": '{"t":{"0":5}}', "startingTimestamp": "1000",
             "startingOffsetsByTimestamp": '{"t":{"0":2000}}',
             "startingOffsetsByTimestampStrategy": "latest"},
            {"timestamp": "1970-01-01T00:00:01Z"},
        ),
    ],
)  # fmt: skip
def test_where_a_spark_job_begins(options: dict[str, Any], start: Any, tmp_path: Path) -> None:
    """Its precedence: a timestamp, timestamps by partition, offsets."""
    made = of({**TOPIC, **options})
    assert (made.missing, keys(made).get("start")) == ((), start)
    loaded(made, tmp_path)


@pytest.mark.parametrize(
    ("options", "start"),
    [
        (
            {"startingTimestamp": 1500},
            {"timestamp": "1970-01-01T00:00:01.500Z", "otherwise": "fail"},
        ),
        (
            {"startingOffsetsByTimestamp": '{"t":{"0":0,"1":86400000}}',
             "startingOffsetsByTimestampStrategy": "error", "startingOffsets": "earliest"},
            {"timestamps": {"t": {0: "1970-01-01T00:00:00Z", 1: "1970-01-02T00:00:00Z"}},
             "otherwise": "fail"},
        ),
    ],
)  # fmt: skip
def test_where_a_spark_job_begins_or_fails(
    options: dict[str, Any], start: Any, tmp_path: Path
) -> None:
    """Spark's default for a partition without a later record is an error."""
    made = of({**TOPIC, **options})
    assert (made.missing, keys(made)["start"]) == ((), start)
    loaded(made, tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": "{broken"},
        {"startingOffsets": '{"t\\n#":{"0":1}}'},
        {"startingOffsets": '{"t":{"0":1.5}}'},
        {"startingOffsets": '{"other":{"0":1}}'},
        {"startingTimestamp": "9" * 30},
        {"startingTimestamp": "soon"},
        {"startingOffsetsByTimestamp": "{}"},
        {"startingTimestamp": "1", "startingOffsetsByTimestampStrategy": "maybe"},
    ],
)
def test_a_start_that_is_none(options: dict[str, Any]) -> None:
    """The pipeline would begin elsewhere, so it is not complete; no value is quoted."""
    made = of({**TOPIC, **options})
    assert len(made.missing) == 1
    assert re.match(r"start", made.missing[0])


@pytest.mark.parametrize(
    ("properties", "start"),
    [
        ({}, "latest"),
        ({"auto.offset.reset": "smallest"}, "earliest"),
        ({"auto.offset.reset": "largest"}, "latest"),
        ({"auto.offset.reset": "earliest", "group.id": "g"}, {"group": "g"}),
        ({"auto.offset.reset": "latest", "group.id": "g"}, {"group": "g", "otherwise": "latest"}),
        ({"auto.offset.reset": "none", "group.id": "g"}, {"group": "g", "otherwise": "fail"}),
        ({"group.id": "1e3"}, {"group": "1e3", "otherwise": "latest"}),
        ({"group.id": "g", "zookeeper.connect": "z", "auto.offset.reset": "smallest"}, "earliest"),
    ],
)
def test_where_a_consumer_begins(properties: dict[str, str], start: Any) -> None:
    """Where its group has stopped; of Kafka 0.8, where the job says."""
    made = of({"fetch.min.bytes": "1", **properties})
    assert keys(made)["start"] == start
    assert made.missing[0].startswith("topics: ")


@pytest.mark.parametrize("word", ["sometime", "none"])
def test_a_reset_without_an_answer(word: str) -> None:
    made = of({"fetch.min.bytes": "1", "auto.offset.reset": word})
    assert any(each.startswith("auto.offset.reset: ") for each in made.missing)


# Topics


def test_assigned_partitions(tmp_path: Path) -> None:
    made = of({"assign": '{"on":[2,0]}'})
    assert (made.missing, keys(made)["assign"]) == ((), {"on": [0, 2]})
    loaded(made, tmp_path)


@pytest.mark.parametrize(
    ("options", "key", "value"),
    [
        ({"subscribe": "on, 1e3,y,0x10,a.b"}, "topics", ["on", "1e3", "y", "0x10", "a.b"]),
        ({"subscribePattern": "ürün-.*: #x"}, "pattern", "ürün-.*: #x"),
        ({"subscribePattern": "[{&*!|>'\"%@`#]{1}"}, "pattern", "[{&*!|>'\"%@`#]{1}"),
    ],
)
def test_names_that_yaml_reads_otherwise(
    options: dict[str, str], key: str, value: Any, tmp_path: Path
) -> None:
    made = of(options)
    spec = loaded(made, tmp_path)
    assert list(value) == list(getattr(spec, key))


def test_numbers_of_other_readers_are_quoted() -> None:
    """YAML 1.2 reads `1e3` and `0o7` as numbers."""
    made = of({"subscribe": "1e3,0o7,.5"})
    assert 'topics: ["1e3", "0o7", ".5"]' in made.text


@pytest.mark.parametrize(
    "options",
    [
        {"assign": "{}"}, {"assign": '{"t":[true]}'}, {"assign": '{"t":0}'}, {"assign": "t"},
        {"subscribe": " , "}, {"subscribe": ""}, {"subscribe": "a b"},
        {"subscribe": "t", "subscribePattern": "t"}, {"subscribePattern": "("},
        {"subscribe": "${TOPIC}"}, {"subscribe": "a\u0007"}, {"subscribe": "\ud800"},
        {"startingOffsets": "earliest"},
    ],
)  # fmt: skip
def test_topics_that_are_not_known(options: dict[str, str]) -> None:
    assert of(options).missing


# Answers


@pytest.mark.parametrize(
    "each", [each for each in TABLE if each.place in (Place.SOURCE, Place.SINK)],
    ids=lambda each: f"{each.place}-{each.name}",
)  # fmt: skip
def test_every_setting_of_the_table_has_an_answer(each: Any) -> None:
    """A key, a reason, or a place in the connection."""
    target = find(each.place, each.becomes or each.name) or each
    fits = (v for v in (target.default, "1", "true", "all", "none", "read_committed", "INFO",
            "classic", "false", "10000", "org.apache.kafka.clients.producer.RoundRobinPartitioner")
            if v and not (target.check or (lambda _: None))(v))  # fmt: skip
    base = TOPIC if each.place is Place.SOURCE else {"topic": "t", "path": "/in", "format": "json"}
    made = of({**base, each.name: next(fits)})
    assert re.search(rf"\b{re.escape(each.name)}\b", made.text)
    if each.answer is Answer.ACCEPTED and each.place is Place.SOURCE:
        assert keys(made)["options"].keys() == {each.name}


def test_options_in_any_letter_case(tmp_path: Path) -> None:
    made = of({"SUBSCRIBE": "t", "kafkaconsumer.POLLTIMEOUTMS": "5", "Kafka.Fetch.Min.Bytes": 2})
    assert keys(made)["options"] == {"kafkaConsumer.pollTimeoutMs": 5, "kafka.fetch.min.bytes": 2}
    loaded(made, tmp_path)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kafka.fetch.min.bytes": "many"}, "kafka.fetch.min.bytes: not a whole number"),
        ({"kafka.fetch.min.byte": "1"}, "did you mean 'kafka.fetch.min.bytes'?"),
        ({"subscrib": "x"}, "entry 2: not known; did you mean 'subscribe'?"),
        ({"kafka.key.deserializer": "x.Y"}, "kafka.key.deserializer: keys are read as bytes"),
        ({"kafka.session.timeout.ms": "9"}, "kafka.session.timeout.ms: it has no effect"),
        ({"spark.submit.deployMode": "cluster"}, "spark.submit.deployMode: Tidegate sets it"),
        ({"spark.streaming.unpersist": "true"}, "spark.streaming.unpersist: of streams"),
        ({"spark.streaming.backpressure.enabled": "true"}, "it has no effect: it is of direct"),
        ({"spark.master": "yarn"}, "spark.master: Tidegate sets it"),
        ({"outputMode": "complete"}, "outputMode: the lake is only ever appended to"),
        ({"trigger": "7 minutes"}, "trigger: no cron expression has this interval"),
        ({"maxOffsetsPerTrigger": "-1"}, "not a whole number above 0"),
        ({"failOnDataLoss": "perhaps"}, "neither true nor false"),
        ({"spark.sql.x": "${X}"}, "spark.sql.x: its value is a variable of another system"),
        ({"spark.sql.x": ""}, "spark.sql.x: it is empty"),
    ],
)
def test_each_answer_has_its_reason(options: dict[str, str], says: str) -> None:
    made = of({**TOPIC, **options})
    assert says in comments(made)
    assert made.missing == ()


@pytest.mark.parametrize(
    ("interval", "schedule"),
    [
        ("1 minute", "* * * * *"), ("10 minutes", "*/10 * * * *"), ("1 hour", "0 * * * *"),
        ("interval 6 hours", "0 */6 * * *"), ("24 hours", "0 0 * * *"), ("60 seconds", "* * * * *"),
        ("10 seconds", None), ("7 minutes", None), ("90 minutes", None), ("soon", None),
        ("25 hours", None),
    ],
)  # fmt: skip
def test_a_trigger_is_a_schedule(interval: str, schedule: str | None, tmp_path: Path) -> None:
    made = of({**TOPIC, "trigger": interval})
    assert keys(made).get("schedule") == schedule
    loaded(made, tmp_path)


def test_a_setting_that_is_given_again() -> None:
    """The last one counts, as for Java, Spark and JSON, and the file says so."""
    text = b'{"subscribe": "a", "maxOffsetsPerTrigger": 1, "subscribe": "b"}'
    made = translate(text)
    assert keys(made)["topics"] == ["b"]
    assert "subscribe: given again at entry 3: the last one counts" in comments(made)


def test_an_old_and_a_new_name_of_one_setting() -> None:
    made = of({**TOPIC, "kafka.fetch.max.wait.ms": "1", "fetch.wait.max.ms": "2"})
    assert keys(made)["options"] == {"kafka.fetch.max.wait.ms": 1}
    assert "fetch.wait.max.ms: given before, as kafka.fetch.max.wait.ms" in comments(made)


def test_a_job_from_topic_to_topic() -> None:
    """Two pipelines: the one that reads is made, and says what belongs to the other."""
    made = of({**TOPIC, "topic": "u"})
    assert keys(made)["topics"] == ["t"]
    assert "topic: of the job's sink: translate it apart" in comments(made)


# Egress


def test_a_producer(tmp_path: Path) -> None:
    """It says neither what is sent nor where to; both are to be added."""
    text = b"request.required.acks=-1\nqueue.buffering.max.ms=5\nmetadata.broker.list=b:9092\n"
    made = translate(text, "producer")
    assert keys(made)["target"] == {"options": {"kafka.acks": "all", "kafka.linger.ms": 5}}
    assert [each.partition(":")[0] for each in made.missing] == ["source", "target.topic"]


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({}, "s3://raw/topics/**/*.json"),
        ({"topic.regex.list": "orders:.*"}, "s3://raw/topics/"),
        ({"topic.regex.list": "orders:.*", "topics.dir": "/in/x/"}, "s3://raw/in/x/"),
        ({"topic.regex.list": "orders:.*", "topics.dir": ""}, "s3://raw/"),
        ({"mode": "RESTORE_BACKUP"}, "s3://raw/topics/orders/"),
        ({"mode": None, "topic.regex.list": None, "topics": "orders"}, "s3://raw/topics/orders/"),
        ({"mode": None, "s3.bucket.name": None, "aws.s3.bucket.name": "raw"},
         "s3://raw/**/*.json"),
    ],
)  # fmt: skip
def test_an_s3_source(more: dict[str, str | None], path: str, tmp_path: Path) -> None:
    spec = loaded(of({**SOURCE, **more}), tmp_path)
    assert isinstance(spec, Egress)
    assert (spec.name, spec.target.topic, spec.schedule) == ("restore-1", "orders", "* * * * *")
    assert (spec.source.path, spec.source.format) == (path, "json")


@pytest.mark.parametrize(
    ("more", "missing"),
    [
        ({"format.class": "io.confluent.connect.s3.format.avro.AvroFormat"}, "format.class"),
        ({"topic.regex.list": "a:x,b:y"}, "topic.regex.list"),
        ({"s3.bucket.name": "A bucket"}, "source.path"),
        ({"format.class": None}, "source.format"),
        ({"topic.regex.list": None}, "target.topic"),
    ],
)
def test_what_an_s3_source_needs(more: dict[str, str | None], missing: str) -> None:
    assert [each.partition(":")[0] for each in of({**SOURCE, **more}).missing] == [missing]


def test_an_s3_sink_of_aiven(tmp_path: Path) -> None:
    form = {
        "connector.class": "io.aiven.kafka.connect.s3.S3SinkConnector", "topics.regex": "a\\..*",
        "aws.s3.bucket.name": "raw", "aws.s3.region": "x y", "format.output.type": "jsonl",
    }  # fmt: skip
    spec = loaded(of(form, "sink"), tmp_path)
    assert isinstance(spec, Ingest)
    assert (spec.name, spec.pattern, spec.lake) == ("sink", "a\\..*", "s3://raw/tidegate")
    assert spec.start == "earliest"  # Connect's own default; without a name there is no group
