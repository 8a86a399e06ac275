"""The producer settings of Spark's Kafka sink: none loses or hides records, or fails."""

import pytest

from tidegate.spark import producer_settings

REQUEST = 1024 * 1024


def complaints(given: dict[str, str]) -> list[str]:
    verdict = producer_settings.judge_producer(given)
    return [*verdict.complaints] or producer_settings.producer_contradictions(given)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"acks": "0"}, "acks: 0 would lose records silently; use all"),
        ({"acks": "3"}, "acks: a number of replicas is of Kafka 0.8; use all"),
        ({"transactional.id": "x"},
         "transactional.id: refused: Spark's sink has no transactions: it would never commit one"),
        ({"key.serializer": "x"}, "key.serializer: refused: keys are written as bytes"),
        ({"value.serializer": "x"}, "value.serializer: refused: values are written as bytes"),
        ({"interceptor.classes": "x"}, "interceptor.classes: refused: an interceptor may change"),
        ({"client.id": "x"}, "client.id: refused: Tidegate names the run in it"),
        ({"bootstrap.servers": "x:1"}, "bootstrap.servers: refused: it says which cluster is used"),
        ({"sasl.jaas.config": "x"}, "sasl.jaas.config: refused: it says which cluster is used"),
        ({"metric.reporters": "x"}, "metric.reporters: refused: it names code to run"),
        ({"Acks": "0"}, "Acks: 0 would lose records silently; use all"),
        ({"max.poll.records": "5"}, "max.poll.records: of the consumer that reads back what was"),
        ({"group.id": "g"}, "group.id: no option of Spark's, and no setting of Kafka's producer"),
        ({"linger": "5"}, "linger: no option of Spark's, and no setting of Kafka's producer; did "
         "you mean 'linger.ms'?"),
        ({"kafka.linger.ms": "5"}, "kafka.linger.ms: no option of Spark's"),
        ({"partitioner.ignore.keys": "true"}, "partitioner.ignore.keys: true would send the rows"),
        ({"compression.gzip.level": "0"}, "compression.gzip.level: -1, or from 1 to 9"),
        ({"partitioner.class": "x"}, "partitioner.class: one of org.apache.kafka"),
        ({"compression.type": "rar"}, "compression.type: one of none, gzip"),
        ({"batch.size": "1 MB"}, "batch.size: not a whole number"),
        ({"linger.ms": "x"}, "linger.ms: not a whole number"),
        ({"linger.ms": "-1"}, "linger.ms: from 0 to 9223372036854775807, or the client"),
        ({"max.block.ms": "999"}, "max.block.ms: from 1000 to 9223372036854775807, or the"),
        ({"request.timeout.ms": "0"}, "request.timeout.ms: from 1 to 2147483647, or the"),
        ({"batch.size": "2147483648"}, "batch.size: from 0 to 2147483647, or the"),
        ({"send.buffer.bytes": "-2"}, "send.buffer.bytes: from -1 to 2147483647, or the"),
        ({"retries": "9" * 5000}, "retries: not a whole number"),
        ({"buffer.memory": "524287"}, "buffer.memory: less than batch.size: no record"),
        ({"buffer.memory": "9", "batch.size": "10"}, "buffer.memory: less than batch.size: no"),
        ({"delivery.timeout.ms": "30019"}, "delivery.timeout.ms: less than linger.ms + request."),
        ({"request.timeout.ms": "119981"}, "delivery.timeout.ms: less than linger.ms + request."),
        ({"acks": "1", "enable.idempotence": "true"}, "acks: 1 excludes enable.idempotence"),
        ({"retries": "0"}, "retries: 0 excludes enable.idempotence"),
        ({"max.in.flight.requests.per.connection": "6"}, "max.in.flight.requests.per.connection: "),
    ],
)  # fmt: skip
def test_a_refused_setting_has_its_reason(given: dict[str, str], complaint: str) -> None:
    """Settings that lose records, run code, use another cluster, or do not start."""
    (found,) = complaints(given)
    assert found.startswith(complaint)


