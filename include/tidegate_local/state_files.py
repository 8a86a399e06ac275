"""State of the local stack in JSON files: replaced atomically, readable by their owner only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidegate.spark.job_files import write_private


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Replace a JSON document: a reader finds the old or the new one, never a part."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    write_private(new, json.dumps(content).encode())
    new.replace(path)


def read(path: Path) -> dict[str, Any] | None:
    """Return a JSON document, or None if it does not exist."""
    try:
        return dict(json.loads(path.read_text()))
    except FileNotFoundError:
        return None
