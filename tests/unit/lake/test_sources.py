"""What lies below a source's root: patterns, hidden and young names, changes, broken Parquet."""

import base64
import io
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as encryption
import pytest
from obstore.exceptions import GenericError, PermissionDeniedError
from obstore.store import MemoryStore

from tidegate.core.plan import LeftOutFile, SourceFile
from tidegate.core.source_root import Root
from tidegate.errors import SourceUnavailable
from tidegate.lake import sources, store
from tidegate.lake.store import STORES
from tidegate.lake.store_protocol import SourceFiles


def fill(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


def names(path: object, **settings: object) -> list[str]:
    listed = sources.list_source(STORES.source(Root.of(str(path))), **{"settle": 0, **settings})
    return [file.name for file in listed.files]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("", ["a.csv", "b.json", "d/a.csv", "d/e/c.csv", "x1.csv"]),
        ("/", ["a.csv", "b.json", "d/a.csv", "d/e/c.csv", "x1.csv"]),
        ("/*", ["a.csv", "b.json", "x1.csv"]),
        ("/*.csv", ["a.csv", "x1.csv"]),
        ("/?.csv", ["a.csv"]),
        ("/[ab].*", ["a.csv", "b.json"]),
        ("/[!ab]*.csv", ["x1.csv"]),
        ("/x[0-9].csv", ["x1.csv"]),
        ("/**/*.csv", ["a.csv", "d/a.csv", "d/e/c.csv", "x1.csv"]),
        ("/d/**", ["a.csv", "e/c.csv"]),
        ("/d/*", ["a.csv"]),
        ("/*/*.csv", ["d/a.csv"]),
        ("/d[!x]a.csv", []),
        ("/d*/**/?.csv", ["d/a.csv", "d/e/c.csv"]),
        ("/*.parquet", []),
    ],
)
def test_what_matches(tmp_path: Path, pattern: str, expected: list[str]) -> None:
    """`*` within a name, `**` over directories; names are relative to what is before the first."""
    fill(tmp_path, "a.csv", "b.json", "x1.csv", "d/a.csv", "d/e/c.csv")
    assert names(f"{tmp_path}{pattern}") == expected
    assert names(f"file://{tmp_path}{pattern}") == expected


def test_hidden_names_are_no_files(tmp_path: Path) -> None:
    """What others have not finished, wherever the dot or underscore is."""
    fill(tmp_path, "a", ".b", "_c", "_temporary/0/d", "e/.f/g", "e/h", "i_j", "k.l")
    assert names(tmp_path) == ["a", "e/h", "i_j", "k.l"]


# fmt: off
ODD = [
    "a b", "a%20b", "ü", "x#y", "q?", "[1]", "{a}", "*", "e=1", "+", "~", "back\\slash", "$(id);'",
]
# fmt: on


@pytest.mark.parametrize("odd", ODD)
def test_a_directory_and_a_file_may_have_any_name(tmp_path: Path, odd: str) -> None:
    """Of a path that is a pattern only the part before the first sign of one is a name."""
    fill(tmp_path, f"{odd}/{odd}.csv")
    assert names(tmp_path) == [f"{odd}/{odd}.csv"]
    if not set(odd) & set("?*["):
        root = Root.of(f"{tmp_path}/{odd}")
        assert names(f"{tmp_path}/{odd}/*.csv") == [f"{odd}.csv"]
        assert Path(root.path(f"{odd}.csv")).read_text() == f"{odd}/{odd}.csv"


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("[0-9]", "05"), ("[^0-9]", "&-[\\]^a~"), ("[!0-9&~]", "-[\\]^a"), ("[a-]", "-a"),
        ("[-a]", "-a"), ("[&&a]", "&a"), ("[[-^]", "[\\]^"), ("[~^]", "^~"), ("[\\a]", "\\a"),
        ("[+--]", "-"), ("[0-5-9]", "-05"), ("[]0]", "0]"), ("[!]0-9a]", "&-[\\^~"),
    ],
)  # fmt: skip
def test_a_class_of_characters(tmp_path: Path, pattern: str, found: str) -> None:
    """Ranges, all but, and signs that mean something to Python's regular expressions alone."""
    fill(tmp_path, *"05&-[\\]^a~")
    assert names(f"{tmp_path}/{pattern}") == sorted(found)


