"""Where the local stacks are. Known without the packages that run them."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
IS_CHECKOUT = (PROJECT / "pyproject.toml").is_file()


class Store(StrEnum):
    """Where the lake of a stack may be, beside a directory."""

    S3 = "s3"
    GCS = "gcs"


def default_home(store: str = "") -> Path:
    """Return TIDEGATE_HOME, else a directory in the checkout; of a package where the command is."""
    named = os.environ.get("TIDEGATE_HOME")
    place = PROJECT if IS_CHECKOUT else Path.cwd()
    return Path(named or place / f".tidegate{store and '-'}{store}").resolve()


def default_homes() -> list[Path]:
    """Return the homes of stacks, of each store, when none is given."""
    return list(dict.fromkeys(map(default_home, ("", *Store))))


def state_file(home: Path) -> Path:
    """Return the file that says what the stack of a home is."""
    return home / "stack.json"
