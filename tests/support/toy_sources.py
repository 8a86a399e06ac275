"""The files of an egress, listed by Python alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tidegate.core.plan import SourceFile
from tidegate.core.source_root import Root
from tidegate.lake.store_protocol import Found


@dataclass(frozen=True)
class ToySourceFiles:
    """The files of an egress: those of a directory, at any depth below the root."""

    root: Root
    has_content_etags: bool = False

    def files(self) -> Iterator[Found]:
        base = Path(self.root.native)
        for path in sorted(each for each in base.rglob("*") if each.is_file()):
            name, state = path.relative_to(base).as_posix(), path.stat()
            if self.root.matches(name):
                etag = f"{state.st_mtime_ns:x}-{state.st_size:x}"
                yield Found(SourceFile(name, state.st_size, etag), state.st_mtime)

    def open(self, name: str) -> IO[bytes]:
        return Path(self.root.native, name).open("rb")
