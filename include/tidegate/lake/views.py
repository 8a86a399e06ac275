"""SQL by which other programs see the directory of a lake, with its typed columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tidegate.core import columns, parquet_settings, schema
from tidegate.core.schema import Fields, Type
from tidegate.errors import ConfigurationError


@dataclass(frozen=True)
class Directory:
    """The directory of a lake's data files: the pipeline's name, and a path or a URL with its `/`.

    `decoded` are the typed columns, `levels` the columns that the names of directories have.
    `latest`: a second view, `NAME_latest`, has the latest row of each key.
    """

    name: str
    place: str
    decoded: Fields
    levels: Sequence[str]
    latest: bool = False

    @property
    def fields(self) -> Fields:
        """The columns of the files, those of the lake first."""
        return (*schema.parse_columns(columns.data_file_ddl()), *self.decoded)

    @property
    def partitions(self) -> Fields:
        """The columns of the directories' names."""
        return schema.parse_columns(", ".join(map(parquet_settings.typed_directory, self.levels)))


def quote_text(text: str) -> str:
    return '"{}"'.format(text.replace('"', '""'))


def view_sql(engine: str, lake: Directory) -> str:
    """Return the SQL for an engine: `duckdb`, `spark` or `trino`."""
    made = _ENGINES[engine](lake)
    if not lake.latest:
        return made
    create, schema_name, quote = _VIEWS[engine]
    rows = latest_rows(f"{schema_name}{quote(lake.name)}", ("topic", "partition"), quote)
    return f"{made}\n{create} {schema_name}{quote(f'{lake.name}_latest')} AS\n{rows};"


def latest_rows(
    rows: str, log: Sequence[str], quote: Callable[[str], str] = quote_text, newest: str = ""
) -> str:
    """Return the SQL of the latest row of each key, without those that a tombstone ends.

    `rows` is a view, by its quoted name. The columns `log` name the log that an offset is of: a
    partition of a topic. Offsets of several logs do not compare. A key's log is the first by the
    SQL `newest`, then the one with its newest timestamp. Its latest row has the highest offset
    there. No pipeline has `__` in its name.
    """
    offset, timestamp, value = map(quote, ("offset", "timestamp", "value"))
    logs = ", ".join(map(quote, log))
    by_key = f"{quote('topic')}, {quote('key')}"
    same = " AND ".join(f"each.{name} = one.{name}" for name in (*map(quote, log), offset))
    return (
        "WITH newest__ AS (\n"
        f"  SELECT {by_key}, {', '.join(quote(n) for n in log if n != 'topic')},\n"
        f"    max({offset}) AS {offset}, max({timestamp}) AS {timestamp}\n"
        f"  FROM {rows} WHERE {quote('key')} IS NOT NULL GROUP BY {quote('key')}, {logs}\n"
        "), ranked__ AS (\n"
        f"  SELECT {logs}, {offset}, row_number() OVER (\n"
        f"    PARTITION BY {by_key} ORDER BY {newest}{timestamp} DESC, {quote('partition')} DESC\n"
        "  ) AS place FROM newest__\n"
        ")\n"
        f"SELECT each.* FROM {rows} AS each JOIN ranked__ AS one ON {same}\n"
        f"WHERE one.place = 1 AND each.{value} IS NOT NULL"
    )


def _duckdb(lake: Directory) -> str:
    if "\\" in lake.place:
        raise ConfigurationError(
            f"{lake.place}: no glob of DuckDB has a backslash in a directory; use `tidegate sql`"
        )
    place = re.sub(r"[*?\[]", r"[\g<0>]", lake.place)  # a set of one character
    return (
        f"CREATE OR REPLACE VIEW {quote_text(lake.name)} AS\nSELECT * FROM read_parquet("
        f"{as_literal(place + '**/*.parquet')},\n"
        "    hive_partitioning = true, union_by_name = true);"
    )


def _spark(lake: Directory) -> str:
    named = ",\n  ".join(map(str, lake.fields))
    place = lake.place.replace("\\", "\\\\").replace("'", "\\'")
    exact = ", __globPaths__ 'false'" if re.search(r"[{}\[\]*?\\]", lake.place) else ""
    return (
        f"CREATE OR REPLACE TEMPORARY VIEW {schema.quote_name(lake.name)} (\n  {named},\n"
        f"  {', '.join(map(str, lake.partitions))}\n) USING parquet "
        f"OPTIONS (path '{place}'{exact});"
    )


def _trino(lake: Directory) -> str:
    """Return a table of the Hive connector, and how it learns of its directories.

    Without the setting of the session, the connector has times in milliseconds.
    """
    named = ",\n  ".join(
        f"{quote_text(name)} {_trino_type(kind)}" for name, kind in (*lake.fields, *lake.partitions)
    )
    levels = ", ".join(as_literal(name) for name, _ in lake.partitions)
    return (
        "SET SESSION hive.timestamp_precision = 'MICROSECONDS';\n"
        f"CREATE TABLE hive.default.{quote_text(lake.name)} (\n  {named}\n) "
        "WITH (format = 'PARQUET', "
        f"external_location = {as_literal(lake.place)},\n  partitioned_by = ARRAY[{levels}]);\n"
        f"CALL hive.system.sync_partition_metadata('default', {as_literal(lake.name)}, 'FULL');"
    )


_ENGINES: Mapping[str, Callable[[Directory], str]] = {
    "duckdb": _duckdb, "spark": _spark, "trino": _trino,
}  # fmt: skip
_VIEWS: Mapping[str, tuple[str, str, Callable[[str], str]]] = {
    "duckdb": ("CREATE OR REPLACE VIEW", "", quote_text),
    "spark": ("CREATE OR REPLACE TEMPORARY VIEW", "", schema.quote_name),
    "trino": ("CREATE OR REPLACE VIEW", "hive.default.", quote_text),
}
"""How an engine creates a view of a view, and its way to quote names."""
_TRINO = {
    "int": "INTEGER", "float": "REAL", "string": "VARCHAR", "binary": "VARBINARY",
    "timestamp": "TIMESTAMP(6)", "timestamp_ntz": "TIMESTAMP(6)",
}  # fmt: skip


def _trino_type(kind: Type) -> str:
    inner = [_trino_type(part.type) for part in kind.parts]
    if kind.name == "struct":
        parts = zip(kind.parts, inner, strict=True)
        return f"ROW({', '.join(f'{quote_text(part.name)} {of_part}' for part, of_part in parts)})"
    if inner:
        return f"{kind.name.upper()}({', '.join(inner)})"
    return _TRINO.get(kind.name, str(kind))


def as_literal(text: str) -> str:
    return "'{}'".format(text.replace("'", "''"))
