"""Files with a line that no application has memory for are found without one."""

import bz2
import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from tidegate.core.plan import SourceFile
from tidegate.core.source_root import Root
from tidegate.lake import sources
from tidegate.lake.store import STORES

_LONG = b"x" * (sources.LONGEST_LINE + 1)
_JUST = b"x" * sources.LONGEST_LINE


def named(home: Path, ends: bytes = b"\r\n") -> list[str]:
    root = Root.of(str(home))
    files = [
        SourceFile(name=path.name, size=path.stat().st_size, etag="e")
        for path in sorted(home.iterdir())
    ]
    found = sources.with_long_lines(STORES.source(root), files, ends)
    assert all(each.reason.startswith("a line of more than 16 MiB") for each in found)
    return [each.file for each in found]


def test_lines_of_files(tmp_path: Path) -> None:
    """At the beginning, in the middle, at the end, and at the end of a block; also compressed."""
    for name, content in {
        "begins": _LONG + b"\nx", "ends": b"x\n" + _LONG, "within": b"x\r" + _LONG + b"\rx\n",
        "just": b"x\n" + _JUST + b"\n" + _JUST, "short": b"x\n" * (10 << 20), "empty": b"",
        "blocks": (b"x" * (1 << 20) + b"\n") * 20, "small": b"x\n",
    }.items():  # fmt: skip
        (tmp_path / name).write_bytes(content)
    (tmp_path / "a.gz").write_bytes(gzip.compress(_LONG, 1))
    (tmp_path / "b.bz2").write_bytes(bz2.compress(_LONG, 1))
    (tmp_path / "c.zst").write_bytes(pa.compress(_LONG, codec="zstd", asbytes=True))
    (tmp_path / "d.gz").write_bytes(gzip.compress(b"x\n" * (10 << 20), 1))
    (tmp_path / "broken.gz").write_bytes(b"x" * 20_000)
    assert named(tmp_path) == ["a.gz", "b.bz2", "begins", "c.zst", "ends", "within"]


@pytest.mark.parametrize(("ends", "found"), [(b"|", []), (b"\n", ["a"]), (b"", ["a"])])
def test_the_end_of_a_line_is_that_of_the_pipeline(
    tmp_path: Path, ends: bytes, found: list[str]
) -> None:
    (tmp_path / "a").write_bytes(b"|".join([b"x" * (1 << 20)] * 20))
    assert named(tmp_path, ends) == found
