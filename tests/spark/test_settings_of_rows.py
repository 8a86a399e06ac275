"""Settings of a session that would change the rows of an egress are set, whatever was given."""

from datetime import date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession

from support.rows_of_files import put, rows, values
from tidegate.settings.spark_conf import SAME_ROWS
from tidegate.spark.session import configure_session

OTHER = {
    "spark.sql.parser.escapedStringLiterals": "true",
    "true": "false", "false": "true", "CORRECTED": "LEGACY", "EXCEPTION": "LAST_WIN",
    "TIMESTAMP_LTZ": "TIMESTAMP_NTZ", "UTC": "America/New_York",
}  # fmt: skip
# Of these, Spark has another default; all others are set to what Spark would read by itself.
OWN = {
    "spark.sql.csv.parser.columnPruning.enabled", "spark.sql.variable.substitute",
    "spark.sql.session.timeZone", "spark.sql.sources.parallelPartitionDiscovery.threshold",
    "spark.hadoop.mapreduce.input.linerecordreader.line.maxlength",
    "spark.hadoop.parquet.page.verify-checksum.enabled",
}  # fmt: skip


@pytest.fixture
def contrary(spark: SparkSession) -> SparkSession:
    """Return a session that was given the opposite of each setting, and then configured."""
    mine = spark.newSession()
    for name, value in SAME_ROWS.items():
        mine.conf.set(name.removeprefix("spark.hadoop."), OTHER.get(value or name, "1"))
    configure_session(mine)
    return mine


def test_each_is_set(contrary: SparkSession) -> None:
    found = {
        name: contrary.conf.get(name.removeprefix("spark.hadoop."), None) for name in SAME_ROWS
    }
    assert found == SAME_ROWS


def test_what_an_older_spark_did_is_not_done(spark: SparkSession) -> None:
    """As spark-defaults.conf of one machine might have it: other texts of the same row."""
    mine = spark.newSession()
    name = "spark.sql.legacy.castComplexTypesToString.enabled"
    sql = "SELECT CAST(map('a', 1) AS STRING) AS text"
    mine.conf.set(name, "true")
    assert mine.sql(sql).first() == Row(text="[a -> 1]")
    configure_session(mine)
    assert mine.sql(sql).first() == Row(text="{a -> 1}")


def test_they_are_sparks_defaults(spark: SparkSession) -> None:
    """So that setting them changes nothing of what is read without them."""
    fresh = spark.newSession()
    expected = {name: value for name, value in SAME_ROWS.items() if value and name not in OWN}
    for name in expected:
        fresh.conf.unset(name)
    assert {name: fresh.conf.get(name) for name in expected} == expected


def test_the_same_values_of_the_same_rows(
    contrary: SparkSession, session: SparkSession, tmp_path: Path
) -> None:
    """Of Parquet with bytes, an old date and INT96 times, and of CSV with expressions."""
    old = pa.table({
        "V": pa.array([b"ab"]), "d": pa.array([date(1500, 3, 1)]),
        "t": pa.array([datetime(1500, 3, 1)], pa.timestamp("us")),
    })  # fmt: skip
    pq.write_table(old, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    table = put(tmp_path / "b.csv", "k,n,at\nß,0.1,2024-01-02T00:00\n")
    ddl = "k STRING, n DECIMAL(38, 10), at TIMESTAMP"
    expression = (
        "concat_ws('|', upper(k), string(n * n), string(at), base64(repeat(k, 60)), \"q\", '\\t', "
        "string(to_timestamp('2024-1-2', 'yyyy-M-d')))"
    )
    for own in (contrary, session):
        found = values(rows(own, "parquet", tmp_path / "a.parquet"))
        assert found == [
            '{"V":"YWI=","d":"1500-03-01","t":"1500-03-01T00:00:00.000000Z"}'
        ]  # fmt: skip
        assert values(rows(own, "parquet", tmp_path / "a.parquet", value="v")) == [b"ab"]
    first, second = (values(rows(own, "csv", table, value=expression, ddl=ddl))
                     for own in (contrary, session))  # fmt: skip
    assert first == second
    assert "SS|" in str(first)
