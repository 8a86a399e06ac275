"""Stores: their URLs, and the conditional put of a bucket that fails.

What all of them keep is in `contracts/test_stores.py`.
"""

import io
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from unittest import mock

import pytest
from obstore.store import MemoryStore

from support import s3_stub, staged_attempts
from tidegate.core.offsets import OffsetRange
from tidegate.errors import ConfigurationError, LakeUnavailable
from tidegate.lake import attempts, conditional_put, plans
from tidegate.lake.store import LocalStore, ObjectStore, open_store
from tidegate.lake.store_errors import Reader

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
    monkeypatch.setattr(conditional_put.create_object.retry, "sleep", lambda _: None)
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
        attempts.create_manifest(store, manifest)
    stub.instead = lambda _: None
    attempts.create_manifest(store, manifest)
    assert len(stub.objects) == 1


def test_a_second_generation_is_not_answered_with_the_first(stub):
    """A conflict when a run's pointer is created: the new plan is frozen, not the old one read."""
    store = open_store("s3://bucket/lake", "p")
    first = staged_attempts.plan_of((OffsetRange("t", 0, 0, 10),))
    second = staged_attempts.plan_of((OffsetRange("t", 0, 0, 20),))
    assert plans.freeze_plan(store, "key", first, 1, note={}).plan == first
    met = []

    def instead(key):
        if key.endswith("/2.json") and not met:
            met.append(key)
            return CONFLICT
        return None

    stub.instead = instead
    assert plans.freeze_plan(store, "key", second, 2, note={}) == plans.Frozen(second, 2)
    assert len(met) == 1


def test_threads_race_for_one_object():
    """The same on the other side: create-if-absent is the store's, not ours."""
    store = ObjectStore("memory:///p", MemoryStore())
    with ThreadPoolExecutor(8) as pool:
        created = list(pool.map(lambda i: store.create("a", b"%d" % i), range(32)))
    assert created.count(True) == 1
    assert store.get("a") == b"%d" % created.index(True)


def test_a_large_column_is_asked_for_in_parts() -> None:
    """Else a slow line has no whole answer in the time that obstore waits for one."""

    remote = mock.Mock(**{"seek.return_value": 0, "read.side_effect": bytes})
    with io.BufferedReader(Reader(remote, nullcontext)) as file:
        assert len(file.read(40 << 20)) == 40 << 20
    asked = [call.args[0] for call in remote.read.call_args_list]
    assert sum(asked) == 40 << 20
    assert max(asked) <= 16 << 20
