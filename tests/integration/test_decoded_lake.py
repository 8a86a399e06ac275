"""A lake with typed columns: from a topic to SQL, through poison, changes and replays."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

import tidegate
from support import spark_session
from support.checked_lake import is_consistent
from support.cli_user import Terminal
from tidegate.samples import proposed_decoder as proposal
from tidegate_local.kafka import Broker


@pytest.fixture
def user(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    terminal = Terminal(tmp_path, broker.bootstrap)
    monkeypatch.setenv("TIDEGATE_PIPELINES", str(terminal.pipelines))
    return terminal


def send(broker: Broker, topic: str, *values: Any, partition: int = 0) -> None:
    """Send objects as JSON, and bytes as they are."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for value in values:
        data = value if isinstance(value, bytes | None) else json.dumps(value).encode()
        producer.produce(topic, data, b"k", partition)
    assert producer.flush(30) == 0


def json_of(schema: str, **more: Any) -> dict[str, Any]:
    return {"value": {"format": "json", "schema": schema, **more}}


def sql(query: str, topic: str | None = None) -> list[Any]:
    """Run SQL on the lake of the pipeline `typed`; its rows."""
    with tidegate.open_lake("typed", topic).duckdb() as db:
        rows: list[Any] = db.execute(query).fetchall()
        return rows


@pytest.mark.slow
def test_a_year_of_changes(user: Terminal, broker: Broker, topic: Callable[..., str]) -> None:
    """Records gain a field, widen one and lose one; each run commits all of them, and all are read
    with the columns of today. A replay decodes the old ones anew.
    """
    name = topic(partitions=2)
    user.pipeline("typed", [name], decode={name: json_of("id INT, carrier STRING")})
    send(broker, name, {"id": 1, "carrier": "UA"}, {"id": 2}, b"poison", None)
    send(broker, name, {"id": "x", "carrier": "AA"}, partition=1)
    user.run("run", "typed")
    query = 'SELECT id, carrier, _undecodable IS NULL FROM typed ORDER BY partition, "offset"'
    assert sql(query) == [
        (1, "UA", True), (2, None, True), (None, None, False), (None, None, True),
        (None, "AA", False),
    ]  # fmt: skip
    state = user.json("status", "typed")
    reasons = {
        "value: no JSON, more than one value, or a key that occurs twice in an object": 1,
        "value: id: no INT": 1,
    }
    assert state["undecodable"] == {name: reasons}
    assert "2 rows do not fit the schema" in user.run("status", "typed").stdout

    user.pipeline(
        "typed", [name], decode={name: json_of("carrier STRING, id BIGINT, delay DOUBLE")}
    )
    send(broker, name, {"id": 3_000_000_000, "carrier": "DL", "delay": 1.5}, {"carrier": "DL"})
    user.run("run", "typed")
    assert sql("SELECT sum(id), count(delay), count(*) FROM typed") == [(3_000_000_003, 1, 7)]
    with duckdb.connect() as db:
        db.execute(user.run("view", "typed").stdout)
        assert db.execute("SELECT sum(id), count(delay), count(*) FROM typed").fetchall() == [
            (3_000_000_003, 1, 7)
        ]
    spark = spark_session.shared()
    spark.sql(user.run("view", "typed", "--engine", "spark").stdout.strip().removesuffix(";"))
    (row,) = spark.sql("SELECT sum(id), count(delay), min(window_date) d FROM typed").collect()
    assert (row[0], row[1], type(row.d).__name__) == (3_000_000_003, 1, "date")
    glob = f"read_parquet('{user.lake}/typed/data/**/*.parquet', union_by_name = true)"
    assert duckdb.sql(f"SELECT sum(id), count(delay) FROM {glob}").fetchall() == [
        (3_000_000_003, 1)
    ]
    is_consistent(user, "typed", [name])

    start, end = (json.dumps({name: ends}) for ends in ({"0": 0, "1": 0}, {"0": 6, "1": 1}))
    user.run("replay", "typed", "--start", start, "--end", end, "--replay-id", "r")
    assert sql("SELECT count(*), count(carrier) FROM typed") == [(7, 4)]
    is_consistent(user, "typed", [name])


