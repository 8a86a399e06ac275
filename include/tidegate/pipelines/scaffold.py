"""A first pipeline file, with comments, from a few answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import yaml

from tidegate.core.decoding import Decoder
from tidegate.pipelines.value_types import is_pipeline_name
from tidegate.spark import formats

SCHEMA = "pipeline.schema.json"
"""The file of JSON Schema beside the pipelines, for editors."""
_EXAMPLE = "id BIGINT, name STRING"
_HEAD = f"""\
# yaml-language-server: $schema={SCHEMA}
# All keys: docs/configuration.md. Settings of Kafka and Spark: tidegate settings.
"""


def ingest_text(
    name: str,
    topics: list[str],
    lake: str,
    kafka: str,
    decode: Mapping[str, Decoder] | None = None,
) -> str:
    """Return the text of an ingest pipeline's file. What it is given is not checked.

    `decode` are proposed decoders of values, by topic.
    """
    return f"""\
{_HEAD}name: {_yaml(name)}  # also the name of this file
kind: ingest
kafka: {_yaml(kafka)}  # an Airflow connection; in a terminal AIRFLOW_CONN_<ID>
topics: {_yaml(topics)}
lake: {_yaml(lake)}  # a directory or URL
{_decode(decode or {})}# When Airflow runs it, in UTC; without a schedule: manual runs only.
# schedule: "*/10 * * * *"
# Where a topic's first run begins: earliest, latest, or a timestamp, offsets or a group.
# start: earliest
# Offsets per commit.
# max_records: 5000000
# Records that expired unread: fail names them, skip records a gap and goes on.
# on_expired: fail
# Spark's options for Kafka, such as a longer wait for a throttled cluster.
# options: {{kafkaConsumer.pollTimeoutMs: 30000}}
# spark: {{connection: spark_default, conf: {{spark.executor.memory: 2g}}}}
"""


def _decode(decoders: Mapping[str, Decoder]) -> str:
    if not decoders:
        return """\
# Typed columns from keys and values, for SQL.
# decode: {"*": {value: {format: json, schema: "id BIGINT, name STRING"}}}
"""
    lines = ["# Typed columns for SQL, by a sample of the newest records: correct them as needed."]
    lines.append("decode:")
    for topic, each in decoders.items():
        form = {k: v for k, v in each.to_json().items() if v}
        if each.format == "string":
            del form["schema"]
        lines.append(f"  {_yaml(topic)}:\n    value: {_yaml(form)}")
    return "\n".join(lines) + "\n"


def egress_text(
    name: str,
    source: str,
    file_format: str,
    topic: str,
    lake: str,
    kafka: str,
    columns: str | None = None,
) -> str:
    """Return the text of an egress pipeline's file. `source` is a path or an ingest pipeline.

    `columns` are proposed for `source.columns`: a comment where the format has no need of them,
    else the value, or an example.
    """
    form = {"lake": source} if is_pipeline_name(source) else {"path": source, "format": file_format}
    as_in_header = ""
    is_known = "path" in form and file_format in get_args(formats.FileFormatName)
    if is_known and formats.format_of_files(file_format).needs_columns:
        form, columns = {**form, "columns": columns or _EXAMPLE}, None
        as_in_header = "  # columns: as in the header of the files"
    proposed = (
        "# For expressions that name keys of JSON; by the first lines of the files:\n"
        f"# source: {_yaml({**form, 'columns': columns})}\n"
        if columns
        else ""
    )
    return f"""\
{_HEAD}name: {_yaml(name)}  # also the name of this file
kind: egress
source: {_yaml(form)}{as_in_header}
{proposed}target:
  kafka: {_yaml(kafka)}  # an Airflow connection; in a terminal AIRFLOW_CONN_<ID>
  topic: {_yaml(topic)}
  # Create the topic if it is missing.
  # partitions: 6
lake: {_yaml(lake)}  # where the ledger is kept: a directory or URL
# Names of columns, or SQL: by default of files the whole row, of a lake its own columns.
# columns: {{key: key, value: value}}
# Bad rows: fail sends nothing, quarantine keeps them back and sends the others.
# on_bad_row: fail
# When Airflow runs it, in UTC; without a schedule: manual runs only.
# schedule: "@hourly"
# spark: {{connection: spark_default, conf: {{spark.executor.memory: 2g}}}}
"""


class _OneLine(yaml.SafeDumper):
    """Quotes a text with line ends, so that they are escaped: a comment would end with them."""

    def analyze_scalar(self, scalar: str) -> yaml.emitter.ScalarAnalysis:
        found = super().analyze_scalar(scalar)
        found.allow_single_quoted &= not found.multiline
        return found


def _yaml(value: object) -> str:
    """Return a value as YAML in one line."""
    text: str = yaml.dump(
        value, Dumper=_OneLine, default_flow_style=True, allow_unicode=True, width=10**6
    )
    return text.removesuffix("\n").removesuffix("\n...")
