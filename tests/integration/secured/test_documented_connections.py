"""The connections of docs/how-to/secured-cluster.md and delegation-tokens.md, as they stand there.

Addresses, names, secrets and files are those of the tests' broker; all else is the page's.
"""

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from support import locked_jars, oracle_client, topic_records
from support.cli_user import Terminal
from support.doc_pages import command_lines, fenced, page
from support.secured_broker import SecuredBroker
from support.snippets import PAGES

SECURED, TOKENS = "docs/how-to/secured-cluster.md", "docs/how-to/delegation-tokens.md"
PROCESSES = ("delegation-token",)
"""Tokens belong to a whole JVM: other tests may not get them."""
EXAMPLES = (
    *((SECURED, number, way) for number, way in enumerate((
        "scram-512", "ssl", "ssl-certificate", "ssl-keystore", "oauth-client", "oauth-file",
        "oauth-callable", "kerberos",
    ))),
    (TOKENS, 0, "delegation-token"),
)  # fmt: skip
"""Page, number of its JSON, and the way to log in that it describes."""
HERE = "test_the_connection_works"


def is_place(name: str) -> bool:
    """Say whether a setting is an address, a name, a secret or a file of the reader's."""
    *_, last = name.split(".")
    return name == "bootstrap.servers" or last in {
        "username", "password", "location", "id", "secret", "scope", "url", "file", "callable",
        "principal", "keytab",
    }  # fmt: skip


def test_every_example_of_these_ways_is_here() -> None:
    """The others are of services that cannot be reached from here."""
    for name in (SECURED, TOKENS):
        blocks = [block for block in PAGES[name] if block.language == "json"]
        mine = [n for n, block in enumerate(blocks) if block.test.endswith(f"::{HERE}")]
        assert mine == [number for each, number, _ in EXAMPLES if each == name]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "number", "way"), EXAMPLES, ids=[way for *_, way in EXAMPLES])
def test_the_connection_works(
    login: SecuredBroker, tmp_path: Path, name: str, number: int, way: str
) -> None:
    """The page's `tidegate doctor orders` has no warning, and a run brings all rows."""
    example = json.loads(fenced(page(name), "json")[number])
    assert example["conn_type"] == "kafka"
    ours = {**login.ways[way], "https.ca.location": login.ways[way]["ssl.ca.location"]}
    extra = {key: ours[key] if is_place(key) else value for key, value in example["extra"].items()}
    topic = f"documented-{way}"
    topic_records.numbers(login.admin, topic, 100, partitions=2)
    terminal = Terminal(tmp_path, extra["bootstrap.servers"], extra, processes=way in PROCESSES)
    terminal.lake.mkdir()
    terminal.pipeline("orders", [topic])
    (doctor,) = (words for words in command_lines(page(TOKENS)) if words[0] == "doctor")
    found = terminal.json(*doctor)
    assert (found["failures"], found["warnings"]) == (0, 0), found
    assert terminal.json("run", "orders")["rows"] == 100
    oracle_client.agree(login.admin, terminal.lake, "orders", [topic])


@pytest.mark.slow
def test_the_acls_of_the_page(secured: SecuredBroker, tmp_path: Path) -> None:
    """`kafka-acls.sh`, which calls this class, takes the command, and the broker has the rights."""
    (command,) = (block for block in fenced(page(SECURED), "sh") if block.startswith("kafka-acls"))
    (tmp_path / "admin.properties").touch()
    class_path = os.pathsep.join(map(str, locked_jars.fetched("kafka-3.9.1")))
    java = f"java -cp {shlex.quote(class_path)} kafka.admin.AclCommand"
    command = command.replace("kafka-acls.sh", java).replace("broker-1:9093", secured.admin)
    subprocess.run(["bash", "-ec", command], cwd=tmp_path, check=True, capture_output=True)
    admin = AdminClient({"bootstrap.servers": secured.admin})
    anything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, "User:tidegate", None, AclOperation.ANY,
        AclPermissionType.ANY,
    )  # fmt: skip
    found = admin.describe_acls(anything).result(30)
    assert {(each.restype, each.name, each.operation) for each in found} == {
        (ResourceType.TOPIC, "orders", AclOperation.READ),
        (ResourceType.TOPIC, "orders", AclOperation.DESCRIBE_CONFIGS),
    }
    assert {each.permission_type for each in found} == {AclPermissionType.ALLOW}
