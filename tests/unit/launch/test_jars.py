"""Jars: the files are those of the locks; errors are one line.

A script stands in for Ivy: these tests show what is done with the files that it delivers.
"""

import hashlib
import re
import shutil
import stat
import sys
import threading
from pathlib import Path
from unittest import mock

import pytest

from tidegate.doctor import machine
from tidegate.errors import ConfigurationError, JavaMissing
from tidegate.launch import cds_archive, jars, job_zip
from tidegate.launch.jars import Jar, JarError
from tidegate.launch.spark_output import SparkOutput
from tidegate.settings.setting import Place
from tidegate.settings.table import judge_settings

CONTENT = {"alpha-1.0.jar": b"the first jar", "beta_2.13-2.0.jar": b"the second jar"}

IVY = """#!{python}
# java -jar IVY -settings S -ivy MODULE … -retrieve PATTERN
import pathlib, re, sys
given = dict(zip(sys.argv[3::2], sys.argv[4::2]))
with open({calls!r}, "a") as calls:
    calls.write("call\\n")
module = pathlib.Path(given["-ivy"]).read_text()
for name, rev in re.findall(r'name="([^"]+)" rev="([^"]+)"', module):
    file = pathlib.Path(given["-retrieve"]).with_name(f"{{name}}-{{rev}}.jar")
    source = pathlib.Path({shelf!r}, file.name)
    if not source.exists():
        sys.exit("\\t\\t:: org#" + name + ";" + rev + ": not found")
    file.write_bytes(source.read_bytes())
"""


class Ivy:
    def __init__(self, directory: Path) -> None:
        self.shelf = directory / "shelf"
        self.shelf.mkdir()
        for name, content in CONTENT.items():
            (self.shelf / name).write_bytes(content)
        self._calls = directory / "calls"
        self._calls.touch()
        java = directory / "jdk" / "bin" / "java"
        java.parent.mkdir(parents=True)
        java.write_text(
            IVY.format(python=sys.executable, calls=str(self._calls), shelf=str(self.shelf))
        )
        java.chmod(java.stat().st_mode | stat.S_IXUSR)
        self.java_home = directory / "jdk"

    @property
    def calls(self) -> int:
        return len(self._calls.read_text().splitlines())


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "jars"


@pytest.fixture
def ivy(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Ivy:
    """An Ivy of our own, and a lock named `two` that asks it for two jars."""
    stand_in = Ivy(tmp_path)
    digests = [hashlib.sha256(content).hexdigest() for content in CONTENT.values()]
    lock = [Jar("org", "alpha", "1.0", digests[0]), Jar("org", "beta_2.13", "2.0", digests[1])]
    monkeypatch.setenv("JAVA_HOME", str(stand_in.java_home))
    monkeypatch.setattr(jars, "read_lock", {"two": lock}.__getitem__)
    return stand_in


def test_a_lock_is_one_jar_a_line() -> None:
    digest = "0" * 64
    text = f"# why\n\norg.example:thing_2.13:1.0 {digest}  # a jar\n"
    assert jars.parse_lock(text, source="x.lock") == [
        Jar("org.example", "thing_2.13", "1.0", digest)
    ]


@pytest.mark.parametrize("line", ["a:b:1", "a:b " + "0" * 64, "a:b:1 abc", "a:b:1 x " + "0" * 64])
def test_a_wrong_line_is_named(line: str) -> None:
    with pytest.raises(JarError, match=r"^x\.lock, line 2: .*" + re.escape(line)):
        jars.parse_lock("\n" + line, source="x.lock")


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("spark-kafka", 6),
        ("spark-kafka-3.5", 5),
        ("spark-kafka-4.1", 6),
        ("spark-kafka-4.2", 6),
        ("spark-s3", 35),
        ("kafka-broker", 46),
    ],
)
def test_the_committed_locks_hold_no_jar_twice(name: str, count: int) -> None:
    assert len({jar.file for jar in jars.read_lock(name)}) == count


def test_what_is_missing_is_fetched_and_nothing_else(ivy: Ivy, cache: Path) -> None:
    """A second call fetches nothing; a file that was damaged or removed comes again."""
    files = jars.ensure_jars("two")
    assert {file.name: file.read_bytes() for file in files} == CONTENT
    assert files == jars.lock_paths("two")
    calls = ivy.calls
    assert jars.ensure_jars("two") == files
    assert ivy.calls == calls

    files[0].write_bytes(b"damaged")
    files[1].unlink()
    jars.ensure_jars("two")
    assert {file.name: file.read_bytes() for file in files} == CONTENT
    assert sorted(path.name for path in cache.iterdir()) == sorted([".lock", *CONTENT])


