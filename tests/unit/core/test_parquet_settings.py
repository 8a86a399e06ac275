"""The directories, order, size and compression of data files."""

import pytest

from tidegate.core import parquet_settings, schema
from tidegate.core.parquet_settings import (
    ParquetSettings,
    complaints,
    staged_directories,
    unsortable,
)

COLUMNS = [
    schema.parse_columns(
        "at TIMESTAMP, day DATE, carrier STRING, tags ARRAY<STRING>, price DOUBLE"
    ),
    schema.parse_columns("at DATE, carrier INT, at_day STRING"),
]


def settings(*partition_by, **others):
    return ParquetSettings("zstd", 1, 9, partition_by, **others)


def test_directories_are_named_by_column_and_transform():
    """In the order of `partition_by`; those of the run stand where it says."""
    fields = settings("topic", "month( at )", "window_date", "identity(carrier)").fields
    assert [str(field) for field in fields] == ["month(at)", "identity(carrier)"]
    assert [field.directory for field in fields] == ["at_month", "carrier_value"]
    of_rows = ["at_month=2026-03", "carrier_value=AA"]
    assert settings(
        "topic", "month(at)", "window_date", "identity(carrier)"
    ).directories("2026-04-01", of_rows) == [
        "at_month=2026-03", "window_date=2026-04-01", "carrier_value=AA",
    ]  # fmt: skip
    assert settings("topic").directories("2026-04-01", []) == []
    assert settings(*parquet_settings.DEFAULT).directories("2026-04-01", []) == [
        "window_date=2026-04-01"
    ]


@pytest.mark.parametrize(
    ("partition_by", "said"),
    [
        (("topic",), []),
        (("topic", "window_date", "day(timestamp)", "hour(timestamp)"), []),
        (("topic", "identity(partition)"), []),
        (("window_date", "topic"), ["must begin with topic: the rows of a file are of one topic"]),
        ((), ["must begin with topic: the rows of a file are of one topic"]),
        (("topic", "timestamp"), [
            "'timestamp' is none of topic, window_date, month(COLUMN), day(COLUMN), hour(COLUMN), "
            "identity(COLUMN)"]),
        (("topic", "days(timestamp)"), [
            "'days(timestamp)': there is no days(); there are month, day, hour, identity; did you "
            "mean 'day'?"]),
        (("topic", "day(timestmp)"), [
            "day(timestmp): there is no such column; did you mean 'timestamp'?"]),
        (("topic", "hour(at)"), ["hour(at): it is DATE, not one of TIMESTAMP, TIMESTAMP_NTZ"]),
        (("topic", "day(carrier)"), [
            "day(carrier): it is INT, not one of DATE, TIMESTAMP, TIMESTAMP_NTZ",
            "day(carrier): it is STRING, not one of DATE, TIMESTAMP, TIMESTAMP_NTZ"]),
        (("topic", "identity(price)"), [
            "identity(price): it is DOUBLE, not one of BIGINT, BOOLEAN, DATE, INT, SMALLINT, "
            "STRING, TINYINT"]),
        (("topic", "day(at)"), ["day(at): its directories would be named as column at_day"]),
        (("topic", "month(day)", "month( day )"), ["one level occurs twice"]),
        (("topic", "window_date", "window_date"), ["one level occurs twice"]),
        (("topic", "window_date", "month(day)", "day(day)", "hour(timestamp)"), [
            "has 5 levels; 4 at most"]),
        (("topic", f"day({'x' * 65})"), [
            f"'day({'x' * 65})': a column of more than 64 characters"]),
        (("topic", "identity(`a b`)"), [
            "'identity(`a b`)' is none of topic, window_date, month(COLUMN), day(COLUMN), "
            "hour(COLUMN), identity(COLUMN)"]),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_partition_by_is_said(partition_by, said):
    assert complaints(partition_by, COLUMNS) == said


@pytest.mark.parametrize(
    ("sort_by", "said"),
    [
        (("carrier", "offset"), []),
        (("carier",), ["carier: there is no such column; did you mean 'carrier'?"]),
        (("tags", "headers"), [
            "tags: rows are not sorted by ARRAY", "headers: rows are not sorted by ARRAY"]),
    ],
)  # fmt: skip
def test_what_rows_cannot_be_sorted_by_is_said(sort_by, said):
    assert unsortable(sort_by, COLUMNS) == said


@pytest.mark.parametrize(
    ("path", "directories"),
    [
        ("topic=t/at_day=2026-01-01/part-0.parquet", ["topic=t", "at_day=2026-01-01"]),
        ("topic=t/part-0.parquet", None),
        ("topic=t/at_month=2026-01/part-0.parquet", None),
        ("topic=t/__magic_job-1/part-0.parquet", None),
        ("topic=t/at_day=2026-01-01/part-0.parquet.crc", None),
        ("_temporary/topic=t/at_day=2026-01-01/part-0.parquet", None),
        ("at_day=2026-01-01/topic=t/part-0.parquet", None),
    ],
)
def test_what_lies_elsewhere_is_no_data_file(path, directories):
    assert staged_directories(path, settings("topic", "day(at)").fields) == directories


def test_what_is_not_said_is_not_in_a_plan():
    """A plan has only what differs from the default, and reads it again."""
    default = {"compression": "zstd", "level": 1, "max_records_per_file": 9}
    assert settings(*parquet_settings.DEFAULT).to_json() == default
    other = settings("topic", "day(at)", sort_by=("carrier",))
    assert other.to_json() == default | {
        "partition_by": ["topic", "day(at)"], "sort_by": ["carrier"],
    }  # fmt: skip
    assert ParquetSettings.from_json(other.to_json()) == other
