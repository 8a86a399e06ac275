"""Connections in a terminal without Airflow: JSON and URI form, defaults, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from tidegate.connections import (
    for_planner,
    refuse_wrong_kafka,
)
from tidegate.errors import ConfigurationError
from tidegate.orchestration.command_connections import kafka, spark
from tidegate.orchestration.metadata_database import NAMED_BY
from tidegate.pipelines.spec import Spec, parse_spec
from tidegate.runs.client_options import client_name, refuse_contradictions

PASSWORD = "hunter2"


@pytest.fixture(autouse=True)
def _no_airflow(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*NAMED_BY, "AIRFLOW_CONN_SPARK_DEFAULT"):
        monkeypatch.delenv(name, raising=False)


def pipeline(connection: str) -> Spec:
    form = {"name": "p", "kind": "ingest", "topics": ["t"], "lake": "/lake"}
    return parse_spec({**form, "spark": {"connection": connection}})


def of_kafka(connection: str, **form: Any) -> Spec:
    least = {"name": "p", "kind": "ingest", "topics": ["t"], "lake": "/lake"}
    return parse_spec({**least, "kafka": connection, **form})


SCRAM = {
    "bootstrap.servers": "b:9093", "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN",
    "sasl.username": "u", "sasl.password": PASSWORD,
}  # fmt: skip
TOKEN = {"tidegate.delegation_token": True}
JAAS = {"spark.driver.extraJavaOptions": "-Djava.security.auth.login.config=/j"}


def define(monkeypatch: pytest.MonkeyPatch, extra: Any) -> None:
    form = {"conn_type": "kafka", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(form))


def with_conf(conf: dict[str, str]) -> Spec:
    form = {"name": "p", "kind": "ingest", "topics": ["t"], "lake": "/lake"}
    return parse_spec({**form, "spark": {"conf": conf}})


@pytest.mark.parametrize(
    ("extra", "conf", "says"),
    [
        ({**SCRAM, "security.protocol": "SASL_SLL"}, {}, "security.protocol: not one of"),
        ({**SCRAM, "sasl.mechanism": "SCRAM"}, {}, "sasl.mechanism: not one of"),
        ({**SCRAM, "security.protocol": "PLAINTEXT"}, {}, "PLAINTEXT has no login"),
        (
            {"bootstrap.servers": "b:9092", "ssl.ca.location": "/ca"},
            {},
            "ssl.ca.location: PLAINTEXT, the protocol if none is given, does not encrypt",
        ),
        ({**SCRAM, "sasl.jaas.config": "x"}, {}, "sasl.jaas.config: refused"),
        ({**SCRAM, "bootstrap.servers": "b"}, {}, "bootstrap.servers: ['b']"),
        (
            {**SCRAM, **TOKEN, "tidegate.delegation_token.target_regex": "c:.*"},
            {},
            "'c:.*' does not match b:9093",
        ),
        ({**SCRAM, **TOKEN}, JAAS, "spark.conf: spark.driver.extraJavaOptions: -Djava.sec"),
        ([], {}, "not a mapping"),
    ],
)
def test_wrong_settings_of_a_connection_are_found_without_a_broker(
    monkeypatch: pytest.MonkeyPatch, extra: Any, conf: dict[str, str], says: str
) -> None:
    """When DAG files are parsed, if the environment defines the connection; no secret is quoted."""
    define(monkeypatch, extra)
    with pytest.raises(ConfigurationError) as refused:
        refuse_wrong_kafka(with_conf(conf))
    assert says in str(refused.value)
    assert PASSWORD not in str(refused.value)


@pytest.mark.parametrize(
    ("timeout", "form", "says"),
    [
        (None, {"options": {"kafka.default.api.timeout.ms": 29_999}}, "options: kafka.default.api"),
        (40_000, {"options": {"kafka.default.api.timeout.ms": 39_999}}, "options: kafka.default."),
        (20_000, {"options": {"kafka.default.api.timeout.ms": 29_999}}, None),
        (
            40_000,
            {"options": {"kafka.default.api.timeout.ms": 39_999, "kafka.request.timeout.ms": 9}},
            None,
        ),
        (None, {"target": {"options": {"kafka.default.api.timeout.ms": 9}}}, "target.options: kaf"),
        (600, {"target": {"options": {"kafka.default.api.timeout.ms": 600}}}, None),
        (
            60_000,
            {"target": {"producer": {"delivery.timeout.ms": 60_000}}},
            "target.producer: delivery.timeout.ms: less than",
        ),
        (
            60_000,
            {"target": {"options": {"kafka.delivery.timeout.ms": 60_000}}},
            "target.options: delivery.timeout.ms: less than",
        ),
        (600, {"options": {"kafka.fetch.max.wait.ms": 600}}, "options: kafka.fetch.max.wait.ms: n"),
        (601, {"options": {"kafka.fetch.max.wait.ms": 600}}, None),
        (
            600,
            {"target": {"options": {"kafka.fetch.max.wait.ms": 600}}},
            "target.options: kafka.fetch.max.wait.ms: not below kafka.request.timeout.ms",
        ),
        (None, {"target": {"producer": {"delivery.timeout.ms": 60_000}}}, None),
    ],
)
def test_options_that_contradict_the_connection(
    monkeypatch: pytest.MonkeyPatch, timeout: int | None, form: dict[str, Any], says: str | None
) -> None:
    """They are valid alone. Found when DAG files are parsed, and by a run before a broker."""
    extra = {"bootstrap.servers": "b:9092", "request.timeout.ms": timeout or ""}
    define(monkeypatch, extra)
    least = {"name": "p", "kind": "ingest", "topics": ["t"], "lake": "/lake", **form}
    if target := form.get("target"):
        source = {"path": "/in", "format": "text"}
        del least["topics"]
        least |= {"kind": "egress", "source": source, "target": {"topic": "t", **target}}
    spec = parse_spec(least)
    for check in (refuse_wrong_kafka, lambda spec: refuse_contradictions(spec, kafka(spec))):
        if says is None:
            check(spec)
            continue
        with pytest.raises(ConfigurationError) as refused:
            check(spec)
        begins = "pipeline 'p': with what its Kafka connection 'kafka_default' has: "
        assert str(refused.value).startswith(begins + says)


@pytest.mark.parametrize(
    ("extra", "conf"),
    [
        (SCRAM, JAAS),
        ({**SCRAM, **TOKEN}, {}),
        # What is on this machine says nothing about that of the tasks.
        ({**SCRAM, "ssl.ca.location": "/no/such/file"}, {}),
        ({**SCRAM, "ssl.certificate.pem": "none", "ssl.key.location": "/no/such/file"}, {}),
        (
            {
                "bootstrap.servers": "b:9093", "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER", "tidegate.oauthbearer.token.file": "/no/such/file",
            },
            {},
        ),
        (
            {
                "bootstrap.servers": "b:9093", "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "GSSAPI", "sasl.kerberos.keytab": "/no/such/file",
                "sasl.kerberos.principal": "t@EXAMPLE",
            },
            {},
        ),
    ],
)  # fmt: skip
def test_nothing_else_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, extra: Any, conf: dict[str, str]
) -> None:
    monkeypatch.setenv("KRB5_CONFIG", "/no/such/file")
    monkeypatch.setenv("HADOOP_PROXY_USER", "bob")
    define(monkeypatch, extra)
    refuse_wrong_kafka(with_conf(conf))
    monkeypatch.delenv("AIRFLOW_CONN_KAFKA_DEFAULT")
    refuse_wrong_kafka(with_conf(conf))


@pytest.mark.parametrize(
    ("value", "master"),
    [
        ({"conn_type": "spark", "host": "h", "port": 7077}, "spark://h:7077"),
        ({"conn_type": "spark", "host": "spark://h", "port": "7077"}, "spark://h:7077"),
        ({"conn_type": "spark", "host": "local[2]", "extra": '{"deploy-mode": ""}'}, "local[2]"),
        ("spark://h:7077", "spark://h:7077"),
        ("k8s://https://h:443?deploy-mode=client", "k8s://https://h:443"),
    ],
)
def test_a_spark_connection(monkeypatch: pytest.MonkeyPatch, value: Any, master: str) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_X", text)
    assert spark(pipeline("spark_x")).master == master


@pytest.mark.parametrize(
    ("value", "master"),
    [
        ({"conn_type": "spark", "host": "lcoal[2]"}, "lcoal[2]"),
        ({"conn_type": "spark", "host": "local[two]"}, "local[two]"),
        ({"conn_type": "spark", "host": "spark://h"}, "spark://h"),  # it needs a port
        ({"conn_type": "spark", "host": "h"}, "h"),
        ({"conn_type": "spark", "host": "mesos://h:5050"}, "mesos://h:5050"),
        ({"conn_type": "http", "host": "h", "port": 80}, "http://h:80"),
        ("spark://h", "h"),
    ],
)
def test_a_host_that_is_no_master(monkeypatch: pytest.MonkeyPatch, value: Any, master: str) -> None:
    """It is refused with the connection, not by Spark after a plan was frozen."""
    text = value if isinstance(value, str) else json.dumps(value)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_X", text)
    with pytest.raises(ConfigurationError) as refused:
        spark(pipeline("spark_x"))
    says = f"host: {master!r} is no master of Spark; write local[2], spark://host:7077, yarn"
    assert says in str(refused.value)


@pytest.mark.parametrize(
    "master", ["local", "local[*]", "local[ 2, 1 ]", "local-cluster[2,1,1024]", "spark://a:1,b:2",
               "spark://[::1]:7077", "k8s://h", "yarn"],
)  # fmt: skip
def test_masters_that_spark_takes(monkeypatch: pytest.MonkeyPatch, master: str) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_X", json.dumps({"conn_type": "spark", "host": master}))
    assert spark(pipeline("spark_x")).master == master


CSV = {"path": "/in", "format": "csv"}


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ({"source": {"path": "/in", "format": "json"}}, "files of JSON"),
        ({"source": {**CSV, "columns": "id INT"}, "columns": {"value": "id"}},
         "files of JSON, columns of CSV other than STRING"),
        ({"source": {**CSV, "columns": "a STRING"}}, "rows as JSON"),
        ({"source": {"path": "/in", "format": "parquet"}, "columns": {"key": "*", "value": "a"}},
         "rows as JSON"),
        ({"source": {**CSV, "columns": "a STRING"}, "columns": {"value": "a"}}, None),
        ({"source": {"path": "/in", "format": "text"}}, None),
        ({"source": {"lake": "in"}}, None),
        ({"source": {"path": "s3://b/in", "format": "text"}}, "a lake or files in S3 need Spark 4"),
        ({"source": {"lake": "in"}, "lake": "s3://b/lake"}, "a lake or files in S3 need Spark 4"),
        ({"source": {"lake": "far"}}, "a lake or files in S3 need Spark 4"),
    ],
)  # fmt: skip
def test_what_spark_3_5_lacks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, form: dict[str, Any], says: str | None
) -> None:
    """It is refused with the connection, before anything is written."""
    for name in ("jars/spark-core_2.12-3.5.7.jar", "bin/spark-submit"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    (tmp_path / "far.yaml").write_text(
        "{name: far, kind: ingest, topics: [t], lake: 's3://b/lake'}"
    )
    monkeypatch.setenv("TIDEGATE_PIPELINES", str(tmp_path))
    least = {"name": "out", "kind": "egress", "lake": "/lake", "target": {"topic": "t"}}
    spec = parse_spec({**least, **form})
    if says is None or "S3" not in says:
        spark(spec)  # with the installed one
    own = {"conn_type": "spark", "host": "local", "extra": {"spark-home": str(tmp_path)}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(own))
    if says is None:
        assert spark(spec).line == "3.5"
        return
    with pytest.raises(ConfigurationError, match=says) as refused:
        spark(spec)
    assert str(refused.value).startswith("pipeline 'out': Spark connection 'spark_default': ")


def test_only_spark_default_has_a_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert spark(pipeline("spark_default")).master == "local[*]"
    with pytest.raises(
        ConfigurationError, match="'spark_x' is not defined: set AIRFLOW_CONN_SPARK_X"
    ):
        spark(pipeline("spark_x"))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"host": "local[2]"}')
    with pytest.raises(ConfigurationError, match="names no master: give it conn_type and host"):
        spark(pipeline("spark_default"))


@pytest.mark.parametrize(
    "value",
    [
        '{"conn_type": "kafka", "extra": {"bootstrap.servers": "b:1", "client.id": "c d"}}',
        '{"extra": "{\\"bootstrap.servers\\": \\"b:1\\", \\"client.id\\": \\"c d\\"}"}',
        "kafka://?bootstrap.servers=b%3A1&client.id=c+d",
        "kafka:///?__extra__=%7B%22bootstrap.servers%22%3A+%22b%3A1%22%2C"
        "+%22client.id%22%3A+%22c+d%22%7D",
        "kafka://b:1?client.id=c+d",
        '{"conn_type": "kafka", "host": "b", "port": 1, "extra": {"client.id": "c d"}}',
    ],
)
def test_a_kafka_connection(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_X", value)
    arguments = {"bootstrap_servers": "b:1", "client_id": "c d"}
    assert kafka(of_kafka("kafka_x")).for_python() == arguments


@pytest.mark.parametrize(
    "value",
    [
        f'{{"password": "{PASSWORD}"', f'{{"port": "{PASSWORD}"}}', PASSWORD,
        f'{{"extra": "{PASSWORD}"}}', f"kafka://u:{PASSWORD}@h:port", f"a://b://c://{PASSWORD}",
        f"kafka://u:{PASSWORD}@b://h", f"kafka://h?__extra__={PASSWORD}",
        '{"conn_type": 5}', '{"host": 5}', '{"port": Infinity}', '{"extra": ' + "[" * 100_000,
    ],
    ids=range(12),
)  # fmt: skip
def test_a_value_that_is_no_connection_is_not_quoted(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_X", value)
    with pytest.raises(ConfigurationError, match="AIRFLOW_CONN_KAFKA_X is not a conn") as refused:
        kafka(of_kafka("kafka_x"))
    assert PASSWORD not in str(refused.value)


def test_the_place_of_an_error_in_json_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_X", "{'conn_type': 'kafka'}")
    with pytest.raises(ConfigurationError, match=r"at character 2$"):
        kafka(of_kafka("kafka_x"))


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("kafka://b", '{"bootstrap.servers": "b:9092"}'),
        (
            f"kafka://u:{PASSWORD}@b:1",
            '{"bootstrap.servers": "b:1", "security.protocol": …, "sasl.mechanism": …}',
        ),
        (
            '{"conn_type": "kafka", "extra": {"bootstrap_servers": "b:1"}}',
            'bootstrap.servers: missing: the extra is {"bootstrap.servers": "host:9092", …}',
        ),
        ('{"bootstrap.servers": "b:1"}', "bootstrap.servers: missing: the extra is"),
    ],
)
def test_a_kafka_connection_that_needs_more(
    monkeypatch: pytest.MonkeyPatch, value: str, says: str
) -> None:
    """The error has what to write."""
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_X", value)
    for check in (kafka, refuse_wrong_kafka):
        with pytest.raises(ConfigurationError) as refused:
            check(of_kafka("kafka_x"))
        assert says in str(refused.value)
        assert PASSWORD not in str(refused.value)


def test_an_address_is_no_connection() -> None:
    for address in ("host:9092", "a.b-c:9092,d:9093"):
        with pytest.raises(ConfigurationError) as refused:
            kafka(of_kafka(address))
        extra = json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": address}})
        assert f"set AIRFLOW_CONN_KAFKA_DEFAULT to '{extra}'" in str(refused.value)


def test_a_kafka_connection_that_is_missing_or_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the pipeline, and what to set."""
    with pytest.raises(ConfigurationError, match=r"pipeline 'p': .*set AIRFLOW_CONN_KAFKA_X"):
        kafka(of_kafka("kafka_x"))
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_X", '{"conn_type": "kafka"}')
    with pytest.raises(
        ConfigurationError,
        match=r"pipeline 'p': Kafka connection 'kafka_x':\n  - bootstrap\.servers: missing",
    ):
        kafka(of_kafka("kafka_x"))


