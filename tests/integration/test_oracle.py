"""The oracle finds planted errors, and nothing else.

The lake is written with pyarrow from records read by kafka-python, independently of Tidegate and of
the oracle's own Kafka client. kafka-python lacks the codecs, so this topic is not compressed;
`test_it_counts…` reads all of them.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kafka import KafkaConsumer, TopicPartition

from support import oracle_client, topic_records
from tidegate_local.kafka import Broker

TOPIC = "oracle-nasty"
KINDS = ("missing", "extra", "doubled", "changed")
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)

Row = dict[str, Any]
Rows = list[Row]


def consume(bootstrap: str, topic: str, isolation: str) -> Rows:
    """Return the rows of a topic, with timestamps in microseconds, as Spark stores them."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level=isolation,
        enable_auto_commit=False,
        check_crcs=False,  # in plain Python they take most of the time
        fetch_max_wait_ms=20,
    )
    places = [TopicPartition(topic, at) for at in sorted(consumer.partitions_for_topic(topic))]
    ends = consumer.end_offsets(places)
    consumer.assign(places)
    consumer.seek_to_beginning(*places)
    rows = []
    while any(consumer.position(place) < ends[place] for place in places):
        for found in consumer.poll(500).values():
            rows += [
                {
                    "key": record.key,
                    "value": record.value,
                    "partition": record.partition,
                    "offset": record.offset,
                    "timestamp": record.timestamp * 1000,
                    "timestampType": record.timestamp_type,
                    "headers": [{"key": key, "value": value} for key, value in record.headers]
                    or None,
                }
                for record in found
            ]
    consumer.close()
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


def write(lake: Path, rows: Rows, *, topic: str = TOPIC) -> Path:
    """Write a lake with 5,000 rows per file; return the path of its list of files."""
    directory = lake / "p" / "data" / f"topic={topic}" / "window_date=2026-01-31"
    directory.mkdir(parents=True)
    entries = []
    for partition, group in groupby(rows, key=lambda row: row["partition"]):
        found = list(group)
        for at in range(0, len(found), 5000):
            part = found[at : at + 5000]
            offsets = [row["offset"] for row in part]
            first, last = min(offsets), max(offsets)
            name = f"{topic}-{partition:05d}-{first:019d}-{last:019d}-{'0' * 16}-{at}.parquet"
            columns = {
                # Not through datetime, which ends with the year 9999.
                name: pa.array([row[name] for row in part], pa.int64()).cast(kind)
                if name == "timestamp"
                else pa.array([row[name] for row in part], kind)
                for name, kind in zip(SCHEMA.names, SCHEMA.types, strict=True)
            }
            pq.write_table(pa.table(columns, schema=SCHEMA), directory / name)
            entries.append(
                {
                    "uri": (directory / name).as_uri(),
                    "topic": topic,
                    "partition": partition,
                    "first": first,
                    "last": last,
                    "rows": len(part),
                }
            )
    files = lake / "files.json"
    files.write_text(json.dumps(entries))
    return files


@pytest.fixture(scope="module")
def filled(broker: Broker) -> Iterator[topic_records.Filled]:
    config = {"compression.type": "uncompressed"}
    with topic_records.fill(broker.bootstrap, TOPIC, config=config) as filled:
        yield filled


@pytest.fixture(scope="module")
def committed(filled: topic_records.Filled) -> Rows:
    return consume(filled.bootstrap, TOPIC, "read_committed")


@pytest.fixture(scope="module")
def uncommitted(filled: topic_records.Filled) -> Rows:
    return consume(filled.bootstrap, TOPIC, "read_uncommitted")


def position(rows: Rows, wanted: Callable[[Row], bool]) -> int:
    """Return the index of the first such row behind the first 6,000."""
    return next(at for at, row in enumerate(rows) if at > 6000 and wanted(row))


