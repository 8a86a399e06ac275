"""The options of Spark's readers of files: which may be given, which are refused and why."""

from __future__ import annotations

import re
from collections.abc import Mapping

_VALUES = frozenset({"dateformat", "locale", "timestampformat", "timestampntzformat", "timezone"})
# Nothing else is passed on: an option can change which rows there are. Those that do and are
# allowed have a test each.
_KNOWN = {
    "parquet": frozenset({"datetimerebasemode", "int96rebasemode"}),
    "json": _VALUES | {"linesep", "primitivesasstring"},
    "csv": _VALUES
    | {
        "charset",
        "comment",
        "delimiter",
        "emptyvalue",
        "encoding",
        "escape",
        "header",
        "ignoreleadingwhitespace",
        "ignoretrailingwhitespace",
        "linesep",
        "maxcharspercolumn",
        "maxcolumns",
        "multiline",
        "nanvalue",
        "negativeinf",
        "nullvalue",
        "positiveinf",
        "quote",
        "sep",
    },
    "text": frozenset({"linesep", "wholetext"}),
}
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
    "inferschema": "types would depend on which files a run takes: give source.columns",
    "prefersdecimal": "types would depend on which files a run takes: give source.columns",
    "infertimestamp": "types would depend on which files a run takes: give source.columns",
    "dropfieldifallnull": "columns would depend on which files a run takes: give source.columns",
    "mergeschema": "columns would depend on which files a run takes: give source.columns",
    "enforceschema": "each file's header is looked at",
}
# A line ends with one byte, whatever the encoding makes of it: not so in UTF-16 and UTF-32.
_ENCODINGS = re.compile(r"(?i)utf-?8|us-ascii|iso-8859-[0-9]+|windows-[0-9]+")


def complaints(format_: str, given: Mapping[str, str]) -> list[str]:
    """Name all that is wrong with the options of a source's reader; Spark ignores their case."""
    wrong = []
    known = _KNOWN[format_]
    for name, value in sorted((name.lower(), value) for name, value in given.items()):
        if name == "multiline" and format_ == "json":
            wrong.append("multiline: Spark reads only the first object of a file then: give a JSON "
                         "object a line")  # fmt: skip
        elif name in _REFUSED:
            wrong.append(f"{name}: {_REFUSED[name]}")
        elif name not in known:
            wrong.append(f"{name}: not an option of {format_} that may be given; known: "
                         + ", ".join(sorted(known)))  # fmt: skip
        elif name in ("encoding", "charset") and not _ENCODINGS.fullmatch(value):
            wrong.append(f"{name}: {value}: lines are cut at a byte; convert the files to UTF-8")
    names = [name.lower() for name in given]
    return wrong + [f"{n}: given twice" for n in sorted({n for n in names if names.count(n) > 1})]
