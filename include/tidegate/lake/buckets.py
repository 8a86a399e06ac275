"""What kinds of buckets differ in, beside what obstore does alike for all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import ObjectStore as Obstore
from obstore.store import from_url

from tidegate.core import layout
from tidegate.core.plan import SourceFile
from tidegate.core.source_root import Root
from tidegate.core.wording import one_line
from tidegate.errors import ConfigurationError
from tidegate.lake.store_protocol import Found, Listed

if TYPE_CHECKING:
    from obstore.store import RetryConfig
    from pyarrow import fs


# obstore retries by itself. Its default of 3 minutes is too long to report an unreachable store.
RETRIES: RetryConfig = {"retry_timeout": timedelta(seconds=20)}
_WITHOUT_EMPTY_FILES = (layout.STAGING, layout.QUARANTINE, layout.DATA)
"""No file of ours is empty in these directories."""


@dataclass(frozen=True, order=True)
class Upload:
    """An open upload. `path` is that of the object to be."""

    started: datetime
    path: str
    id: str


class Buckets:
    """Buckets for which obstore does everything. A kind that needs more is a subclass."""

    copies_later = False
    """Whether a copy may be incomplete when the server has answered. Until then it has 0 bytes."""

    def open(self, url: str) -> Obstore:
        """Open a URL. ConfigurationError if the environment describes the place wrongly."""
        return from_url(url, retry_config=RETRIES)

    def spark_conf(self) -> Mapping[str, str]:
        """Return the settings with which Spark reads and writes there. None is secret."""
        return {}

    def arrow(self, url: str) -> tuple[fs.FileSystem, str]:
        """Return PyArrow's file system for a URL, and the path in it."""
        from pyarrow import fs

        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(url)
        return found

    def files(self, root: Root, store: Obstore) -> Iterator[Found]:
        """Yield all files below a root. SourceUnavailable or BaseError if it cannot be listed."""
        try:
            for batch in obstore.list(store):
                for each in batch:
                    file = SourceFile(each["path"], each["size"], (each["e_tag"] or "").strip('"'))
                    yield Found(file, each["last_modified"].timestamp())
        except BaseError as error:
            if "invalid path" not in str(error):
                raise
            raise ConfigurationError(
                f"{root.url}: an object there has a name that no path can have; rename it: "
                f"{one_line(error)}"
            ) from error

    def is_file(self, listed: Listed) -> bool:
        """Return whether an object of a lake is a file, and none that stands for a directory."""
        del listed
        return True

    def prune(self, url: str, prefix: str) -> None:
        """Delete what stands for directories below a prefix without files."""

    def copy(self, url: str, store: Obstore, source: str, target: str, size: int) -> None:
        """Copy an object of `size` bytes below a URL. It appears as a whole, or not at all.

        FileNotFoundError or NotFoundError where there is no such object.
        """
        del url, size
        obstore.copy(store, source, target)

    def open_uploads(self, url: str, below: Sequence[str]) -> list[Upload]:
        """Return the uploads below some directories of a URL that nobody has completed."""
        del url, below
        return []

    def abort_uploads(self, url: str, uploads: Sequence[Upload]) -> None:
        """Abort uploads. One that is not open is skipped."""


def other_server(
    environ: Mapping[str, str], permit: str, *variables: str, form: str = "http(s)://host:port"
) -> str | None:
    """Return the address of a server that is not the provider's, from the first variable with one.

    ConfigurationError for an address of another form, and for plain HTTP unless `permit` is true.
    """
    variable = next(filter(environ.get, variables), None)
    if variable is None:
        return None
    given = environ[variable]
    scheme = urlsplit(given).scheme
    if scheme not in ("http", "https"):
        raise ConfigurationError(f"{variable}={given}: an endpoint is {form}")
    if scheme == "http" and not is_true(environ, permit):
        raise ConfigurationError(
            f"{variable}={given}: the data would go there in clear; set {permit}=true if it may"
        )
    return given.rstrip("/")


def is_true(environ: Mapping[str, str], name: str) -> bool:
    """Return whether a variable is true, as obstore reads it."""
    return environ.get(name, "").lower() in ("1", "true", "on", "yes", "y")


class MarkedBuckets(Buckets):
    """Buckets whose tools, and Spark's connector, make objects of 0 bytes for directories."""

    def files(self, root: Root, store: Obstore) -> Iterator[Found]:
        return (each for each in super().files(root, store) if each.file.size)

    def is_file(self, listed: Listed) -> bool:
        path = f"{listed.path}/"
        return listed.size > 0 or not any(
            path.startswith(each) or each.startswith(path) for each in _WITHOUT_EMPTY_FILES
        )

    def prune(self, url: str, prefix: str) -> None:
        from pyarrow import fs

        system, root = self.arrow(url)
        place = f"{root}/{prefix}".rstrip("/")
        with suppress(OSError):  # what is left costs a line in a listing, and no byte
            below = system.get_file_info(
                fs.FileSelector(place, recursive=True, allow_not_found=True)
            )
            if all(each.type == fs.FileType.Directory for each in below):
                system.delete_dir(place)
