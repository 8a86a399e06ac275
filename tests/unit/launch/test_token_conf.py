"""Delegation tokens before a submission: Spark's settings, exactly, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from support.calls import sending, staging
from tidegate.broker import delegation_token
from tidegate.broker.client_settings import KafkaSettings
from tidegate.core.java_client import DelegationToken
from tidegate.errors import ConfigurationError
from tidegate.launch import cds_archive, jars, token_settings
from tidegate.launch.masters import for_master
from tidegate.launch.spark_submit import render_command
from tidegate.launch.submission import Submission

PASSWORD = "hunter2"
ON = {"tidegate.delegation_token": True}


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "lock_paths", lambda name: [Path(f"/jars/{name}.jar")])
    monkeypatch.setattr(cds_archive, "find_archive", lambda: None)
    for name in (*token_settings._VARIABLES, "HADOOP_PROXY_USER", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)


def kafka(name: str, servers: str, **extra: Any) -> KafkaSettings:
    given = {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": PASSWORD,
    }
    return KafkaSettings(name, {**given, **ON, **extra})


A = kafka("kafka_a", "a-1:9093,a-2:9093")
B = kafka("kafka_b", "b.example:9093", **{"sasl.mechanism": "SCRAM-SHA-256"})


def submitted(of: KafkaSettings, **conf: str) -> Submission:
    return staging(Path("/private/job.json"), conf, 400, name="flights r1", kafka=of)


def refused(of: KafkaSettings, **conf: str) -> str:
    given = {name.replace("__", "."): value for name, value in conf.items()}
    with pytest.raises(ConfigurationError) as error:
        submitted(of, **given)
    return str(error.value)


def test_two_clusters_are_rendered_exactly() -> None:
    """Golden: all that Spark is told about tokens, none of it secret."""
    assert token_settings.token_conf([A, B, A], {}) == {
        "spark.kafka.clusters.kafka_a.auth.bootstrap.servers": "a-1:9093,a-2:9093",
        "spark.kafka.clusters.kafka_a.target.bootstrap.servers.regex": r"a\-1:9093|a\-2:9093",
        "spark.kafka.clusters.kafka_a.security.protocol": "SASL_PLAINTEXT",
        "spark.kafka.clusters.kafka_a.sasl.token.mechanism": "SCRAM-SHA-512",
        "spark.kafka.clusters.kafka_b.auth.bootstrap.servers": "b.example:9093",
        "spark.kafka.clusters.kafka_b.target.bootstrap.servers.regex": r"b\.example:9093",
        "spark.kafka.clusters.kafka_b.security.protocol": "SASL_PLAINTEXT",
        "spark.kafka.clusters.kafka_b.sasl.token.mechanism": "SCRAM-SHA-256",
    }


def test_the_arguments_of_spark_submit_have_the_clusters_settings_and_no_login() -> None:
    b_call = sending(Path("/private/job.json"), {}, name="out r1", rows=10, kafka=B)
    for given, of in ((submitted(A), A), (b_call, B)):
        arguments = render_command(for_master(given, "local[2]"), "local[2]")
        set_ = [each for each in arguments if each.startswith("spark.kafka.clusters.")]
        expected = token_settings.token_conf([of], {})
        assert set_ == [f"{name}={value}" for name, value in expected.items()]
        assert PASSWORD not in " ".join(arguments)
        assert "jaas.config" not in " ".join(arguments)


def test_what_is_not_given_is_not_rendered() -> None:
    """Spark's own default of sasl.kerberos.service.name is kafka."""
    token = DelegationToken("k", "k", "b:9093", "b:9093", "SASL_SSL", "SCRAM-SHA-512")
    assert not [name for name in token.conf() if "kerberos" in name or "truststore" in name]
    given = DelegationToken(
        "k",
        "k",
        "b:9093",
        "b:9093",
        "SASL_SSL",
        "SCRAM-SHA-512",
        {"sasl.kerberos.service.name": "bus"},
        "/ca.pem",
    ).conf()
    assert given["spark.kafka.clusters.k.sasl.kerberos.service.name"] == "bus"
    assert given["spark.kafka.clusters.k.ssl.truststore.type"] == "PEM"
    assert given["spark.kafka.clusters.k.ssl.truststore.location"] == "/ca.pem"


def test_options_of_source_and_sink_have_no_login() -> None:
    """The login is in the job file alone, for the driver."""
    options, (login,) = token_settings.split_logins(A, Path("/private"))
    assert options == {
        "kafka.bootstrap.servers": "a-1:9093,a-2:9093",
        "kafka.security.protocol": "SASL_PLAINTEXT",
    }
    assert login.cluster == "kafka_a"
    assert login.settings["sasl.mechanism"] == "SCRAM-SHA-512"
    assert PASSWORD in login.settings["sasl.jaas.config"]
    assert PASSWORD not in repr(login)


def test_without_a_token_the_options_have_the_login() -> None:
    of = KafkaSettings("k", {k: v for k, v in A.extra.items() if not k.startswith("tidegate.")})
    options, logins = token_settings.split_logins(of, Path("/private"))
    assert PASSWORD in options["kafka.sasl.jaas.config"]
    assert logins == ()
    assert not [name for name in submitted(of).conf if "clusters" in name]


def test_each_address_must_match_exactly_one_token() -> None:
    """Spark refuses to run a query for which two tokens match."""
    greedy = kafka(
        "kafka_b", "b:9093", **{"tidegate.delegation_token.target_regex": "[a-z].*:9093"}
    )
    with pytest.raises(ConfigurationError) as error:
        token_settings.token_conf([A, greedy], {})
    for address in ("a-1:9093", "a-2:9093"):
        assert f"{address} of kafka_a matches the target regex of kafka_a and kafka_b" in str(
            error.value
        )
    assert "target_regex" in str(error.value)


