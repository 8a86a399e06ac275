"""The rows of data files that `verify` compares with Kafka's records."""

from pathlib import Path

from support import staged_attempts
from tidegate.core.files import Contents, LakeFile
from tidegate.core.offsets import OffsetRange
from tidegate.ingest.verify import _rows
from tidegate.lake import footers
from tidegate.lake.store import Listed, LocalStore


def lake_file(store: LocalStore, path: Path) -> LakeFile:
    at = str(path.relative_to(store.native("")))
    contents: Contents = footers.read_data_file(
        store, Listed(at, path.stat().st_size), is_new=True
    ).contents
    return LakeFile("t", contents.parts, contents.ascending, path.stat().st_size, "d", at, at)


def test_rows_that_are_not_in_order(tmp_path: Path) -> None:
    """They are compared in the order of their offsets; Spark may sort a file's rows by topic."""
    store = LocalStore(tmp_path)
    one = [0, 50, 1, 51, *range(2, 50), 99, *range(52, 99)]
    files = [
        lake_file(store, staged_attempts.write_file(store, "a", "one.parquet", 0, one)),
        lake_file(
            store, staged_attempts.write_file(store, "a", "two.parquet", [0, 1, 0], [101, 7, 100])
        ),
    ]
    assert [file.ascending for file in files] == [False, False]
    found = [record.offset for record in _rows(store, files, OffsetRange("t", 0, 0, 102))]
    assert found == list(range(102))
    assert [r.offset for r in _rows(store, files, OffsetRange("t", 1, 0, 9))] == [7]
