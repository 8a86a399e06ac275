"""Where the local stacks are. Known without the packages that run them."""

from __future__ import annotations

import os
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
IS_CHECKOUT = (PROJECT / "pyproject.toml").is_file()


def default_home(*, on_s3: bool = False) -> Path:
    """Return TIDEGATE_HOME, else a directory in the checkout; of a package where the command is."""
    named = os.environ.get("TIDEGATE_HOME")
    place = PROJECT if IS_CHECKOUT else Path.cwd()
    return Path(named or place / (".tidegate-s3" if on_s3 else ".tidegate")).resolve()


def default_homes() -> list[Path]:
    """Return the homes of stacks, with and without S3, when none is given."""
    return list(dict.fromkeys((default_home(), default_home(on_s3=True))))


def state_file(home: Path) -> Path:
    """Return the file that says what the stack of a home is."""
    return home / "stack.json"
