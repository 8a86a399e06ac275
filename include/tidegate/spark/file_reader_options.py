"""The options of Spark's file readers: which may be given, which are refused and why."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidegate.spark.option_table import Check, OptionTable

# A line ends with one byte, whatever the encoding: not so in UTF-16 and UTF-32.
_ENCODINGS = re.compile(r"(?i)utf-?8|us-ascii|iso-8859-[0-9]+|windows-[0-9]+")


def _encoding(value: str) -> str | None:
    if _ENCODINGS.fullmatch(value) or "${" in value:  # of a variable that is not known here
        return None
    return f"{value}: lines are cut at a byte; convert the files to UTF-8"


# No other option is passed on: it could change which rows there are. Those that do and are allowed
# have a test each.
_VALUES = "dateformat locale timestampformat timestampntzformat timezone"
_CSV = """
    comment delimiter emptyvalue escape header ignoreleadingwhitespace ignoretrailingwhitespace
    linesep maxcharspercolumn maxcolumns multiline nanvalue negativeinf nullvalue positiveinf quote
    sep
"""


def _any_value(names: str) -> Mapping[str, Check]:
    return dict.fromkeys(names.split(), lambda _: None)


ALLOWED: Mapping[str, Mapping[str, Check]] = {
    "parquet": _any_value("datetimerebasemode int96rebasemode"),
    "json": _any_value(f"{_VALUES} linesep primitivesasstring"),
    "csv": {**_any_value(_VALUES + _CSV), "charset": _encoding, "encoding": _encoding},
    "text": _any_value("linesep wholetext"),
}
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
_REFUSED_FOR_JSON = {
    "multiline": "Spark reads only the first object of a file then: give a JSON object a line",
}


_NO_VALUE = "\uffff"
"""No text of a file: with Spark's own `nullValue`, the empty text, `""` would be null, too."""


def with_defaults(format_: str | None, given: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a reader with Tidegate's defaults: CSV as RFC 4180 says it.

    A quote within quotes is written twice (Spark's default is a backslash before it), `""` is empty
    text, and nothing between two separators is null.
    """
    if format_ != "csv":
        return dict(given)
    names = {name.lower(): value for name, value in given.items()}
    defaults = {"escape": names.get("quote", '"'), "nullValue": _NO_VALUE}
    return {**{k: v for k, v in defaults.items() if k.lower() not in names}, **given}


NAMES = frozenset(_REFUSED) | {name for names in ALLOWED.values() for name in names}
"""In small letters."""


def why_refused(format_: str, name: str) -> str:
    """Return why a format's option is refused, whatever its value; `name` is in small letters."""
    return _refused(format_).get(name, "source.options does not take it, or not this value")


def complaints(format_: str, given: Mapping[str, str]) -> list[str]:
    """Return all that is wrong with the options for a format; Spark ignores the case of names."""
    refused = _refused(format_)
    kind = f"an option of {format_}"
    return OptionTable(kind, refused, ALLOWED[format_], ignore_case=True).complaints(given)


def _refused(format_: str) -> Mapping[str, str]:
    return {**_REFUSED, **(_REFUSED_FOR_JSON if format_ == "json" else {})}
