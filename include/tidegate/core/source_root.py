"""The path of an egress source: a fixed root, and the pattern of the names of files below it."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath
from urllib.parse import quote, unquote

from tidegate.core.locations import native_url

_GLOB = re.compile(r"[*?\[]")
_DATA_FILE = re.compile(r"\.(csv|tsv|json|jsonl|ndjson|parquet|txt|text|gz|bz2|zst|lz4)$", re.I)
# A bracket right behind the first one is a character.
_BRACKET = re.compile(r"\[([!^]?)(\]?[^\]/]{0,255})\]")


@dataclass(frozen=True)
class Root:
    """The fixed part of a source's path, and the pattern that names below it must match.

    `native` is the fixed part as Spark writes it. `parts` are the pattern's, one a directory.
    """

    url: str
    native: str
    parts: tuple[str, ...]

    @classmethod
    def of(cls, path: str) -> Root:
        """Return the root of a directory, a file, a glob or a URL: `/in/2026/*.json`,
        `s3://bucket/in`.

        A path that ends as data files do may be one file, or a directory, as Spark writes it: its
        root is the directory above.
        """
        scheme, sep, rest = path.partition("://")
        if scheme == "file" or not sep:
            scheme, rest = "file", unquote(rest) if sep else path
        parts = rest.rstrip("/").split("/")
        fixed = next((i for i, part in enumerate(parts) if _GLOB.search(part)), len(parts))
        if fixed == len(parts) > 1 and _DATA_FILE.search(parts[-1]):
            fixed -= 1
            globs: tuple[str, ...] = (parts[-1], "**")
        else:
            globs = tuple(parts[fixed:]) or ("**",)
        above = "/".join(parts[:fixed]) or "/"
        if scheme == "file":  # a directory's name may contain characters special in a URL
            above = re.sub("^/+", "/", posixpath.normpath(above))  # as Spark writes it
            return cls(f"file://{quote(above)}", above, globs)
        url = f"{scheme}://{above}"
        return cls(url, native_url(url), globs)

    @property
    def named(self) -> str | None:
        """The one name below the root that the path is of, if it ends as data files do."""
        return self.parts[0] if self.parts[1:] and not _GLOB.search(self.parts[0]) else None

    def complaint(self) -> str | None:
        """Return why the pattern of names is not valid. None if it is."""
        try:
            for part in self.parts:
                if part != "**":
                    _compiled(part)
        except ValueError as error:
            return str(error)
        return None

    def matches(self, name: str) -> bool:
        """Return whether the pattern has a name below the root. ValueError if it is not valid."""
        return len(self.parts) in self._reached(name)

    def may_hold(self, directory: str) -> bool:
        """Return whether a name below this directory could match."""
        return any(place < len(self.parts) for place in self._reached(directory))

    def may_hold_path(self, path: str) -> bool:
        """Return whether a file at a path, written as `native` or else as the URL, would match."""
        for base in (self.native, self.url):
            if path.startswith(f"{base.rstrip('/')}/"):
                return self.matches(path.removeprefix(f"{base.rstrip('/')}/"))
        return False

    def _reached(self, name: str) -> set[int]:
        """Return the places in the pattern that may follow a name: several, because of `**`."""
        places = self._with_skipped({0})
        for each in name.split("/"):
            following = set[int]()
            for place in places - {len(self.parts)}:
                if self.parts[place] == "**":
                    following |= {place, place + 1}
                elif _compiled(self.parts[place]).match(each):
                    following.add(place + 1)
            places = self._with_skipped(following)
        return places

    def _with_skipped(self, places: set[int]) -> set[int]:
        """Return places and those behind a `**`, which also stands for no directory.

        At the end it stands for a name at least, but where the path ends as data files do.
        """
        ends = len(self.parts) if self.named else len(self.parts) - 1
        found = set(places)
        for place in range(min(places, default=ends), ends):
            if place in found and self.parts[place] == "**":
                found.add(place + 1)
        return found

    def path(self, name: str) -> str:
        """Return the path of a file of this root as Spark writes it."""
        return f"{self.native.rstrip('/')}/{name}"


def roots_overlap(one: str, other: str) -> bool:
    """Return whether a root is above or below another one: files would have a name of each."""
    a, b = PurePosixPath(one), PurePosixPath(other)
    return a != b and (a.is_relative_to(b) or b.is_relative_to(a))


@cache
def _compiled(part: str) -> re.Pattern[str]:
    """Return a part of a pattern as a regular expression. ValueError if it is not valid."""
    if "**" in part:
        raise ValueError(f"{part}: `**` stands for directories, and is a part of its own")
    if "[" in _BRACKET.sub("", part):
        raise ValueError(f"{part}: the bracket is not closed in this part of the path")
    for bracket in _BRACKET.finditer(part):
        if not bracket[2]:
            raise ValueError(f"{bracket[0]}: no character stands between the brackets")
        for first, last in re.findall("(.)-(.)|.", bracket[2], re.DOTALL):
            if first > last:
                raise ValueError(f"{bracket[0]}: no character lies between {first!r} and {last!r}")
    return re.compile(fnmatch.translate(_BRACKET.sub(_as_python_has_it, part)))


def _as_python_has_it(bracket: re.Match[str]) -> str:
    return f"[{bracket[1].replace('^', '!')}{bracket[2]}]"
