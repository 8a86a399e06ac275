"""The settings of Kafka's clients that the table knows are those of the clients beside Spark."""

import contextlib
import re
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from support import spark_session
from tidegate.settings import kafka_clients
from tidegate.settings.setting import Place, Word
from tidegate.settings.sink_settings import READING
from tidegate.settings.table import TABLE

ALL = {*kafka_clients.SECURITY, *kafka_clients.COMMON}
CONSUMER, PRODUCER = "consumer.ConsumerConfig", "producer.ProducerConfig"
CHECKS = {
    CONSUMER: {**kafka_clients.COMMON, **kafka_clients.CONSUMER},
    PRODUCER: {**kafka_clients.COMMON, **kafka_clients.PRODUCER},
}
# With less a client starts, and then cannot read, send or connect; or the setting has no effect.
NARROWER = {
    "request.timeout.ms", "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms", "default.api.timeout.ms", "heartbeat.interval.ms",
    "session.timeout.ms", "buffer.memory", "delivery.timeout.ms", "max.block.ms",
    "max.request.size",
}  # fmt: skip


def definition(client: str) -> Any:
    """Return what a client knows of its settings."""
    found = spark_session.shared()._jvm
    for part in f"org.apache.kafka.clients.{client}".split("."):
        found = getattr(found, part)
    return found.configDef()


def starts(client: str, name: str, value: object) -> bool:
    """Return whether a client takes a setting."""
    jvm: Any = spark_session.shared()._jvm
    serializers = "org.apache.kafka.common.serialization.ByteArray"
    settings = jvm.java.util.HashMap()
    settings.put("bootstrap.servers", "nowhere:1")
    for each in ("key", "value"):
        settings.put(f"{each}.serializer", f"{serializers}Serializer")
        settings.put(f"{each}.deserializer", f"{serializers}Deserializer")
    settings.put(name, str(value))
    with contextlib.suppress(Py4JJavaError):
        jvm.org.apache.kafka.common.config.AbstractConfig(definition(client), settings)
        return True
    return False


@pytest.mark.parametrize(
    ("client", "names"),
    [
        (CONSUMER, ALL | kafka_clients.CONSUMER.keys()),
        (PRODUCER, ALL | kafka_clients.PRODUCER.keys()),
        (
            "admin.AdminClientConfig",
            (ALL | kafka_clients.ADMIN.keys()) - {"interceptor.classes"},
        ),
    ],
)
def test_names_are_those_of_the_client(client: str, names: set[str]) -> None:
    keys = definition(client).configKeys()
    public = {str(name) for name in keys if not str(name).startswith("internal.")}
    assert public == names


@pytest.mark.slow
@pytest.mark.parametrize("client", CHECKS)
def test_numbers_that_are_accepted_are_valid_for_the_client(client: str) -> None:
    """It takes the minimum and maximum of each, and refuses what is beyond, unless the table is
    narrower on purpose.
    """
    checks = CHECKS[client]
    bounds = {name: re.match(r"from (-?\d+) to (\d+),", check("9" * 19) or "")
              for name, check in checks.items()}  # fmt: skip
    numbers = {name: (int(found[1]), int(found[2])) for name, found in bounds.items() if found}
    assert len(numbers) > 20
    for name, (least, most) in numbers.items():
        assert starts(client, name, least), name
        assert starts(client, name, most), name
        assert checks[name](str(least - 1)), name
        assert starts(client, name, least - 1) is (name in NARROWER), name
        assert not starts(client, name, most + 1), name


@pytest.mark.slow
@pytest.mark.parametrize("client", CHECKS)
def test_words_that_are_accepted_are_valid_for_the_client(client: str) -> None:
    """It takes each of them, in any letter case where the table does, and no other."""
    words = {name: check for name, check in CHECKS[client].items() if isinstance(check, Word)}
    assert len(words) > 3
    for name, check in words.items():
        for word in check.known:
            assert starts(client, name, word), (name, word)
            assert starts(client, name, word.upper()) or not check.ignore_case, (name, word)
            assert check(f"{word}x"), (name, word)
            assert not starts(client, name, f"{word}x"), (name, word)


@pytest.mark.parametrize("place", [Place.SOURCE, Place.SINK])
def test_defaults_of_kafka_are_those_of_the_client(place: Place) -> None:
    """Of the consumer, or of the producer and the consumer that reads back."""
    defaults = {client: definition(client).defaultValues() for client in CHECKS}
    stated = {
        each.name: each.outside
        for each in TABLE
        if each.place is place and each.name.startswith("kafka.") and each.outside
    }
    assert len(stated) > 8
    for name, value in stated.items():
        client = CONSUMER if place is Place.SOURCE or name in READING else PRODUCER
        assert str(defaults[client][name.removeprefix("kafka.")]).lower() == value, name
