"""The table that `tidegate view --engine trino` prints, in a real Trino, on a lake in a bucket."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from support import matrix, trino
from support.buckets import BUCKET
from support.cli_user import Terminal
from tidegate_local.kafka import Broker
from tidegate_local.s3 import Server

pytestmark = pytest.mark.matrix

SCHEMA = (
    "id INT, at TIMESTAMP, price DECIMAL(5,2), ratio FLOAT, raw BINARY, day DATE, ok BOOLEAN, "
    "`a b` INT, tags ARRAY<STRING>, per MAP<STRING, BIGINT>, gate STRUCT<name: STRING, floor: INT>"
)
RECORD = {
    "id": 1, "at": "2026-03-14T06:00:00.000001Z", "price": 1.25, "ratio": 0.5, "raw": "/w==",
    "day": "2026-03-14", "ok": True, "a b": 5, "tags": ["x", None], "per": {"k": 7},
    "gate": {"name": "A1", "floor": 2},
}  # fmt: skip
ROW = [
    1, "2026-03-14 06:00:00.000001", "1.25", 0.5, "/w==", "2026-03-14", True, 5, ["x", None],
    {"k": 7}, ["A1", 2],
]  # fmt: skip


def test_a_lake_in_a_bucket(
    broker: Broker, s3: Server, tmp_path: Path, topic: Callable[..., str]
) -> None:
    """All types, also of columns that came later, and directories by values, blanks included."""
    name, url = topic(), f"s3://{BUCKET}/trino"
    user = Terminal(tmp_path, broker.bootstrap, environ=s3.environment, url=url)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    decode = {"value": {"format": "json", "schema": "id INT, city STRING"}}
    layout = {"partition_by": ["topic", "window_date", "identity(city)"]}
    user.pipeline("events", [name], decode={name: decode}, **layout)
    for value in (b'{"id": 7, "city": "New York"}', b"poison"):
        producer.produce(name, value, b"k")
    producer.flush(30)
    user.run("run", "events")
    decode["value"]["schema"] = SCHEMA.replace("id INT", "id BIGINT, city STRING")
    user.pipeline("events", [name], decode={name: decode}, **layout)
    producer.produce(name, json.dumps(RECORD).encode(), b"k")
    producer.flush(30)
    user.run("run", "events")

    made = user.run("view", "events", "--engine", "trino", "--latest").stdout
    try:
        with trino.server(tmp_path / "trino", s3, BUCKET) as query:
            query("CREATE SCHEMA hive.default")
            for statement in made.split(";")[:-1]:
                query(statement)
            columns = 'id, at, price, ratio, raw, day, ok, "a b", tags, per, gate'
            assert query(f"SELECT {columns} FROM events WHERE ratio > 0") == [ROW]
            seen = query(
                'SELECT id, city_value, "offset", from_utf8(value), _undecodable IS NULL, topic, '
                "date_diff('day', window_date, current_date) FROM events ORDER BY \"offset\""
            )
            latest = query('SELECT "offset" FROM events_latest')
    except matrix.Missing as reason:
        pytest.skip(str(reason))
    assert latest == [[2]]  # all have one key
    assert [row[:3] for row in seen] == [[7, "New York", 0], [None, None, 1], [1, None, 2]]
    assert [row[4] for row in seen] == [True, False, True]
    assert seen[1][3] == "poison"
    assert {row[5] for row in seen} == {name}
