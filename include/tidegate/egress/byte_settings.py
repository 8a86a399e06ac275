"""The settings of an egress that decide its records, and which of its files cannot be sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.core import canonical
from tidegate.core.json_codec import Document
from tidegate.core.plan import Plan
from tidegate.core.provenance import HEADER
from tidegate.runs.spec_protocol import EgressSpec, SourceSpec
from tidegate.spark.egress_job import WHOLE

# The default columns of a record, by source.
_LAKE_COLUMNS = {name: name for name in ("key", "value", "headers", "partition", "timestamp")}
_FILE_COLUMNS = {"key": "null", "headers": "null", "partition": "null", "timestamp": "null"}


@dataclass(frozen=True, kw_only=True)
class SourceSettings(Document):
    """Where rows come from: files at a `path`, or a `lake`.

    `line_ends` are the characters that end a line of files, none where a file is one row. None:
    rows have no lines, but a number that a footer or the ledger knows.
    """

    path: str | None
    lake: str | None
    format: str
    options: Mapping[str, str]
    columns: str | None
    line_ends: str | None


@dataclass(frozen=True, kw_only=True)
class RecordSettings(Document):
    """The settings that determine the records and their order.

    `timestamps`: `source` if a record has the timestamp of its row, `sent` if that of sending.

    `columns` are SQL expressions by column of the record. `header` is the name of the header that
    says which row a record is of.
    """

    source: SourceSettings
    topic: str | None
    columns: Mapping[str, str]
    order_by: tuple[str, ...]
    order: str
    header: str
    timestamps: str
    tombstones: bool
    on_bad_row: str


def settings_of_plan(plan: Plan) -> RecordSettings:
    """Return the settings that a plan of an egress has frozen."""
    return RecordSettings.from_json(plan.byte_settings)


def record_settings(spec: EgressSpec) -> RecordSettings:
    """Return the settings of a pipeline now."""
    source = spec.source
    files = source.file_format
    columns = {**(_FILE_COLUMNS if files else _LAKE_COLUMNS), **spec.expressions}
    if files:
        columns = {"value": files.value, **columns}
        if not source.columns:
            columns = {k: files.row if v == WHOLE else v for k, v in columns.items()}
    return RecordSettings(
        source=SourceSettings(
            path=source.path,
            lake=source.lake,
            format=files.name if files else "parquet",
            options=source.reader_options,
            columns=source.columns,
            line_ends=line_ends(source),
        ),
        topic=spec.target.topic,
        columns=columns,
        order_by=tuple(spec.order_by),
        order=spec.order,
        header=HEADER,
        timestamps=spec.target.timestamps,
        tombstones=spec.sends_tombstones,
        on_bad_row=spec.on_bad_row,
    )


def line_ends(source: SourceSpec) -> str | None:
    """Return what `SourceSettings` has of a source."""
    return source.file_format.line_ends(source.reader_options) if source.file_format else None


def changed_settings(settings: Mapping[str, Any], spec: EgressSpec) -> list[str]:
    """Return the names of a plan's settings that the pipeline has otherwise now."""
    now = record_settings(spec).to_json()
    return [
        f"{name}.{key}" if key else name
        for name, was in settings.items()
        for key in (was if isinstance(was, Mapping) else [""])
        if key != "line_ends"  # it follows from format and options
        and (was[key] != now[name].get(key) if key else was != now.get(name))
    ]


def judge_digest(settings: Mapping[str, Any], spec: EgressSpec) -> str:
    """Return a digest of all settings that a file may be refused by, but for the target's own.
    `settings` are a plan's.
    """
    form = {
        **settings,
        "producer": dict(spec.target.producer_settings),
        "topics": list(spec.target.names),
        "accept_expiry": spec.target.accept_expiry,
    }
    return canonical.digest(canonical.encode(form))[:16]
