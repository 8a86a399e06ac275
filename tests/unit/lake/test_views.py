"""SQL of views, for names and paths that need quotes.

Engines take it in test_decoded_lake.py, test_partitioned_lake.py and, for Trino, test_trino.py.
"""

from tidegate.core import schema
from tidegate.lake import views

DECODED = 'id INT, `a b` ARRAY<MAP<STRING, DECIMAL(5,2)>>, gate STRUCT<`p"q`: FLOAT>, t TIMESTAMP'
LAKE = views.Directory(
    "my.lake", "s3://lakes/l'x/data/", schema.parse_columns(DECODED), ("topic", "timestamp_day")
)


def test_duckdb() -> None:
    assert views.view_sql("duckdb", LAKE) == (
        'CREATE OR REPLACE VIEW "my.lake" AS\n'
        "SELECT * FROM read_parquet('s3://lakes/l''x/data/**/*.parquet',\n"
        "    hive_partitioning = true, union_by_name = true);"
    )


def test_spark() -> None:
    assert views.view_sql("spark", LAKE) == (
        """\
CREATE OR REPLACE TEMPORARY VIEW `my.lake` (
  key BINARY,
  value BINARY,
  partition INT,
  offset BIGINT,
  timestamp TIMESTAMP,
  timestampType INT,
  headers ARRAY<STRUCT<key: STRING, value: BINARY>>,
  id INT,
  `a b` ARRAY<MAP<STRING, DECIMAL(5,2)>>,
  gate STRUCT<`p"q`: FLOAT>,
  t TIMESTAMP,
  topic STRING, timestamp_day DATE
) USING parquet OPTIONS (path 's3://lakes/l\\'x/data/');"""
    )


def test_trino() -> None:
    assert views.view_sql("trino", LAKE) == (
        """\
SET SESSION hive.timestamp_precision = 'MICROSECONDS';
CREATE TABLE hive.default."my.lake" (
  "key" VARBINARY,
  "value" VARBINARY,
  "partition" INTEGER,
  "offset" BIGINT,
  "timestamp" TIMESTAMP(6),
  "timestampType" INTEGER,
  "headers" ARRAY(ROW("key" VARCHAR, "value" VARBINARY)),
  "id" INTEGER,
  "a b" ARRAY(MAP(VARCHAR, DECIMAL(5,2))),
  "gate" ROW("p""q" REAL),
  "t" TIMESTAMP(6),
  "topic" VARCHAR,
  "timestamp_day" DATE
) WITH (format = 'PARQUET', external_location = 's3://lakes/l''x/data/',
  partitioned_by = ARRAY['topic', 'timestamp_day']);
CALL hive.system.sync_partition_metadata('default', 'my.lake', 'FULL');"""
    )
