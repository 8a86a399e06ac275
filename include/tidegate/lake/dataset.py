"""The lake of an ingest pipeline, read-only, as a PyArrow dataset and in DuckDB."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from datetime import date
from typing import Any

import pyarrow
from pyarrow import dataset, fs

from tidegate.core import layout, parquet_settings
from tidegate.core.fold import Fold
from tidegate.core.nearest import did_you_mean
from tidegate.core.wording import counted
from tidegate.errors import ConfigurationError
from tidegate.lake import decodings, footers, views
from tidegate.lake.bucket_kinds import buckets_of
from tidegate.lake.committed_files import CommittedFile, live_file, locate_files
from tidegate.lake.local_store import LocalStore
from tidegate.lake.store_protocol import Store

OF_THE_PLACE = (*footers.FROM_THE_LEDGER, pyarrow.field("window_date", pyarrow.date32()))
"""The columns that the ledger and the names of the files have."""
SCHEMA = pyarrow.schema([*footers.SCHEMA, *OF_THE_PLACE])
"""The columns of a lake that is not decoded: first those of the data files."""


class Lake:
    """The files that the ledger had committed when the lake was opened: each row exactly once.

    Or those of an earlier state (`open_lake(…, at=…)`). Later commits are not in it. A file whose
    commit was not placed yet is read where it was staged, and may disappear one hour after its
    commit is placed: open the lake again for each query.
    """

    name: str
    """The pipeline's name."""
    files: tuple[CommittedFile, ...]

    def __init__(
        self,
        name: str,
        store: Store,
        fold: Fold,
        topic: str | None = None,
        *,
        is_past: bool = False,
        latest: bool = False,
    ) -> None:
        if topic is not None and topic not in fold.topic_ids:
            near = did_you_mean(topic, fold.topic_ids)
            known = near or f"; there are: {', '.join(fold.topic_ids)}"
            raise ConfigurationError(f"the lake of {name!r} has no topic {topic!r}{known}")
        self.name = name
        self._store, self._latest = store, latest
        self._located = [
            each for each in locate_files(store, fold) if topic is None or each[1].topic == topic
        ]
        if is_past:
            _refuse_deleted(store, [path for _, _, path in self._located])
        topics = sorted({file.topic for _, file, _ in self._located})
        recreated = fold.earlier_ids.items()
        self._ids = [i for topic, ids in recreated for i in (*ids, fold.topic_ids[topic])]
        self._fields = decodings.decoded_columns(store, fold, topics)
        self.files = tuple(live_file(store, fold, *each) for each in self._located)

    def __repr__(self) -> str:
        return f"Lake({self.name!r}, {counted(len(self.files), 'file')})"

    def _all_rows(self) -> dataset.FileSystemDataset:
        system, root = filesystem(self._store)
        return dataset.FileSystemDataset.from_paths(
            [f"{root}/{path}" for _, _, path in self._located],
            schema=pyarrow.schema(
                [
                    *footers.SCHEMA,
                    *((field.name, footers.arrow_type(field.type)) for field in self._fields),
                    *OF_THE_PLACE,
                ]
            ),
            format=dataset.ParquetFileFormat(
                default_fragment_scan_options=dataset.ParquetFragmentScanOptions(
                    page_checksum_verification=True
                )
            ),
            filesystem=system,
            partitions=[
                _values(listed, file.window_date)
                for listed, (_, file, _) in zip(self.files, self._located, strict=True)
            ],
        )

    def dataset(self) -> dataset.FileSystemDataset:
        """Return the files as a PyArrow dataset with the columns of `SCHEMA`, and the decoded ones
        in its middle. A column that a file does not have is null there.

        ConfigurationError if the lake was opened for the latest rows: SQL alone has those.

        No file is read for that: filters by `topic`, `topic_id` and `window_date` skip whole files,
        and those by `partition`, `offset` and `timestamp` row groups. On S3 it has the region and
        the endpoint of the environment, and PyArrow looks up the keys by itself: the same `AWS_*`
        variables, else a profile or the role of the machine. ConfigurationError for a wrong
        endpoint. OSError from PyArrow for a store that does not answer.
        """
        if self._latest:
            raise ConfigurationError(
                f"the latest rows of {self.name!r} are a view of SQL: use query() or duckdb()"
            )
        return self._all_rows()

    def view(self, engine: str) -> str:
        """Return SQL that creates a view of the directory `data/`, named as the pipeline. If the
        lake was opened for the latest rows, also a view `NAME_latest`.

        `engine` is `duckdb`, `spark`, or `trino`: a table of its Hive connector. It also shows
        later commits. It may miss a commit that is not placed yet, and shows rows twice while a
        replay replaces them. ConfigurationError for files in directories by different
        `partition_by`.
        """
        levels = {
            tuple(each.partition("=")[0] for each in file.final.split("/")[1:-1])
            for _, file, _ in self._located
        }
        if len(levels) > 1:
            found = ", ".join(sorted("/".join(each) for each in levels))
            raise ConfigurationError(
                f"the lake of {self.name!r} has files by {found}: no engine reads these by a glob; "
                "use `tidegate sql` or open_lake(), or replay what is in old directories"
            )
        is_local = isinstance(self._store, LocalStore)
        native = is_local or engine == "spark"  # which has buckets by another scheme
        if self._latest and self._ids:
            raise ConfigurationError(
                f"a topic of {self.name!r} was recreated, and the directory does not say what row "
                "is of which; use `tidegate sql`, whose view `latest` knows"
            )
        root = (self._store.native if native else self._store.uri)(layout.DATA)
        place = root.rstrip("/") + "/"
        by = (*levels, parquet_settings.DEFAULT)[0]
        of = views.Directory(self.name, place, self._fields, by, self._latest)
        return views.view_sql(engine, of)

    def duckdb(self, connection: Any = None) -> Any:
        """Return a DuckDB connection with a view of the dataset, named as the pipeline.

        By default a new connection to a database in memory, with times in UTC and the views `lake`
        and `latest`, too. With a `connection`, that one, so that several lakes can be joined.
        ConfigurationError without the package `duckdb`.
        """
        names = [self.name]
        if connection is None:
            connection = _duckdb()
            connection.execute("SET TimeZone = 'UTC'")
            names = [self.name, "lake", "latest"]
        for name, view in self._views(*names).items():
            _register(connection, name, view)
        return connection

    def _views(self, *names: str) -> dict[str, Any]:
        """Return these views: a dataset, or SQL over it by a name that no pipeline has."""
        rows = f"{self.name}: rows of {id(self):x}"
        # Rows of a recreated topic are later than those from before, whatever their timestamps.
        ids = ", ".join(map(views.as_literal, self._ids))
        latest = views.latest_rows(
            views.quote_text(rows),
            ("topic", "topic_id", "partition"),
            newest=f"list_position([{ids}], topic_id) DESC, " if ids else "",
        )
        found: dict[str, Any] = {rows: self._all_rows()}
        for name in names:
            found[name] = latest if self._latest or name == "latest" else found[rows]
        return found

    def query(self, sql: str, *others: Lake) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return the names of the columns and the rows of SQL of DuckDB. Nothing can be written.

        The view of the dataset is named as the pipeline, and `lake`; `latest` has the latest row of
        each key. The views of other lakes are named as their pipelines, so that they can be joined.
        ConfigurationError for what DuckDB refuses, and without the package `duckdb`.
        """
        known = self._views(self.name, "lake", "latest")
        for each in others:
            if each.name in known:
                raise ConfigurationError(f"two views would be named {each.name}")
            known |= each._views(each.name)
        named = f'\nthe lake is the view lake, or "{self.name}"; words of SQL need quotes: "offset"'
        if others:
            shown = ["lake", "latest", self.name, *(each.name for each in others)]
            named = f"\nthere are the views {', '.join(shown)}"
        return run_query(known, sql, hint=named)

    def columns(self, *others: Lake) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return the columns of the views of this lake and of others, as `query` returns rows."""
        each_view = (
            f'SELECT \'{each.name}\' AS "view", column_name AS "column", '
            f'column_type AS "type" FROM (DESCRIBE "{each.name}")'
            for each in (self, *others)
        )
        return self.query(" UNION ALL ".join(each_view), *others)