def test_a_wrong_digest_is_refused(ivy: Ivy, cache: Path) -> None:
    """The file does not enter the cache, and the line names it with both digests."""
    (ivy.shelf / "beta_2.13-2.0.jar").write_bytes(b"something else")
    got = hashlib.sha256(b"something else").hexdigest()
    with pytest.raises(JarError, match=f"beta_2.13-2.0.jar .* got {got}") as refusal:
        jars.ensure_jars("two")
    assert "\n" not in str(refusal.value)
    assert not (cache / "beta_2.13-2.0.jar").exists()


def test_what_cannot_be_fetched_is_one_line(ivy: Ivy) -> None:
    (ivy.shelf / "alpha-1.0.jar").unlink()
    with pytest.raises(JarError, match=r"^could not fetch alpha-1\.0\.jar: .*not found") as refusal:
        jars.ensure_jars("two")
    assert "\n" not in str(refusal.value)


def test_two_callers_at_once_fetch_once(ivy: Ivy) -> None:
    found: list[list[Path]] = []
    callers = [
        threading.Thread(target=lambda: found.append(jars.ensure_jars("two"))) for _ in range(2)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert found == [jars.lock_paths("two")] * 2
    assert ivy.calls == 2  # one jar ahead, to see whether there is a network, then the rest


def test_missing_jars_name_the_next_step(cache: Path) -> None:
    with pytest.raises(JarError, match=r"6 of the 6 jars of spark-kafka .* run `tidegate jars`$"):
        jars.lock_paths("spark-kafka")
    with pytest.raises(JarError, match=r"of kafka-broker .* run `tidegate jars --local`$"):
        jars.lock_paths("kafka-broker")
    with pytest.raises(JarError, match=r"of spark-kafka-3.5 .*jars --spark-home DIRECTORY`$"):
        jars.lock_paths("spark-kafka-3.5")


def test_no_java_is_one_line(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(JavaMissing, match=r"no java in JAVA_HOME \(/nowhere\)"):
        jars.ensure_jars("spark-kafka")


def test_a_copied_cache_needs_no_network(
    ivy: Ivy, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a network nor Java: what is there is compared with the lock, nothing is fetched (req
    3.11).
    """
    fetched = [file.name for file in jars.ensure_jars("two")]
    calls = ivy.calls
    shutil.copytree(cache.parent, tmp_path / "copy")
    shutil.rmtree(cache.parent)
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "copy"))
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert [file.name for file in jars.ensure_jars("two")] == fetched
    assert ivy.calls == calls
    assert all(file.is_relative_to(tmp_path / "copy") for file in jars.lock_paths("two"))


def test_the_cache_is_the_chosen_one_or_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIDEGATE_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert jars.cache_dir() == Path.home() / ".cache" / "tidegate"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert jars.cache_dir() == tmp_path / "tidegate"
    monkeypatch.setenv("TIDEGATE_CACHE", "~/mine")
    assert jars.cache_dir() == Path.home() / "mine"


@pytest.fixture
def no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """A uid that the user database does not have, as a container may run with."""
    for name in ("TIDEGATE_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    missing = mock.Mock(side_effect=KeyError("getpwuid(): uid not found: 4711"))
    monkeypatch.setattr("pwd.getpwuid", missing)


@pytest.mark.parametrize("chosen", [None, "~/mine"])
def test_a_user_without_a_home_directory(
    no_home: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, chosen: str | None
) -> None:
    if chosen:
        monkeypatch.setenv("TIDEGATE_CACHE", chosen)
    for asked in (jars.cache_dir, lambda: jars.lock_paths("spark-kafka"), job_zip.build_zip):
        with pytest.raises(ConfigurationError, match=r"has no home directory.* set TIDEGATE_CACHE"):
            asked()
    assert SparkOutput("a run").path is None  # it goes on, with all of its output in the log
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path))
    assert jars.cache_dir() == tmp_path


def test_a_cache_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path))
    denied = mock.Mock(side_effect=PermissionError(13, "Permission denied"))
    monkeypatch.setattr(Path, "is_file", denied)
    says = f"the cache {tmp_path} cannot be used: Permission denied; correct it, or set TIDEGATE_CA"
    for asked in (lambda: jars.lock_paths("spark-kafka"), lambda: list(machine.spark_jars())):
        with pytest.raises(ConfigurationError, match=re.escape(says)):
            asked()


def test_an_archive_that_cannot_be_read_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It affects the speed of a run only."""
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path))
    monkeypatch.setattr(cds_archive, "archive_key", lambda: "k")
    denied = mock.Mock(side_effect=PermissionError(13, "Permission denied"))
    monkeypatch.setattr(Path, "glob", denied)
    assert cds_archive.find_archive() is None


def test_each_jar_of_the_connector_is_known_in_spark_jars() -> None:
    """Another version of it, given by a pipeline, has a notice."""
    for jar in jars.read_lock("spark-kafka"):
        other = f"/own.jar,/lib/{jar.artifact}-0.1.jar"
        assert judge_settings(Place.SPARK, {"spark.jars": other}).notices != (), jar.artifact
