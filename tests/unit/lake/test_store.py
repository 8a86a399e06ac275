"""The store: one table for directory and bucket, and the conditional put of a bucket that fails."""

import io
import re
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore

from support import s3_stub, staged_attempts
from tidegate.core.offsets import OffsetRange
from tidegate.errors import ConfigurationError, LakeDamaged, LakeUnavailable, TidegateError
from tidegate.lake import attempts, conditional_put, plans
from tidegate.lake.store import Listed, LocalStore, ObjectStore, open_store


@pytest.fixture(params=["directory", "bucket"])
def store(request, tmp_path):
    if request.param == "directory":
        return LocalStore(tmp_path / "p")
    return ObjectStore("memory:///p", MemoryStore())


# Both


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


# URLs and directories


def test_uris_are_absolute_with_a_scheme(tmp_path):
    """`=` stays as it is: readers of hive partitions look for it."""
    local = LocalStore(tmp_path / "a b" / "p")
    assert local.uri("data/topic=t/x") == f"file://{tmp_path}/a%20b/p/data/topic=t/x"
    assert local.native("data/x") == f"{tmp_path}/a b/p/data/x"
    bucket = ObjectStore("s3://bucket/lake/p/", MemoryStore())
    assert bucket.uri("data/topic=t/x") == "s3://bucket/lake/p/data/topic=t/x"
    assert bucket.native("data/x") == "s3a://bucket/lake/p/data/x"


def test_a_lake_is_a_directory_or_a_url(tmp_path):
    """Both ways to write a directory are the same one."""
    open_store(str(tmp_path), "p").create("a", b"1")
    assert open_store(f"file://{tmp_path}", "p").get("a") == b"1"
    assert isinstance(open_store("memory:///lake", "p"), ObjectStore)
    for wrong in ("s4://bucket/x", "file://host/x", "file:x", "memory:///a%20b", "memory:///a b"):
        with pytest.raises(ConfigurationError, match=re.escape(wrong)):
            open_store(wrong, "p")


# A bucket that fails


class Flaky:
    """Loses the answers of the first puts; the objects land, or not."""

    def __init__(self, put, *, failures, lands):
        self.put, self.failures, self.lands, self.calls = put, failures, lands, 0

    def __call__(self, store, path, data, **options):
        self.calls += 1
        if self.calls <= self.failures:
            if self.lands:
                self.put(store, path, data, **options)
            raise conditional_put.BaseError("connection reset")
        return self.put(store, path, data, **options)


@pytest.fixture
def flaky(monkeypatch):
    monkeypatch.setattr(conditional_put._put.retry, "sleep", lambda _: None)

    def flaky(**how):
        put = Flaky(conditional_put.obstore.put, **how)
        monkeypatch.setattr(conditional_put.obstore, "put", put)
        return ObjectStore("memory:///p", MemoryStore())

    return flaky


@pytest.mark.parametrize("lands", [True, False])
def test_a_lost_answer_is_tried_again(flaky, lands):
    """Also when the object had landed: the retry that meets its own write has created it."""
    store = flaky(failures=1, lands=lands)
    assert store.create("a", b"mine") is True
    assert store.get("a") == b"mine"


def test_a_put_that_landed_after_another_one_did_not_create(flaky):
    """The retry meets the bytes of another process: this one has not created the object."""
    store = flaky(failures=1, lands=False)
    other = ObjectStore("memory:///p", store._store)
    conditional_put.obstore.put.failures = 0
    other.create("a", b"theirs")
    conditional_put.obstore.put.failures = 2
    assert store.create("a", b"mine") is False


def test_a_bucket_that_stays_away_is_unavailable(flaky):
    """After a few tries: transient, the run tries again later."""
    store = flaky(failures=99, lands=False)
    with pytest.raises(LakeUnavailable, match="connection reset"):
        store.create("a", b"mine")


@pytest.fixture
def stub(monkeypatch):
    """A bucket over HTTP whose answers a test may choose; no wait between two tries."""
    monkeypatch.setattr(conditional_put.create.retry, "sleep", lambda _: None)
    with s3_stub.serving() as stub:
        for name, value in stub.environment.items():
            monkeypatch.setenv(name, value)
        yield stub


CONFLICT = s3_stub.Answer(409, s3_stub.CONFLICT)


def test_a_conflicting_request_is_no_object(stub):
    """S3 answers 409 while another put of the key is in progress. Where that one fails, nothing is
    there: the put is done again, and the object is created.
    """
    store = open_store("s3://bucket/lake", "p")
    stub.instead = lambda _: CONFLICT if len(stub.puts) <= 2 else None
    assert store.create("log/1.json", b"mine") is True
    assert stub.objects == {"/bucket/lake/p/log/1.json": b"mine"}
    assert len(stub.puts) == 3


@pytest.mark.parametrize(("winner", "created"), [(b"theirs", False), (b"mine", True)])
def test_a_conflict_with_a_put_that_lands(stub, winner, created):
    """The other put has created the object: False; or it was this one, whose answer was lost."""
    store = open_store("s3://bucket/lake", "p")

    def instead(key):
        stub.objects[key] = winner
        return CONFLICT

    stub.instead = instead
    assert store.create("log/1.json", b"mine") is created
    assert stub.objects == {"/bucket/lake/p/log/1.json": winner}


def test_a_conflict_that_stays_is_unavailable(stub):
    """Never "it exists": transient, and it names the object."""
    store = open_store("s3://bucket/lake", "p")
    stub.instead = lambda _: CONFLICT
    with pytest.raises(LakeUnavailable, match=r"log/1\.json could not be created"):
        store.create("log/1.json", b"mine")
    assert stub.objects == {}


def test_no_manifest_is_reported_that_is_not_there(stub):
    """Every put of the manifest meets a conflict: an error, where it was taken for done."""
    stub.instead = lambda key: CONFLICT if "/manifests/" in key else None
    store = open_store("s3://bucket/lake", "p")
    attempt = attempts.Attempt("plan", 0, "attempt")
    manifest = attempts.Manifest(attempt, (), None, {}, {}, seen={}, versions={})
    with pytest.raises(LakeUnavailable, match="manifests/plan-0-attempt"):
        attempts.create(store, manifest)
    stub.instead = lambda _: None
    attempts.create(store, manifest)
    assert len(stub.objects) == 1


def test_a_second_generation_is_not_answered_with_the_first(stub):
    """A conflict when a run's pointer is created: the new plan is frozen, not the old one read."""
    store = open_store("s3://bucket/lake", "p")
    first = staged_attempts.plan_of((OffsetRange("t", 0, 0, 10),))
    second = staged_attempts.plan_of((OffsetRange("t", 0, 0, 20),))
    assert plans.freeze(store, "key", first, 1, note={}).plan == first
    met = []

    def instead(key):
        if key.endswith("/2.json") and not met:
            met.append(key)
            return CONFLICT
        return None

    stub.instead = instead
    assert plans.freeze(store, "key", second, 2, note={}) == plans.Frozen(second, 2)
    assert len(met) == 1


def test_threads_race_for_one_object():
    """The same on the other side: create-if-absent is the store's, not ours."""
    store = ObjectStore("memory:///p", MemoryStore())
    with ThreadPoolExecutor(8) as pool:
        created = list(pool.map(lambda i: store.create("a", b"%d" % i), range(32)))
    assert created.count(True) == 1
    assert store.get("a") == b"%d" % created.index(True)
