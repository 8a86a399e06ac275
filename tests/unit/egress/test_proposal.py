"""What `explain` proposes for `source.columns` of JSON files."""

import gzip
from pathlib import Path

import pytest

from tidegate.core.plan import SourceFile
from tidegate.core.source_root import Root
from tidegate.egress.proposal import columns_below, proposed_columns
from tidegate.lake.store import STORES
from tidegate.spark import formats

JSON, CSV = formats.format_of_files("json"), formats.format_of_files("csv")


@pytest.mark.parametrize(
    ("lines", "columns"),
    [
        ([b'{"id":1,"name":"x","ok":true,"share":0.5}'],
         "id BIGINT, name STRING, ok BOOLEAN, share DOUBLE"),
        ([b'{"n":1}', b'{"n":2.5}', b'{"n":null}'], "n DOUBLE"),
        ([b'{"n":1}', b'{"n":"x"}'], "n STRING"),
        ([b'{"n":9007199254740993}', b'{"n":1}'], "n BIGINT"),
        ([b'{"n":9007199254740993}', b'{"n":1.5}'], "n STRING"),
        ([b'{"n":12345678901234567.89,"m":1e400,"o":1e-400,"p":0.0}'],
         "n STRING, m STRING, o STRING, p DOUBLE"),
        ([b'{"n":123456789012345678901234}', b'{"o":{"a":1},"l":[1]}'],
         "n STRING, o STRING, l STRING"),
        ([b'{"n":null}'], "n STRING"),
        ([b'{"a b":1,"c`d":2}'], "`a b` BIGINT, `c``d` BIGINT"),
        ([b"no JSON", b"[1]", b"7", b"\xff"], None),
        ([], None),
    ],
)  # fmt: skip
def test_columns_of_lines(lines, columns):
    """Text where values have two types, or are more than one, or their type would change a number;
    lines that are no objects count for nothing.
    """
    assert JSON.propose_columns(lines) == columns


def test_the_first_lines_of_some_files(tmp_path: Path):
    """Plain and compressed; a file that is gone meanwhile says nothing."""
    (tmp_path / "a.json").write_text('{"a":1}\n{"b":2}\n')
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(b'{"c":1}\n'))
    names = ("a.json", "b.json.gz", "gone.json")
    files = [SourceFile(name, 1, "e") for name in names]
    assert (
        proposed_columns(STORES.source(Root.of(str(tmp_path))), files, JSON)
        == "a BIGINT, b BIGINT, c BIGINT"
    )


@pytest.mark.parametrize(
    ("line", "columns"),
    [
        (b"id,name", "id STRING, name STRING"),
        (b'id,"a ""b"", c"', 'id STRING, `a "b", c` STRING'),
        (b"\xef\xbb\xbfid,name", "id STRING, name STRING"),
        (b"id;name", None),
        (b"id|a;b", None),
        (b"1,2024-01-01", None),
        (b"1a,b", None),
        (b'id,"a', None),
        (b"id,a\x01", None),
        (b"x" * 200_000, None),
        (b"id,ID", None),
        (b"id,", None),
        (b"", None),
    ],
)
def test_columns_of_a_header(tmp_path: Path, line: bytes, columns: str | None) -> None:
    """Of CSV the first line names them; one with a name twice, or without one, is no header."""
    (tmp_path / "a.csv").write_bytes(line + b"\r\n1,x\r\n")
    assert columns_below(str(tmp_path), CSV, STORES) == columns


def test_no_columns_without_a_file(tmp_path: Path) -> None:
    assert columns_below(str(tmp_path), CSV, STORES) is None
    for name, content in (
        ("c.csv", b"\xff\xfe"),
        ("b.csv.gz", b"\x1f\x8b and no more"),
        ("a", b""),
    ):
        (tmp_path / name).write_bytes(content)
        for file_format in (CSV, JSON):
            assert columns_below(str(tmp_path), file_format, STORES) is None