def test_all_complaints_come_at_once() -> None:
    given = {"acks": "0", "transactional.id": "x", "linger.ms": "soon", "retries": "5"}
    assert [told.partition(":")[0] for told in complaints(given)] == [
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
    assert complaints(given) == []
    told = producer_settings.weakened_guarantees(given)
    assert [line.startswith(start) for line, start in zip(told, warned, strict=True)] == [
        True for _ in warned
    ]


def test_the_options_of_the_sink() -> None:
    """The connection, safe and fast defaults, the pipeline's settings, the client id."""
    connection = {"kafka.bootstrap.servers": "b:1", "kafka.sasl.jaas.config": "secret"}
    options = producer_settings.sink_options(
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


@pytest.mark.parametrize(
    ("connection", "given", "request_timeout", "delivery"),
    [
        ("60000", {}, "60000", "120000"),
        ("400000", {}, "400000", "400020"),
        ("60000", {"request.timeout.ms": "7000"}, "7000", "120000"),
        ("60000", {"delivery.timeout.ms": "90000"}, "60000", "90000"),
    ],
)
def test_a_timeout_of_the_connection_comes_before_our_own(
    connection: str, given: dict[str, str], request_timeout: str, delivery: str
) -> None:
    """And behind the pipeline's; the producer starts with what comes of it."""
    of_connection = {"kafka.request.timeout.ms": connection, "kafka.client.id": "theirs"}
    options = producer_settings.sink_options(
        of_connection, given, client_id="me", largest_row=0, largest_batch=REQUEST
    )
    assert options["kafka.request.timeout.ms"] == request_timeout
    assert options["kafka.delivery.timeout.ms"] == delivery
    assert options["kafka.client.id"] == "me"
    assert producer_settings.producer_contradictions(given, of_connection) == []


def test_a_connection_decides_nothing_of_a_producer_alone() -> None:
    """It is shared, and `acks: 0` would lose records."""
    options = producer_settings.sink_options(
        {"kafka.acks": "0", "kafka.enable.idempotence": "false"}, {},
        client_id="", largest_row=0, largest_batch=REQUEST,
    )  # fmt: skip
    assert (options["kafka.acks"], options["kafka.enable.idempotence"]) == ("all", "true")


def test_a_timeout_of_the_connection_that_contradicts_the_pipeline() -> None:
    (told,) = producer_settings.producer_contradictions(
        {"delivery.timeout.ms": "60000"}, {"kafka.request.timeout.ms": "60000"}
    )
    assert told.startswith("delivery.timeout.ms: less than linger.ms + request.timeout.ms: the")


def test_acks_of_one_leader_switch_idempotence_off() -> None:
    """The client would not start with both."""
    options = producer_settings.sink_options(
        {}, {"acks": "1"}, client_id="", largest_row=0, largest_batch=REQUEST
    )
    assert (options["kafka.acks"], options["kafka.enable.idempotence"]) == ("1", "false")


def test_a_request_has_room_for_the_largest_row() -> None:
    """Unless the pipeline limits the size of a request: then rows are checked before."""
    options = producer_settings.sink_options(
        {}, {}, client_id="", largest_row=50 * REQUEST, largest_batch=REQUEST
    )
    assert int(options["kafka.max.request.size"]) > 50 * REQUEST
    assert int(options["kafka.buffer.memory"]) >= int(options["kafka.max.request.size"])
    given = {"max.request.size": "5000", "buffer.memory": "40000"}
    assert (
        producer_settings.sink_options(
            {}, given, client_id="", largest_row=0, largest_batch=REQUEST
        )["kafka.max.request.size"]
        == "5000"
    )
    assert producer_settings.largest_record(given) == 5000
    assert producer_settings.largest_record({**given, "max.request.size": "90000"}) == 40000
    assert producer_settings.largest_record({}) is None


def test_a_batch_is_no_larger_than_a_topic_accepts() -> None:
    """Else the broker refuses it, the producer splits it, and Spark waits for no piece."""
    options = producer_settings.sink_options(
        {}, {}, client_id="", largest_row=0, largest_batch=3000
    )
    assert options["kafka.batch.size"] == "3000"
    options = producer_settings.sink_options(
        {}, {"batch.size": "2000"}, client_id="", largest_row=0, largest_batch=3000
    )
    assert options["kafka.batch.size"] == "2000"
