"""What Spark is told of a place: always with a scheme."""

from __future__ import annotations


def located(path: str) -> str:
    """Return a path as a location; without a scheme it would be one of `fs.defaultFS`, say HDFS."""
    return path if "://" in path else f"file:{path}"
