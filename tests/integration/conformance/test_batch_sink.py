"""Scenarios of the batch part of Spark's own `KafkaSinkSuite`, written afresh for an egress.

Each test names the one of Spark.
"""

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support import topic_reader
from support.cli_user import Terminal
from tidegate_local.kafka import Broker

ROUND_ROBIN = "org.apache.kafka.clients.producer.RoundRobinPartitioner"


@pytest.fixture
def terminal(broker: Broker, tmp_path: Path) -> Terminal:
    (tmp_path / "in").mkdir()
    return Terminal(tmp_path, broker.bootstrap)


def pipeline(
    terminal: Terminal,
    name: str,
    lines: list[Any],
    schema: str,
    target: dict[str, Any],
    **columns: str,
) -> None:
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (terminal.home / "in/a.json").write_text(text)
    source = {"path": str(terminal.home / "in"), "format": "json", "columns": schema}
    terminal.egress(name, source=source, target=target, columns=columns)


@pytest.mark.slow
def test_big_records_by_a_small_buffer(
    terminal: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """`generic - write big data with small producer buffer`: sending waits for room, and all of
    it arrives. Here the batch has to fit into the buffer too, which Spark leaves to the producer.
    """
    name = topic(partitions=2)
    values = [os.urandom(7_000).hex() for _ in range(60)]  # 14,000 bytes, and the headers
    options = {
        "kafka.buffer.memory": 16_384,
        "kafka.batch.size": 1_024,
        "kafka.compression.type": "none",
    }
    target = {"topic": name, "options": options}
    pipeline(terminal, "out", [{"v": value} for value in values], "v STRING", target, value="v")
    assert terminal.json("run", "out")["rows"] == 60
    sent = topic_reader.read(broker.bootstrap, name)
    assert Counter(each.value for each in sent) == Counter(value.encode() for value in values)


@pytest.mark.slow
def test_the_partition_of_a_row_comes_before_the_partitioner(
    terminal: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """`batch - partition column and partitioner priorities`: a partitioner chooses where no
    expression does; with one, its partition is taken.
    """
    rows = [{"k": "same", "p": n % 2} for n in range(40)]
    schema, options = "k STRING, p INT", {"kafka.partitioner.class": ROUND_ROBIN}
    alone, together = topic(partitions=4), topic(partitions=4)
    for name, target, columns in (
        ("alone", alone, {"key": "k", "value": "k"}),
        ("together", together, {"key": "k", "value": "k", "partition": "p"}),
    ):
        pipeline(
            terminal, name, rows, schema, {"topic": target, "options": options}, **columns
        )  # fmt: skip
        assert terminal.json("run", name)["rows"] == 40
    spread = Counter(each.partition for each in topic_reader.read(broker.bootstrap, alone))
    assert len(spread) > 1  # by its key each record would have the same partition
    sent = topic_reader.read(broker.bootstrap, together)
    assert Counter(each.partition for each in sent) == {0: 20, 1: 20}


@pytest.mark.slow
def test_a_null_partition_is_a_bad_row(terminal: Terminal, topic: Callable[..., str]) -> None:
    """The null partition of `batch - partition column and partitioner priorities`.

    In Spark it leaves the choice to the partitioner. Here such a row is a bad one: a retry could
    choose another partition, and the order would be broken.
    """
    target = {"topic": topic(), "options": {"kafka.partitioner.class": ROUND_ROBIN}}
    columns = {"key": "k", "value": "k", "partition": "p"}
    pipeline(terminal, "out", [{"k": "a", "p": None}], "k STRING, p INT", target, **columns)
    done = terminal.run("run", "out", code=None)
    assert done.returncode != 0
    assert "no partition" in done.stderr


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ({"mode": "overwrite"}, "target.mode: unknown key: records are appended"),
        (
            {"options": {"kafka.key.serializer": "x"}},
            "kafka.key.serializer: refused: keys are written as bytes",
        ),
        (
            {"options": {"KAFKA.value.serializer": "x"}},
            "KAFKA.value.serializer: refused: values are written as bytes",
        ),
    ],
)
def test_what_spark_refuses_when_it_writes_is_refused_in_the_file(
    terminal: Terminal, target: dict[str, Any], says: str
) -> None:
    """`batch - unsupported save modes`, `exception on config serializer`: no broker is asked."""
    terminal.extra["bootstrap.servers"] = "127.0.0.1:9"
    pipeline(terminal, "out", [{"k": "a"}], "k STRING", {"topic": "t", **target})
    done = terminal.run("run", "out", code=2)
    assert says in done.stderr