def test_what_spark_calls_a_file() -> None:
    assert Root.of("/in/*.csv").path("a b.csv") == "/in/a b.csv"
    assert Root.of("file:///in%20put/").path("a") == "/in put/a"
    assert Root.of("s3://bucket/in/**/*.csv").path("d/a.csv") == "s3a://bucket/in/d/a.csv"
    assert Root.of("/*.csv").path("a.csv") == "/a.csv"
    assert Root.of("//in//./x/../y/*.csv").path("a.csv") == "/in/y/a.csv"


def test_a_file_that_still_changes_is_young(tmp_path: Path) -> None:
    """It is settled when it has not changed for so many seconds (clock given)."""
    fill(tmp_path, "a", "b")
    now = datetime.now(UTC)
    os.utime(tmp_path / "a", ((now - timedelta(seconds=61)).timestamp(),) * 2)
    listed = sources.list_source(STORES.source(Root.of(str(tmp_path))), settle=60, now=now)
    assert ([f.name for f in listed.files], [f.name for f in listed.young]) == (["a"], ["b"])
    later = sources.list_source(
        STORES.source(Root.of(str(tmp_path))), settle=60, now=now + timedelta(seconds=61)
    )
    assert (len(later.files), later.young) == (2, ())


def test_a_changed_file_is_another_one(tmp_path: Path) -> None:
    """Gone, longer, or as long and written again; untouched ones are not named."""
    fill(tmp_path, "a", "b", "c", "d")
    root = Root.of(str(tmp_path))
    planned = sources.list_source(STORES.source(root), settle=0).files
    assert sources.changed_files(STORES.source(root), planned) == []
    (tmp_path / "a").unlink()
    (tmp_path / "b").write_text("bb")
    (tmp_path / "c").unlink()
    (tmp_path / "c").write_text("C")
    os.utime(tmp_path / "c", (1, 1))
    (tmp_path / "e").write_text("a new one is no change")
    assert sources.changed_files(STORES.source(root), planned) == ["a", "b", "c"]


def test_a_file_from_a_clock_that_was_ahead_is_what_it_was(tmp_path: Path) -> None:
    """It was planned by that clock, which has stepped back since: it is young, and not gone."""
    fill(tmp_path, "a")
    ahead = datetime.now(UTC) + timedelta(hours=1)
    os.utime(tmp_path / "a", (ahead.timestamp(), ahead.timestamp()))
    root = Root.of(str(tmp_path))
    planned = sources.list_source(
        STORES.source(root), settle=0, now=ahead + timedelta(minutes=1)
    ).files
    assert [file.name for file in planned] == ["a"]
    assert sources.changed_files(STORES.source(root), planned) == []


def test_a_path_may_be_one_file(tmp_path: Path) -> None:
    """Or a directory that is named as Spark names what it writes; nothing beside it."""
    fill(tmp_path, "a.csv", "a.csv.bak", "b.csv", "out.parquet/part-0.parquet", "x.out.parquet/y")
    assert names(tmp_path / "a.csv") == ["a.csv"]
    assert names(tmp_path / "out.parquet") == ["out.parquet/part-0.parquet"]
    assert names(tmp_path / "none.csv") == []
    fill(tmp_path, "elsewhere/part-0", "_x.csv", ".y.parquet/z", ".y.parquet/_hidden")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/now.parquet").symlink_to(tmp_path / "elsewhere")
    assert names(tmp_path / "in/now.parquet") == ["now.parquet/part-0"]
    assert names(tmp_path / "_x.csv") == ["_x.csv"]
    assert names(tmp_path / ".y.parquet") == [".y.parquet/z"]


@pytest.mark.parametrize("pattern", ["", "/*.csv"])
def test_no_such_directory(tmp_path: Path, pattern: str) -> None:
    """It may come: try again later, or correct the path."""
    with pytest.raises(SourceUnavailable, match=r"make it, or correct `source.path`"):
        names(f"{tmp_path}/none{pattern}")


def parquet(path: Path, **columns: list[object]) -> SourceFile:
    pq.write_table(pa.table(columns), path)
    return SourceFile(path.name, path.stat().st_size, "e")


