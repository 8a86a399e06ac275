"""What would be sent or kept otherwise than by the old job is a TO DO: transforms, files, rows."""

from pathlib import Path
from typing import Any

import pytest

from support.translated import CANARY, SOURCE, TOPIC, comments, keys, loaded, of
from tidegate.pipelines.spec import Egress
from tidegate.pipelines.translation import translate

SINK = {"name": "s", "connector.class": "io.confluent.connect.s3.S3SinkConnector", "topics": "t",
        "s3.bucket.name": "raw"}  # fmt: skip
OF_KAFKA = "org.apache.kafka.connect.transforms"


def transformed(type_: str, **more: str) -> dict[str, str]:
    return {"transforms": "x", "transforms.x.type": type_, **more}


# Transforms of Kafka Connect


@pytest.mark.parametrize(
    ("type_", "says"),
    [
        (f"{OF_KAFKA}.MaskField$Value", "it masks values, and they would be readable in the lake"),
        ("com.acme.EncryptFields$Value", "it masks values"),
        (f"{OF_KAFKA}.Filter", "it changes records or leaves some out: the lake keeps all"),
        (f"{OF_KAFKA}.ReplaceField$Value", "it changes records or leaves some out"),
        (f"{OF_KAFKA}.DropHeaders", "it changes records or leaves some out"),
        ("io.debezium.transforms.ExtractNewRecordState", "it changes records or leaves some out"),
    ],
)
def test_a_transform_of_a_sink(type_: str, says: str) -> None:
    predicates = {"predicates": "p", "predicates.p.type": f"{OF_KAFKA}.predicates.HasHeaderKey"}
    made = of({**SINK, **transformed(type_, **{"transforms.x.predicate": "p"}, **predicates)})
    (missing,) = made.missing
    assert missing.startswith(f"transforms.x.type: {says}")
    assert "transforms, transforms.x.predicate, predicates, predicates.p.type" in comments(made)


@pytest.mark.parametrize("router", ["RegexRouter", "TimestampRouter"])
def test_a_sink_that_routes(router: str) -> None:
    """It only names the directories of the connector."""
    made = of({**SINK, **transformed(f"{OF_KAFKA}.{router}")})
    assert made.missing == ()
    assert "the directories of the lake have the names of topics in Kafka" in comments(made)


@pytest.mark.parametrize(
    ("type_", "says"),
    [
        (f"{OF_KAFKA}.RegexRouter", "it changes the topic of records: set target.topic"),
        (f"{OF_KAFKA}.TimestampRouter", "it changes the topic"),
        ("io.confluent.connect.transforms.ExtractTopic$Value", "it changes the topic"),
        (f"{OF_KAFKA}.MaskField$Value", "it changes records or leaves some out: rows are sent"),
        (f"{OF_KAFKA}.Filter", "it changes records or leaves some out: rows are sent"),
    ],
)
def test_a_transform_of_a_source(type_: str, says: str) -> None:
    (missing,) = of({**SOURCE, **transformed(type_)}).missing
    assert missing.startswith(f"transforms.x.type: {says}")


@pytest.mark.parametrize("connector", [SINK, SOURCE])
@pytest.mark.parametrize(
    ("form", "labels"),
    [
        ({"transforms": "a,b", "transforms.a.type": "x.Mask", "transforms.b.type": "x.Filter"},
         ["transforms.a.type", "transforms.b.type"]),
        ({"transforms": "a"}, ["transforms"]),
        ({"transforms": "${file:/x:y}", "transforms.a.type": "x.Mask"}, ["transforms"]),
        ({"transforms": "", "transforms.a.type": "x.Mask"}, []),
        ({"transforms.a.type": "x.Mask", "predicates": "p"}, []),
    ],
)  # fmt: skip
def test_transforms_that_are_named(
    connector: dict[str, Any], form: dict[str, str], labels: list[str]
) -> None:
    """Connect applies those alone."""
    made = of({**connector, **form})
    assert [each.partition(":")[0] for each in made.missing] == labels
    assert all(name in comments(made) for name in form)


def test_the_type_of_a_transform_is_not_shown() -> None:
    made = of({**SINK, **transformed(f"com.{CANARY}.Mask")})
    assert CANARY not in made.text + "".join(made.missing)


# Files of a source connector


@pytest.mark.parametrize(
    "more",
    [
        {"topic.regex.list": "orders:.*2026.*"},
        {"folders": "a,b"},
        {"file.discovery.starting.timestamp": "1700000000"},
        {"file.name.regex.pattern": "(.*)"},
        {"file.name.template": "{{topic}}-{{partition}}"},
        {"topics.prefix": "copy_"},
        {"topics.dir": "${DIRECTORY}"},
        {"mode": "${MODE}"},
    ],
)
def test_other_files_or_topics(more: dict[str, str]) -> None:
    (missing,) = of({**SOURCE, **more}).missing
    assert missing.startswith(f"{next(iter(more))}: ")


