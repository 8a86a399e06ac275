"""The settings of an egress that decide its records, and which of its files cannot be sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.core import canonical
from tidegate.core.plan import Plan
from tidegate.core.provenance import HEADER
from tidegate.runs.spec_protocol import EgressSpec
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
# The default columns of a record, by source.
_LAKE_COLUMNS = {"key": "key", "value": "value", "headers": "headers", "partition": "partition"}
_FILE_COLUMNS = {"key": "null", "value": "null", "headers": "null", "partition": "null"}


def byte_settings(spec: EgressSpec) -> dict[str, Any]:
    """Return the settings that determine the records and their order."""
    source = spec.source
    if source.format is None:
        columns = {**_LAKE_COLUMNS, **spec.expressions}
    else:
        of_format = FILE_FORMATS[source.format]
        columns = {**_FILE_COLUMNS, "value": of_format.value, **spec.expressions}
        if not source.columns:
            columns = {k: of_format.row if v == WHOLE else v for k, v in columns.items()}
    return {
        "source": {
            "path": source.path,
            "lake": source.lake,
            "format": "parquet" if source.lake else source.format,
            "options": source.reader_options,
            "columns": source.columns,
        },
        "topic": spec.target.topic,
        "columns": columns,
        "order_by": list(spec.order_by),
        "order": spec.order,
        "header": HEADER,
        "tombstones": spec.sends_tombstones,
        "on_bad_row": spec.on_bad_row,
    }


def line_ends(plan: Plan) -> bytes:
    """Return the bytes that end a line of a plan's files. None if a file is one row."""
    source = plan.byte_settings["source"]
    options = {name.lower(): value for name, value in source["options"].items()}
    if options.get("wholetext", "").lower() == "true":
        return b""
    default = FILE_FORMATS[source["format"]].line_end
    return str(options.get("linesep") or default or "").encode()


def changed(settings: Mapping[str, Any], spec: EgressSpec) -> list[str]:
    """Return the names of a plan's settings that the pipeline has otherwise now."""
    now = byte_settings(spec)
    return [
        f"{name}.{key}" if key else name
        for name, was in settings.items()
        for key in (was if isinstance(was, Mapping) else [""])
        if (was[key] != now[name].get(key) if key else was != now.get(name))
    ]


def judged_by(settings: Mapping[str, Any], spec: EgressSpec) -> str:
    """Return a digest of all settings that a file may be refused by, but for the target's own;
    `settings` are a plan's.
    """
    form = {
        **settings,
        "producer": dict(spec.target.producer_settings),
        "topics": list(spec.target.names),
    }
    return canonical.digest(canonical.encode(form))[:16]
