"""Files to be sent: what lies below a root now, and whether Parquet is what it should be."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, unquote

import obstore
import pyarrow
import pyarrow.parquet as pq
from obstore.exceptions import BaseError
from obstore.store import ObjectStore as Obstore

from tidegate.core.plan import LeftOutFile, SourceFile
from tidegate.errors import SourceRefused, SourceUnavailable
from tidegate.lake.refusals import told
from tidegate.lake.store import opened, reader

_AT_ONCE = 8
_GLOB = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class Root:
    """The fixed part of a source's path, and the pattern that names below it must match.

    `native` is what Spark calls that part.
    """

    url: str
    native: str
    pattern: re.Pattern[str]

    @classmethod
    def of(cls, path: str) -> Root:
        """Read a directory, a glob or a URL: `/in/2026/*.json`, `s3://bucket/in`."""
        scheme, sep, rest = path.partition("://")
        if scheme == "file" or not sep:
            scheme, rest = "file", unquote(rest) if sep else path
        parts = rest.rstrip("/").split("/")
        fixed = next((i for i, part in enumerate(parts) if _GLOB.search(part)), len(parts))
        pattern = re.compile(_expression("/".join(parts[fixed:]) or "**"))
        above = "/".join(parts[:fixed]) or "/"
        if scheme == "file":  # a directory's name may hold what has a meaning in a URL
            return cls(f"file://{quote(above)}", above, pattern)
        url = f"{scheme}://{above}"
        return cls(url, url.replace("s3://", "s3a://", 1), pattern)

    def path(self, name: str) -> str:
        """Return what Spark calls a file of this root."""
        return f"{self.native.rstrip('/')}/{name}"


@dataclass(frozen=True)
class Listing:
    """The files that match, by name; those changed less than `settle` seconds ago are `young`."""

    files: tuple[SourceFile, ...]
    young: tuple[SourceFile, ...]


def listing(root: Root, *, settle: int, now: datetime | None = None) -> Listing:
    """List what matches below a root; SourceUnavailable if there is no such root.

    Names with a part that begins with a dot or an underscore are no files of a source: that is how
    Spark and others mark what is not finished.
    """
    settled = (now or datetime.now(UTC)) - timedelta(seconds=settle)
    files: list[SourceFile] = []
    young: list[SourceFile] = []
    try:
        for batch in obstore.list(_opened(root)):
            for each in batch:
                name = each["path"]
                hidden = any(part[0] in "._" for part in name.split("/"))
                if hidden or not root.pattern.fullmatch(name):
                    continue
                file = SourceFile(name, each["size"], (each["e_tag"] or "").strip('"'))
                (files if each["last_modified"] <= settled else young).append(file)
    except (BaseError, OSError) as error:
        raise SourceUnavailable(f"source {root.url} cannot be listed: {told(error)}") from error
    return Listing(tuple(sorted(files)), tuple(sorted(young)))


def looked_into(
    root: Root, files: Sequence[SourceFile]
) -> tuple[list[SourceFile], list[LeftOutFile]]:
    """Read the footers of Parquet files; return them with their rows, and those that are broken.

    SourceRefused where two do not have the same columns: which are meant is not ours to guess.
    """
    store = _opened(root)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        footers = list(pool.map(lambda file: _footer(store, file.name), files))
    whole, broken = [], []
    first: tuple[SourceFile, pyarrow.Schema] | None = None
    for file, footer in zip(files, footers, strict=True):
        if isinstance(footer, str):
            broken.append(LeftOutFile(file.name, f"not a whole Parquet file: {footer}"))
            continue
        schema = footer.schema.to_arrow_schema().remove_metadata()
        first = first or (file, schema)
        if differing := _differences(first[1], schema):
            raise SourceRefused(
                f"source {root.url}: {file.name} and {first[0].name} have different columns: "
                f"{', '.join(differing)}. Nothing was sent: keep them apart by `source.path`, or "
                "give `source.columns`",
                files=[file.name, first[0].name],
            )
        whole.append(SourceFile(file.name, file.size, file.etag, footer.num_rows))
    return whole, broken


def changed(root: Root, files: Sequence[SourceFile]) -> list[str]:
    """Return the names of files that are gone, or are not what they were when planned."""
    now = {file.name: (file.size, file.etag) for file in listing(root, settle=0).files}
    return [file.name for file in files if now.get(file.name) != (file.size, file.etag)]


def _opened(root: Root) -> Obstore:
    try:
        return opened(root.url)
    except (BaseError, ValueError, OSError) as error:
        raise SourceUnavailable(
            f"source {root.url} cannot be opened: {told(error)}; make it, or correct `source.path`"
        ) from error


def _footer(store: Obstore, name: str) -> pq.FileMetaData | str:
    try:
        with reader(store, name) as file:
            return pq.read_metadata(file)
    except (pyarrow.ArrowException, OSError, ValueError, BaseError) as error:
        return told(error)


def _differences(one: pyarrow.Schema, other: pyarrow.Schema) -> list[str]:
    ours, theirs = ({f.name: str(f.type) for f in schema} for schema in (one, other))
    return [
        f"{name} {theirs.get(name, 'missing')} / {ours.get(name, 'missing')}"
        for name in sorted(ours.keys() | theirs.keys())
        if ours.get(name) != theirs.get(name)
    ]


def _expression(pattern: str) -> str:
    """Return a glob as a regular expression; `**` is any number of directories."""
    said = ""
    for part in re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]]+\])", pattern):
        match part:
            case "**/":
                said += "(?:.*/)?"
            case "**":
                said += ".*"
            case "*":
                said += "[^/]*"
            case "?":
                said += "[^/]"
            case _ if part.startswith("["):
                said += part.replace("[!", "[^", 1).replace("\\", r"\\")
            case _:
                said += re.escape(part)
    return said
