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
    return "lines are cut at a byte; convert the files to UTF-8"


# No other option is passed on: it could change which rows there are. Those that do and are allowed
# have a test each.
_VALUES = "dateformat timestampformat timestampntzformat timezone"
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*")


def _any_value(names: str) -> Mapping[str, Check]:
    return dict.fromkeys(names.split(), lambda _: None)


def _boolean(value: str) -> str | None:
    is_one = value.strip().lower() in ("true", "false") or "${" in value
    return None if is_one else "true or false"


def _character(value: str) -> str | None:
    return None if len(value) < 2 or "${" in value else "one character"


def _language(value: str) -> str | None:
    return None if _LANGUAGE.fullmatch(value) or "${" in value else "a language, such as de-DE"


def _not_empty(value: str) -> str | None:
    return None if value else "empty"


_CSV: Mapping[str, Check] = {
    **_any_value("emptyvalue nanvalue negativeinf nullvalue positiveinf"),
    **dict.fromkeys(("comment", "escape", "quote"), _character),
    **dict.fromkeys(("delimiter", "linesep", "sep"), _not_empty),
    **dict.fromkeys(("header", "ignoreleadingwhitespace", "ignoretrailingwhitespace"), _boolean),
    **dict.fromkeys(("charset", "encoding"), _encoding),
}


ALLOWED: Mapping[str, Mapping[str, Check]] = {
    "parquet": _any_value("datetimerebasemode int96rebasemode"),
    "json": {**_any_value(f"{_VALUES} linesep"), "locale": _language},
    "csv": {**_any_value(_VALUES), "locale": _language, **_CSV},
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
_REFUSED_BY_FORMAT = {
    "json": {
        "multiline": "Spark reads only the first object of a file then: give a JSON object a line",
    },
    "csv": {
        "multiline": "text within quotes may always have several lines",
        "maxcolumns": "a row has as many values as the header",
        "maxcharspercolumn": "a row of more than 64 MiB is a bad one",
    },
}


def complaints(format_: str, given: Mapping[str, str]) -> list[str]:
    """Return all that is wrong with the options for a format; Spark ignores the case of names."""
    refused = _refused(format_)
    kind = f"an option of {format_}"
    return OptionTable(kind, refused, ALLOWED[format_], ignore_case=True).complaints(given)


def _refused(format_: str) -> Mapping[str, str]:
    return {**_REFUSED, **_REFUSED_BY_FORMAT.get(format_, {})}
