"""The doctor before a real broker: healthy, and with rights, topics and passwords that lack."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

import records
from terminal import Terminal
from tidegate.local import kafka
from tidegate.local.kafka import Broker
from tidegate.local.ports import free_port

PASSWORD = "canary-55ab01"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, str]]:
    """A broker with ACLs that also listens with SASL/PLAIN for user `reader`, and that address.

    Without a login one may do everything.
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


def test_a_healthy_system(broker: Broker, tmp_path: Path) -> None:
    """Nothing but ok, before the first run and after it; and the lake is as it was."""
    terminal = Terminal(tmp_path, broker.bootstrap)
    terminal.lake.mkdir()
    records.numbers(broker.bootstrap, "healthy", 200, partitions=2)
    terminal.pipeline("healthy", ["healthy"], schedule="*/10 * * * *")
    first = terminal.json("doctor")
    assert {line["state"] for line in first["checks"]} == {"ok"}
    (says,) = about(first, "kafka")
    assert "brokers 4.3, kafka-python 3" in says[1]
    terminal.run("run", "healthy")
    before = terminal.tree()
    again = terminal.json("doctor", "healthy")
    assert {line["state"] for line in again["checks"]} == {"ok"}
    assert ("ok", "2 entries, 1 live commits → None") in about(again, "ledger")
    assert terminal.tree() == before
    assert "0 failures, 0 warnings" in terminal.run("doctor").stdout


def test_rights_that_lack(guarded: tuple[Broker, str], tmp_path: Path) -> None:
    """DESCRIBE alone, then READ too, then DESCRIBE_CONFIGS; the password is never told."""
    broker, address = guarded
    records.create(broker.bootstrap, "watched", partitions=1)
    records.create(broker.bootstrap, "hidden", partitions=1)
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
    assert (missing[0], "hidden: the broker has none" in missing[1]) == ("failure", True)
    assert (unread[0], "watched: this user may not READ it" in unread[1]) == ("failure", True)
    allow(broker, ResourceType.TOPIC, "watched", AclOperation.READ)
    terminal.pipeline("watched", ["watched"], schedule="@daily")
    found = terminal.json("doctor")
    assert about(found, "topic") == [("ok", "watched: 1 partitions, may be read → None")]
    ((state, says),) = about(found, "retention")
    assert (state, "DESCRIBE_CONFIGS" in says) == ("warning", True)
    allow(broker, ResourceType.TOPIC, "watched", AclOperation.DESCRIBE_CONFIGS)
    found = terminal.json("doctor")
    assert about(found, "retention") == [
        ("ok", "watched: records are kept for 7 days, 0:00:00, runs come every 1 day, 0:00:00"
               " → None")
    ]  # fmt: skip
    terminal.extra["sasl.password"] = f"{PASSWORD}-wrong"
    refused = terminal.run("doctor", "--json", code=3)
    ((state, says),) = about(json.loads(refused.stdout), "kafka")
    assert (state, "the broker refused the credentials" in says) == ("failure", True)
    assert PASSWORD not in refused.stdout + refused.stderr


def test_all_is_wrong_at_once(tmp_path: Path) -> None:
    """No broker, no lake, no such Spark connection, and a file that is wrong: all are told."""
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
