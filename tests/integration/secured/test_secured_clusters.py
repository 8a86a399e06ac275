"""By every way to log in, everything that a pipeline does: on a real broker, with a real KDC."""

from pathlib import Path

import pytest

from support import oracle_client, topic_reader, topic_records
from support.cli_user import Terminal
from support.secured_broker import SECRETS, WAYS, SecuredBroker

RECORDS = 600
SAMPLE = ("scram-512",)
PROCESSES = ("delegation-token", "kerberos-cache")
"""Tokens belong to a whole JVM: other tests may not get them. And one JVM gets its realm by us."""


def without_secrets(terminal: Terminal, secured: SecuredBroker, *printed: str) -> None:
    """Assert that neither the lake nor what was printed has a password, a key or a token."""
    keys = [path.read_text() for path in secured.files.glob("*.key")]
    secrets = [*SECRETS, (secured.files / "token").read_text()]
    secrets += [line for key in keys for line in key.splitlines() if len(line) == 64]
    texts = [path.read_bytes() for path in terminal.lake.rglob("*") if path.is_file()]
    assert texts
    for text in (*texts, *(each.encode() for each in printed)):
        assert not [secret for secret in secrets if secret.encode() in text]


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=() if way in SAMPLE else pytest.mark.slow) for way in WAYS]
)
def test_everything(login: SecuredBroker, tmp_path: Path, way: str) -> None:
    """Explain, ingest, progress group, verify, egress with its read-back, and the doctor."""
    extra, topic, target = login.ways[way], f"source-{way}", f"target-{way}"
    terminal = Terminal(tmp_path, extra["bootstrap.servers"], extra, processes=way in PROCESSES)
    terminal.lake.mkdir()
    topic_records.numbers(login.admin, topic, RECORDS, partitions=2)
    topic_records.create(login.admin, target, partitions=2)
    terminal.pipeline("in", [topic], progress_group=f"group-{way}")
    terminal.egress("out", source={"lake": "in"}, target={"topic": target})

    assert terminal.json("explain", "in")["chunks"]
    run = terminal.run("run", "in", "--json")
    assert "not permitted" not in run.stderr
    oracle_client.agree(login.admin, terminal.lake, "in", [topic])
    ends = topic_reader.ends(login.admin, topic)
    group = topic_records.group_offsets(login.admin, f"group-{way}")
    assert group == {(topic, p): end for p, end in ends.items()}
    found = terminal.json("verify", "in", "--against-kafka")
    assert (found["differences"], found["against_kafka"]["rows"]) == (0, RECORDS)

    sent = terminal.run("run", "out", "--json")
    assert sum(topic_reader.ends(login.admin, target).values()) == RECORDS
    assert terminal.json("verify", "out", "--against-kafka")["differences"] == 0
    doctor = terminal.run("doctor", "--json")
    assert '"failures": 0' in doctor.stdout
    assert '"warnings": 0' in doctor.stdout
    printed = [text for done in (run, sent, doctor) for text in (done.stdout, done.stderr)]
    without_secrets(terminal, login, *printed)
