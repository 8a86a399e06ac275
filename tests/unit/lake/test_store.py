"""The store: one table for directory and bucket, and what only a disk can do to one."""

import io
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore

from support import s3_stub, staged_attempts
from tidegate.core import layout
from tidegate.core.offsets import OffsetRange
from tidegate.errors import ConfigurationError, LakeDamaged, LakeUnavailable, TidegateError
from tidegate.lake import attempts, conditional_put, local_store, plans
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
    """The retry meets a stranger's bytes: not ours."""
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


def test_no_seal_is_reported_that_is_not_there(stub):
    """Every put of the seal meets a conflict: an error, where it was taken for done."""
    stub.instead = lambda key: CONFLICT if key.endswith("_seal.json") else None
    store = open_store("s3://bucket/lake", "p")
    attempt = attempts.Attempt("plan", 0, "attempt")
    seal = attempts.Seal(attempt, (), {}, {}, seen={}, versions={})
    with pytest.raises(LakeUnavailable, match=r"_seal\.json"):
        attempts.seal(store, seal)
    stub.instead = lambda _: None
    attempts.seal(store, seal)
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


# A disk


def _race(root, start, number, wins):
    store = LocalStore(root)
    for round_ in range(50):
        start.wait(30)
        if store.create(f"log/{round_:020d}.json", b"writer %d" % number):
            wins.append((round_, number))


def test_sixteen_processes_race_for_one_name(tmp_path):
    """Of 50 rounds each has one winner, whose bytes stand; nothing else is left behind."""
    context = multiprocessing.get_context("fork")
    with context.Manager() as manager:
        wins, start = manager.list(), context.Barrier(16)
        processes = [
            context.Process(target=_race, args=(tmp_path, start, number, wins))
            for number in range(16)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        won = sorted(wins)
    assert [process.exitcode for process in processes] == [0] * 16
    assert [round_ for round_, _ in won] == list(range(50))
    for round_, number in won:
        assert (tmp_path / f"log/{round_:020d}.json").read_bytes() == b"writer %d" % number
    assert len(list((tmp_path / "log").iterdir())) == 50


def test_threads_race_for_one_object():
    """The same on the other side: create-if-absent is the store's, not ours."""
    store = ObjectStore("memory:///p", MemoryStore())
    with ThreadPoolExecutor(8) as pool:
        created = list(pool.map(lambda i: store.create("a", b"%d" % i), range(32)))
    assert created.count(True) == 1
    assert store.get("a") == b"%d" % created.index(True)


def run_python(code, *args, before=()):
    """Run code in a process of its own; return its last line of output."""
    done = subprocess.run(
        [*before, sys.executable, "-c", dedent(code), *map(str, args)],
        capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().rpartition("\n")[2]


CREATE = """
    import resource, sys
    from pathlib import Path
    from tidegate.errors import TidegateError
    from tidegate.lake.store import LocalStore
    limit = int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        print(LocalStore(Path(sys.argv[1])).create("log/1.json", b"x" * 100_000))
    except TidegateError as error:
        print(type(error).__name__, error.kind, error)
"""


def test_a_full_disk_leaves_nothing(tmp_path):
    """Transient, no partial object, no rubbish; with space it works."""
    said = run_python(CREATE, tmp_path, 50_000)
    assert said.startswith("LakeUnavailable transient")
    assert "no space left" in said
    assert [path.name for path in tmp_path.rglob("*")] == ["log"]
    assert run_python(CREATE, tmp_path, 200_000) == "True"
    assert [path.name for path in tmp_path.rglob("*.*")] == ["1.json"]


@pytest.mark.skipif(
    os.geteuid() == 0 and not shutil.which("setpriv"),
    reason="root may write everywhere, and there is no setpriv to take that away",
)
def test_a_read_only_lake_says_so(tmp_path):
    """Terminal, and the lake is as it was."""
    lake = tmp_path / "lake"
    lake.mkdir(mode=0o555)
    powerless = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
    said = run_python(CREATE, lake, 200_000, before=powerless if os.geteuid() == 0 else ())
    assert said.startswith("LakeReadOnly terminal")
    assert str(lake) in said
    assert list(lake.iterdir()) == []


def test_a_file_in_the_place_of_the_lake(tmp_path):
    """Every question is refused by name, none is answered with "nothing there"."""
    (tmp_path / "p").write_text("")
    store = LocalStore(tmp_path / "p")
    for question in (store.get, store.size, store.open, store.objects):
        with pytest.raises(LakeUnavailable):
            question("a/b")


@pytest.fixture
def calls(monkeypatch):
    """The calls that decide what survives a power loss, in order, with what they were for."""
    told = []
    fsync, link = os.fsync, os.link

    def name(descriptor):
        return os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))  # noqa: PTH115, PTH119

    monkeypatch.setattr(os, "fsync", lambda fd: (told.append(("fsync", name(fd))), fsync(fd))[1])
    monkeypatch.setattr(
        os,
        "link",
        lambda a, b, **how: (told.append(("link", Path(b).name)), link(a, b, **how))[1],
    )
    return told


