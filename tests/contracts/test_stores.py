"""The contract of a store (`lake/store_protocol.py`): each variant keeps it, and so does the one
that the nets play with.
"""

import io
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore

from nets.objects import Handle, Objects
from support import bucket_servers
from tidegate.core import locations
from tidegate.core.locations import SCHEMES
from tidegate.core.source_root import Root
from tidegate.doctor import store_trial
from tidegate.doctor.check import run_checks
from tidegate.errors import LakeDamaged, LakeUnavailable, SourceUnavailable, TidegateError
from tidegate.lake.bucket_kinds import buckets_of
from tidegate.lake.store import STORES, LocalStore, ObjectStore, open_store
from tidegate.lake.store_protocol import Listed, SourceFiles, Store
from tidegate.launch import jars


@pytest.fixture(params=["directory", "memory", "nets", *bucket_servers.SCHEMES])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    if request.param == "directory":
        return LocalStore(tmp_path / "p")
    if request.param == "memory":
        return ObjectStore("memory:///p", MemoryStore())
    if request.param == "nets":
        return Handle(Objects(), "p")
    return open_store(bucket_servers.place_on(request.param, request, monkeypatch), "p")


@pytest.fixture(params=["directory", *bucket_servers.SCHEMES])
def source(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> SourceFiles:
    """The files `in/a/1.csv`, `in/a/_hidden.csv` and `in/b`, of which the path names `*.csv`."""
    if request.param == "directory":
        above = str(tmp_path)
    else:
        above = bucket_servers.place_on(request.param, request, monkeypatch)
    files = STORES.open(above, "in")
    for name in ("a/1.csv", "a/_hidden.csv", "b"):
        files.create(name, b"id\n1\n")
    return STORES.source(Root.of(f"{above}/in/**/*.csv"))


def test_each_scheme_is_served():
    """A bucket that a pipeline may name: tried here, with jars and settings for Spark."""
    kinds = [(scheme, buckets_of(scheme.example)) for scheme in SCHEMES]
    assert {scheme.name for scheme in SCHEMES} == {*bucket_servers.FIXTURES}
    assert [s.name for s, _ in kinds if locations.location_complaint(s.example)] == []
    assert [s.name for s, _ in kinds if not jars.is_lock(s.library.lock)] == []
    assert [s.name for s, kind in kinds if not kind.spark_conf()] == []
    for unknown in ("hdfs", "wasbs", "abfs", "ftp"):
        assert "is not supported" in (locations.location_complaint(f"{unknown}://bucket/a") or "")


@pytest.mark.parametrize("scheme", bucket_servers.SCHEMES)
def test_the_doctors_trial(scheme, request, monkeypatch):
    """It passes on each server, and leaves nothing."""
    place = bucket_servers.place_on(scheme, request, monkeypatch)
    found = run_checks(store_trial.store_trial(place))
    assert [line.says for line in found.checks if line.state == "failure"] == []
    assert len(found.checks) == 7
    assert open_store(place, "").objects("") == []


def test_the_files_of_a_source(source):
    """Those that match, without hidden ones, with their sizes and what changes with them."""
    ((file, modified),) = source.files()
    assert (file.name, file.size, bool(file.etag)) == ("a/1.csv", 5, True)
    assert abs(modified - time.time()) < 300
    assert source.has_content_etags is not source.root.url.startswith("file://")
    with source.open("a/1.csv") as content:
        content.seek(3)
        assert content.read() == b"1\n"


def test_a_file_of_a_source_that_is_gone(source):
    """A retry lists the source again."""
    with pytest.raises(SourceUnavailable, match=r"gone\.csv cannot be read now"):
        source.open("gone.csv").read(1)


def test_an_object_is_created_once(store):
    """The first wins; the same bytes again are a retry that meets its own write."""
    assert store.get("a/b.json") is None
    assert store.create("a/b.json", b"one") is True
    assert store.create("a/b.json", b"one") is True
    assert store.create("a/b.json", b"two") is False
    assert store.get("a/b.json") == b"one"
    assert store.size("a/b.json") == 3
    assert store.objects("") == [Listed("a/b.json", 3)]


def test_listing_is_by_directory(store):
    """Sorted by path, with sizes; a directory whose name goes on differently is another."""
    assert store.objects("a/") == []
    for path in ("a/2", "a/1", "a/deep/er/3", "ab/4"):
        store.create(path, path.encode())
    assert store.objects("a/") == [Listed("a/1", 3), Listed("a/2", 3), Listed("a/deep/er/3", 11)]


def test_placing_is_idempotent(store):
    """A second name for the same bytes; once it is there, the first one may go."""
    store.create("staging/x", b"rows")
    store.place("staging/x", "data/y", 4)
    store.place("staging/x", "data/y", 4)
    store.delete("staging/x")
    store.place("staging/x", "data/y", 4)
    assert store.get("data/y") == b"rows"
    assert store.get("staging/x") is None


def test_placing_what_is_not_there_is_damage(store):
    """Not something to try again later."""
    with pytest.raises(LakeDamaged, match="staging/x"):
        store.place("staging/x", "data/y", 4)
    assert store.objects("") == []


def test_placing_knows_the_size(store):
    """What has the name already with another size is named; so is a source that was cut."""
    store.create("staging/x", b"rows")
    store.create("data/y", b"row")
    with pytest.raises(LakeDamaged, match="data/y has 3 bytes"):
        store.place("staging/x", "data/y", 4)
    assert store.get("data/y") == b"row"


def test_what_would_keep_files_from_their_place(store):
    """A source that is gone fails the check; nothing is left behind by it."""
    store.create("staging/x", b"rows")
    before = store.objects("")
    with pytest.raises(TidegateError):
        store.check_placing([("staging/z", "data/t/y", 4)])
    store.check_placing([("staging/x", "data/t/y", 4)])
    assert store.objects("") == before


def test_deleting_what_is_not_there_is_nothing(store):
    """It is gone: that was the wish."""
    store.create("a", b"")
    store.delete("a")
    store.delete("a")
    assert store.size("a") is None
    store.create("b", b"")
    store.create("c", b"")
    store.delete("a", "b", "c")
    store.delete()
    assert store.objects("") == []


def test_reading_at_random(store):
    """As Parquet is read: from the end."""
    store.create("a", b"0123456789")
    with store.open("a") as file:
        assert file.seek(-3, 2) == 7
        assert file.read(2) == b"78"
        assert (file.tell(), file.read(), file.read()) == (9, b"9", b"")
    assert file.closed


def test_parquet_is_read_from_both(store):
    """Footer and columns, as the seal and `verify` read them."""
    buffer = io.BytesIO()
    pq.write_table(pa.table({"offset": range(10_000)}), buffer, row_group_size=1000)
    store.create("a", buffer.getvalue())
    with store.open("a") as file:
        assert pq.read_metadata(file).num_rows == 10_000
    with store.open("a") as file:
        column = pq.ParquetFile(file).read(columns=["offset"]).column("offset")
    assert column.to_pylist() == list(range(10_000))


def test_opening_what_is_not_there_is_a_refusal_by_name(store):
    """Not an exception of the library underneath."""
    with pytest.raises(LakeUnavailable):
        store.open("a")


@pytest.mark.parametrize("path", ["../a", "a/../../b", "a/.."])
def test_no_path_leads_out_of_the_lake(store, path):
    with pytest.raises(ValueError):
        store.create(path, b"")
    with pytest.raises(ValueError):
        store.get(path)


def test_names_of_a_large_directory(store):
    """Those that follow a name, sorted: a ledger is read from where it was left."""
    for name in ("log/2", "log/10", "log/1", "logs/4"):
        store.create(name, b"")
    assert store.names("log/") == ["1", "10", "2"]
    assert store.names("log/", after="10") == ["2"]
    assert store.names("none/") == []


def test_bytes_within_an_object(store):
    store.create("a", b"0123456789")
    assert (store.read("a", 3, 5), store.read("a", 0, 10)) == (b"34", b"0123456789")


def test_the_time_of_an_object(store):
    """By the lake's clock, which gets older."""
    store.create("a", b"")
    store.create("b", b"")
    assert store.modified("none") is None
    assert 0 < store.modified("a") <= store.modified("b")


def test_what_another_process_wrote_and_directories_that_are_empty(store):
    """Nothing is seen of either by its objects."""
    store.create("a/b/c", b"1")
    store.make_durable(["a/b/c"])
    store.prune("a/")
    assert store.get("a/b/c") == b"1"
    store.delete("a/b/c")
    store.prune("a/")
    assert store.objects("") == []


def test_a_store_that_can_be_written(store):
    """The check leaves nothing behind."""
    store.check_writing()
    assert store.objects("") == []


def test_requests_for_many_items(store):
    """Their results come in order, and the first error ends them."""
    for n in range(40):
        store.create(f"{n}", b"x" * n)
    assert list(store.each(lambda n: store.size(f"{n}"), range(40))) == [*range(40)]

    def fails(n: int) -> int:
        raise LakeUnavailable(f"{n}")

    with pytest.raises(LakeUnavailable, match=r"^0$"):
        list(store.each(fails, range(3)))
    assert list(store.each(fails, [])) == []


def test_what_a_store_says_of_itself(store):
    """Absolute places with a scheme; whether each machine finds them is known."""
    assert store.uri("a b").startswith(f"{store.url}/a")
    assert "://" in store.url
    assert store.native("x").endswith("/x")
    assert store.is_shared_by_nodes == (not store.url.startswith("file://"))
    assert store in {store}
