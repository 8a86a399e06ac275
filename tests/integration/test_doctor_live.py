"""The doctor with a real broker: healthy, and with missing rights, topics and passwords."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from support import topic_records
from support.cli_user import Terminal
from tidegate_local import kafka
from tidegate_local.kafka import Broker
from tidegate_local.ports import free_port

PASSWORD = "canary-55ab01"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, str]]:
    """Yield a broker with ACLs that also listens with SASL/PLAIN for user `reader`, and that
    address.

    Anonymous clients have all rights.
    """
    home = tmp_path_factory.mktemp("guarded")
    plain, control, sasl = free_port(), free_port(), free_port()
    listeners = (
        f"PLAINTEXT://127.0.0.1:{plain},CONTROLLER://127.0.0.1:{control},SECURED://127.0.0.1:{sasl}"
    )
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    settings = {
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{control}",
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_PLAINTEXT"
        ),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secured.plain.sasl.jaas.config": f'{login} user_reader="{PASSWORD}";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    try:
        yield kafka.start(home, port=plain, settings=settings), f"127.0.0.1:{sasl}"
    finally:
        kafka.stop(home)


def allow(broker: Broker, kind: ResourceType, name: str, *operations: AclOperation) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    bindings = [
        AclBinding(
            kind, name, ResourcePatternType.LITERAL, "User:reader", "*", operation,
            AclPermissionType.ALLOW,
        )
        for operation in operations
    ]  # fmt: skip
    for done in admin.create_acls(bindings).values():
        done.result(30)


def about(found: Any, check: str) -> list[tuple[str, str]]:
    """Return state and text of a check's lines."""
    return [
        (line["state"], f"{line['says']} → {line['fix']}")
        for line in found["checks"]
        if line["check"] == check
    ]


@pytest.mark.slow
def test_a_healthy_system(broker: Broker, guarded: tuple[Broker, str], tmp_path: Path) -> None:
    """Only ok, before and after the first run, and no change of the lake. Another broker is
    reported as another cluster.
    """
    terminal = Terminal(tmp_path, broker.bootstrap)
    terminal.lake.mkdir()
    topic_records.numbers(broker.bootstrap, "healthy", 200, partitions=2)
    terminal.pipeline("healthy", ["healthy"], schedule="*/10 * * * *")
    first = terminal.json("doctor")
    assert {line["state"] for line in first["checks"]} == {"ok"}
    (says,) = about(first, "kafka")
    assert "brokers 4.3, kafka-python 3" in says[1]
    terminal.run("run", "healthy")
    before = terminal.tree()
    again = terminal.json("doctor", "healthy")
    assert {line["state"] for line in again["checks"]} == {"ok"}
    assert ("ok", "2 entries, 1 live commit → None") in about(again, "ledger")
    assert terminal.tree() == before
    assert "0 failures, 0 warnings" in terminal.run("doctor").stdout
    terminal.bootstrap = guarded[0].bootstrap
    ((state, says),) = about(terminal.json("doctor", "healthy", code=3), "kafka")
    assert (state, "the lake's rows are of" in says) == ("failure", True)
    assert "point connection 'kafka_default' back" in says


def test_topics_that_lose_records(broker: Broker, tmp_path: Path) -> None:
    """Topics whose retention is shorter than the schedule's interval, with an unread record past
    half of its retention, with expired unread records, recreated, with retention.bytes; and a
    pattern without topics.
    """
    terminal = Terminal(tmp_path, broker.bootstrap)
    terminal.lake.mkdir()
    hour = 3_600_000
    kept = {
        "hasty-topic": hour,
        "late-topic": 240 * hour,
        "gone-topic": 240 * hour,
        "recreated-topic": 240 * hour,
    }
    for name, ms in kept.items():
        topic_records.create(broker.bootstrap, name, partitions=1, config={"retention.ms": str(ms)})
    small = {"retention.ms": str(240 * hour), "retention.bytes": "1000000"}
    topic_records.create(broker.bootstrap, "small-topic", partitions=1, config=small)
    terminal.pipeline("loses", [*kept, "small-topic"], schedule="@daily")
    terminal.run("run", "loses")  # nothing to read, but it records the origins
    topic_records.numbers(broker.bootstrap, "gone-topic", 10)
    topic_records.delete_records(broker.bootstrap, "gone-topic", {0: 4})
    topic_records.stamped(broker.bootstrap, "late-topic", 0, [int(time.time() * 1000) - 200 * hour])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics(["recreated-topic"])["recreated-topic"].result(30)
    while "recreated-topic" in admin.list_topics(timeout=10).topics:
        time.sleep(0.05)
    topic_records.create(broker.bootstrap, "recreated-topic", partitions=1)
    terminal.pipeline("none", [], pattern="no-such-.*")
    found = terminal.json("doctor", code=3)
    lines = {
        name: [(state, says) for state, says in about(found, check) if says.startswith(name)]
        for check, name in (
            ("retention", "hasty-topic"), ("retention", "late-topic"), ("retention", "gone-topic"),
            ("topic", "recreated-topic"), ("retention", "small-topic"),
        )
    }  # fmt: skip
    ((state, says),) = lines["hasty-topic"]
    assert (state, "they expire before a run reads them" in says) == ("failure", True)
    ((state, says),) = lines["late-topic"]
    assert (state, "past half of it in partitions [0]" in says) == ("warning", True)
    (state, says), _ = lines["gone-topic"]
    assert (state, "gone-topic-0: expired: [0, 4), 4 offsets" in says) == ("failure", True)
    ((state, says),) = lines["recreated-topic"]
    assert (state, "tidegate offsets adopt loses recreated-topic" in says) == ("failure", True)
    ((state, says),) = lines["small-topic"]
    assert (state, "when they expire is not known" in says) == ("warning", True)
    assert "1,000,000 bytes" in says
    topic_records.numbers(broker.bootstrap, "small-topic", 10)
    unread = terminal.json("explain", "loses")["topics"]
    assert unread["small-topic"]["partitions"]["0"]["expires_at"] is None
    assert unread["gone-topic"]["partitions"]["0"]["expires_at"] is None  # its range has expired
    ((state, says),) = [line for line in about(found, "kafka") if "no-such-" in line[1]]
    assert (state, "correct `pattern` or `exclude`" in says) == ("failure", True)
    assert found["failures"] == 4