def run_query(
    views: Mapping[str, Any], sql: str, *, hint: str = ""
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the names of the columns and the rows of SQL of DuckDB over datasets or tables.

    Times are in UTC; those that Python has not (infinite, before the year 1 or after 9999), and
    intervals, are text. ConfigurationError for what DuckDB refuses, with `hint` if it does not
    know a name or cannot parse the text, and without the package `duckdb`.
    """
    with tempfile.TemporaryDirectory(prefix="tidegate-sql-") as private, _duckdb() as connection:
        import duckdb

        for name, view in views.items():
            _register(connection, name, view)
        # Neither files nor variables of this process can be read, and no file be written, but in a
        # directory of its own for what does not fit in memory (by default `.tmp` in this one).
        connection.execute(f"SET temp_directory = '{private.replace(chr(39), chr(39) * 2)}'")
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET python_enable_replacements = false")
        # Else a log or a profile could be printed among the rows, or abort the process.
        connection.execute("SET allowed_configs = ['TimeZone']")
        connection.execute("SET lock_configuration = true")
        try:
            found = connection.sql(sql)
            if found is None:
                raise ConfigurationError("there is no SQL statement")
            return found.columns, _with_texts(found).fetchall()
        except duckdb.Error as error:
            unknown = isinstance(error, duckdb.CatalogException | duckdb.ParserException)
            text = _UNKNOWN_TABLE.sub(
                lambda found: f"there is no {found[1]}{did_you_mean(found[1], views)}", str(error)
            )
            raise ConfigurationError(f"{text}{hint if unknown else ''}") from None


def _register(connection: Any, name: str, view: Any) -> None:
    """Register a dataset or table, or create the view of an SQL text."""
    if isinstance(view, str):
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {views.quote_text(name)} AS {view}")
    else:
        connection.execute(f"DROP VIEW IF EXISTS temp.{views.quote_text(name)}")  # of SQL
        connection.register(name, view)


# DuckDB would offer its own tables.
_UNKNOWN_TABLE = re.compile(r'Table with name (.+) does not exist!(?:\nDid you mean ".*"\?)?')


_TIMES = {
    "date", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamp with time zone",
}  # fmt: skip


def _with_texts(found: Any) -> Any:
    """Return a relation of DuckDB with texts for what Python's types would change."""
    names = [f"c{n}" for n in range(len(found.columns))]  # two columns may have one name
    values = ", ".join(map(_value, names, found.types))
    return found.query("_answer", f"SELECT {values} FROM _answer AS t({', '.join(names)})")


def _value(name: str, kind: Any) -> str:
    if kind.id in _TIMES:
        union = f"UNION(text VARCHAR, value {kind})"
        text, value = f"union_value(text := {name}::VARCHAR)", f"union_value(value := {name})"
        return f"CASE WHEN isinf({name}) THEN {text}::{union} ELSE {value}::{union} END"
    return f"CAST({name} AS {_text_of_intervals(kind)})" if "INTERVAL" in str(kind) else name


def _text_of_intervals(kind: Any) -> str:
    """Return a type of DuckDB with VARCHAR in the place of INTERVAL."""
    match kind.id:
        case "interval":
            return "VARCHAR"
        case "list":
            return f"{_text_of_intervals(dict(kind.children)['child'])}[]"
        case "array":
            parts = dict(kind.children)
            return f"{_text_of_intervals(parts['child'])}[{parts['size']}]"
        case "map":
            parts = dict(kind.children)
            return f"MAP({', '.join(_text_of_intervals(parts[n]) for n in ('key', 'value'))})"
        case "struct":
            inner = (f"{views.quote_text(n)} {_text_of_intervals(k)}" for n, k in kind.children)
            return f"STRUCT({', '.join(inner)})"
    return str(kind)


def _duckdb() -> Any:
    """Return a new connection; ConfigurationError without the package `duckdb`."""
    try:
        import duckdb
    except ModuleNotFoundError:
        raise ConfigurationError(
            "DuckDB is not installed: pip install 'tidegate[duckdb]'"
        ) from None
    return duckdb.connect()


def _refuse_deleted(store: Store, paths: list[str]) -> None:
    """Raise ConfigurationError if files of an earlier state were deleted."""
    sizes = store.each(store.size, paths)
    if gone := [path for path, size in zip(paths, sizes, strict=True) if size is None]:
        raise ConfigurationError(
            f"{counted(len(gone), 'file')} of this state of the lake, {store.uri(gone[0])} the "
            "first, was replaced by a replay and deleted; `keep_replaced` of the pipeline keeps "
            "such files"
        )


def _values(file: CommittedFile, window_date: str | None) -> dataset.Expression:
    """Return what is so of all rows of a file."""
    # The values are the ledger's, and not those of the path that is read: a file that is not placed
    # yet has another path.
    topic = dataset.field("topic") == file["topic"]
    known = topic & (dataset.field("topic_id") == file["topic_id"])
    if window_date is None:
        return known
    return known & (dataset.field("window_date") == date.fromisoformat(window_date))


def filesystem(store: Store) -> tuple[fs.FileSystem, str]:
    """Return PyArrow's file system of a store, and the path of the store in it."""
    # It is PyArrow's own client of the store: over Tidegate's, each file would be read through
    # Python, under one lock.
    if isinstance(store, LocalStore):
        return fs.LocalFileSystem(), str(store.root)
    return buckets_of(store.url).arrow(store.url)
