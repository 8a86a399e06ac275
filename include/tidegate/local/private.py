"""Files that nobody else may read."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write(file: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON document, whole or not at all, for this user alone."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    new.unlink(missing_ok=True)
    new.touch(mode=0o600)
    new.write_text(json.dumps(content))
    new.replace(file)