def read_footers(
    source: SourceFiles, files: list[SourceFile]
) -> tuple[list[SourceFile], list[LeftOutFile]]:
    """Return the whole files, and the others."""
    found = list(sources.read_footers(source, files, len(files))[1])
    return (
        [each for each in found if isinstance(each, SourceFile)],
        [each for each in found if isinstance(each, LeftOutFile)],
    )


def test_footers_of_parquet_files(tmp_path: Path) -> None:
    """Rows are known from the footer; cut, empty and strange files are left out by name."""
    good = parquet(tmp_path / "a.parquet", k=[1, 2, 3])
    whole = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "b.parquet").write_bytes(whole[:-5])
    (tmp_path / "c.parquet").write_bytes(b"")
    (tmp_path / "d.parquet").write_text("no Parquet")
    empty = parquet(tmp_path / "e.parquet", k=pa.array([], pa.int64()))
    files = [good, *(SourceFile(f"{n}.parquet", 0, "e") for n in "bcd"), empty]
    found, broken = read_footers(STORES.source(Root.of(str(tmp_path))), files)
    assert [(f.name, f.rows) for f in found] == [("a.parquet", 3), ("e.parquet", 0)]
    assert [b.file for b in broken] == ["b.parquet", "c.parquet", "d.parquet"]
    assert all(b.reason.startswith("not a whole Parquet file: ") for b in broken)


class Kms(encryption.KmsClient):  # type: ignore[misc]
    """Keys that are not encrypted."""

    def __init__(self, _: Any) -> None:
        super().__init__()

    def wrap_key(self, key_bytes: bytes, _: str) -> bytes:
        return base64.b64encode(key_bytes)


