"""A first pipeline file, with comments, from a few answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, get_args

import yaml

from tidegate.core.decoding import Decoder
from tidegate.core.schema import parse_columns
from tidegate.pipelines.value_types import is_pipeline_name
from tidegate.spark import formats

SCHEMA = "pipeline.schema.json"
"""The file of JSON Schema beside the pipelines, for editors."""
_EXAMPLE = "id BIGINT, name STRING"
_WIDTH = 80  # of a schema that stands in one line
_HEAD = f"""\
# yaml-language-server: $schema={SCHEMA}
# All keys: tidegate docs configuration. Settings of Kafka and Spark: tidegate settings.
"""


class Proposal(NamedTuple):
    """How the values of a topic can be decoded, by so many records. None: there is no proposal.

    `remarks` say of columns that are text which values of other types they have.
    """

    decoder: Decoder | None
    records: int
    remarks: Sequence[str] = ()


def ingest_text(
    name: str,
    topics: list[str],
    lake: str,
    kafka: str,
    proposals: Mapping[str, Proposal] | None = None,
) -> str:
    """Return the text of an ingest pipeline's file, with proposals by topic. It is not checked."""
    return f"""\
{_HEAD}name: {_yaml(name)}  # also the name of this file
kind: ingest
kafka: {_yaml(kafka)}  # an Airflow connection; in a terminal AIRFLOW_CONN_<ID>
topics: {_yaml(topics)}
lake: {_yaml(lake)}  # a directory or URL
{_decode(proposals or {})}# When Airflow runs it, in UTC; without a schedule: manual runs only.
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


def _decode(proposals: Mapping[str, Proposal]) -> str:
    if not proposals:
        return """\
# Typed columns from keys and values, for SQL.
# decode: {"*": {value: {format: json, schema: "id BIGINT, name STRING"}}}
"""
    lines = ["# Typed columns for SQL, by a sample of the newest records: correct them as needed."]
    lines.append("decode:")
    for topic, (decoder, _, remarks) in proposals.items():
        if decoder is None:
            continue
        lines.append(f"  {_yaml(topic)}:")
        lines += [f"    # {remark}" for remark in remarks]
        lines += _value(decoder)
    return "\n".join(lines) + "\n"


def _value(decoder: Decoder) -> list[str]:
    """Return the lines of a decoder. Each column has its own if the schema is long."""
    form = {k: v for k, v in decoder.to_json().items() if v}
    schema = form.pop("schema", "")
    if decoder.format == "string":
        return [f"    value: {_yaml(form)}"]
    if len(schema) <= _WIDTH:
        return [f"    value: {_yaml({**form, 'schema': schema})}"]
    text = ",\n        ".join(map(str, parse_columns(schema)))
    lines = [f"      {key}: {_yaml(value)}" for key, value in form.items()]
    return ["    value:", *lines, f"      schema: >-\n        {text}"]


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
