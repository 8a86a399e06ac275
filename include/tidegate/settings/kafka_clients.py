"""The settings that Kafka's Java clients know, with the values that they take.

Source: `ConsumerConfig`, `ProducerConfig` and `AdminClientConfig` of kafka-clients 3.9.2, the
version beside Spark. A test compares the names. Where a client starts with a value and then cannot
read, send or connect, the bounds here are narrower than its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.settings.setting import (
    INT,
    LONG,
    Check,
    check_boolean,
    check_text,
    check_whole,
    check_words,
)

_MILLISECONDS = check_whole(0, LONG)

_LEVEL = check_whole(-1, 9)


def _gzip(value: str) -> str | None:
    return "-1, or from 1 to 9" if value == "0" else _LEVEL(value)


SECURITY: Mapping[str, Check] = dict.fromkeys(
    (
        "bootstrap.servers",
        "client.dns.lookup",
        "sasl.client.callback.handler.class",
        "sasl.jaas.config",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.service.name",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        "sasl.mechanism",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.header.urlencode",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
        "sasl.oauthbearer.token.endpoint.url",
        "security.protocol",
        "security.providers",
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.engine.factory.class",
        "ssl.key.password",
        "ssl.keymanager.algorithm",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    ),
    check_text,
)
"""Which cluster is used and how it is logged in to: all clients."""

COMMON: Mapping[str, Check] = {
    "auto.include.jmx.reporter": check_boolean,
    "client.id": check_text,
    "connections.max.idle.ms": check_whole(-(2**63), LONG),
    "enable.metrics.push": check_boolean,
    "interceptor.classes": check_text,
    "metadata.max.age.ms": _MILLISECONDS,
    "metadata.recovery.strategy": check_words("none", "rebootstrap", ignore_case=True),
    "metric.reporters": check_text,
    "metrics.num.samples": check_whole(1),
    "metrics.recording.level": check_words("INFO", "DEBUG", "TRACE"),
    "metrics.sample.window.ms": _MILLISECONDS,
    "receive.buffer.bytes": check_whole(-1),
    "reconnect.backoff.max.ms": _MILLISECONDS,
    "reconnect.backoff.ms": _MILLISECONDS,
    "request.timeout.ms": check_whole(1),
    "retry.backoff.max.ms": _MILLISECONDS,
    "retry.backoff.ms": _MILLISECONDS,
    "send.buffer.bytes": check_whole(-1),
    "socket.connection.setup.timeout.max.ms": check_whole(100, LONG),
    "socket.connection.setup.timeout.ms": check_whole(100, LONG),
}

CONSUMER: Mapping[str, Check] = {
    "allow.auto.create.topics": check_boolean,
    "auto.commit.interval.ms": check_whole(0),
    "auto.offset.reset": check_words("latest", "earliest", "none"),
    "check.crcs": check_boolean,
    "client.rack": check_text,
    "default.api.timeout.ms": check_whole(1),
    "enable.auto.commit": check_boolean,
    "exclude.internal.topics": check_boolean,
    "fetch.max.bytes": check_whole(0),
    "fetch.max.wait.ms": check_whole(0),
    "fetch.min.bytes": check_whole(0),
    "group.id": check_text,
    "group.instance.id": check_text,
    "group.protocol": check_words("classic", "consumer", ignore_case=True),
    "group.remote.assignor": check_text,
    "heartbeat.interval.ms": check_whole(0),
    "isolation.level": check_words("read_committed", "read_uncommitted"),
    "key.deserializer": check_text,
    "max.partition.fetch.bytes": check_whole(0),
    "max.poll.interval.ms": check_whole(1),
    "max.poll.records": check_whole(1),
    "partition.assignment.strategy": check_text,
    "session.timeout.ms": check_whole(0),
    "value.deserializer": check_text,
}

PRODUCER: Mapping[str, Check] = {
    "acks": check_words("all", "-1", "0", "1"),
    "batch.size": check_whole(0),
    "buffer.memory": check_whole(1, LONG),
    "compression.gzip.level": _gzip,
    "compression.lz4.level": check_whole(1, 17),
    "compression.type": check_words("none", "gzip", "snappy", "lz4", "zstd"),
    "compression.zstd.level": check_whole(-131072, 22),
    "delivery.timeout.ms": check_whole(1),
    "enable.idempotence": check_words("true", "false"),
    "key.serializer": check_text,
    "linger.ms": check_whole(0, LONG),
    "max.block.ms": check_whole(1000, LONG),
    "max.in.flight.requests.per.connection": check_whole(1),
    "max.request.size": check_whole(1),
    "metadata.max.idle.ms": check_whole(5000, LONG),
    "partitioner.adaptive.partitioning.enable": check_boolean,
    "partitioner.availability.timeout.ms": _MILLISECONDS,
    "partitioner.class": check_text,
    "partitioner.ignore.keys": check_boolean,
    "retries": check_whole(0, INT),
    "transaction.timeout.ms": check_whole(),
    "transactional.id": check_text,
    "value.serializer": check_text,
}

ADMIN: Mapping[str, Check] = {
    "bootstrap.controllers": check_text,
    "default.api.timeout.ms": check_whole(1),
    "retries": check_whole(0),
}
"""What an admin client knows beside `COMMON`, which has no `interceptor.classes` there."""
