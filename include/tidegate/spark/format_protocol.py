"""What every format of keys, values and files does: the port that `spark.formats` implements."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.core.decoding import Decoder
    from tidegate.spark.decoded import Parsed
    from tidegate.spark.egress_job import RowSource
    from tidegate.spark.row_frame import RowFrame


class RecordFormat(Protocol):
    """How a key or a value of a record is written."""

    def parse(self, rows: DataFrame, column: str, decoder: Decoder) -> Parsed:
        """Return the rows, with the fields of `decoder` from the bytes in `column`.

        A record that does not fit has null in what does not fit, and a reason. It is no error.
        The same bytes give the same values in every run, whatever the time, the zone of the
        session or the settings of Spark.
        """


class FileFormat(Protocol):
    """How the files of a path are written. Only `read` and `listed` need Spark."""

    @property
    def name(self) -> str:
        """The name in plans and in a pipeline's file."""

    @property
    def value(self) -> str:
        """The default expression of a record's value: SQL, WHOLE or LINE."""

    @property
    def row(self) -> str:
        """What the expression `*` stands for without declared columns: WHOLE or LINE."""

    def line_ends(self, options: Mapping[str, str]) -> str | None:
        """Return the text that ends a line, empty where a file is one row.

        None: files have no lines but a footer, with their columns and their number of rows.
        `options` are those of the reader, by their names in any case.
        """

    def complaint(self, columns: str | None, *, whole: bool, named: Collection[str]) -> str | None:
        """Return why expressions cannot be computed on such files. None: they can.

        `columns` are the declared columns. `whole`: an expression is WHOLE. `named` are the columns
        that the others name.
        """

    def propose_columns(self, lines: Iterable[bytes]) -> str | None:
        """Return Spark's DDL for the first lines of files, or None if they show no columns.

        `lines` reads files as it is asked, and may raise SourceUnavailable and ValueError.
        """

    def needs_whole_spark(self, columns: str | None) -> bool:
        """Return whether files with these declared columns need a Spark that is not partial."""

    def read(self, spark: SparkSession, source: RowSource, *, whole: bool, line: bool) -> RowFrame:
        """Return the rows of all files of `source`, without running a job.

        The rows of a file are numbered from 0 without gaps, alike by every reader. A row that
        cannot be read has a fault, and a file that cannot has the row WHOLE_FILE with one. `whole`:
        rows are sent as JSON, which must be exact. `line`: lines are sent as they are.
        """

    def listed(self, spark: SparkSession, source: RowSource, rows: DataFrame) -> DataFrame:
        """Return the frame that lists the files which are read for `rows`, by `inputFiles`."""
