"""The packages that pyproject.toml names."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_FORM = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
LISTS = {
    "dependencies": _FORM["project"]["dependencies"],
    **_FORM["project"]["optional-dependencies"],
    **_FORM["dependency-groups"],
}
"""The lines of the dependencies, of each extra and of each group."""


def packages(*lists: str) -> set[str]:
    """Return the names of some of the lists, of all if none is named."""
    lines = [line for name in lists or LISTS for line in LISTS[name] if isinstance(line, str)]
    return {canonicalize_name(Requirement(line).name) for line in lines} - {"tidegate"}