def test_two_connections_may_not_have_one_id() -> None:
    other = kafka("kafka-a", "b:9093", **{"tidegate.delegation_token.cluster": "kafka_a"})
    with pytest.raises(ConfigurationError, match="kafka_a and kafka-a have the same id 'kafka_a'"):
        token_settings.token_conf([A, other], {})


@pytest.mark.parametrize(
    "name",
    [
        "spark.driver.extraJavaOptions",
        "spark.driver.defaultJavaOptions",
        "spark.executor.extraJavaOptions",
    ],
)
def test_a_global_jaas_file_suppresses_tokens(name: str) -> None:
    option = "-Xmx1g -Djava.security.auth.login.config=/etc/jaas.conf"
    with pytest.raises(ConfigurationError, match="a global JAAS configuration") as error:
        staging(Path("/private/job.json"), {name: option}, 4, name="x", kafka=A)
    assert f"spark.conf: {name}: " in str(error.value)
    without = KafkaSettings("k", {"bootstrap.servers": "b:9092"})
    staging(Path("/private/job.json"), {name: option}, 4, name="x", kafka=without)


@pytest.mark.parametrize("variable", token_settings._VARIABLES)
def test_a_global_jaas_file_in_the_environment(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "-Djava.security.auth.login.config=/etc/jaas.conf")
    assert f"the variable {variable}: " in refused(A)


def test_a_proxy_user_is_refused_in_sparks_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_PROXY_USER", "bob")
    said = refused(A)
    assert "Obtaining delegation token for proxy user is not yet supported" in said


@pytest.mark.parametrize("separator", [" ", "=", " : ", "\t"])
def test_a_global_jaas_file_in_sparks_defaults(
    separator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the directory that spark-submit reads; other options there are not its business."""
    defaults, jaas = tmp_path / "spark-defaults.conf", "java.security.auth.login.config"
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    options = f"spark.driver.extraJavaOptions{separator}-Xmx1g -D{jaas}=/j\n"
    defaults.write_text(f"# {options}spark.driver.extraJavaOptions -Xmx1g\n")
    submitted(A)
    defaults.write_text(f"spark.ui.port 4040\n  {options}")
    assert f"{defaults}: spark.driver.extraJavaOptions: -D{jaas}: with a global JAAS" in refused(A)


def test_at_parse_this_machine_is_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one than that of the tasks: its variables, files and jars say nothing."""
    jaas = "-Djava.security.auth.login.config=/j"
    (tmp_path / "spark-defaults.conf").write_text(f"spark.driver.extraJavaOptions {jaas}\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("HADOOP_PROXY_USER", "bob")
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", jaas)
    monkeypatch.setattr(jars, "read_lock", lambda _: [])
    tokens = token_settings.tokens_of([A])
    assert len(token_settings.token_complaints(tokens, {})) == 4
    assert token_settings.token_complaints(tokens, {}, here=False) == []
    (said,) = token_settings.token_complaints(
        tokens, {"spark.executor.extraJavaOptions": jaas}, here=False
    )
    assert "a global JAAS configuration" in said


def test_the_jars_must_hold_the_token_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    locked = [jar for jar in jars.read_lock("spark-kafka") if "token-provider" not in jar.artifact]
    assert len(locked) == len(jars.read_lock("spark-kafka")) - 1
    monkeypatch.setattr(jars, "read_lock", lambda _: locked)
    assert "lack spark-token-provider-kafka-0-10" in refused(A)


@pytest.mark.parametrize("master", ["yarn", "k8s://https://host:443"])
def test_on_yarn_and_kubernetes_spark_obtains_tokens_by_kerberos(master: str) -> None:
    given = DelegationToken(
        "k", "k", "b:9093", "b:9093", "SASL_SSL", "SCRAM-SHA-512",
        spark_login={"spark.kerberos.keytab": "/k", "spark.kerberos.principal": "t@E"},
    )  # fmt: skip
    assert token_settings.tokens_for_master([given], master) == {
        "spark.kerberos.keytab": "/k",
        "spark.kerberos.principal": "t@E",
    }
    with pytest.raises(ConfigurationError, match=r"kafka_a: on (yarn|k8s) Spark obtains"):
        for_master(submitted(A), master)


@pytest.mark.parametrize("master", ["yarn", "k8s://https://host:443"])
@pytest.mark.parametrize(
    "name", ["ssl.ca.pem", "ssl.keystore.location", "ssl.endpoint.identification.algorithm"]
)
def test_what_spark_cannot_be_given_is_refused_where_it_obtains_tokens(
    name: str, master: str
) -> None:
    """Its own login to the cluster would fail, and the run go on without a token."""
    kerberos = {
        "bootstrap.servers": "b:9093", "security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.keytab": "/k", "sasl.kerberos.principal": "t@EXAMPLE",
        "ssl.ca.location": "/ca", **ON,
    }  # fmt: skip
    right, wrong = (delegation_token.token_of("k", {**kerberos, **x}) for x in ({}, {name: "x"}))
    assert right is not None
    assert wrong is not None
    assert token_settings.tokens_for_master([right], master)["spark.kerberos.keytab"] == "/k"
    with pytest.raises(ConfigurationError, match=f"itself, and cannot be given {name}: use ssl.ca"):
        token_settings.tokens_for_master([wrong], master)
    assert token_settings.tokens_for_master([wrong], "local[2]") == {}


@pytest.mark.parametrize("master", ["local[2]", "spark://host:7077"])
def test_elsewhere_the_driver_does(master: str) -> None:
    assert not [name for name in for_master(submitted(A), master).conf if "kerberos" in name]
