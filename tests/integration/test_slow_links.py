"""A lake behind a slow line."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer

from support import bucket_servers, store_proxy, topic_reader, topic_records
from support.cli_user import Terminal
from tidegate_local.kafka import Broker

RECORDS, SIZE, BYTES_PER_SECOND = 2_000, 100_000, 6_000_000


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("scheme", bucket_servers.SCHEMES)
def test_200_megabytes_there_and_back(
    scheme: str, broker: Broker, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Each time the bytes pass takes 33 s, longer than clients wait for an answer. An ingest sends
    them once. An egress reads them twice: it checks all rows before it sends the first.
    """
    server = request.getfixturevalue(bucket_servers.FIXTURES[scheme])
    lake, topic = f"{scheme}://{getattr(server, 'bucket', 'lakes')}/slow", f"slow-{scheme}"
    topic_records.create(broker.bootstrap, topic, partitions=1)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for _ in range(RECORDS):
        producer.send(topic, value=os.urandom(SIZE))
    producer.close()
    whole = RECORDS * SIZE

    with store_proxy.before(scheme, server.environment, BYTES_PER_SECOND) as (slow, proxy):
        terminal = Terminal(tmp_path, broker.bootstrap, environ=slow, url=lake)
        terminal.pipeline("p", [topic])
        assert run(terminal, "p")["rows"] == RECORDS
        assert whole < proxy.sent < 1.1 * whole
        assert terminal.json("verify", "p", "--against-kafka")["differences"] == 0
        target = {"topic": f"{topic}-back", "partitions": 1}
        terminal.egress("back", source={"lake": "p"}, target=target, lake=lake)
        before = proxy.received
        assert run(terminal, "back")["rows"] == RECORDS
        assert 2 * whole < proxy.received - before < 2.1 * whole
    bucket_servers.check(f"{lake}/p", request)
    sent = topic_reader.read(broker.bootstrap, f"{topic}-back")
    assert {each.value for each in sent} == {
        each.value for each in topic_reader.read(broker.bootstrap, topic)
    }
    assert len(sent) == RECORDS


def run(terminal: Terminal, pipeline: str) -> dict[str, Any]:
    with terminal.start("run", pipeline, "--json") as process:
        out, err = process.communicate(timeout=400)
    assert process.returncode == 0, err
    report: dict[str, Any] = json.loads(out)
    return report
