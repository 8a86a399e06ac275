"""A source's path: the fixed part, below which names are looked for, and the pattern of names."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

_GLOB = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class Root:
    """The fixed part of a source's path, and the pattern that names below it must match.

    `native` is what Spark calls that part; `parts` are those of the pattern, one a directory.
    """

    url: str
    native: str
    pattern: re.Pattern[str]
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
        # A line end is a character like any other: what bears it is excluded by name.
        pattern = re.compile(_expression("/".join(globs)), re.DOTALL)
        above = "/".join(parts[:fixed]) or "/"
        if scheme == "file":  # a directory's name may hold what has a meaning in a URL
            above = re.sub("^/+", "/", posixpath.normpath(above))  # as Spark says it
            return cls(f"file://{quote(above)}", above, pattern, globs)
        url = f"{scheme}://{above}"
        return cls(url, url.replace("s3://", "s3a://", 1), pattern, globs)

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
