"""State of the local stack in JSON files: replaced as a whole, readable by their owner only."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidegate.spark.job_files import write_private


def write(file: Path, content: Mapping[str, Any]) -> None:
    """Replace a JSON document: a reader finds the old or the new one, never a part."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    new.unlink(missing_ok=True)
    write_private(new, content)
    new.replace(file)
