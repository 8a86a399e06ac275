"""Files that nobody else may read, and that may be written again."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidegate.spark.private_file import write_private


def write(file: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON document, whole or not at all, for this user alone."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    new.unlink(missing_ok=True)
    write_private(new, content)
    new.replace(file)
