"""A lake as a dataset: columns of files that Spark writes, filters that skip files, S3."""

import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from support import staged_attempts
from tidegate.core.offsets import OffsetRange
from tidegate.errors import ConfigurationError
from tidegate.lake import committing, dataset
from tidegate.lake.dataset import Lake
from tidegate.lake.store import LocalStore, open_store


def lake_of(store: LocalStore) -> Lake:
    return Lake("p", store, staged_attempts.ledger_of(store).fold)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """[0, 10) of t and [0, 2) of u are committed."""
    store = LocalStore(tmp_path / "p")
    plan = staged_attempts.plan_of((OffsetRange("t", 0, 0, 10), OffsetRange("u", 0, 0, 2)))
    staged_attempts.seal(store, plan)
    committing.commit_sealed_chunks(store, staged_attempts.ledger_of(store), plan, run="run")
    return store


def test_columns_as_spark_writes_them(store: LocalStore) -> None:
    """Required fields, also within `headers`, and metadata of the file."""
    header = pa.struct(
        [pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]
    )
    headers = pa.list_(pa.field("element", header, nullable=False))
    schema = pa.schema(
        [
            ("key", pa.binary()),
            ("value", pa.binary()),
            pa.field("partition", pa.int32(), nullable=False),
            pa.field("offset", pa.int64(), nullable=False),
            ("timestamp", pa.timestamp("us", tz="UTC")),
            ("timestampType", pa.int32()),
            ("headers", headers),
        ],
        metadata={"org.apache.spark.version": "4.0.4"},
    )
    row = {"key": b"k", "value": b"v", "partition": 0, "offset": 0, "timestamp": 7,
           "timestampType": 0, "headers": [{"key": "a", "value": b"b"}]}  # fmt: skip
    lake = lake_of(store)
    for file in lake.files:
        path = Path(file["uri"].removeprefix("file://").replace("%3D", "="))
        table = pa.Table.from_pylist([row, row | {"headers": None}], schema=schema)
        pq.write_table(table, path)
    table = lake.dataset().to_table()
    assert table.schema == dataset.SCHEMA
    assert table["headers"].to_pylist() == [[{"key": "a", "value": b"b"}], None] * 2
    assert sorted(table["topic_id"].to_pylist()) == ["id-t", "id-t", "id-u", "id-u"]


def test_a_filter_skips_files(store: LocalStore) -> None:
    """Of the other topic no byte is read: its file may be gone."""
    lake = lake_of(store)
    for path in store.root.glob("data/topic=t/*/*.parquet"):
        path.unlink()
    found = lake.dataset()
    assert found.count_rows(filter=pc.field("topic") == "u") == 2
    assert found.to_table(filter=pc.field("topic_id") == "id-u").num_rows == 2
    with pytest.raises(FileNotFoundError):
        found.count_rows()


def test_a_name_that_needs_quotes(store: LocalStore) -> None:
    lake = Lake("my-lake.1", store, staged_attempts.ledger_of(store).fold)
    with lake.duckdb() as db:
        assert db.execute('SELECT count(*) FROM "my-lake.1"').fetchone() == (12,)


def test_without_duckdb(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'tidegate\[duckdb\]'"):
        lake_of(store).duckdb()


def test_a_lake_in_a_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    """The endpoint and the region of the environment, as for Tidegate's own requests."""
    environ = {"AWS_ENDPOINT_URL": "http://s3.invalid:1", "AWS_ALLOW_HTTP": "true",
               "AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "key",
               "AWS_SECRET_ACCESS_KEY": "secret"}  # fmt: skip
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    system, root = dataset.filesystem(open_store("s3://bucket/a/lake", "p"))
    assert (system.type_name, system.region, root) == ("s3", "eu-central-1", "bucket/a/lake/p")
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    store = open_store("/lake", "p")
    assert dataset.filesystem(store)[1] == "/lake/p"
    with pytest.raises(ConfigurationError, match="AWS_ALLOW_HTTP"):
        dataset.filesystem(open_store("s3://bucket/a/lake", "p"))


def test_a_flipped_bit_is_an_error(store: LocalStore) -> None:
    """Size and footer are those of the commit: only the page's checksum shows it."""
    (path,) = (store.root / "data/topic=t").rglob("*.parquet")
    at, data = pq.read_metadata(path).row_group(0).column(1), bytearray(path.read_bytes())
    data[(at.dictionary_page_offset or at.data_page_offset) + at.total_compressed_size - 3] ^= 1
    path.unlink()
    path.write_bytes(data)
    with pytest.raises(OSError, match="CRC"):
        lake_of(store).dataset().to_table()


@pytest.mark.parametrize("topic", ["_x", ".x"])
def test_no_reader_hides_a_file(tmp_path: Path, topic: str) -> None:
    """Of a topic whose name begins as that of a hidden file."""
    store = LocalStore(tmp_path / "p")
    plan = staged_attempts.plan_of((OffsetRange(topic, 0, 0, 10),), topic_ids={topic: "id-x"})
    staged_attempts.seal(store, plan)
    ledger = staged_attempts.ledger_of(store)
    assert list(committing.commit_sealed_chunks(store, ledger, plan, run="run")) == [0]
    found = pyarrow.dataset.dataset(str(store.root / "data"), format="parquet")
    assert found.count_rows() == 10


def test_times_are_in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the zone of the machine."""
    at = datetime(2026, 3, 14, 6, tzinfo=UTC)
    table = pa.table({"at": pa.array([at], pa.timestamp("us", "UTC"))})
    try:
        with monkeypatch.context() as patched:
            patched.setenv("TZ", "Europe/Berlin")
            time.tzset()
            ((found,),) = dataset.run_query({"t": table}, "FROM t")[1]
    finally:
        time.tzset()
    assert str(found) == "2026-03-14 06:00:00+00:00"
