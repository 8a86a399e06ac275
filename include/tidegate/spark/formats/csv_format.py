"""CSV by RFC 4180: records in keys and values, and files with a header."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

from tidegate.core import schema
from tidegate.core.schema import Field, Fields, SchemaError, Type
from tidegate.spark.formats.declared import (
    FileFormatBase,
    RecordFormatBase,
    any_value,
    not_empty,
    true_or_false,
)
from tidegate.spark.formats.json_format import VALUES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.core.decoding import Decoder
    from tidegate.spark.decoded import Parsed
    from tidegate.spark.egress_job import RowSource
    from tidegate.spark.row_frame import RowFrame

# A line ends with one byte, whatever the encoding: not so in UTF-16 and UTF-32.
_ENCODINGS = re.compile(r"(?i)utf-?8|us-ascii|iso-8859-[0-9]+|windows-[0-9]+")


def _encoding(value: str) -> str | None:
    if "${" in value:  # of a variable that is not known here
        return None
    if not _ENCODINGS.fullmatch(value):
        return "lines are cut at a byte; convert the files to UTF-8"
    try:
        codecs.lookup(value)
    except LookupError:
        return "no encoding"
    return None


def _character(value: str) -> str | None:
    return None if len(value) < 2 or "${" in value else "one character"


def _flat(text: str) -> Fields:
    """Return the fields of a schema; SchemaError for a type that no value of CSV has."""
    fields = schema.parse_columns(text)
    if odd := [field for field in fields if field.type.parts or field.type.name == "binary"]:
        raise SchemaError(f"CSV has no {odd[0].type}: {odd[0].name}")
    return fields


def _is_name(text: str) -> bool:
    begins = text[:1].isalpha() or text[:1] == "_"
    return begins and text.isprintable() and not set(text) & set(";\t|")


class CsvRecords(RecordFormatBase):
    """A key or a value is a record of CSV, without a header."""

    name = "csv"
    by_place = True
    keys = ("separator",)

    def fields(self, text: str) -> Fields:
        """Return the fields. None has parts."""
        return _flat(text)

    def parse(self, rows: DataFrame, column: str, decoder: Decoder) -> Parsed:
        """Parse records of CSV."""
        from tidegate.spark.formats import csv_parser

        return csv_parser.parse_csv(rows, column, decoder)


class CsvFiles(FileFormatBase):
    """A record is a row, in the columns of the header."""

    name = "csv"
    needs_columns = True
    allowed: ClassVar = {
        **VALUES,
        **any_value("emptyvalue nanvalue negativeinf nullvalue positiveinf"),
        **dict.fromkeys(("comment", "escape", "quote"), _character),
        **dict.fromkeys(("delimiter", "linesep", "sep"), not_empty),
        **dict.fromkeys(
            ("header", "ignoreleadingwhitespace", "ignoretrailingwhitespace"), true_or_false
        ),
        **dict.fromkeys(("charset", "encoding"), _encoding),
    }
    refused: ClassVar = {
        "multiline": "text within quotes may always have several lines",
        "maxcolumns": "a row has as many values as the header",
        "maxcharspercolumn": "a row of more than 64 MiB is a bad one",
    }

    def check_columns(self, columns: str) -> None:
        """Raise SchemaError for columns with parts."""
        _flat(columns)

    def propose_columns(self, lines: Iterable[bytes]) -> str | None:
        """Return the names of the first line, each a STRING.

        None if it is not surely a header with commas: each name begins with a letter or an
        underscore, and has no other separator and no control character.
        """
        first = (line.decode("utf-8-sig") for line in islice(lines, 1))
        try:
            names = next(csv.reader(first, strict=True), [])
        except csv.Error:
            return None
        if len({name.lower() for name in names}) < len(names) or not all(map(_is_name, names)):
            return None
        return schema.render_ddl([Field(name, Type("string")) for name in names]) or None

    def needs_whole_spark(self, columns: str | None) -> bool:
        """Return whether a column is no text: its values are typed by functions of Spark 4."""
        return any(kind != Type("string") for _, kind in schema.parse_columns(columns or ""))

    def read(self, spark: SparkSession, source: RowSource, *, whole: bool, line: bool) -> RowFrame:
        """Read records, by Python on the executors."""
        from tidegate.spark.formats import csv_rows

        return csv_rows.read_csv(spark, source)

    def listed(self, spark: SparkSession, source: RowSource, rows: DataFrame) -> DataFrame:
        """Return the lines of the files: behind Python, rows know no files."""
        from tidegate.spark.formats import csv_rows

        return csv_rows.read_lines(spark, source)