def test_creating_survives_a_power_loss(tmp_path, calls):
    """New directories in their parents, then the file's bytes, then its name, then that is kept."""
    store = LocalStore(tmp_path / "p")
    store.create("log/1.json", b"entry")
    kinds = [(what, re.sub(r"^\.1\.json\.\w+$", "temporary", name)) for what, name in calls]
    assert kinds == [
        ("fsync", tmp_path.name),
        ("fsync", "p"),
        ("fsync", "temporary"),
        ("link", "1.json"),
        ("fsync", "log"),
    ]


def test_who_loses_makes_durable_what_it_found(tmp_path, calls):
    """The winner may not have come so far, and the loser acts on what it has read."""
    store = LocalStore(tmp_path)
    store.create("log/1.json", b"entry")
    calls.clear()
    assert store.create("log/1.json", b"other") is False
    assert calls[-1] == ("fsync", "log")


def test_placing_survives_a_power_loss(tmp_path, calls):
    """Name, then directory."""
    store = LocalStore(tmp_path)
    store.create("x", b"rows")
    calls.clear()
    store.place("x", "data/y", 4)
    assert calls == [("fsync", tmp_path.name), ("link", "y"), ("fsync", "data")]


def test_deleting_survives_a_power_loss(tmp_path, calls):
    """Each directory once, after its last file: a replaced file must not come back."""
    store = LocalStore(tmp_path)
    for path in ("a/1", "a/2", "b/3"):
        store.create(path, b"")
    calls.clear()
    store.delete("a/1", "a/2", "b/3", "c/4")
    assert sorted(calls) == [("fsync", "a"), ("fsync", "b")]
    assert store.objects("") == []


PLACE = """
    import sys
    from pathlib import Path
    from tidegate.lake.store import LocalStore
    store = LocalStore(Path(sys.argv[1]))
    store.check_placing([("staging/x", "data/y", 4)])
    store.place("staging/x", "data/y", 4)
    print(store.get("data/y"))
"""


@pytest.mark.skipif(
    os.geteuid() != 0
    or not shutil.which("setpriv")
    or Path("/proc/sys/fs/protected_hardlinks").read_text().strip() != "1",
    reason="needs files of another user, and a kernel that protects them",
)
def test_a_file_of_another_user_is_copied(tmp_path):
    """fs.protected_hardlinks refuses a link to it: Spark's executors may run as somebody else."""
    LocalStore(tmp_path).create("staging/x", b"rows")
    staged = tmp_path / "staging/x"
    staged.chmod(0o644)
    os.chown(staged, 65534, 65534)
    powerless = "--bounding-set=-dac_override,-dac_read_search,-fowner"
    assert run_python(PLACE, tmp_path, before=("setpriv", powerless)) == "b'rows'"
    final = tmp_path / "data/y"
    assert (final.stat().st_ino, final.stat().st_uid) != (staged.stat().st_ino, 65534)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["x", "y"]


@pytest.mark.parametrize("number", sorted(local_store._NO_LINK))
def test_a_copy_takes_the_place_of_a_link(tmp_path, monkeypatch, calls, number):
    """Whole, and durable before it has its name; another refusal of the system is told."""
    store = LocalStore(tmp_path)
    store.create("staging/x", b"rows")
    link = os.link

    def refuse(a, b, **how):
        if Path(a).name == "x":
            raise OSError(number, os.strerror(number))
        link(a, b, **how)

    monkeypatch.setattr(os, "link", refuse)
    store.place("staging/x", "data/y", 4)
    assert store.get("data/y") == b"rows"
    names = [(what, "copy" if len(name) == 16 else name) for what, name in calls[-3:]]
    assert names == [("fsync", "copy"), ("link", "y"), ("fsync", "data")]
    assert store.objects(layout.PLACING) == []
    monkeypatch.setattr(os, "link", lambda *_, **__: os.open("/nowhere", os.O_RDONLY))
    store.delete("data/y")
    with pytest.raises(LakeDamaged):
        store.place("staging/x", "data/y", 4)


def test_settling_makes_durable_what_spark_wrote(tmp_path, calls):
    """Each file, and every directory from it up to the pipeline's own."""
    store = LocalStore(tmp_path / "p")
    (tmp_path / "p/a/b").mkdir(parents=True)
    (tmp_path / "p/a/b/x.parquet").write_bytes(b"rows")
    store.make_durable(["a/b/x.parquet"])
    assert calls[0] == ("fsync", "x.parquet")
    assert sorted(calls[1:]) == [("fsync", "a"), ("fsync", "b"), ("fsync", "p")]


@pytest.mark.skipif(not shutil.which("strace"), reason="no strace; the order of calls is tested")
def test_the_kernel_sees_the_same_order(tmp_path):
    """fsync of the file → link → fsync of the directory, as strace tells it."""
    trace = tmp_path / "trace"
    strace = ("strace", "-f", "-y", "-e", "trace=fsync,link,linkat", "-o", str(trace))
    try:
        run_python(CREATE, tmp_path, 200_000, before=strace)
    except AssertionError as error:
        if "ptrace" in str(error):
            pytest.skip("strace may not trace here")
        raise
    order = [
        (call, "file" if "1.json" in rest else "directory")
        for call, rest in re.findall(r"\b(fsync|link|linkat)\((.*)", trace.read_text())
        if "/log" in rest
    ]
    assert [(call.removesuffix("at"), what) for call, what in order] == [
        ("fsync", "file"),
        ("link", "file"),
        ("fsync", "directory"),
    ]
