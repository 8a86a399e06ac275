"""The doctor's check of delegation tokens: no broker is asked."""

from typing import Any

import pytest

from support.doctor_checks import states_and_text
from tidegate.broker.client_settings import KafkaSettings
from tidegate.doctor.connection_checks import check_tokens
from tidegate.errors import ConfigurationError
from tidegate.launch.spark_connection import SparkConnection
from tidegate.pipelines.spec import Spec, parse_spec


def kafka(name: str, servers: str, **extra: Any) -> KafkaSettings:
    given = {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": "hunter2",
        "tidegate.delegation_token": True,
    }
    return KafkaSettings(name, {**given, **extra})


TARGET, SOURCE = kafka("kafka_b", "b:9093"), kafka("kafka_a", "a:9093")
WITHOUT = KafkaSettings("kafka_default", {"bootstrap.servers": "nowhere:1"})


def egress(**conf: str) -> Spec:
    return parse_spec(
        {
            "name": "out", "kind": "egress", "lake": "/lake", "source": {"lake": "in"},
            "target": {"topic": "t"}, "spark": {"conf": conf},
        }
    )  # fmt: skip


def check(
    own: KafkaSettings, source: KafkaSettings | None, master: str = "local[2]", **conf: str
) -> tuple[list[tuple[str, str]], str]:
    look_up = (lambda: source) if source else None
    spark = SparkConnection("s", master)
    return states_and_text(check_tokens(egress(**conf), lambda: own, lambda: spark, look_up))


def test_a_connection_without_tokens_has_no_line() -> None:
    assert check(WITHOUT, None) == ([], "")
    assert check(WITHOUT, SOURCE) == ([], "")


def test_who_obtains_the_token_and_for_which_addresses() -> None:
    states, text = check(TARGET, SOURCE)
    assert states == [("tokens", "ok")]
    assert "the driver obtains the token 'kafka_b' of b:9093" in text


def test_the_lakes_cluster_must_not_get_the_targets_token() -> None:
    greedy = kafka("kafka_b", "b:9093", **{"tidegate.delegation_token.target_regex": ".:9093"})
    states, text = check(greedy, SOURCE)
    assert states == [("tokens", "failure")]
    assert "a:9093 of kafka_a matches the target regex of kafka_b and kafka_a" in text
    assert "→ correct tidegate.delegation_token.target_regex" in text


def test_everything_else_that_speaks_against_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_PROXY_USER", "bob")
    jaas = "-Djava.security.auth.login.config=/etc/jaas.conf"
    states, text = check(TARGET, None, **{"spark.executor.extraJavaOptions": jaas})
    assert states == [("tokens", "failure")] * 2
    assert "a global JAAS configuration Spark uses no token → remove it" in text
    assert "not yet supported. (KAFKA-6945) → unset it" in text


def test_a_source_that_is_not_defined_here_is_not_needed() -> None:
    def missing() -> KafkaSettings:
        raise ConfigurationError("not defined")

    found = check_tokens(
        egress(), lambda: TARGET, lambda: SparkConnection("s", "local[2]"), missing
    )
    assert [line.state for line in found] == ["ok"]


def test_a_master_that_needs_another_login() -> None:
    with pytest.raises(ConfigurationError, match="kafka_b: on yarn Spark obtains"):
        check(TARGET, None, master="yarn")