def test_a_complete_lake_is_equal(
    filled: topic_records.Filled, committed: Rows, tmp_path: Path
) -> None:
    """All unusual kinds of records are in the topic, and both ways of reading the lake agree."""
    keys = [row["key"] for row in committed]
    values = [row["value"] for row in committed]
    headers = [pair for row in committed for pair in row["headers"] or ()]
    timestamps = {row["timestamp"] for row in committed}
    assert {None, b""} <= set(keys)
    assert {None, b"", b"\xff\xfe\xc3\x28"} <= set(values)
    assert sum(len(value or b"") == 1_000_000 for value in values) >= 5
    assert {"key": "null", "value": None} in headers
    assert {"key": "empty", "value": b""} in headers
    assert {"key": "ключ", "value": b"\xff\xfe"} in headers
    assert {-1000, 0, 1000, 253_402_300_800_000_000} <= timestamps
    total = filled.visible.total()
    assert total >= 20_000
    assert filled.visible[topic_records.SKEWED] >= 0.9 * total
    assert filled.aborted[topic_records.ABORTED] > 0
    assert min(filled.open.total(), filled.hidden.total()) > 0

    files = write(tmp_path, committed)
    for given in (None, files):
        report = oracle_client.agree(filled.bootstrap, tmp_path, "p", [TOPIC], files=given)
        assert (report["kafka"], report["lake"], report["outside"]) == (total, total, 0)
        counts = {int(at): found["lake"] for at, found in report["partitions"][TOPIC].items()}
        assert counts == {at: filled.visible[at] for at in range(topic_records.PARTITIONS)}


def test_the_isolation_level_decides_what_is_compared(
    filled: topic_records.Filled, committed: Rows, uncommitted: Rows, tmp_path: Path
) -> None:
    """Aborted, open and hidden records are expected with read_uncommitted, else extra."""
    write(tmp_path, uncommitted)
    oracle_client.agree(filled.bootstrap, tmp_path, "p", [TOPIC], isolation="read_uncommitted")
    report = oracle_client.ask(filled.bootstrap, tmp_path, "p", [TOPIC])
    invisible = filled.aborted.total() + filled.open.total() + filled.hidden.total()
    assert len(uncommitted) - len(committed) == invisible
    assert [report[kind] for kind in KINDS] == [0, invisible, 0, 0]


MEGABYTE = "the last byte of a megabyte"
CHANGED: dict[str, tuple[Callable[[Row], bool], Callable[[Row], Row]]] = {
    MEGABYTE: (
        lambda row: len(row["value"] or b"") == 1_000_000,
        lambda row: {"value": row["value"][:-1] + bytes([row["value"][-1] ^ 1])},
    ),
    "a byte moved from value to key": (
        lambda row: bool(row["key"] and row["value"]),
        lambda row: {"key": row["key"] + row["value"][:1], "value": row["value"][1:]},
    ),
    "a null key made empty": (lambda row: row["key"] is None, lambda _: {"key": b""}),
    "an empty key made null": (lambda row: row["key"] == b"", lambda _: {"key": None}),
    "a tombstone made empty": (lambda row: row["value"] is None, lambda _: {"value": b""}),
    "an empty value made a tombstone": (lambda row: row["value"] == b"", lambda _: {"value": None}),
    "two headers exchanged": (
        lambda row: len(row["headers"] or ()) == 4,
        lambda row: {"headers": [row["headers"][at] for at in (0, 1, 3, 2)]},
    ),
    "a header lost that was there twice": (
        lambda row: len(row["headers"] or ()) == 4,
        lambda row: {"headers": row["headers"][1:]},
    ),
    "a null header made empty": (
        lambda row: (row["headers"] or [None])[0] == {"key": "null", "value": None},
        lambda row: {"headers": [{"key": "null", "value": b""}, *row["headers"][1:]]},
    ),
    "a millisecond later": (
        lambda row: row["timestamp"] == 253_402_300_800_000_000,
        lambda row: {"timestamp": row["timestamp"] + 1000},
    ),
    "another type of timestamp": (
        lambda row: row["timestampType"] == 0,
        lambda _: {"timestampType": 1},
    ),
}


