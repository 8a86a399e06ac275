"""A topic of one cluster into the lake, and from there into another cluster's, in one installation.

The clusters have different authorities, protocols and logins. The pipelines are those of
docs/how-to/send.md.
"""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import Producer

from support import scram_broker, topic_reader, topic_records
from support.cli_user import Terminal
from support.doc_pages import fenced, page
from support.secured_broker import SECRETS, SecuredBroker

RECORDS = 400
ODD = (
    {"key": b"\x00\xff", "value": None, "headers": [("h", b"\xff"), ("h", None)]},
    {"key": None, "value": b"\xfe\x00 bytes", "headers": []},
    {"key": b"", "value": b"", "headers": [("", b"")]},
)


def connection(extra: dict[str, str]) -> str:
    return json.dumps({"conn_type": "kafka", "extra": extra})


@pytest.mark.slow
def test_from_one_cluster_to_another(secured: SecuredBroker, tmp_path: Path) -> None:
    """Byte for byte; `explain`, as on the page, and the doctor name both clusters with their
    logins, and nothing that is printed or kept has a secret. The source's cluster is not needed
    to send its lake; a replay by times asks both.
    """
    topic_records.numbers(secured.admin, "orders", RECORDS, partitions=2)
    producer = Producer({"bootstrap.servers": secured.admin})
    for record in ODD:
        producer.produce("orders", partition=1, **record)
    assert producer.flush(30) == 0
    a = secured.ways["ssl-certificate"]
    with scram_broker.running(tmp_path / "b", mechanism="SCRAM-SHA-512", tls=True) as other:
        b = dict(other.extra)
        environ = {f"AIRFLOW_CONN_KAFKA_{n}": connection(x) for n, x in (("A", a), ("B", b))}
        environ["TIDEGATE_LAKE"] = str(tmp_path / "lake")
        terminal = Terminal(tmp_path, "127.0.0.1:1", environ=environ)
        terminal.lake.mkdir()
        terminal.pipelines.mkdir()
        send_lake = page("docs/how-to/send.md")
        for name, text in zip(
            ("orders", "orders_elsewhere"), fenced(send_lake, "yaml")[3:], strict=True
        ):
            assert text.startswith(f"# include/pipelines/{name}.yaml")
            (terminal.pipelines / f"{name}.yaml").write_text(text)

        assert terminal.json("explain", "orders")["kafka"] == {
            "connection": "kafka_a", "bootstrap_servers": a["bootstrap.servers"],
            "protocol": "SSL", "login": "certificate CN=alice",
        }  # fmt: skip
        done = [terminal.run("run", "orders")]
        at_a = f"Kafka at {a['bootstrap.servers']} (kafka_a): SSL, certificate CN=alice"
        at_b = f"Kafka at {b['bootstrap.servers']} (kafka_b): SASL_SSL, SCRAM-SHA-512 as alice"
        done.append(terminal.run("explain", "orders_elsewhere"))
        (shown,) = fenced(send_lake, "text")
        for there, here in {
            "1,200": str(RECORDS + len(ODD)),
            "Kafka at broker-a:9094 (kafka_a): SSL, certificate CN=tidegate": at_a,
            "Kafka at broker-b:9093 (kafka_b): SASL_SSL, SCRAM-SHA-512 as tidegate": at_b,
        }.items():
            assert there in shown
            shown = shown.replace(there, here)
        assert shown in done[-1].stdout
        done.append(terminal.run("doctor"))
        for line in (at_a, at_b, f"source: the lake of {at_a}"):
            assert f"ok       connection: {line}\n" in done[-1].stdout

        away = connection({"bootstrap.servers": "127.0.0.1:1"})
        done.append(terminal.run("run", "orders_elsewhere", AIRFLOW_CONN_KAFKA_A=away))
        source, copy = (
            [(record.partition, *record.content) for record in topic_reader.read(*where)]
            for where in ((secured.admin, "orders"), (other.bootstrap, "orders"))
        )
        assert len(source) == RECORDS + len(ODD)
        assert copy == source
        window = ("--start", "2000-01-01T00:00:00Z", "--end", datetime.now(UTC).isoformat())
        again = terminal.json("replay", "orders_elsewhere", "--replay-id", "by-time", *window)
        assert again["rows"] == len(source)
        assert terminal.json("verify", "orders_elsewhere", "--against-kafka")["differences"] == 0
        assert terminal.json("verify", "orders", "--against-kafka")["differences"] == 0
    texts = [text for each in done for text in (each.stdout, each.stderr)]
    texts += [f.read_bytes().decode(errors="replace") for f in terminal.lake.rglob("*.json")]
    assert not [s for s in (*SECRETS, scram_broker.PASSWORD) for text in texts if s in text]
