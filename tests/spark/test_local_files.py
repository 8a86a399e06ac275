"""Local files by Java's own calls: what is left is what Hadoop's file system leaves."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tidegate.spark.hadoop_files import LOCAL_FILES, WITHOUT_SHELL, HadoopDirectory

HADOOPS = "org.apache.hadoop.fs.LocalFileSystem"


def written(spark: SparkSession, place: Path, usual: str) -> tuple[dict[str, Any], HadoopDirectory]:
    """Write Parquet in partitions and a file; return the modes by name, and the directory."""
    context: Any = spark.sparkContext
    conf = context._jvm.org.apache.hadoop.conf.Configuration(context._jsc.hadoopConfiguration())
    conf.set(LOCAL_FILES, usual)
    directory = HadoopDirectory(context._jvm, conf, str(place))
    rows = spark.range(6, numPartitions=2).selectExpr("id", "concat('t:%', id % 2) AS topic")
    rows.write.options(**directory.settings).partitionBy("topic").parquet(f"file:{place}/data")
    directory.create("_done.json", "{}")
    found = {}
    for path in sorted(place.rglob("*")):
        name = str(path.relative_to(place)).partition("part-0000")
        found["".join(name[:2])] = stat.filemode(path.stat().st_mode)
    return found, directory


def test_both_leave_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """Names and modes, whatever the process's umask is, and no file of checksums."""
    umask = os.umask(0o077)
    try:
        ours, directory = written(spark, tmp_path / "ours", WITHOUT_SHELL)
        theirs, other = written(spark, tmp_path / "theirs", HADOOPS)
    finally:
        os.umask(umask)
    assert directory.settings[LOCAL_FILES] != other.settings[LOCAL_FILES]
    assert ours == theirs
    assert not [name for name in ours if name.endswith(".crc")]
    assert {mode for name, mode in ours.items() if "part-0000" in name} == {"-rw-r--r--"}


@pytest.mark.parametrize("usual", [WITHOUT_SHELL, HADOOPS])
def test_any_file_is_listed(spark: SparkSession, tmp_path: Path, usual: str) -> None:
    """Links are followed, one that leads nowhere is not listed; names are as they are."""
    _, directory = written(spark, tmp_path / "in", usual)
    (tmp_path / "in/link").symlink_to(tmp_path / "in/_done.json")
    (tmp_path / "in/nowhere").symlink_to("gone")
    (tmp_path / "in/ä b#%41:c").write_text("x")
    listed = sorted(name for name in directory.files() if "part-" not in name)
    assert listed == ["_done.json", "data/_SUCCESS", "link", "ä b#%41:c"]
    assert directory.read("_done.json") == b"{}"
    assert directory.read("absent") is None
    directory.delete("link")
    assert (tmp_path / "in/_done.json").read_text() == "{}"