def test_files_that_were_sent() -> None:
    assert "Files that the connector has sent are sent again" in comments(of(SOURCE))


# Interceptors


@pytest.mark.parametrize(
    "form",
    [
        {**TOPIC, "kafka.interceptor.classes": "x.Mask"},
        {**TOPIC, "fetch.min.bytes": "1", "interceptor.classes": "${CLASSES}"},
        {"topic": "t", "path": "/in", "format": "json", "kafka.interceptor.classes": "x.Mask"},
        {**SINK, "consumer.override.interceptor.classes": "x.Mask"},
        {**SOURCE, "producer.override.interceptor.classes": "x.Mask"},
    ],
)
def test_an_interceptor(form: dict[str, str]) -> None:
    (missing,) = of(form).missing
    assert missing.startswith(f"{list(form)[-1]}: an interceptor may change")
    assert of({**form, list(form)[-1]: ""}).missing == ()


# Files of a job

CSV = {"topic": "t", "path": "/in", "format": "csv"}


def test_options_of_a_reader(tmp_path: Path) -> None:
    spec = loaded(of({**CSV, "header": True, "SEP": ";"}), tmp_path)
    assert isinstance(spec, Egress)
    given = {name.lower(): value for name, value in spec.source.options.items()}
    assert (spec.source.format, given) == ("csv", {"header": True, "sep": ";"})


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ({"pathGlobFilter": "*.csv"}, "pathGlobFilter: put the pattern into path"),
        ({"modifiedAfter": "2026-01-01"}, "modifiedAfter: the plan chooses the files"),
        ({"mode": "DROPMALFORMED"}, "mode: bad rows go by on_bad_row"),
        ({"sep": "${SEP}"}, "sep: without it other rows would be read"),
        ({"schema": "${SCHEMA}"}, "schema: without it other columns would be read"),
    ],
)
def test_what_a_source_does_not_take(option: dict[str, str], says: str) -> None:
    (missing,) = of({**CSV, **option}).missing
    assert missing.startswith(says)


def test_what_a_source_does_without(tmp_path: Path) -> None:
    more = {"schema": "id INT", "maxFilesPerTrigger": 5, "recursiveFileLookup": True}
    spec = loaded(of({**CSV, **more}), tmp_path)
    assert isinstance(spec, Egress)
    assert (spec.source.columns, spec.source.options) == ("id INT", {})


def test_a_stream_that_sends_files() -> None:
    """Its checkpoint has the names of those that were sent."""
    (missing,) = of({**CSV, "checkpointLocation": "/c"}).missing
    assert missing.startswith("checkpointLocation: the stream has sent the files that are named")


# Packages


@pytest.mark.parametrize("name", ["spark.jars.packages", "--packages"])
def test_packages_that_tidegate_brings(name: str) -> None:
    own = [
        "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.1",
        "org.apache.spark:spark-streaming-kafka-0-8-assembly_2.11:2.4.8",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.12:3.5.1",
        "org.apache.kafka:kafka-clients:2.8.1", "org.apache.hadoop:hadoop-aws:3.3.4",
        "com.amazonaws:aws-java-sdk-bundle:1.12.262", "software.amazon.awssdk:bundle:2.20.0",
    ]  # fmt: skip
    other = ["com.acme:udfs_2.13:1", "org.apache.spark:spark-avro_2.13:4.0.4"]
    form = {**TOPIC, "spark.jars.packages": ", ".join([*own, *other])}
    line = f"spark-submit --packages {','.join([*own, *other])} --conf spark.x=1 job.py"
    made = of(form) if name.startswith("spark.") else translate(line.encode())
    assert keys(made)["spark"]["conf"]["spark.jars.packages"] == ",".join(other)
    assert "spark.jars.packages: without those of Kafka's connector and of S3" in comments(made)
    assert "spark" not in keys(of({**TOPIC, "spark.jars.packages": ",".join(own)}))


def test_jars_that_tidegate_brings() -> None:
    jars = "/x/spark-sql-kafka-0-10_2.12-3.5.1.jar,kafka-clients-3.4.1.jar,s3a://b/own-1.jar"
    made = of({**TOPIC, "spark.jars": jars})
    assert keys(made)["spark"]["conf"] == {"spark.jars": "s3a://b/own-1.jar"}
    kept = of({**TOPIC, "spark.jars": "/x/own.jar"})
    assert (keys(kept)["spark"]["conf"], kept.dropped) == ({"spark.jars": "/x/own.jar"}, 0)