@pytest.mark.slow
def test_missing_rights(guarded: tuple[Broker, str], tmp_path: Path) -> None:
    """With DESCRIBE only, then READ, then DESCRIBE_CONFIGS; a log.retention.bytes of the broker is
    a warning; the password is never shown.
    """
    broker, address = guarded
    topic_records.create(broker.bootstrap, "watched", partitions=1)
    topic_records.create(broker.bootstrap, "hidden", partitions=1)
    login = {
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
        "sasl.username": "reader", "sasl.password": PASSWORD,
    }  # fmt: skip
    terminal = Terminal(tmp_path, address, login)
    terminal.lake.mkdir()
    terminal.pipeline("watched", ["watched", "hidden"], schedule="@daily")
    allow(broker, ResourceType.TOPIC, "watched", AclOperation.DESCRIBE)
    found = terminal.json("doctor", code=3)
    missing, unread = about(found, "topic")[::-1]
    assert (missing[0], "hidden: no such topic" in missing[1]) == ("failure", True)
    assert (unread[0], "watched: this user may not READ it" in unread[1]) == ("failure", True)
    terminal.pipeline("watched", ["watched"], schedule="@daily")
    error = terminal.json("run", "watched", code=3)["error"]
    assert (error["name"], "READ on watched" in error["message"]) == ("NotAuthorised", True)
    allow(broker, ResourceType.TOPIC, "watched", AclOperation.READ)
    found = terminal.json("doctor")
    assert about(found, "topic") == [("ok", "watched: 1 partition, may be read → None")]
    ((state, says),) = about(found, "retention")
    assert (state, "DESCRIBE_CONFIGS" in says) == ("warning", True)
    allow(broker, ResourceType.TOPIC, "watched", AclOperation.DESCRIBE_CONFIGS)
    found = terminal.json("doctor")
    assert about(found, "retention") == [
        ("ok", "watched: records are kept for 7d, runs come every 1d → None")
    ]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    limit = {"incremental_operation": AlterConfigOpType.SET}
    size = ConfigEntry("log.retention.bytes", "5000000", **limit)
    (broker_id,) = map(str, admin.list_topics(timeout=10).brokers)
    of_broker = ConfigResource(ResourceType.BROKER, broker_id, incremental_configs=[size])
    admin.incremental_alter_configs([of_broker])[of_broker].result(30)
    ((state, says),) = about(terminal.json("doctor"), "retention")
    assert (state, "more than 5,000,000 bytes" in says) == ("warning", True)
    terminal.extra["sasl.password"] = f"{PASSWORD}-wrong"
    refused = terminal.run("doctor", "--json", code=3)
    ((state, says),) = about(json.loads(refused.stdout), "kafka")
    assert (state, "the broker refused the credentials" in says) == ("failure", True)
    assert PASSWORD not in refused.stdout + refused.stderr


def test_all_failures_are_reported_at_once(tmp_path: Path) -> None:
    """An unreachable broker, no lake, an unknown Spark connection, and an invalid file."""
    terminal = Terminal(tmp_path, "127.0.0.1:1")
    terminal.pipeline("lost", ["t"], spark={"connection": "spark_lost"})
    (terminal.pipelines / "bad.yaml").write_text("name: bad\nkind: ingest\n")
    found = terminal.json("doctor", code=3)
    assert found["failures"] == 3
    assert about(found, "kafka")[0][0] == "failure"
    assert "no broker answered" in about(found, "kafka")[0][1]
    assert "'spark_lost' is not defined" in about(found, "spark")[0][1]
    assert "lake: missing" in about(found, "file")[0][1]
    assert about(found, "lake")[0][0] == "warning"
    assert not terminal.lake.exists()
