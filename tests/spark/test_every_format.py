"""What every format of keys, values and files owes with Spark: `spark/format_protocol.py`."""

import json
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from support import rows_of_files
from support.rows_of_files import put
from tidegate.core.decoding import Decoder, Decoding
from tidegate.errors import OtherFormat
from tidegate.spark import formats
from tidegate.spark.decoded import Parsed
from tidegate.spark.decoded_rows import decode_rows
from tidegate.spark.formats.declared import RecordFormatBase

AVRO = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}'
SCHEMAS = {
    "json": "n BIGINT",
    "csv": "n BIGINT",
    "avro": AVRO,
    "string": "n STRING",
    "toy": "n INT",
}
VALUES = {
    "json": (b'{"n":7}', 7, b"\xff"), "csv": (b"7", 7, b"\xff"), "avro": (b"\x0e", 7, b"\x80"),
    "string": (b"7", "7", b"\xff"), "toy": (b"|||||||", 7, b"?"),
}  # fmt: skip
"""By format of records: a value, what it is decoded to, and bytes that do not fit."""


class Toy(RecordFormatBase):
    """A format of these tests: a number is as many bars."""

    name = "toy"

    def parse(self, rows: DataFrame, column: str, decoder: Decoder) -> Parsed:
        text = F.col(column).cast("string")
        whole = F.when(~text.rlike(r"\A\|*\z"), F.lit("not bars alone"))
        values = {field.name: F.when(whole.isNull(), F.length(text)) for field in decoder.fields}
        return Parsed(rows, whole, values, lambda _: [], F.lit(False))


@pytest.fixture(params=SCHEMAS)
def decoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Decoder:
    found = formats.format_of_records
    monkeypatch.setattr(
        formats, "format_of_records", lambda name: Toy() if name == "toy" else found(name)
    )
    return formats.format_of_records(request.param).decoder(SCHEMAS[request.param])


def test_one_row_stays_one_record(spark: SparkSession, decoder: Decoder) -> None:
    """One that does not fit has null and a reason; a null has nothing to decode. Bytes are kept."""
    good, value, bad = VALUES[decoder.format]
    given = [good, bad, None, good]
    frame = spark.createDataFrame([(i, v) for i, v in enumerate(given)], "i INT, value BINARY")
    rows = sorted(decode_rows(frame, Decoding(decoder)).collect(), key=lambda row: row.i)
    assert [row.value and bytes(row.value) for row in rows] == given
    assert [row.n for row in rows] == [value, None, None, value]
    reasons = [row._undecodable for row in rows]
    assert [bool(why) for why in reasons] == [False, True, False, False]
    assert reasons[1].startswith("value: ")


def test_a_format_that_is_not_here_stops_the_driver(spark: SparkSession) -> None:
    """Decoded as none, rows would be sealed and committed without their columns."""
    frame = spark.createDataFrame([(b"x",)], "value BINARY")
    with pytest.raises(OtherFormat, match="'protobuf'"):
        decode_rows(frame, Decoding(Decoder("protobuf", "a INT")))
    with pytest.raises(OtherFormat, match="'orc'"):
        rows_of_files.select(spark, "orc", Path("a.orc"), columns={"value": "a"})


@pytest.mark.parametrize("name", get_args(formats.FileFormatName))
def test_rows_of_each_file_are_numbered(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """From 0, without gaps, alike by two readers; a file without rows is read, and has none."""
    form = {"json": '{{"a":"{}"}}', "csv": "{}", "text": "{}"}
    head = "a\n" if name == "csv" else ""
    paths = []
    for file, values in (("a", "xyz"), ("b", "x"), ("c", "")):
        path = tmp_path / f"{file} b+%.{name}"
        if name == "parquet":
            pq.write_table(pa.table({"a": pa.array([*values], pa.string())}), path)
        else:
            put(path, head + "".join(f"{form[name].format(value)}\n" for value in values))
        paths.append(path)
    found = [rows_of_files.rows(spark, name, *paths) for _ in ("once", "again")]
    assert found[0] == found[1]
    rows = [(row.file, row.row, row.fault) for row in found[0]]
    assert rows == [(paths[0].name, n, None) for n in range(3)] + [(paths[1].name, 0, None)]
    assert all("x" in row.value for row in found[0] if row.row == 0)


def test_avro_with_what_spark_would_refuse_or_take_for_another_type(spark: SparkSession) -> None:
    """Aliases that are no names, another logical type, a type of Spark's own."""
    odd = {"aliases": ["order-v1"], "doc": "d"}
    kinds = {
        "e": {"type": "enum", "name": "E", "symbols": ["A"], "default": "B", **odd},
        "n": {"type": "long", "logicalType": "custom-decimal", "precision": 10, "scale": 2},
        "i": {"type": "long", "spark.sql.catalyst.type": "interval day to second"},
    }
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    text = json.dumps({"type": "record", "name": "R", "namespace": "a.b", "fields": fields, **odd})
    decoder = formats.format_of_records("avro").decoder(text)
    frame = spark.createDataFrame([(b"\x00\xa4\x13\x0e",)], "value BINARY")
    found = decode_rows(frame, Decoding(decoder))
    assert found.drop("value", "_undecodable").dtypes == [
        ("e", "string"), ("n", "bigint"), ("i", "bigint"),
    ]  # fmt: skip
    (row,) = found.collect()
    assert (row.e, row.n, row.i, row._undecodable) == ("A", 1234, 7, None)