def find_one(report: dict[str, Any], kind: str, row: Row) -> dict[str, Any]:
    """Assert that this row is the only finding and of this kind; return its form in the report."""
    assert {name: report[name] for name in KINDS} == {name: int(name == kind) for name in KINDS}
    [[shown]] = report["examples"].values()
    assert shown["topic"] == TOPIC
    assert (shown["partition"], shown["offset"]) == (row["partition"], row["offset"])
    return dict(shown)


OFTEN = ("an empty key made null", "two headers exchanged", "a millisecond later")


@pytest.mark.parametrize(
    "changed",
    [pytest.param(each, marks=[] if each in OFTEN else pytest.mark.slow) for each in CHANGED],
)
def test_a_changed_row_is_found_and_named(
    changed: str, filled: topic_records.Filled, committed: Rows, tmp_path: Path
) -> None:
    """One of 20,000 rows differs in one field: only this row and field are reported."""
    wanted, change = CHANGED[changed]
    at = position(committed, wanted)
    differing = change(committed[at])
    write(tmp_path, [*committed[:at], committed[at] | differing, *committed[at + 1 :]])
    report = oracle_client.ask(filled.bootstrap, tmp_path, "p", [TOPIC])
    shown = find_one(report, "changed", committed[at])
    assert [name.split(" from ")[0] for name in shown["differs"]] == list(differing)
    if changed == MEGABYTE:
        assert shown["differs"] == ["value from byte 999999"]


@pytest.mark.parametrize("tombstone", [False, True])
def test_a_deleted_row_is_found_and_named(
    tombstone: bool, filled: topic_records.Filled, committed: Rows, tmp_path: Path
) -> None:
    """Also a tombstone, which has no value."""
    at = position(committed, lambda row: (row["value"] is None) == tombstone)
    write(tmp_path, committed[:at] + committed[at + 1 :])
    report = oracle_client.ask(filled.bootstrap, tmp_path, "p", [TOPIC])
    shown = find_one(report, "missing", committed[at])
    assert (shown["kafka"]["value"] is None) == tombstone


def test_a_duplicated_row_is_found_and_named(
    filled: topic_records.Filled, committed: Rows, tmp_path: Path
) -> None:
    """The message of the failed assertion names it, too."""
    write(tmp_path, [*committed[:7000], committed[6999], *committed[7000:]])
    report = oracle_client.ask(filled.bootstrap, tmp_path, "p", [TOPIC])
    shown = find_one(report, "doubled", committed[6999])
    assert len(shown["files"]) == 2
    with pytest.raises(AssertionError, match=f'"offset": {committed[6999]["offset"]},'):
        oracle_client.agree(filled.bootstrap, tmp_path, "p", [TOPIC])


def test_rows_that_the_topic_never_showed_are_extra(
    filled: topic_records.Filled, committed: Rows, uncommitted: Rows, tmp_path: Path
) -> None:
    """A record of an open transaction, an aborted one, and one of a nonexistent partition."""
    places = {(row["partition"], row["offset"]) for row in committed}
    unseen = [row for row in uncommitted if (row["partition"], row["offset"]) not in places]
    aborted, opened = unseen[0], next(row for row in reversed(unseen) if row["partition"] == 1)
    nowhere = {**committed[0], "partition": 77}
    write(tmp_path, [*committed, aborted, opened, nowhere])
    report = oracle_client.ask(filled.bootstrap, tmp_path, "p", [TOPIC])
    assert [report[kind] for kind in KINDS] == [0, 3, 0, 0]
    found = {(row["partition"], row["offset"]) for row in report["examples"]["extra"]}
    assert found == {(row["partition"], row["offset"]) for row in (aborted, opened, nowhere)}


def test_two_rows_with_their_offsets_exchanged_are_changed(
    filled: topic_records.Filled, committed: Rows, tmp_path: Path
) -> None:
    """Equal contents at other offsets, which comparing values alone would not detect."""
    rows = list(committed)
    one, two = position(rows, lambda row: bool(row["value"])), len(rows) - 1
    for at, other in ((one, committed[two]), (two, committed[one])):
        place = {name: committed[at][name] for name in ("partition", "offset")}
        rows[at] = other | place
    write(tmp_path, rows)
    report = oracle_client.ask(filled.bootstrap, tmp_path, "p", [TOPIC])
    assert [report[kind] for kind in KINDS] == [0, 0, 0, 2]


