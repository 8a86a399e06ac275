"""JSON: objects in keys and values, and files with an object in each line."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

from tidegate.core import sampled_columns, schema
from tidegate.spark.egress_job import LINE
from tidegate.spark.formats.declared import FileFormatBase, RecordFormatBase, any_value, not_empty

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.core.decoding import Decoder
    from tidegate.spark.decoded import Parsed
    from tidegate.spark.egress_job import RowSource
    from tidegate.spark.row_frame import RowFrame

_LINES = 100  # a proposal is made by these
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*")


def language_complaint(value: str) -> str | None:
    """Return what is wrong with a language, as the option `locale` has it. None: nothing."""
    return None if _LANGUAGE.fullmatch(value) or "${" in value else "a language, such as de-DE"


# No other option is passed on: it could change which rows there are. Those that do and are allowed
# have a test each.
VALUES = any_value("dateformat timestampformat timestampntzformat timezone") | {
    "locale": language_complaint
}
"""Options that say how values of text are written."""


class JsonRecords(RecordFormatBase):
    """A key or a value is a JSON object."""

    name = "json"

    def parse(self, rows: DataFrame, column: str, decoder: Decoder) -> Parsed:
        """Parse JSON objects."""
        from tidegate.spark.formats import json_parser

        return json_parser.parse_json(rows, column, decoder)


class JsonFiles(FileFormatBase):
    """A line is a JSON object. Without declared columns it is sent as it is."""

    name = "json"
    value = row = LINE
    line_end = "\r\n"
    allowed: ClassVar = VALUES | {"linesep": not_empty}
    refused: ClassVar = {
        "multiline": "Spark reads only the first object of a file then: give a JSON object a line",
    }

    def check_columns(self, columns: str) -> None:
        """Raise SchemaError for what is no schema."""
        schema.parse_columns(columns)

    def complaint(self, columns: str | None, *, whole: bool, named: Collection[str]) -> str | None:
        """Return why expressions cannot be computed: without columns a line has no names."""
        if named and not columns:
            return (
                f"{', '.join(sorted(named))}: expressions on JSON need source.columns, as "
                "'id BIGINT, name STRING'; `tidegate explain` proposes them from the files"
            )
        return None

    def propose_columns(self, lines: Iterable[bytes]) -> str | None:
        """Return the keys of the first 100 lines. What is no object is ignored.

        A key that has values of two types, or objects or arrays, is a STRING: their JSON. So is one
        with numbers that its type would change: two of them could become one.
        """
        return (
            schema.render_ddl(
                sampled_columns.columns_of_objects(islice(lines, _LINES), as_text=True)
            )
            or None
        )

    def needs_whole_spark(self, columns: str | None) -> bool:
        """Return True: lines are checked by functions of Spark 4."""
        return True

    def read(self, spark: SparkSession, source: RowSource, *, whole: bool, line: bool) -> RowFrame:
        """Read lines, each an object."""
        from tidegate.spark.formats import json_lines

        return json_lines.read_json_lines(spark, source, line=line)
