"""A lake that is decoded and partitioned by event time: as exact as any other, for all readers."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow.dataset as ds
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import tidegate
from support import spark_session
from support.buckets import BUCKET
from support.checked_lake import has_its_format, is_consistent
from support.cli_user import Terminal
from tidegate_local.kafka import Broker
from tidegate_local.s3 import Server

SCHEMA = "id INT, carrier STRING, at TIMESTAMP"
BY_EVENT = {
    "decode": {"*": {"value": {"format": "json", "schema": SCHEMA}}},
    "partition_by": ["topic", "day(at)", "identity(carrier)"],
}
DAYS = ("0001-01-01", "2025-03-14", "2026-03-13", "2026-03-14", "9999-12-31")


@pytest.fixture
def user(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    terminal = Terminal(tmp_path, broker.bootstrap)
    monkeypatch.setenv("TIDEGATE_PIPELINES", str(terminal.pipelines))
    return terminal


def send(broker: Broker, topic: str, first: int, number: int, *, partitions: int = 2) -> None:
    """Send records whose times are a year apart and more, in turn; every seventh is poison."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for n in range(first, first + number):
        day = DAYS[n % len(DAYS)]
        value = {
            "id": n,
            "carrier": ("New York", "a/b", None)[n % 3],
            "at": f"{day}T{n % 24:02}:00:00Z",
        }
        data = b"poison" if n % 7 == 0 else json.dumps(value).encode()
        producer.produce(topic, data, b"k", n % partitions)
    assert producer.flush(30) == 0


def values(broker: Broker, topic: str) -> dict[int, list[bytes | None]]:
    """Return the values of a topic by partition, in their order."""
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": "test",
        "enable.partition.eof": True,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, p, 0) for p in range(2)])
    found: dict[int, list[bytes | None]] = {0: [], 1: []}
    ended = set()
    while len(ended) < 2:
        message = consumer.poll(10)
        assert message is not None
        if message.error():
            ended.add(message.partition())
        else:
            found[message.partition()].append(message.value())
    consumer.close()
    return found


def directories(user: Terminal) -> dict[str, int]:
    """Return the directories below the topic, with the number of their files."""
    found: dict[str, int] = {}
    for path in (user.lake / "events/data").glob("topic=*/**/*.parquet"):
        name = "/".join(path.parts[-3:-1])
        found[name] = found.get(name, 0) + 1
    return found


