"""The settings of Kafka's clients that the table knows are those of the client beside Spark."""

import pytest

from support import spark_session
from tidegate.settings import kafka_clients

ALL = {*kafka_clients.SECURITY, *kafka_clients.COMMON}


@pytest.mark.parametrize(
    ("client", "names"),
    [
        ("consumer.ConsumerConfig", ALL | kafka_clients.CONSUMER.keys()),
        ("producer.ProducerConfig", ALL | kafka_clients.PRODUCER.keys()),
        (
            "admin.AdminClientConfig",
            (ALL | kafka_clients.ADMIN.keys()) - {"interceptor.classes"},
        ),
    ],
)
def test_names_are_those_of_the_client(client: str, names: set[str]) -> None:
    found = spark_session.shared()._jvm
    for part in f"org.apache.kafka.clients.{client}".split("."):
        found = getattr(found, part)
    keys = found.configDef().configKeys()
    public = {str(name) for name in keys if not str(name).startswith("internal.")}
    assert public == names
