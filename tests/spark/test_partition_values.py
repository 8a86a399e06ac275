"""The names of directories by values of rows: what Python says of the same values."""

import hashlib
import random
import re
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from tidegate.core.parquet_settings import PartitionField
from tidegate.spark.parquet_writer import add_directories

DAY = 86_400_000_000  # microseconds
EPOCH = date(1970, 1, 1)
FIELDS = [PartitionField(each, "c") for each in ("month", "day", "hour")]


def values(
    spark: SparkSession, given: list[Any], kind: str, *fields: PartitionField, cast: Column
) -> list[list[str | None]]:
    """Return what the directories of each value say, in order."""
    rows = spark.createDataFrame(list(enumerate(given)), f"n INT, c {kind}").withColumn("c", cast)
    names = [field.directory for field in fields]
    return [list(row) for row in add_directories(rows, fields).orderBy("n").select(names).collect()]


def test_times(spark: SparkSession) -> None:
    """Of the years 0001 to 9999, before the epoch too; the microsecond before a new day is of the
    old one. Null has a directory of its own, and so have years that readers may not know.
    """
    chosen = random.Random(7)
    first = (date.min - EPOCH).days * DAY
    last = ((date.max - EPOCH).days + 1) * DAY - 1
    moments = [
        first, last, -1, 0, DAY - 1, DAY, *(chosen.randint(first, last) for _ in range(500)),
    ]  # fmt: skip
    expected = []
    for moment in moments:
        day, rest = divmod(moment, DAY)
        text = str(EPOCH + timedelta(days=day))
        expected.append([text[:7], text, f"{text}-{rest // 3_600_000_000:02d}"])
    for kind in ("timestamp", "timestamp_ntz"):
        cast = F.timestamp_micros("c").cast(kind)
        assert values(spark, moments, "BIGINT", *FIELDS, cast=cast) == expected
    strange = values(
        spark, [None, last + 1, first - 1], "BIGINT", *FIELDS, cast=F.timestamp_micros("c")
    )
    assert strange == [[None, None, None]] * 3
    days = values(spark, [moment // DAY for moment in moments], "INT", *FIELDS[:2],
                  cast=F.date_from_unix_date("c"))  # fmt: skip
    assert days == [each[:2] for each in expected]


TEXTS = [
    "AA", "DE ", "New York",
    "M\u00fcnchen", "\u6771\u4eac", "a.b-c_d", "", " a", "a" * 40, "a" * 41,
    "a\n", "\n", "a\0b", "a/b", "..", ".", "a=b", "50%", "50%25", "a:b",
    "__HIVE_DEFAULT_PARTITION__", "a~b", "~a", "'", '"', "\\",
    "{a}", "*", "?", "\U0001f600", "\u202e", "\x7f", "\u0301",
]  # fmt: skip


def test_texts(spark: SparkSession, tmp_path: Path) -> None:
    """A plain text is a directory's name, of any other a digest is; the file has it as it is."""
    field = PartitionField("identity", "c")
    said = [found for (found,) in values(spark, TEXTS, "STRING", field, cast=F.col("c"))]
    for text, found in zip(TEXTS, said, strict=True):
        digest = "~" + hashlib.sha256(text.encode()).hexdigest()[:32]
        plain = re.fullmatch(r"(?! |__HIVE)[A-Za-z0-9_. -]{1,40}(?<! )", text) is not None
        assert found == (text if plain else digest)
    rows = spark.createDataFrame([(text,) for text in [*TEXTS, None]], "c STRING").coalesce(1)
    add_directories(rows, [field]).write.partitionBy("c_value").parquet(str(tmp_path / "out"))
    directories = {path.name: path for path in (tmp_path / "out").glob("c_value=*")}
    nothing = "c_value=__HIVE_DEFAULT_PARTITION__"
    assert directories.keys() == {nothing, *(f"c_value={found}" for found in said)}, "as they are"
    assert pq.read_table(directories[nothing])["c"].to_pylist() == [None]
    for text, found in zip(TEXTS, said, strict=True):
        assert pq.read_table(directories[f"c_value={found}"])["c"].to_pylist() == [text]


def test_numbers_and_what_a_topic_does_not_have(spark: SparkSession) -> None:
    """As SQL writes them; without the column, all rows are in the directory of null."""
    field = PartitionField("identity", "c")
    given = [0, -7, 2**63 - 1, None]
    assert values(spark, given, "BIGINT", field, cast=F.col("c")) == [
        ["0"], ["-7"], [str(2**63 - 1)], [None],
    ]  # fmt: skip
    assert values(spark, [True, False], "BOOLEAN", field, cast=F.col("c")) == [["true"], ["false"]]
    other = PartitionField("identity", "other")
    assert values(spark, [1], "INT", other, cast=F.col("c")) == [[None]]
