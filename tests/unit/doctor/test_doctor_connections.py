"""The doctor's report of connections: each cluster with its protocol and login; none is asked."""

from typing import Any

from support.doctor_checks import states_and_text
from tidegate.broker.client_settings import KafkaSettings
from tidegate.doctor.connection_checks import report_connections
from tidegate.errors import ConfigurationError

SOURCE = KafkaSettings("kafka_a", {"bootstrap.servers": "a:9092"})
TARGET = KafkaSettings(
    "kafka_b",
    {
        "bootstrap.servers": "b:9093",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "hunter2",
    },
)


def undefined() -> Any:
    raise ConfigurationError("not defined")


def test_both_clusters_of_an_egress_of_a_lake() -> None:
    states, text = states_and_text(report_connections(lambda: TARGET, lambda: SOURCE))
    assert states == [("connection", "ok")] * 2
    assert text == (
        "Kafka at b:9093 (kafka_b): SASL_PLAINTEXT, SCRAM-SHA-512 as alice → None\n"
        "source: the lake of Kafka at a:9092 (kafka_a): PLAINTEXT, no login → None"
    )


def test_the_one_cluster_of_others() -> None:
    states, text = states_and_text(report_connections(lambda: SOURCE, None))
    assert (states, "(kafka_a): PLAINTEXT" in text) == ([("connection", "ok")], True)


def test_what_is_not_defined_is_said_by_the_check_of_the_broker() -> None:
    assert list(report_connections(undefined, undefined)) == []
    (line,) = report_connections(lambda: TARGET, undefined)
    assert "(kafka_b)" in line.says