def test_an_encrypted_file_says_so(tmp_path: Path) -> None:
    properties = encryption.CryptoFactory(Kms).file_encryption_properties(
        encryption.KmsConnectionConfig(),
        encryption.EncryptionConfiguration(footer_key="f", column_keys={"c": ["k"]}),
    )
    table = pa.table({"k": [1]})
    path = tmp_path / "a.parquet"
    with pq.ParquetWriter(path, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
    (broken,) = read_footers(
        STORES.source(Root.of(str(tmp_path))), [SourceFile("a.parquet", 0, "e")]
    )[1]
    assert broken.reason.startswith("encrypted Parquet: Spark and PyArrow have no keys")


@pytest.mark.parametrize(
    ("kind", "values", "named"),
    [
        (pa.timestamp("ns"), [1], "c (TIMESTAMP in nanoseconds)"),
        (pa.time64("us"), [1], "c (TIME)"),
        (pa.float16(), [1.0], "c (FLOAT16)"),
        (pa.timestamp("us"), [1], None),
        (pa.decimal128(9, 2), [None], None),
    ],
)
def test_columns_that_spark_does_not_know(
    tmp_path: Path, kind: pa.DataType, values: list[Any], named: str | None
) -> None:
    """They are named, with a way out; a file without them keeps Spark's own reason."""
    pq.write_table(pa.table({"id": [1], "c": pa.array(values, kind)}), tmp_path / "a.parquet")
    said = sources.explain_columns(
        STORES.source(Root.of(str(tmp_path))), LeftOutFile("a.parquet", "cannot be read: X")
    )
    way = (
        f". The file may be valid: Spark's reader does not know {named}: write them as other "
        "types, or name the other columns in source.columns"
    )
    assert said.reason == "cannot be read: X" + (way if named else "")
    gone = LeftOutFile("gone.parquet", "cannot be read: X")
    assert sources.explain_columns(STORES.source(Root.of(str(tmp_path))), gone) == gone


class Bucket:
    """A store in memory with three files; `fails` says what reading a name raises, `read` what was
    read.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, count: int = 3) -> None:
        self.store = MemoryStore()
        self.fails: dict[str, Exception] = {}
        self.read: list[str] = []
        content = io.BytesIO()
        pq.write_table(pa.table({"k": [1, 2]}), content)
        self.files = [SourceFile(f"{n:03d}.parquet", 0, "e") for n in range(count)]
        for file in self.files:
            obstore.put(self.store, file.name, content.getvalue())
        self.source = STORES.source(Root.of("s3://bucket/in"))
        opener = SimpleNamespace(open=lambda _: self.store)
        monkeypatch.setattr(store, "buckets_of", lambda _: opener)
        self._open = obstore.open_reader
        monkeypatch.setattr(obstore, "open_reader", self.open)

    def open(self, store: MemoryStore, name: str) -> object:
        self.read.append(name)
        return Failing(self._open(store, name), self.fails.get(name))


class Failing:
    def __init__(self, file: Any, error: Exception | None) -> None:
        self.file, self.error = file, error

    def seek(self, offset: int, whence: int) -> int:
        return self.file.seek(offset, whence)

    def read(self, size: int) -> Any:
        if self.error:
            raise self.error
        return self.file.read(size)


@pytest.mark.parametrize("error", [GenericError("HTTP 503"), OSError("connection reset")])
def test_a_store_that_fails_makes_no_broken_file(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """What may pass is tried again later; leaving the file out would call it broken. The next try
    finds it whole.
    """
    bucket = Bucket(monkeypatch)
    bucket.fails["001.parquet"] = error
    with pytest.raises(SourceUnavailable, match=r"001\.parquet cannot be read now: ") as raised:
        read_footers(bucket.source, bucket.files)
    assert raised.value.kind == "transient"
    bucket.fails.clear()
    assert len(read_footers(bucket.source, bucket.files)[0]) == 3


def test_a_file_that_goes_while_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was listed; the next listing will not have it."""
    bucket = Bucket(monkeypatch)
    obstore.delete(bucket.store, "002.parquet")
    with pytest.raises(SourceUnavailable, match=r"002\.parquet cannot be read now"):
        read_footers(bucket.source, bucket.files)


def test_a_file_that_may_not_be_read_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stops no other."""
    bucket = Bucket(monkeypatch)
    bucket.fails["000.parquet"] = PermissionDeniedError("403")
    found, (left_out,) = read_footers(bucket.source, bucket.files)
    assert ([f.name for f in found], left_out) == (
        ["001.parquet", "002.parquet"],
        LeftOutFile("000.parquet", "may not be read: 403"),
    )


def test_no_footer_is_read_of_what_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as are wanted, and another for each that is broken."""
    bucket = Bucket(monkeypatch, count=200)
    obstore.put(bucket.store, "001.parquet", b"PAR1 and no more")
    columns, footers = sources.read_footers(bucket.source, bucket.files, 3)
    found = list(footers)
    assert columns == (("k", "int64"),)
    assert [getattr(each, "rows", None) for each in found] == [2, None, 2, 2]
    assert sorted(bucket.read) == [file.name for file in bucket.files[:4]]
    bucket.read.clear()
    next(sources.read_footers(bucket.source, bucket.files, 150, columns)[1])
    assert len(bucket.read) < 150


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        ({"k": ["x"], "v": [1]}, "k string / int64"),
        ({"k": [1]}, "v missing / int64"),
        ({"k": [1], "v": [1], "w": [1.5]}, "w double / missing"),
    ],
)
def test_a_file_of_other_columns_is_left_out(
    tmp_path: Path, other: dict[str, list[object]], difference: str
) -> None:
    """With what differs, wherever it stands; the order of columns is no difference. What counts is
    what was sent before, else what most files have.
    """
    files = [
        parquet(tmp_path / "a.parquet", **other),
        parquet(tmp_path / "b.parquet", v=[1], k=[1]),
        parquet(tmp_path / "c.parquet", k=[1], v=[1]),
    ]
    source = STORES.source(Root.of(str(tmp_path)))
    found, (left_out,) = read_footers(source, files)
    assert [file.name for file in found] == ["b.parquet", "c.parquet"]
    assert left_out.file == "a.parquet"
    assert left_out.reason.startswith(f"other columns than most others: {difference}. Keep them ")
    columns, _ = sources.read_footers(source, files[:1], 1)
    _, again = sources.read_footers(source, files, 1, columns)
    named = {each.file: each.reason for each in again if isinstance(each, LeftOutFile)}
    assert named == {}
    _, again = sources.read_footers(source, files[::-1], 1, columns)
    named = {each.file: each.reason for each in again if isinstance(each, LeftOutFile)}
    assert [*named] == ["c.parquet", "b.parquet"]
    assert named["b.parquet"].startswith("other columns than those that were sent before: ")
