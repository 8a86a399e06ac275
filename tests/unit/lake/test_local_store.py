"""A lake on a local disk: races, refusals of the system, and what survives a power loss."""

import multiprocessing
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tidegate.core import layout
from tidegate.errors import ConfigurationError, LakeDamaged, LakeUnavailable
from tidegate.lake import local_store
from tidegate.lake.store import LocalStore, open_store


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
    from tidegate.lake.store import LocalStore, open_store
    limit = int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        print(LocalStore(Path(sys.argv[1])).create("log/1.json", b"x" * 100_000))
    except TidegateError as error:
        print(type(error).__name__, error.kind, error)
"""


def test_a_full_disk_leaves_nothing(tmp_path):
    """Transient, no partial object, no temporary file; with space it works."""
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
    for lake in (tmp_path / "p", tmp_path):
        with pytest.raises(ConfigurationError, match=r"/p is a file"):
            open_store(str(lake), "p")


@pytest.fixture
def calls(monkeypatch):
    """The calls that decide what survives a power loss, in order, with what they were for."""
    order = []
    fsync, link = os.fsync, os.link

    def name(descriptor):
        return os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))  # noqa: PTH115, PTH119

    monkeypatch.setattr(os, "fsync", lambda fd: (order.append(("fsync", name(fd))), fsync(fd))[1])
    monkeypatch.setattr(
        os,
        "link",
        lambda a, b, **how: (order.append(("link", Path(b).name)), link(a, b, **how))[1],
    )
    return order


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
    from tidegate.lake.store import LocalStore, open_store
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
    """Whole, and durable before it has its name; another error of the system is raised."""
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
