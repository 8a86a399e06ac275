"""A source's path: the fixed part, below which names are looked for, and the pattern of names."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote, unquote

_GLOB = re.compile(r"[*?\[]")
_CLASS = r"\[[!^]?\]?[^\]/]*\]"  # a bracket right behind the first one is a character
_SIGN = re.compile(rf"(\*\*/|\*\*|\*|\?|{_CLASS})")


@dataclass(frozen=True)
class Root:
    """The fixed part of a source's path, and the pattern that names below it must match.

    `native` is what Spark calls that part; `parts` are those of the pattern, one a directory.
    """

    url: str
    native: str
    parts: tuple[str, ...]

    @classmethod
    def of(cls, path: str) -> Root:
        """Read a directory, a glob or a URL: `/in/2026/*.json`, `s3://bucket/in`."""
        scheme, sep, rest = path.partition("://")
        if scheme == "file" or not sep:
            scheme, rest = "file", unquote(rest) if sep else path
        parts = rest.rstrip("/").split("/")
        fixed = next((i for i, part in enumerate(parts) if _GLOB.search(part)), len(parts))
        globs = tuple(parts[fixed:]) or ("**",)
        above = "/".join(parts[:fixed]) or "/"
        if scheme == "file":  # a directory's name may hold what has a meaning in a URL
            above = re.sub("^/+", "/", posixpath.normpath(above))  # as Spark says it
            return cls(f"file://{quote(above)}", above, globs)
        url = f"{scheme}://{above}"
        return cls(url, url.replace("s3://", "s3a://", 1), globs)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The pattern that a whole name must match; ValueError where it is none."""
        # A line end is a character like any other: what bears it is excluded by name.
        return re.compile(_expression("/".join(self.parts)), re.DOTALL)

    def complaint(self) -> str | None:
        """Return what is wrong with the pattern of names, if anything is."""
        try:
            for part in self.parts:
                _expression(part)
        except ValueError as error:
            return str(error)
        return None

    def may_hold(self, directory: str) -> bool:
        """Say whether a name below this directory could match."""
        names = directory.split("/")
        for part, name in zip(self.parts, names, strict=False):
            if "**" in part:
                return True
            if not re.fullmatch(_expression(part), name, re.DOTALL):
                return False
        return len(self.parts) > len(names)

    def path(self, name: str) -> str:
        """Return what Spark calls a file of this root."""
        return f"{self.native.rstrip('/')}/{name}"


def _expression(pattern: str) -> str:
    """Return a glob as a regular expression; `**` is any number of directories. ValueError where
    it is none.
    """
    said = ""
    for part in _SIGN.split(pattern):
        match part:
            case "**/":
                said += "(?:.*/)?"
            case "**":
                said += ".*"
            case "*":
                said += "[^/]*"
            case "?":
                said += "[^/]"
            case _ if re.fullmatch(_CLASS, part):
                said += _one_of(part)
            case _ if "[" in part:
                raise ValueError(f"{part}: the bracket is not closed in this part of the path")
            case _:
                said += re.escape(part)
    return said


def _one_of(bracketed: str) -> str:
    """Return `[…]` as a regular expression; ValueError where it has no character, or a range from
    a later to an earlier one.
    """
    said = bracketed[1:-1]
    negated = said.startswith(("!", "^"))
    members = ""
    for first, last, single in re.findall("(.)-(.)|(.)", said[negated:], re.DOTALL):
        if first > last:
            raise ValueError(f"{bracketed}: no character lies between {first!r} and {last!r}")
        members += f"{re.escape(first)}-{re.escape(last)}" if first else re.escape(single)
    if not members:
        raise ValueError(f"{bracketed}: no character stands between the brackets")
    return f"[{'^' if negated else ''}{members}]"
