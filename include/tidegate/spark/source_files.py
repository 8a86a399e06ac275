"""The files of a plan as Spark reads them: their paths, and the plan's names of them."""

from __future__ import annotations

import re
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F

from tidegate.spark.egress_job import RowSource
from tidegate.spark.hadoop_files import with_scheme
from tidegate.spark.spark_versions import metadata_column

# Read exactly these paths: `*` in a name is no pattern, and `day=1/` no column (looking for those,
# Spark would read a file beside such a directory twice).
EXACT_PATHS = {"__globPaths__": "false", "recursiveFileLookup": "true"}
# Greater than any file: each file is a task of its own, so that its rows can be counted.
_ONE_FILE = str(1 << 40)
_SLASHES = "^(file:)?/+"  # Hadoop says file:/a, Spark file:///a
_PLAIN = re.compile(r"([a-z0-9]+://)?[A-Za-z0-9/._=-]*")


def load_files(reader: DataFrameReader, source: RowSource) -> DataFrame:
    """Return the rows of the plan's files, and of no others."""
    return reader.options(**EXACT_PATHS).load([with_scheme(path) for _, path in source.files])


def read_each_by_one_task(spark: SparkSession) -> None:
    """Have each file read as a whole by one task: `row_in_task` is then the row in the file."""
    spark.conf.set("spark.sql.files.maxPartitionBytes", _ONE_FILE)
    spark.conf.set("spark.sql.files.openCostInBytes", _ONE_FILE)


def row_in_task() -> Column:
    """Return the number of a row in its task, from 0."""
    return F.monotonically_increasing_id().bitwiseAND((1 << 33) - 1)


def files_read(source: RowSource, listed: DataFrame) -> set[str]:
    """Return the plan's names of the files that Spark reads for a frame."""
    return {file_name(source, uri) for uri in listed.inputFiles()}


def file_name(source: RowSource, uri: str) -> str:
    """Return the plan's name of the file at a URI."""
    return re.sub(_SLASHES, "/", unquote(uri)).removeprefix(_root(source))


def name_of_file(source: RowSource, frame: DataFrame) -> Column:
    """Return the plan's name of the file that a row of a frame is from."""
    return name_at(source, metadata_column(frame)["file_path"])


def name_at(source: RowSource, path: Column) -> Column:
    """Return the plan's name of the file at a path: that path without the root."""
    root = _root(source)
    if root != "/" and all(_PLAIN.fullmatch(path) for _, path in source.files):
        # The URI has the path as it is, behind file:, file://, or nothing.
        begin = F.locate(root, path) + len(root)
        return path.substr(begin, F.lit(1 << 20))
    uri = F.replace(path, F.lit("+"), F.lit("%2B"))  # in a URI, a plus is no space
    decoded = F.regexp_replace(F.url_decode(uri), _SLASHES, "/")
    return F.substring(decoded, len(root) + 1, 1 << 20)


def _root(source: RowSource) -> str:
    name, path = source.files[0]
    return re.sub(_SLASHES, "/", path).removesuffix(name)