WINDOWS: list[dict[str, Any]] = [
    {"id": 1, "carrier": "UA"},
    {"id": 1, "carrier": "UA", "delay": 5},
    {"id": 1, "carrier": "UA", "delay": 3_000_000_000},
    {"id": 1, "delay": 5},
    {"id": 1, "delay": 5, "tags": ["late", "full"]},
    {"id": 3_000_000_000, "tags": []},
    {"id": 1, "gate": {"name": "A1", "floor": 2}},
    {"id": 1, "delay": "much", "gate": {"name": "A2"}},
    {"id": 1, "delay": 5, "price": 1.25, "on": "2026-03-14"},
    {"id": 1.5, "carrier": "DL", "price": 7},
]
"""An object of each window; the eighth and the last have a field that changes incompatibly."""


@pytest.mark.slow
def test_ten_windows(user: Terminal, broker: Broker, topic: Callable[..., str]) -> None:
    """Fields come, go, widen and change; the file is edited as `explain --sample` proposes. No run
    fails, no row is lost; what changed incompatibly is counted, and has its bytes.
    """
    name, schema = topic(), "id INT, carrier STRING"
    for number, each in enumerate(WINDOWS):
        user.pipeline("typed", [name], decode={name: json_of(schema)})
        send(broker, name, *(each for _ in range(20)))
        (found,) = user.json("explain", "typed", "--sample", "20")["topics"].values()
        schema = (found["value"] or {"schema": schema})["schema"]
        user.pipeline("typed", [name], decode={name: json_of(schema)})
        (commit,) = user.json("run", "typed")["commits"]
        changed = {7: "value: delay: no BIGINT", 9: "value: id: no BIGINT"}.get(number)
        assert commit["undecodable"] == ({name: {changed: 20}} if changed else {}), number
    assert schema == (
        "id BIGINT, carrier STRING, delay BIGINT, tags ARRAY<STRING>, "
        "gate STRUCT<name: STRING, floor: BIGINT>, price DOUBLE, on DATE"
    )
    assert sql(
        "SELECT count(*), count(id), sum(delay), max(len(tags)), min(gate.floor), sum(price), "
        'count("on"), count(_undecodable) FROM typed'
    ) == [(200, 180, 60_000_000_400, 2, 2, 165.0, 20, 40)]
    texts = "SELECT DISTINCT decode(value) FROM typed WHERE _undecodable IS NOT NULL ORDER BY 1"
    assert [json.loads(text) for (text,) in sql(texts)] == [WINDOWS[7], WINDOWS[9]]
    is_consistent(user, "typed", [name])


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (
            "id SMALLINT, at TIMESTAMP",
            "column id was INT and is SMALLINT: a column can only be widened",
        ),
        ("id INT, time TIMESTAMP", "column at TIMESTAMP is gone"),
        ("id STRING, at TIMESTAMP", "column id was INT and is STRING"),
        (None, "its records were decoded, and no longer are"),
    ],
)
def test_a_change_that_is_refused(
    schema: str | None, reason: str, user: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """By name, before anything is planned; the old file works again."""
    name = topic()
    user.pipeline("typed", [name], decode={name: json_of("id INT, at TIMESTAMP")})
    send(broker, name, {"id": 1})
    user.run("run", "typed")
    user.pipeline("typed", [name], decode={name: json_of(schema)} if schema else {})
    assert reason in user.run("run", "typed", code=2).stderr, "also if there is nothing to read"
    send(broker, name, {"id": 2})
    for command in ("run", "explain"):
        refused = user.run(command, "typed", code=2)
        assert f"decode.{name}: " in refused.stderr
        assert reason in refused.stderr
    user.pipeline("typed", [name], decode={name: json_of("id INT, at TIMESTAMP")})
    user.run("run", "typed")
    assert sql("SELECT id FROM typed ORDER BY id") == [(1,), (2,)]


def test_topics_with_columns_of_their_own(
    user: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """One run writes files with different columns: of two topics, of all others, and of one that is
    not decoded. Columns of one name that do not fit together are read by topic.
    """
    one, two, three, four = (topic() for _ in range(4))
    string = {"value": {"format": "string"}}
    decode = {one: json_of("id INT, x STRING"), two: json_of("id STRING"), "*": string}
    user.pipeline("typed", [one, two, three, four], decode=decode)
    send(broker, one, {"id": 1, "x": "a"})
    send(broker, two, {"id": "1"})
    send(broker, three, b"text")
    send(broker, four, b"\xff")
    user.run("run", "typed")
    with pytest.raises(tidegate.errors.ConfigurationError, match="do not fit together: column id"):
        tidegate.open_lake("typed")
    assert sql("SELECT id, x FROM typed", one) == [(1, "a")]
    assert sql("SELECT id FROM typed", two) == [("1",)]
    assert sql("SELECT text, _undecodable FROM typed", three) == [("text", None)]
    assert sql("SELECT text, _undecodable FROM typed", four) == [(None, "value: no UTF-8")]
    is_consistent(user, "typed", [one, two, three, four])


def test_one_in_a_hundred_is_poison(
    user: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """100,000 records: as many rows, the bytes of the bad ones, and their reasons counted."""
    name = topic(partitions=4)
    user.pipeline("typed", [name], decode={"*": json_of("id INT, moment TIMESTAMP")})
    for p in range(4):
        values: list[Any] = [{"id": n, "moment": "2024-01-01T00:00:00Z"} for n in range(25_000)]
        values[::100] = [b"poison-%d" % n for n in range(250)]
        send(broker, name, *values, partition=p)
    report = user.json("run", "typed")
    reason = "value: no JSON, more than one value, or a key that occurs twice in an object"
    assert [each["undecodable"] for each in report["commits"]] == [{name: {reason: 1_000}}]
    found = sql("SELECT count(*), count(id), count(moment), count(_undecodable) FROM typed")
    assert found == [(100_000, 99_000, 99_000, 1_000)]
    bad = sql("SELECT DISTINCT decode(value) FROM typed WHERE id IS NULL ORDER BY 1")
    assert (len(bad), bad[0]) == (250, ("poison-0",))
    query = "SELECT partition, count(*) AS n, min(moment) AS first FROM typed GROUP BY 1 ORDER BY 1"
    assert user.json("sql", "typed", f"{query} LIMIT 1") == {
        "format": 1, "columns": ["partition", "n", "first"],
        "rows": [[0, 25_000, "2024-01-01 00:00:00+00:00"]],
    }  # fmt: skip
    assert user.run("sql", "typed", "SELECT value FROM lake WHERE _undecodable IS NOT NULL LIMIT 1")
    by_glob = duckdb.sql(
        f"SELECT count(id) FROM read_parquet('{user.lake}/typed/data/**/*.parquet')"
    )
    assert by_glob.fetchall() == [(99_000,)]
    is_consistent(user, "typed", [name])


def test_sql(user: Terminal, broker: Broker, topic: Callable[..., str]) -> None:
    """As a table, as JSON and as CSV; what is no query, or would write, is refused."""
    name = topic()
    user.pipeline(
        "typed", [name], decode={name: json_of("id INT, note STRING, cents DECIMAL(5,2)")}
    )
    values = {"id": 1, "note": 'a\n"b"', "cents": 1.5}, {"id": 20}
    send(broker, name, *values)
    user.run("run", "typed")
    query = "SELECT id, note, cents, key, 'inf'::DOUBLE AS far FROM typed ORDER BY id"
    assert user.run("sql", "typed", query).stdout.splitlines() == [
        "  id  note    cents  key  far",
        '   1  a\\n"b"   1.50  6b   inf',
        "  20  NULL     NULL  6b   inf",
    ]
    assert user.json("sql", "typed", query)["rows"] == [
        [1, 'a\n"b"', "1.50", "6b", "inf"], [20, None, None, "6b", "inf"],
    ]  # fmt: skip
    assert user.run("sql", "typed", query, "--csv").stdout == (
        'id,note,cents,key,far\n1,"a\n""b""",1.50,6b,inf\n20,,,6b,inf\n'
    )
    wide = user.run("sql", "typed", "SELECT value FROM typed WHERE id = 1").stdout
    assert wide.splitlines()[1].strip() == f"{json.dumps(values[0]).encode()[:16].hex()}… 43 bytes"
    for wrong in ("SELEC 1", f"COPY typed TO '{user.home}/out.csv'", "SELECT nothing FROM typed"):
        refused = user.run("sql", "typed", wrong, code=2)
        assert refused.stderr.startswith("ConfigurationError"), refused.stderr
    refused = user.run("sql", "typed", "SELECT 1 FROM nothing", code=2)
    assert 'the lake is the view lake, or "typed"' in refused.stderr
    refused = user.run("sql", "typed", "SELECT 1", "--topic", "other", code=2)
    assert f"has no topic 'other'; there are: {name}" in refused.stderr


def test_from_an_unknown_topic_to_sql(
    user: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """Three commands, no YAML and no function for JSON: `init` proposes the columns."""
    name = topic(partitions=2)
    for p in range(2):
        rows = [{"carrier": "UA" if n % 2 else "AA", "delay": n, "partition": p} for n in range(60)]
        send(broker, name, *rows, b"poison", partition=p)
    lake = str(user.lake)
    wrong = user.run("init", "--name", "typed", "--topic", f"{name}x", "--lake", lake, code=3)
    assert f"did you mean '{name}'" in wrong.stderr
    done = user.run("init", "--name", "typed", "--topic", name, "--lake", lake)
    assert f"  {name}: columns of json, by 100 records" in done.stderr
    user.run("run", "typed")
    query = "SELECT value_carrier, avg(value_delay) FROM typed GROUP BY ALL ORDER BY 1"
    assert user.json("sql", "typed", query)["rows"] == [["AA", 29.0], ["UA", 30.0], [None, None]]


@pytest.mark.slow
def test_a_sample_against_the_schema(
    user: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """What would not fit, in the words that the run then counts; and by the columns that are
    proposed, all fits.
    """
    name = topic()
    user.pipeline("typed", [name], decode={name: json_of("id SMALLINT, at DATE")})
    send(
        broker, name, {"id": 1}, {"id": 40_000, "new": [1.5]}, {"at": "soon"}, {"at": "2024-01-01"}
    )
    (found,) = user.json("explain", "typed", "--sample", "100")["topics"].values()
    assert found == {
        "records": 4, "unfit": {"value: id: no SMALLINT": 1, "value: at: no DATE": 1},
        "examples": {"value: id: no SMALLINT": {"partition": 0, "offset": 1},
                     "value: at: no DATE": {"partition": 0, "offset": 2}},
        "value": json_of("id BIGINT, at DATE, new ARRAY<DOUBLE>")["value"],
    }  # fmt: skip
    told = user.run("explain", "typed", "--sample", "9").stdout
    assert f"no SMALLINT ({name}-0 @ 1)\n" in told
    report = user.json("run", "typed")
    assert report["commits"][0]["undecodable"] == {name: found["unfit"]}
    user.pipeline("typed", [name], decode={name: {"value": found["value"]}})
    send(broker, name, {"id": 40_000, "new": [1.5]})
    assert user.json("run", "typed")["commits"][0]["undecodable"] == {}
    assert sql("SELECT max(id), count(new) FROM typed") == [(40_000, 1)]


def test_a_sample_is_bounded(
    user: Terminal, broker: Broker, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By bytes, too: of large records it has fewer, the newest."""
    name = topic()
    user.pipeline("typed", [name])
    send(broker, name, *({"text": "x" * 700} for _ in range(5)), {"n": 1, "text": "x" * 700})
    monkeypatch.setattr(proposal, "SAMPLED_BYTES", 1_000)
    (found,) = user.json("explain", "typed", "--sample", "100")["topics"].values()
    value = {"format": "json", "schema": "n BIGINT, text STRING"}
    assert found == {"records": 1, "unfit": {}, "examples": {}, "value": value}, "the newest"


def test_peek(user: Terminal, broker: Broker, topic: Callable[..., str]) -> None:
    """The newest records, or those from an offset or a time on; bytes that are no text as hex."""
    name = topic(partitions=2)
    user.pipeline("typed", [name])
    send(broker, name, *({"id": n} for n in range(30)))
    send(broker, name, b"\xff", None, partition=1)
    found = user.json("peek", "typed", "-n", "3")["records"]
    assert [(each["partition"], each["offset"]) for each in found] == [(0, 29), (1, 0), (1, 1)]
    assert [each["value"] for each in found] == [{"text": '{"id": 29}'}, {"hex": "ff"}, None]
    found = user.json("peek", "typed", "--partition", "0", "--start", "5", "-n", "2")["records"]
    assert [each["offset"] for each in found] == [5, 6]
    assert len(user.json("peek", "typed", "--start", "-1h", "-n", "100")["records"]) == 32
    assert user.json("peek", "typed", "--partition", "0", "--start", "30")["records"] == []
    lines = user.run("peek", "typed", "--partition", "0", "--start", "7", "-n", "1").stdout.split(
        "\n"
    )
    assert lines[0].startswith(f"{name}-0 @ 7  ")
    assert lines[1:5] == ["  key    k", "{", '  "id": 7', "}"]
    for wrong, said in (
        (("--topic", "nothing"), "has no topic 'nothing'"),
        (("--partition", "7"), f"{name} has no partition 7; it has 0 to 1"),
        (("--start", "soon"), "--start soon: start 'soon': neither an offset"),
    ):
        assert said in user.run("peek", "typed", *wrong, code=3).stderr
    user.egress("out", source={"lake": "typed"}, target={"topic": name})
    assert len(user.json("peek", "out", "-n", "9")["records"]) == 9
    assert "its target is shown" in user.run("peek", "out", "--lake", code=2).stderr


def test_peek_at_columns(user: Terminal, broker: Broker, topic: Callable[..., str]) -> None:
    """Of records in Kafka as a run would decode them, of rows in the lake as it did."""
    name = topic(partitions=2)
    schema = "id INT, at TIMESTAMP, price DECIMAL(5,2), raw BINARY, tags MAP<STRING, INT>"
    user.pipeline("typed", [name], decode={name: json_of(schema)})
    fits = {"id": 1, "at": "2026-03-14T06:00:00.000001Z", "price": 1.5, "raw": "/w==",
            "tags": {"a": 1}}  # fmt: skip
    send(broker, name, fits, {"id": "x", "price": 2}, None)
    send(broker, name, {"id": 7}, partition=1)
    empty = {"id": None, "at": None, "price": None, "raw": None, "tags": None}
    columns = [
        {"id": 1, "at": "2026-03-14 06:00:00.000001+00:00", "price": "1.50", "raw": "ff",
         "tags": {"a": 1}},
        empty | {"price": "2.00"}, empty, empty | {"id": 7},
    ]  # fmt: skip
    in_kafka = user.json("peek", "typed", "--decode")["records"]
    assert [each["columns"] for each in in_kafka] == columns
    assert [each["undecodable"] for each in in_kafka] == [None, "value: id: no INT", None, None]
    user.run("run", "typed")
    assert user.json("peek", "typed", "--lake")["records"] == in_kafka
    for chosen, offsets in (
        (("-n", "1"), [(1, 0)]),
        (("--start", "1", "-n", "1"), [(0, 1)]),
        (("--start", json.dumps({name: {"0": 2, "1": 0}})), [(0, 2), (1, 0)]),
        (("--start", "2026-01-01", "--partition", "0"), [(0, 0), (0, 1), (0, 2)]),
        (("--start", "-1m", "--partition", "1"), [(1, 0)]),
    ):
        found = user.json("peek", "typed", "--lake", *chosen)["records"]
        assert [(each["partition"], each["offset"]) for each in found] == offsets, chosen
    shown = user.run("peek", "typed", "--lake", "--start", "1", "-n", "1").stdout
    assert shown.split("\n")[6:] == [
        "  id     NULL", "  at     NULL", "  price  2.00", "  raw    NULL", "  tags   NULL",
        "  value: id: no INT", "",
    ]  # fmt: skip
    for wrong, code, said in (
        (("--decode", "--lake"), 2, "give --decode or --lake, not both"),
        (("--lake", "--partition", "7"), 3, f"{name} has no partition 7; it has 0 to 1"),
        (("--lake", "--topic", "nothing"), 2, "has no topic 'nothing'"),
    ):
        assert said in user.run("peek", "typed", *wrong, code=code).stderr
    user.pipeline("plain", [name])
    assert (
        f"`decode` says nothing of {name}" in user.run("peek", "plain", "--decode", code=2).stderr
    )


def test_the_lake_shows_the_records_that_kafka_does(
    user: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """Also where timestamps fall, and one is far in the future."""
    name = topic(partitions=2)
    user.pipeline("typed", [name])
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for n in range(12):
        ms = 1_700_000_000_000 - n * 1_000 if n else 4_100_000_000_000
        producer.produce(name, b"%d" % n, b"k", n % 2, timestamp=ms)
    assert producer.flush(30) == 0
    user.run("run", "typed")
    for chosen in (
        (), ("-n", "1"), ("-n", "3"), ("--start", "2", "-n", "1"), ("--start", "2", "-n", "3"),
        ("--start", "4", "--partition", "1"), ("--partition", "0", "-n", "2"),
    ):  # fmt: skip
        in_kafka = user.json("peek", "typed", *chosen)
        assert user.json("peek", "typed", "--lake", *chosen) == in_kafka, chosen


@pytest.mark.slow
def test_hard_names_and_old_times(
    user: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """Columns that need quotes, and the first and the last year that a timestamp has."""
    name = topic()
    ddl = "`a b` INT, `a.b` INT, `x;{}()=,` INT, `\u20ac` STRUCT<`p q`: INT>, t TIMESTAMP, d DATE"
    user.pipeline("typed", [name], decode={name: json_of(ddl)})
    first = {"a b": 1, "a.b": 2, "x;{}()=,": 3, "\u20ac": {"p q": 4}}
    send(broker, name, {**first, "t": "0001-01-01T00:00:00Z", "d": "0001-01-01"})
    send(broker, name, {"t": "9999-12-31T23:59:59.999999Z", "d": "9999-12-31"})
    user.run("run", "typed")
    query = 'SELECT "a b", "a.b", "x;{}()=,", "\u20ac"."p q", t::VARCHAR, d::VARCHAR FROM lake'
    assert user.json("sql", "typed", f"SET TimeZone = 'UTC'; {query} ORDER BY d")["rows"] == [
        [1, 2, 3, 4, "0001-01-01 00:00:00+00", "0001-01-01"],
        [None, None, None, None, "9999-12-31 23:59:59.999999+00", "9999-12-31"],
    ]
    is_consistent(user, "typed", [name])
    # Many readers, Python among them, have neither of these times.
    send(broker, name, {"t": "9999-12-31T23:59:59-05:00", "d": "0000-01-01"})
    (sampled,) = user.json("explain", "typed", "--sample", "9")["topics"].values()
    unfit = {"value: t: no TIMESTAMP, d: no DATE": 1}
    assert (sampled["records"], sampled["unfit"]) == (3, unfit)
    in_kafka = user.json("peek", "typed", "--decode")["records"]
    assert {each["t"]: each["d"] for each in (row["columns"] for row in in_kafka)} == {
        "0001-01-01 00:00:00+00:00": "0001-01-01", None: None,
        "9999-12-31 23:59:59.999999+00:00": "9999-12-31",
    }  # fmt: skip
    user.run("run", "typed")
    assert user.json("peek", "typed", "--lake")["records"] == in_kafka


@pytest.mark.parametrize("directory", ["my lake+\u00e9", "l'ake"])
def test_views_of_odd_places(
    directory: str, user: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    name = topic()
    user.url = str(user.home / directory)
    user.pipeline("typed", [name])
    send(broker, name, {"id": 1})
    user.run("run", "typed")
    with duckdb.connect() as db:
        db.execute(user.run("view", "typed").stdout)
        assert db.execute("SELECT count(*) FROM typed").fetchall() == [(1,)]
    spark = spark_session.shared()
    spark.sql(user.run("view", "typed", "--engine", "spark").stdout.strip().removesuffix(";"))
    assert spark.table("typed").count() == 1


@pytest.mark.slow
def test_the_zone_of_the_machine(broker: Broker, topic: Callable[..., str], tmp_path: Path) -> None:
    """Processes in New York, Kathmandu and UTC write equal files into equal directories."""
    name = topic(partitions=1)
    times = (
        "2026-03-08T02:30:00",
        "2026-03-14T23:59:59.999999Z",
        "1969-12-31 00:15+05:45",
        "02:00",
    )
    send(
        broker, name,
        *({"at": at, "local": at[:19], "day": at[:10], "n": at} for at in times),
        b"2026-03-14T00:10:00Z,2026-03-14T00:10:00,2026-03-14",
    )  # fmt: skip
    columns = "at TIMESTAMP, local TIMESTAMP_NTZ, day DATE"
    found = set()
    for zone in ("America/New_York", "Asia/Kathmandu", "UTC"):
        user = Terminal(tmp_path / zone, broker.bootstrap, processes=True)
        for kind in ("json", "csv"):
            decode = {"value": {"format": kind, "schema": columns}}
            by = ["topic", "day(at)", "hour(local)"]
            user.pipeline(kind, [name], decode={name: decode}, partition_by=by)
            assert user.json("run", kind, TZ=zone)["rows"] == 5
        files = list(user.lake.rglob("data/**/*.parquet"))
        assert len(files) > 5
        found.add(  # a footer lists the encodings in an order of its own
            tuple(
                sorted(
                    (
                        str(path.parent.relative_to(user.lake)),
                        repr(pq.ParquetFile(path).read().to_pylist()),
                    )
                    for path in files
                )
            )
        )
    assert len(found) == 1
