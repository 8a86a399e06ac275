"""Files that may hold secrets."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_private(path: Path, form: Mapping[str, Any]) -> None:
    """Create a JSON file, readable by its owner only from the first byte on."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
        json.dump(form, file)
