"""Text: keys and values in UTF-8, and files whose lines are rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, ClassVar

from tidegate.core import schema
from tidegate.core.schema import Fields, SchemaError
from tidegate.spark.formats.declared import FileFormatBase, RecordFormatBase, not_empty

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.core.decoding import Decoder
    from tidegate.spark.decoded import Parsed
    from tidegate.spark.egress_job import RowSource
    from tidegate.spark.row_frame import RowFrame


def _bare_boolean(value: str) -> str | None:
    return None if value.lower() in ("true", "false") or "${" in value else "true or false"


class TextRecords(RecordFormatBase):
    """A key or a value is a text, and one column."""

    name = "string"
    example = default = "text STRING"

    def fields(self, text: str) -> Fields:
        """Return the one field."""
        fields = schema.parse_columns(text)
        if len(fields) != 1 or fields[0].type.name != "string":
            raise SchemaError(f"a text is one STRING, for example {self.example}")
        return fields

    def parse(self, rows: DataFrame, column: str, decoder: Decoder) -> Parsed:
        """Parse texts in UTF-8."""
        from pyspark.sql import functions as F

        from tidegate.spark.decoded import Parsed, no_utf8

        text = F.col(column).cast("string")
        (field,) = decoder.fields
        value = F.when(F.is_valid_utf8(text), text)
        return Parsed(rows, no_utf8(text), {field.name: value}, lambda _: [], F.lit(False))


class TextFiles(FileFormatBase):
    """A line is a row with the column `value`. With the option `wholeText` a file is one row."""

    name = "text"
    value = "value"
    line_end = "\r\n"
    allowed: ClassVar = {"linesep": not_empty, "wholetext": _bare_boolean}

    def check_columns(self, columns: str) -> None:
        """Raise SchemaError: a line is one column."""
        raise SchemaError("a line of text has the column `value` alone")

    def line_ends(self, options: Mapping[str, str]) -> str | None:
        """Return the text that ends a line, or none of a file that is one row."""
        given = {name.lower(): value for name, value in options.items()}
        if given.get("wholetext", "").lower() == "true":
            return ""
        return super().line_ends(options)

    def complaint(self, columns: str | None, *, whole: bool, named: Collection[str]) -> str | None:
        """Return why there is no row as JSON."""
        if whole:
            return "'*' is the row of a file as JSON; a line of text is its `value`"
        return None

    def read(self, spark: SparkSession, source: RowSource, *, whole: bool, line: bool) -> RowFrame:
        """Read lines, or whole files, as the options say."""
        from tidegate.spark import source_files
        from tidegate.spark.formats import row_json
        from tidegate.spark.row_frame import RowFrame, no_text

        source_files.read_each_by_one_task(spark)
        frame = source_files.load_files(spark.read.format("text").options(**source.options), source)
        file, row = source_files.name_of_file(source, frame), source_files.row_in_task()
        as_json = row_json.as_json(frame.columns, nulls=True)
        return RowFrame(frame, file, row, as_json, no_text(), no_text())
