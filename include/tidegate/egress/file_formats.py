"""The formats of files that can be sent, as far as a plan depends on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.spark.egress_job import LINE, WHOLE


@dataclass(frozen=True)
class FileFormat:
    """What differs between formats without a look into a file.

    `value` is the default expression of a record's value. `row` is what the expression `*` stands
    for without declared columns. `line_end` has the bytes that end a line by default. It
    is None where a file has no lines but a footer, with its schema and its number of rows.
    """

    value: str = WHOLE
    row: str = WHOLE
    line_end: str | None = "\r\n"

    @property
    def has_footer(self) -> bool:
        """Whether schema and number of rows are known without reading a file."""
        return self.line_end is None

    @property
    def needs_columns(self) -> bool:
        """Whether expressions need declared columns: a row has none by itself."""
        return self.row == LINE


FILE_FORMATS: Mapping[str, FileFormat] = {
    "parquet": FileFormat(line_end=None),
    "json": FileFormat(value=LINE, row=LINE),
    "csv": FileFormat(line_end="\n"),
    "text": FileFormat(value="value"),
}
