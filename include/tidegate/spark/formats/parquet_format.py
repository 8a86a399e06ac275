"""Parquet files: a footer has their columns and their number of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidegate.spark.formats.declared import FileFormatBase

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.spark.egress_job import RowSource
    from tidegate.spark.row_frame import RowFrame

_INEXACT = "text that is not UTF-8, or a year before 1: JSON cannot hold it; set columns.value"


def _rebase_mode(value: str) -> str | None:
    is_one = value in ("EXCEPTION", "CORRECTED", "LEGACY") or "${" in value
    return None if is_one else "EXCEPTION, CORRECTED or LEGACY"


class ParquetFiles(FileFormatBase):
    """A file of Parquet. `lake.footers` reads its footer."""

    name = "parquet"
    allowed = dict.fromkeys(("datetimerebasemode", "int96rebasemode"), _rebase_mode)

    def line_ends(self, options: Mapping[str, str]) -> str | None:
        """Return None: there are no lines."""
        return None

    def read(self, spark: SparkSession, source: RowSource, *, whole: bool, line: bool) -> RowFrame:
        """Read the rows, each with its place in the file as Spark knows it."""
        from pyspark.sql import functions as F

        from tidegate.spark import source_files
        from tidegate.spark.formats import row_json
        from tidegate.spark.row_frame import RowFrame, no_text
        from tidegate.spark.spark_versions import metadata_column

        reader = spark.read.format("parquet").options(**source.options)
        frame = source_files.load_files(
            reader.schema(source.columns) if source.columns else reader, source
        )
        row = metadata_column(frame)["row_index"]
        exact = row_json.is_exact(frame) if whole else F.lit(True)
        fault = F.when(~exact, F.lit(_INEXACT))
        as_json = row_json.as_json(frame.columns, nulls=True)
        return RowFrame(
            frame, source_files.name_of_file(source, frame), row, as_json, fault, no_text()
        )
