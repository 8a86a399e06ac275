"""A connection's delegation token: its names, defaults and complaints."""

from typing import Any

import pytest

from tidegate.broker.client_settings import KafkaSettings
from tidegate.errors import ConfigurationError
from tidegate.launch.token_settings import token_matches

SCRAM = {
    "bootstrap.servers": "broker-1:9093, broker-2:9093",
    "security.protocol": "sasl_ssl",
    "sasl.mechanism": "SCRAM-SHA-256",
    "sasl.username": "u",
    "sasl.password": "hunter2",
}
ON = {"tidegate.delegation_token": True}


def settings(**extra: Any) -> KafkaSettings:
    return KafkaSettings("kafka.prod eu", {**SCRAM, **extra})


def complaints(**extra: Any) -> str:
    with pytest.raises(ConfigurationError) as refused:
        settings(**extra)
    assert "hunter2" not in str(refused.value)
    return str(refused.value)


def test_without_the_switch_there_is_no_token() -> None:
    for off in ({}, {"tidegate.delegation_token": "false"}, {"tidegate.delegation_token": False}):
        assert settings(**off).delegation_token is None


@pytest.mark.parametrize("on", [True, "true", "True"])
def test_by_default_a_token_is_for_exactly_the_connections_addresses(on: Any) -> None:
    token = settings(**{"tidegate.delegation_token": on}).delegation_token
    assert token is not None
    assert token.cluster == "kafka-prod-eu"
    assert token.addresses == ["broker-1:9093", "broker-2:9093"]
    assert all(token_matches(token, address) for address in token.addresses)
    assert not token_matches(token, "broker-1:9092")
    assert not token_matches(token, "broker-1x9093")
    assert not token_matches(token, "my-broker-1:9093")


def test_a_dot_of_an_address_matches_a_dot_alone() -> None:
    token = settings(**ON, **{"bootstrap.servers": "10.0.0.1:9093"}).delegation_token
    assert token is not None
    assert not token_matches(token, "10x0.0.1:9093")


def test_a_token_logs_in_with_the_connections_own_scram(monkeypatch: pytest.MonkeyPatch) -> None:
    for mechanism, of_token in (
        ("SCRAM-SHA-256", "SCRAM-SHA-256"),
        ("SCRAM-SHA-512", "SCRAM-SHA-512"),
        ("PLAIN", "SCRAM-SHA-512"),  # Kafka's tokens know SCRAM alone
    ):
        token = settings(**ON, **{"sasl.mechanism": mechanism}).delegation_token
        assert token is not None
        assert token.mechanism == of_token


def test_what_a_connection_may_say_of_its_token() -> None:
    token = settings(
        **ON,
        **{
            "tidegate.delegation_token.cluster": "eu_1",
            "tidegate.delegation_token.target_regex": r"broker-\d+:9093",
        },
    ).delegation_token
    assert token is not None
    assert (token.cluster, token_matches(token, "broker-17:9093")) == ("eu_1", True)


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"tidegate.delegation_token": "yes"}, "'yes' is not true or false"),
        ({**ON, "tidegate.delegation_token.cluster": "eu.1"}, "'eu.1': not 1 to 64 letters"),
        ({**ON, "tidegate.delegation_token.target_regex": "("}, "'(' is no regular expression"),
        ({**ON, "tidegate.delegation_token.target_regex": "(?P<h>.*)"}, "mean nothing to Java"),
        (
            {**ON, "tidegate.delegation_token.target_regex": "broker-1:.*"},
            "does not match broker-2:9093",
        ),
        ({"tidegate.delegation_token.cluster": "eu"}, "has no effect without"),
        ({"tidegate.delegation_token.target_regex": ".*"}, "has no effect without"),
    ],
)
def test_what_is_wrong_is_named(extra: dict[str, Any], said: str) -> None:
    assert said in complaints(**extra)


@pytest.mark.parametrize("protocol", ["SSL", "PLAINTEXT"])
def test_a_protocol_without_a_login_takes_no_token(protocol: str) -> None:
    given = {"bootstrap.servers": "broker:9093", "security.protocol": protocol, **ON}
    with pytest.raises(ConfigurationError, match=f"{protocol} has no login; use SASL_SSL"):
        KafkaSettings("k", given)


def test_the_names_are_not_reported_as_unused(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        settings(**ON)
    assert "not used" not in caplog.text
