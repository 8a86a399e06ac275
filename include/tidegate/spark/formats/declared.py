"""What a format declares of itself without Spark: schemas, options, and how files are written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar

from tidegate.core import schema
from tidegate.core.decoding import Decoder
from tidegate.core.schema import Fields, SchemaError
from tidegate.spark.egress_job import WHOLE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidegate.spark.decoded import Parsed
    from tidegate.spark.egress_job import RowSource
    from tidegate.spark.row_frame import RowFrame

Check = Callable[[str], str | None]
"""Returns what is wrong with the value of an option. None: nothing."""


class RecordFormatBase:
    """Base of a format of keys and values. It is a `format_protocol.RecordFormat`.

    `example` is of a schema, and `default` the schema if none is given. With `by_place` fields are
    told apart by their place. `keys` are its further keys in a pipeline's file, and `own_options`
    those of a decoder's `options`.
    """

    name: ClassVar[str]
    example: ClassVar[str] = "id BIGINT, name STRING"
    default: ClassVar[str | None] = None
    by_place: ClassVar[bool] = False
    keys: ClassVar[tuple[str, ...]] = ()

    @property
    def own_options(self) -> tuple[str, ...]:
        """The names of all options that a decoder may have: by default the `keys`."""
        return self.keys

    def fields(self, text: str) -> Fields:
        """Return the fields of a schema. Raises SchemaError if it does not fit."""
        return schema.parse_columns(text)

    def options(self, text: str, given: Mapping[str, str]) -> Mapping[str, str]:
        """Return what `parse` needs beside the fields: by default the `keys` that are given."""
        return given

    def decoder(self, text: str, prefix: str = "", **given: str) -> Decoder:
        """Return the decoder of a schema's text and of `keys`. Raises SchemaError."""
        fields = self.fields(text)
        ddl = schema.render_ddl(fields)
        if schema.parse_columns(ddl) != fields:
            raise SchemaError(f"its columns cannot be written as a schema of SQL: {ddl[:200]}")
        return Decoder(self.name, ddl, prefix, self.by_place, self.options(text, given))

    def parse(self, rows: DataFrame, column: str, decoder: Decoder) -> Parsed:
        """Parse a column of bytes, as `format_protocol.RecordFormat` says."""
        raise NotImplementedError


class FileFormatBase:
    """Base of a format of files. It is a `format_protocol.FileFormat`.

    `line_end` ends a line by default. `allowed` are the options of Spark's reader that may be
    given, with checks of their values, and `refused` those that may not, with the reasons. Names
    are in small letters. With `needs_columns` a pipeline must declare them.
    """

    name: ClassVar[str]
    value: str = WHOLE
    row: str = WHOLE
    line_end: ClassVar[str] = "\n"
    allowed: ClassVar[Mapping[str, Check]]
    refused: ClassVar[Mapping[str, str]] = {}
    needs_columns: ClassVar[bool] = False

    def line_ends(self, options: Mapping[str, str]) -> str | None:
        """Return the text that ends a line."""
        given = {name.lower(): value for name, value in options.items()}
        return given.get("linesep") or self.line_end

    def complaints_of_options(self, given: Mapping[str, str]) -> list[str]:
        """Return all that is wrong with options of the reader. Spark ignores the case of names."""
        names = [name.lower() for name in given]
        twice = sorted(name for name, number in Counter(names).items() if number > 1)
        wrong = [f"{name}: given twice" for name in twice]
        for name, value in sorted(zip(names, given.values(), strict=True)):
            if complaint := self._complaint_of_option(name, value):
                wrong.append(f"{name}: {complaint}")
        return wrong

    def _complaint_of_option(self, name: str, value: str) -> str | None:
        if reason := {**_REFUSED, **self.refused}.get(name):
            return f"refused: {reason}"
        if name not in self.allowed:
            known = ", ".join(sorted(self.allowed))
            return f"not an option of {self.name} that may be given; known: {known}"
        return self.allowed[name](value)

    def check_columns(self, columns: str) -> None:
        """Raise SchemaError for declared columns that such files cannot have."""

    def complaint(self, columns: str | None, *, whole: bool, named: Collection[str]) -> str | None:
        """Return why expressions cannot be computed. None: they can."""
        return None

    def propose_columns(self, lines: Iterable[bytes]) -> str | None:
        """Return Spark's DDL for the first lines of files: none by default."""
        return None

    def needs_whole_spark(self, columns: str | None) -> bool:
        """Return whether files with these columns need a Spark that is not partial."""
        return False

    def read(self, spark: SparkSession, source: RowSource, *, whole: bool, line: bool) -> RowFrame:
        """Read all files, as `format_protocol.FileFormat` says."""
        raise NotImplementedError

    def listed(self, spark: SparkSession, source: RowSource, rows: DataFrame) -> DataFrame:
        """Return the frame that lists the files read for `rows`: these themselves."""
        return rows


_TYPES = "types would depend on which files a run takes: give source.columns"
_COLUMNS = "columns would depend on which files a run takes: give source.columns"
_REFUSED = {
    "mode": "bad rows go by on_bad_row",
    "columnnameofcorruptrecord": "Tidegate names it",
    "ignorecorruptfiles": "a file that cannot be read must be seen",
    "ignoremissingfiles": "a file that is gone must be seen",
    "recursivefilelookup": "the plan lists the files",
    "pathglobfilter": "put the pattern into path",
    "modifiedbefore": "the plan chooses the files",
    "modifiedafter": "the plan chooses the files",
    "basepath": "the plan lists the files",
    "path": "it is source.path",
    "samplingratio": "the schema must not depend on chance",
    "inferschema": _TYPES,
    "prefersdecimal": _TYPES,
    "infertimestamp": _TYPES,
    "dropfieldifallnull": _COLUMNS,
    "mergeschema": _COLUMNS,
    "enforceschema": "the header of each file is checked",
}


def not_empty(value: str) -> str | None:
    """Return what is wrong with an option that must have a value. None: nothing."""
    return None if value else "empty"


def true_or_false(value: str) -> str | None:
    """Return what is wrong with an option that is true or false. None: nothing."""
    is_one = value.strip().lower() in ("true", "false") or "${" in value
    return None if is_one else "true or false"


def any_value(names: str) -> dict[str, Check]:
    """Return options, by their names in one text, each with any value."""
    return dict.fromkeys(names.split(), lambda _: None)