def test_examples_are_few_and_counts_are_whole(
    filled: topic_records.Filled, committed: Rows, tmp_path: Path
) -> None:
    """A lost file of 5,000 rows is 5,000 missing rows, of which five are shown."""
    write(tmp_path, committed[5000:])
    report = oracle_client.ask(filled.bootstrap, tmp_path, "p", [TOPIC])
    assert [report[kind] for kind in KINDS] == [5000, 0, 0, 0]
    shown = report["examples"]["missing"]
    assert [row["offset"] for row in shown] == [row["offset"] for row in committed[:5]]
    assert all(row["kafka"]["timestampType"] == 0 for row in shown)


def test_a_wrong_list_of_files_is_reported(
    filled: topic_records.Filled, committed: Rows, tmp_path: Path
) -> None:
    """A file listed twice has duplicated rows; wrong numbers and a missing file are named."""
    files = write(tmp_path, committed)
    entries = json.loads(files.read_text())
    other = tmp_path / "other.json"

    other.write_text(json.dumps([*entries, entries[-1]]))
    report = oracle_client.ask(filled.bootstrap, tmp_path, "p", [TOPIC], files=other)
    assert report["doubled"] == entries[-1]["rows"]
    assert len(report["examples"]["doubled"][0]["files"]) == 2

    other.write_text(json.dumps([*entries[:-1], entries[-1] | {"rows": 1, "partition": 9}]))
    report = oracle_client.ask(filled.bootstrap, tmp_path, "p", [TOPIC], files=other)
    assert [report[kind] for kind in KINDS] == [0, 0, 0, 0]
    assert not report["equal"]
    assert len(report["malformed"]) == 2
    assert "listed with rows 1, has" in report["malformed"][1]

    other.write_text(json.dumps([*entries, entries[-1] | {"uri": entries[-1]["uri"] + "x"}]))
    report = oracle_client.ask(filled.bootstrap, tmp_path, "p", [TOPIC], files=other)
    assert "FileNotFoundError" in report["malformed"][0]


@pytest.mark.parametrize("broken", ["truncated", "without headers", "key as text"])
def test_a_malformed_file_is_named(
    broken: str, filled: topic_records.Filled, committed: Rows, tmp_path: Path
) -> None:
    write(tmp_path, committed)
    file = max(tmp_path.rglob("*.parquet"))
    if broken == "truncated":
        file.write_bytes(file.read_bytes()[:-10])
    else:
        table = pq.read_table(file, partitioning=None)
        table = (
            table.drop_columns("headers")
            if broken == "without headers"
            else table.set_column(0, "key", pa.array(["text"] * len(table)))
        )
        pq.write_table(table, file)
    report = oracle_client.ask(filled.bootstrap, tmp_path, "p", [TOPIC])
    assert not report["equal"]
    assert report["missing"] > 0
    [malformed] = report["malformed"]
    assert file.name in malformed


def test_only_the_ranges_are_compared(
    filled: topic_records.Filled, committed: Rows, tmp_path: Path
) -> None:
    """All rows within the half-open ranges are compared, and no others."""
    first, last = committed[100]["offset"], committed[200]["offset"]
    write(tmp_path, [*committed[50:250], committed[-1]])
    report = oracle_client.agree(
        filled.bootstrap, tmp_path, "p", [TOPIC], ranges={TOPIC: {"0": (first, last)}}
    )
    assert (report["kafka"], report["lake"], report["outside"]) == (100, 100, 101)
    wider = {TOPIC: {"0": (first, committed[250]["offset"] + 1)}}
    report = oracle_client.ask(filled.bootstrap, tmp_path, "p", [TOPIC], ranges=wider)
    assert [report[kind] for kind in KINDS] == [1, 0, 0, 0]


