"""Files that Hadoop or Spark cannot read are excluded by name, before Spark starts."""

import base64
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.core.plan import LeftOutFile, SourceFile
from tidegate.core.source_root import Root
from tidegate.lake import sources
from tidegate.lake.store import STORES

BEGINS_WITHIN = (
    "UEFSMRUAFWoVaiwVFBUAFQYVBhwAAAADAAAABVUBAgAAABQBAAAAAAEAAAACAAAAAwAAAAQAAAAFAAAA"
    "BgAAAAcAAAAIAAAACQAAABUEGUw1ABgEcm9vdBUCADUAGAF4FQIVBkw8AAAANQQYBGxpc3QVAgAVAiUA"
    "GAdlbGVtZW50JSJMrBMgEQAAABYKGRwZHCYAHBUCGSUGABk4AXgEbGlzdAdlbGVtZW50FQAWFBaQARaQ"
    "ASYISRwVABUAFQIAAAAWkAEWCiYIFpABFAAAKClwYXJxdWV0LWNwcC1hcnJvdyB2ZXJzaW9uIDE5LjAu"
    "MC1TTkFQU0hPVBkcHAAAALQAAABQQVIx"
)


@pytest.mark.parametrize(
    ("name", "begins", "said"),
    [
        ("a.json.lz4", "04224d18", "not in Hadoop's form of lz4"),
        ("a.csv.LZ4", "04224d18", "not in Hadoop's form of lz4"),
        ("a.txt.snappy", "ff060000734e61507059", "not in Hadoop's form of snappy"),
        ("a.txt.snappy", "00000010", None),
        ("a.json.lz4", "", None),
        ("a.json", "04224d18", None),
    ],
)
def test_compressed_text(tmp_path: Path, name: str, begins: str, said: str | None) -> None:
    """Hadoop would take the first bytes for a length, and end with OutOfMemory."""
    (tmp_path / name).write_bytes(bytes.fromhex(begins) + b"more")
    why = sources.compression_complaint(STORES.source(Root.of(str(tmp_path))), name)
    assert (why is None) == (said is None)
    assert said is None or said in str(why)


@pytest.mark.parametrize("any_columns", [False, True])
def test_parquet(tmp_path: Path, any_columns: bool) -> None:
    """Also where the pipeline declares the columns."""
    table = pa.table({"a": [1]})
    for codec in ("brotli", "zstd", "snappy", "gzip", "none"):
        pq.write_table(table, tmp_path / f"{codec}.parquet", compression=codec)
    root = Root.of(str(tmp_path))
    files = sources.list_source(STORES.source(root), settle=0).files
    _, judged = sources.read_footers(STORES.source(root), files, 10, any_columns=any_columns)
    found = list(judged)
    assert [each.file for each in found if isinstance(each, LeftOutFile)] == ["brotli.parquet"]
    (bad,) = (each for each in found if isinstance(each, LeftOutFile))
    assert bad.reason == "compressed by brotli: write it with zstd, snappy or gzip"
    assert [each.rows for each in found if isinstance(each, SourceFile)] == [1] * 4


def test_lists_that_begin_nowhere(tmp_path: Path) -> None:
    """ARROW-GH-45185 of apache/parquet-testing: Spark makes five rows of it. Others are read."""
    table = pa.table({"a": [[1, 2], [], None], "m": [[{"x": [1]}], [], None]})
    pq.write_table(table, tmp_path / "good.parquet", row_group_size=1)
    (tmp_path / "bad.parquet").write_bytes(base64.b64decode(BEGINS_WITHIN))
    root = Root.of(str(tmp_path))
    _, judged = sources.read_footers(
        STORES.source(root), sources.list_source(STORES.source(root), settle=0).files, 10
    )
    bad, good = judged
    assert isinstance(bad, LeftOutFile)
    assert bad.reason.startswith("damaged: The repetition level at the start of a record must be 0")
    assert isinstance(good, SourceFile)
    assert good.rows == 3


def test_a_colon(tmp_path: Path) -> None:
    """ISO times are common in names; in a directory a colon does no harm."""
    (tmp_path / "b:c").mkdir()
    for name in ("2026-03-14T05:00:00Z.json", "b:c/a.json"):
        (tmp_path / name).write_text("{}")
    found = sources.list_source(STORES.source(Root.of(str(tmp_path))), settle=0)
    assert [each.name for each in found.files] == ["b:c/a.json"]
    (bad,) = found.left_out
    assert bad.file == "2026-03-14T05:00:00Z.json"
    assert "a colon in its name" in bad.reason
