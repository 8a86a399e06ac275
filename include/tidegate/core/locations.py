"""Where lakes and sources of files may be: directories and buckets."""

from __future__ import annotations

import re

_BUCKET = re.compile(r"s3://[A-Za-z0-9][A-Za-z0-9._-]*(/|\Z)")
_S3 = {"s3a", "s3n", "S3"}


def location_complaint(path: str) -> str | None:
    """Return why an absolute path or a URL is none that Tidegate reads and writes. None if it is.

    Only its form is judged.
    """
    scheme, is_url, rest = path.partition("://")
    if not is_url:
        return None if path.startswith("/") else "neither an absolute path nor a URL"
    if scheme == "file":
        return None if rest.startswith("/") else "a file URL is file:///and/a/path"
    if scheme == "s3":
        return None if _BUCKET.match(path) else "no bucket: s3://bucket/and/a/path"
    instead = "s3://" if scheme in _S3 else "a directory (/data, file:///data) or s3://bucket/data"
    return f"{scheme}:// is not supported; use {instead}"


def unsafe(url: str) -> list[str]:
    """Return the characters of a URL of which obstore, Spark and pyarrow make different keys."""
    return sorted(set(re.findall(r"[\s%?#]", url)))