def test_a_range_may_end_in_a_hole(
    filled: topic_records.Filled, committed: Rows, tmp_path: Path
) -> None:
    """The first visible record after the hole is at the range's end, outside of it."""
    after = next(
        at for at in range(1, 9999) if committed[at]["offset"] > committed[at - 1]["offset"] + 1
    )
    write(tmp_path, committed[:after])
    ranges = {TOPIC: {"0": (0, committed[after]["offset"])}}
    report = oracle_client.agree(filled.bootstrap, tmp_path, "p", [TOPIC], ranges=ranges)
    assert report["kafka"] == after


def test_it_counts_every_record_of_every_codec(broker: Broker, tmp_path: Path) -> None:
    """An empty lake misses all visible records, before and after the open transaction ends."""
    topic = "oracle-codecs"
    with topic_records.fill(broker.bootstrap, topic, records=3000) as filled:
        for _ in range(2):
            report = oracle_client.ask(broker.bootstrap, tmp_path, "p", [topic])
            missing = {int(at): n["missing"] for at, n in report["partitions"][topic].items()}
            assert missing == {at: filled.visible[at] for at in range(topic_records.PARTITIONS)}
            filled.close()
    report = oracle_client.ask(
        broker.bootstrap, tmp_path, "p", [topic], isolation="read_uncommitted"
    )
    assert report["missing"] == filled.visible.total() + filled.aborted.total()


def test_the_brokers_own_timestamps(broker: Broker, tmp_path: Path) -> None:
    """LogAppendTime is timestampType 1."""
    topic = "oracle-append-time"
    config = {"compression.type": "uncompressed", "message.timestamp.type": "LogAppendTime"}
    with topic_records.fill(broker.bootstrap, topic, records=500, config=config):
        rows = consume(broker.bootstrap, topic, "read_committed")
        write(tmp_path, rows, topic=topic)
        assert {row["timestampType"] for row in rows} == {1}
        oracle_client.agree(broker.bootstrap, tmp_path, "p", [topic])


def test_expired_records_are_not_compared(broker: Broker, tmp_path: Path) -> None:
    """Rows of expired records are not compared; a range with expired offsets is an error."""
    topic = "oracle-expired"
    topic_records.numbers(broker.bootstrap, topic, 1000, partitions=2)
    write(tmp_path, consume(broker.bootstrap, topic, "read_committed"), topic=topic)
    topic_records.delete_records(broker.bootstrap, topic, {0: 120, 1: 500})
    report = oracle_client.agree(broker.bootstrap, tmp_path, "p", [topic])
    assert (report["lake"], report["outside"]) == (380, 620)
    assert report["partitions"][topic]["1"]["range"] == [500, 500]
    with pytest.raises(RuntimeError, match="partition 0"):
        oracle_client.ask(
            broker.bootstrap, tmp_path, "p", [topic], ranges={topic: {"0": (119, 200)}}
        )


@pytest.mark.parametrize(
    "given",
    [
        ["--topics", "t", "--lake", "."],
        ["--ranges", "[1]", "--lake", ".", "--pipeline", "p"],
        ["--ranges", "{", "--lake", ".", "--pipeline", "p"],
        ["--topics", "t", "--lake", ".", "--pipeline", "p", "--patience", "1"],
        ["--topics", "t", "--files", "missing.json"],
    ],
)
def test_wrong_use_exits_with_2(given: list[str], tmp_path: Path) -> None:
    """Wrong arguments, or no broker at the address: exit code 2 and nothing on stdout."""
    command = [
        sys.executable,
        "-I",
        str(oracle_client.ORACLE),
        "--bootstrap",
        "127.0.0.1:1",
        *given,
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout) == (2, "")


def test_it_cannot_import_tidegate(tmp_path: Path) -> None:
    """Also if the package is on its path."""
    package = tmp_path / "tidegate"
    package.mkdir()
    (package / "__init__.py").touch()
    paths = [str(tmp_path), str(oracle_client.ORACLE)]
    program = f"import sys; sys.path[:0] = {paths}; import oracle; import tidegate"
    command = [sys.executable, "-I", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "the oracle must not import tidegate" in done.stderr