@pytest.mark.slow
def test_from_runs_to_replays_and_back(
    user: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """Three runs, a backfill's hole, a replay that must be of whole commits, and an egress of all,
    in order: all say of this lake what they say of any other.
    """
    name, target = topic(partitions=2), topic(partitions=2)
    user.pipeline("events", [name], **BY_EVENT)
    for first in (0, 210, 420):
        send(broker, name, first, 210)
        user.run("run", "events")
    nothing = "__HIVE_DEFAULT_PARTITION__"
    levels = {f"at_day={day}" for day in (*DAYS, nothing)}
    assert {each.split("/")[0] for each in directories(user)} == levels
    assert {each.split("/")[1].partition("=")[2][:2] for each in directories(user)} == {
        "Ne", "~c", "__",
    }  # fmt: skip
    is_consistent(user, "events", [name])
    query = "SELECT count(*), count(id), count(DISTINCT id), count(_undecodable) FROM lake"
    assert user.json("sql", "events", query)["rows"] == [[630, 540, 540, 90]]
    assert user.json("coverage", "events")

    ends = {"0": 105, "1": 105}
    cut = json.dumps({name: {"0": 0, "1": 0}}), json.dumps({name: {"0": 100, "1": 105}})
    refused = user.run(
        "replay", "events", "--start", cut[0], "--end", cut[1], "--replay-id", "cut", code=3
    )
    assert (
        "partition 0: [0, 100) cuts committed files; the nearest window of whole ones is [0, 105)"
        in refused.stderr.replace("\n", " ")
    )
    before = set((user.lake / "events/data").rglob("*.parquet"))
    user.run("replay", "events", "--start", cut[0], "--end", json.dumps({name: ends}),
             "--replay-id", "r")  # fmt: skip
    after = set((user.lake / "events/data").rglob("*.parquet"))
    assert len(before & after) * 3 == len(before) * 2, "a third of the files is replaced"
    is_consistent(user, "events", [name])

    user.egress("out", source={"lake": "events"}, target={"topic": target})
    assert user.json("run", "out")["rows"] == 630
    user.run("verify", "out", "--against-kafka")
    assert values(broker, target) == values(broker, name)


def test_every_reader_sees_the_same(
    user: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """Types and rows by the ledger, by a glob and by views; a day's query reads a day's files."""
    name = topic(partitions=2)
    by_day = {**BY_EVENT, "partition_by": ["topic", "window_date", "DAY( at )"], "sort_by": ["id"]}
    user.pipeline("events", [name], **by_day, compression="snappy")
    send(broker, name, 0, 420)
    user.run("run", "events")
    is_consistent(user, "events", [name])
    table = tidegate.open_lake("events").dataset().to_table()
    rows = sorted(table.select(["id", "carrier"]).to_pylist(), key=lambda row: row["id"] or -1)
    assert [row["id"] for row in rows if row["id"]] == [n for n in range(420) if n % 7]
    files = [file["path"] for file in tidegate.open_lake("events").files]
    day = datetime(2026, 3, 14, tzinfo=UTC)

    lazy = pl.scan_parquet(files).filter(pl.col("at").dt.date() == day.date())
    assert len(lazy.collect()) == 72
    frame = pd.read_parquet(
        user.lake / "events/data", partitioning=ds.HivePartitioning.discover(),
        filters=[("at", ">=", day), ("at", "<", day.replace(day=15))],
    )  # fmt: skip
    assert (len(frame), str(frame["at"].dtype)) == (72, "datetime64[us, UTC]")
    assert ds.dataset(files, partitioning=None).count_rows(filter=ds.field("at") == day) == 3
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        db.execute(user.run("view", "events").stdout)
        (found,) = db.execute(
            'SELECT count(*), min("at"), max("at") FROM events WHERE at_day = \'2026-03-14\''
        ).fetchall()
        assert (found[0], found[1].date(), found[2].date()) == (72, day.date(), day.date())
        said = db.execute(
            "EXPLAIN ANALYZE SELECT count(id) FROM events WHERE at_day = '2026-03-14'"
        ).fetchall()
        assert "Scanning Files: 1/6" in str(said)
    spark = spark_session.shared()
    spark.sql(user.run("view", "events", "--engine", "spark").stdout.strip().removesuffix(";"))
    frame = spark.sql("SELECT id, at_day FROM events WHERE at_day = '2026-03-14'")
    assert (frame.count(), type(frame.first().at_day).__name__) == (72, "date")
    assert "PartitionFilters: [isnotnull(at_day" in frame._jdf.queryExecution().toString()
    ids = duckdb.sql(f"SELECT id FROM read_parquet('{files[0]}')").fetchall()
    assert ids == sorted(ids)
    compressed = duckdb.sql(f"SELECT DISTINCT compression FROM parquet_metadata('{files[0]}')")
    assert compressed.fetchall() == [("SNAPPY",)]


def test_another_layout_for_new_files(
    user: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """The ledger's readers see all; a view, which no engine could read, is refused until the old
    files are replaced.
    """
    name = topic(partitions=2)
    decode: dict[str, Any] = {"decode": BY_EVENT["decode"]}
    user.pipeline("events", [name], **decode)
    send(broker, name, 0, 70)
    user.run("run", "events")
    user.pipeline("events", [name], **decode, partition_by=["topic", "hour(timestamp)"])
    send(broker, name, 70, 70)
    user.run("run", "events")
    query = "SELECT count(*), count(window_date) FROM lake"
    assert user.json("sql", "events", query)["rows"] == [[140, 70]]
    refused = user.run("view", "events", code=2)
    assert "has files by topic/timestamp_hour, topic/window_date" in refused.stderr
    is_consistent(user, "events", [name])
    start, end = (json.dumps({name: {"0": n, "1": n}}) for n in (0, 35))
    user.run("replay", "events", "--start", start, "--end", end, "--replay-id", "r")
    with duckdb.connect() as db:
        db.execute(user.run("view", "events").stdout)
        assert db.execute("SELECT count(*), count(timestamp_hour) FROM events").fetchall() == [
            (140, 140)
        ]
    is_consistent(user, "events", [name])


@pytest.mark.slow
def test_in_a_bucket(broker: Broker, s3: Server, tmp_path: Path, topic: Callable[..., str]) -> None:
    """Keys with blanks."""
    name, url = topic(partitions=2), f"s3://{BUCKET}/partitioned"
    user = Terminal(tmp_path, broker.bootstrap, environ=s3.environment, url=url)
    user.pipeline("events", [name], **BY_EVENT)
    send(broker, name, 0, 105)
    user.run("run", "events")
    user.run("verify", "events", "--against-kafka")
    query = "SELECT count(*), count(DISTINCT carrier) FROM lake"
    assert user.json("sql", "events", query)["rows"] == [[105, 2]]
    paths = [file["path"] for file in user.json("files", "events")]
    assert [path for path in paths if "/carrier_value=New York/part-" in path]
    has_its_format(f"{url}/events", s3.environment)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"partition_by": ["day(timestamp)"]}, "partition_by: must begin with topic"),
        ({"partition_by": ["topic", "day(when)"]}, "day(when): there is no such column"),
        ({"partition_by": ["topic", "week(at)"]}, "there is no week()"),
        ({"sort_by": ["headers"]}, "sort_by: headers: rows are not sorted by ARRAY"),
        ({"file_size": 1}, "file_size: 1: must be between 1MB and 4GB"),
        ({"file_size": "big"}, "file_size: 'big': must be a size, for example 256MB"),
        ({"compression": "rar"}, "compression: "),
    ],
)
def test_what_cannot_be_is_refused(more: dict[str, Any], said: str, user: Terminal) -> None:
    """By name, by `validate`, before a broker is asked."""
    user.pipeline("events", ["t"], decode=BY_EVENT["decode"], **more)
    refused = user.run("validate", code=2)
    assert said in refused.stdout + refused.stderr