def test_a_runs_clients_have_names_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """By pipeline, step, run and attempt."""
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_X", "kafka://?bootstrap.servers=b%3A1")
    spec = of_kafka("kafka_x")
    run_id = "manual__2024-05-01T10:00:00+00:00"
    first, second = (for_planner(kafka(spec), spec, "plan", run_id, attempt) for attempt in "12")
    name = "tidegate-p-plan-manual__2024-05-01T10_00_00_00_00-1"
    assert first.for_python()["client_id"] == name
    assert second.for_python()["client_id"] != name
    assert len(client_name(spec, "plan", "x" * 250, "1")) < 200
    assert client_name(spec, "plan", "x" * 250, "1") != client_name(spec, "plan", "x" * 250, "2")


def test_a_connections_client_id_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """By all clients: Kafka's quotas are for exact client ids."""
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_X", "kafka://?bootstrap.servers=b%3A1&client.id=acme")
    spec = of_kafka("kafka_x")
    settings = for_planner(kafka(spec), spec, "plan", "r", "1")
    assert settings.for_python()["client_id"] == "acme"
    assert settings.client_id(client_name(spec, "stage", "r", "1")) == "acme"


def test_the_planner_tries_as_often_as_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_X", "kafka://?bootstrap.servers=b%3A1")
    spec = of_kafka("kafka_x")
    settings = for_planner(kafka(spec), spec, "plan", "r", "1")
    assert (settings.tries, settings.pause) == (None, 1.0)
    options = {"FetchOffset.numRetries": 7, "fetchOffset.retryIntervalMs": 250}
    egress = parse_spec({
        "name": "p", "kind": "egress", "lake": "/lake", "columns": {"value": "v"},
        "source": {"path": "/in", "format": "text"}, "target": {"topic": "t", "options": options},
    })  # fmt: skip
    for given in (of_kafka("kafka_x", options=options), egress):
        settings = for_planner(kafka(spec), given, "plan", "r", "1")
        assert (settings.tries, settings.pause) == (7, 0.25)
