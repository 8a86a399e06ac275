"""The path of an egress source: a fixed root, and the pattern of the names of files below it."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import PurePosixPath
from urllib.parse import quote, unquote

_GLOB = re.compile(r"[*?\[]")
_DATA_FILE = re.compile(r"\.(csv|tsv|json|jsonl|ndjson|parquet|txt|text|gz|bz2|zst|lz4)$", re.I)
_CLASS = r"\[[!^]?\]?[^\]/]{0,255}\]"  # a bracket right behind the first one is a character
_TOKEN = re.compile(rf"(\*\*/|\*\*|\*|\?|{_CLASS})")


@dataclass(frozen=True)
class Root:
    """The fixed part of a source's path, and the pattern that names below it must match.

    `native` is the fixed part as Spark writes it; `parts` are the pattern's, one a directory.
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
        return cls(url, url.replace("s3://", "s3a://", 1), globs)

    @property
    def named(self) -> str | None:
        """The one name below the root that the path is of, if it ends as data files do."""
        return self.parts[0] if self.parts[1:] and not _GLOB.search(self.parts[0]) else None

    @cached_property
    def pattern(self) -> re.Pattern[str] | _Glob:
        """The pattern that a whole name must match; ValueError if it is not valid."""
        # DOTALL: names with a line end match, and are then excluded by name.
        if self.named:  # a file, or all below a directory
            return re.compile(rf"{re.escape(self.named)}(?:/.*)?", re.DOTALL)
        return _compiled("/".join(self.parts))

    def complaint(self) -> str | None:
        """Return why the pattern of names is not valid; None if it is."""
        try:
            for part in self.parts:
                _regex(part)
        except ValueError as error:
            return str(error)
        return None

    def may_hold(self, directory: str) -> bool:
        """Return whether a name below this directory could match."""
        names = directory.split("/")
        for part, name in zip(self.parts, names, strict=False):
            if "**" in part:
                return True
            if not _compiled(part).fullmatch(name):
                return False
        return len(self.parts) > len(names)

    def may_hold_path(self, path: str) -> bool:
        """Return whether a file at a path, written as `native` or else as the URL, would match."""
        for base in (self.native, self.url):
            if path.startswith(f"{base.rstrip('/')}/"):
                return bool(self.pattern.fullmatch(path.removeprefix(f"{base.rstrip('/')}/")))
        return False

    def path(self, name: str) -> str:
        """Return the path of a file of this root as Spark writes it."""
        return f"{self.native.rstrip('/')}/{name}"


def overlap(one: str, other: str) -> bool:
    """Return whether a root is above or below another one: files would have a name of each."""
    a, b = PurePosixPath(one), PurePosixPath(other)
    return a != b and (a.is_relative_to(b) or b.is_relative_to(a))


@cache
def _compiled(pattern: str) -> re.Pattern[str] | _Glob:
    """Return a glob; as a regular expression while that cannot take long."""
    return re.compile(_regex(pattern), re.DOTALL) if pattern.count("*") < 2 else _Glob(pattern)


class _Glob:
    """Matches in a time linear in the name, whatever the stars: a bit is a place in the pattern."""

    def __init__(self, pattern: str) -> None:
        _regex(pattern)  # ValueError if it is not valid
        found: list[str] = []
        self._any = self._name = self._over = self._enter = 0
        for part in _TOKEN.split(pattern):
            bit = 1 << len(found)
            match part:
                case "**/":  # in front of a loop or past it; and the loop, left by a slash
                    self._enter |= bit
                    self._any |= bit << 1
                    found += ["", "/"]
                case "**":
                    self._over, self._any = self._over | bit, self._any | bit
                    found.append("")
                case "*":
                    self._over, self._name = self._over | bit, self._name | bit
                    found.append("")
                case "?":
                    found.append("[^/]")
                case _ if re.fullmatch(_CLASS, part):
                    found.append(_bracket(part))
                case _:
                    found += map(re.escape, part)
        self._tests = [each and re.compile(each, re.DOTALL) for each in found]
        self._steps: dict[str, int] = {}

    def fullmatch(self, name: str) -> bool | None:
        at = self._closed(1)
        for character in name:
            stays = self._any | (0 if character == "/" else self._name)
            at = self._closed((at & self._step(character)) << 1 | at & stays)
        return bool(at >> len(self._tests) & 1) or None

    def _step(self, character: str) -> int:
        if character not in self._steps:
            self._steps[character] = sum(
                1 << n for n, test in enumerate(self._tests) if test and test.fullmatch(character)
            )
        return self._steps[character]

    def _closed(self, at: int) -> int:
        while at != (more := at | (at & self._over) << 1 | (at & self._enter) * 6):
            at = more
        return at


def _regex(pattern: str) -> str:
    """Return a glob as a regular expression; `**` matches any number of directories.

    Raises ValueError if a bracket expression is not valid.
    """
    expression = ""
    for part in _TOKEN.split(pattern):
        match part:
            case "**/":
                expression += "(?:.*/)?"
            case "**":
                expression += ".*"
            case "*":
                expression += "[^/]*"
            case "?":
                expression += "[^/]"
            case _ if re.fullmatch(_CLASS, part):
                expression += _bracket(part)
            case _ if "[" in part:
                raise ValueError(f"{part}: the bracket is not closed in this part of the path")
            case _:
                expression += re.escape(part)
    return expression


def _bracket(bracketed: str) -> str:
    """Return `[…]` as a regular expression; ValueError if it is empty or a range is reversed."""
    inner = bracketed[1:-1]
    negated = inner.startswith(("!", "^"))
    members = ""
    for first, last, single in re.findall("(.)-(.)|(.)", inner[negated:], re.DOTALL):
        if first > last:
            raise ValueError(f"{bracketed}: no character lies between {first!r} and {last!r}")
        members += f"{re.escape(first)}-{re.escape(last)}" if first else re.escape(single)
    if not members:
        raise ValueError(f"{bracketed}: no character stands between the brackets")
    return f"[{'^' if negated else ''}{members}]"
