"""The producer settings of Spark's Kafka sink: none loses or hides records, or fails."""

import pytest

from tidegate.spark import producer_settings

REQUEST = 1024 * 1024


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"acks": "0"}, "acks: 0 would lose records without a word; use all"),
        ({"acks": "3"}, "acks: '3'; known: all, -1, 1"),
        ({"transactional.id": "x"},
         "transactional.id: refused: Spark's sink has no transactions: it would never commit one"),
        ({"key.serializer": "x"}, "key.serializer: refused: keys are written as bytes"),
        ({"value.serializer": "x"}, "value.serializer: refused: values are written as bytes"),
        ({"interceptor.classes": "x"}, "interceptor.classes: refused: an interceptor may change"),
        ({"client.id": "x"}, "client.id: refused: Tidegate names the run in it"),
        ({"bootstrap.servers": "x:1"}, "bootstrap.servers: not a producer setting that may be"),
        ({"sasl.jaas.config": "x"}, "sasl.jaas.config: not a producer setting that may be given"),
        ({"metric.reporters": "x"}, "metric.reporters: not a producer setting that may be given"),
        ({"Acks": "all"}, "Acks: not a producer setting that may be given"),
        ({"partitioner.class": "x"}, "partitioner.class: 'x'; known: org.apache.kafka"),
        ({"compression.type": "rar"}, "compression.type: 'rar'; known: none, gzip"),
        ({"batch.size": "1 MB"}, "batch.size: '1 MB' is not a whole number"),
        ({"linger.ms": "x"}, "linger.ms: 'x' is not a whole number"),
        ({"linger.ms": "-1"}, "linger.ms: -1: from 0 to 9223372036854775807, or the producer"),
        ({"max.block.ms": "0"}, "max.block.ms: 0: from 1 to 9223372036854775807, or the"),
        ({"request.timeout.ms": "0"}, "request.timeout.ms: 0: from 1 to 2147483647, or the"),
        ({"batch.size": "2147483648"}, "batch.size: 2147483648: from 0 to 2147483647, or the"),
        ({"send.buffer.bytes": "-2"}, "send.buffer.bytes: -2: from -1 to 2147483647, or the"),
        ({"retries": "9" * 5000}, "retries: '99999"),
        ({"buffer.memory": "524287"}, "buffer.memory: 524287 is less than batch.size, 524288: no"),
        ({"buffer.memory": "9", "batch.size": "10"}, "buffer.memory: 9 is less than batch.size"),
        ({"delivery.timeout.ms": "30019"}, "delivery.timeout.ms: less than linger.ms + request."),
        ({"request.timeout.ms": "119981"}, "delivery.timeout.ms: less than linger.ms + request."),
        ({"acks": "1", "enable.idempotence": "true"}, "acks: 1 excludes enable.idempotence"),
        ({"retries": "0"}, "retries: 0 excludes enable.idempotence"),
        ({"max.in.flight.requests.per.connection": "6"}, "max.in.flight.requests.per.connection: "),
    ],
)  # fmt: skip
def test_a_refused_setting_has_its_reason(given: dict[str, str], complaint: str) -> None:
    """Settings that lose records, run code, use another cluster, or do not start."""
    (found,) = producer_settings.complaints(given)
    assert found.startswith(complaint)


def test_all_complaints_come_at_once() -> None:
    given = {"acks": "0", "transactional.id": "x", "linger.ms": "soon", "retries": "5"}
    assert [told.partition(":")[0] for told in producer_settings.complaints(given)] == [
        "acks", "linger.ms", "transactional.id",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "warned"),
    [
        ({}, []),
        ({"acks": "all"}, []),
        ({"acks": "-1"}, []),
        ({"retries": "3", "retry.backoff.ms": "10"}, []),
        ({"delivery.timeout.ms": "30020"}, []),
        ({"enable.idempotence": "false"}, ["without idempotence"]),
        ({"enable.idempotence": "false", "retries": "0"}, ["without idempotence"]),
        ({"acks": "1"}, ["acks: 1: a leader that dies", "without idempotence"]),
        ({"acks": "1", "max.in.flight.requests.per.connection": "9"},
         ["acks: 1: a leader that dies", "without idempotence"]),
    ],
)  # fmt: skip
def test_a_setting_that_weakens_the_guarantees_is_allowed_with_a_warning(
    given: dict[str, str], warned: list[str]
) -> None:
    """The defaults have no warning."""
    assert producer_settings.complaints(given) == []
    told = producer_settings.warnings(given)
    assert [line.startswith(start) for line, start in zip(told, warned, strict=True)] == [
        True for _ in warned
    ]


def test_the_options_of_the_sink() -> None:
    """The connection, safe and fast defaults, the pipeline's settings, the client id."""
    connection = {"kafka.bootstrap.servers": "b:1", "kafka.sasl.jaas.config": "secret"}
    options = producer_settings.render(
        connection, {"linger.ms": "7"}, client_id="me", largest_row=10, largest_batch=REQUEST
    )
    assert options == {
        **connection,
        "kafka.acks": "all",
        "kafka.enable.idempotence": "true",
        "kafka.compression.type": "lz4",
        "kafka.linger.ms": "7",
        "kafka.batch.size": "524288",
        "kafka.max.block.ms": "20000",
        "kafka.delivery.timeout.ms": "120000",
        "kafka.request.timeout.ms": "30000",
        "kafka.max.request.size": str(REQUEST),
        "kafka.buffer.memory": str(32 * REQUEST),
        "kafka.client.id": "me",
    }


def test_acks_of_one_leader_switch_idempotence_off() -> None:
    """The client would not start with both."""
    options = producer_settings.render(
        {}, {"acks": "1"}, client_id="", largest_row=0, largest_batch=REQUEST
    )
    assert (options["kafka.acks"], options["kafka.enable.idempotence"]) == ("1", "false")


def test_a_request_has_room_for_the_largest_row() -> None:
    """Unless the pipeline limits the size of a request: then rows are checked before."""
    options = producer_settings.render(
        {}, {}, client_id="", largest_row=50 * REQUEST, largest_batch=REQUEST
    )
    assert int(options["kafka.max.request.size"]) > 50 * REQUEST
    assert int(options["kafka.buffer.memory"]) >= int(options["kafka.max.request.size"])
    given = {"max.request.size": "5000", "buffer.memory": "40000"}
    assert (
        producer_settings.render({}, given, client_id="", largest_row=0, largest_batch=REQUEST)[
            "kafka.max.request.size"
        ]
        == "5000"
    )
    assert producer_settings.largest_record(given) == 5000
    assert producer_settings.largest_record({**given, "max.request.size": "90000"}) == 40000
    assert producer_settings.largest_record({}) is None


def test_a_batch_is_no_larger_than_a_topic_accepts() -> None:
    """Else the broker refuses it, the producer splits it, and Spark waits for no piece."""
    options = producer_settings.render({}, {}, client_id="", largest_row=0, largest_batch=3000)
    assert options["kafka.batch.size"] == "3000"
    options = producer_settings.render(
        {}, {"batch.size": "2000"}, client_id="", largest_row=0, largest_batch=3000
    )
    assert options["kafka.batch.size"] == "2000"
