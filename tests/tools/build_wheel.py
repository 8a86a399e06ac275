"""Build the wheel from a copy of the tracked files: `build_wheel.py DIRECTORY` prints its path.

Without network, by the installed setuptools; nothing is left in the project's directory.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

PROJECT = Path(__file__).parents[2]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "include")


def build(directory: Path) -> Path:
    """Build the wheel into a directory; return its path."""
    with tempfile.TemporaryDirectory(prefix="tidegate-wheel-") as temporary:
        for name in _sources():
            copy = Path(temporary) / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(PROJECT / name, copy)  # with its mode
        _copy_pages(Path(temporary) / "include/tidegate/pages")
        done = subprocess.run(
            [
                Path(sys.executable).with_name("uv"), "build", "--wheel", "--offline",
                "--no-build-isolation", "--python", sys.executable, "--no-create-gitignore",
                "--out-dir", directory, temporary,
            ],
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
    if done.returncode:
        raise SystemExit(done.stderr)
    return max(directory.glob("tidegate-*.whl"), key=lambda wheel: wheel.stat().st_mtime_ns)


def _copy_pages(directory: Path) -> None:
    """Copy the pages for users, which `tidegate docs` shows."""
    pages = PROJECT / "docs"
    for page in (*pages.glob("*.md"), *pages.glob("how-to/*.md")):
        copy = directory / page.relative_to(pages)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(page, copy)


def _sources() -> Iterable[str]:
    """Return the names of the tracked files; of a copy without Git, of all files."""
    if (PROJECT / ".git").exists():
        listed = subprocess.run(
            ["git", "ls-files", "-z", *SOURCES],
            cwd=PROJECT, capture_output=True, text=True, timeout=30, check=True,
        ).stdout.split("\0")  # fmt: skip
        return [name for name in listed if name and (PROJECT / name).is_file()]
    files = [path for top in SOURCES for path in (PROJECT / top, *(PROJECT / top).rglob("*"))]
    return [
        str(path.relative_to(PROJECT))
        for path in files
        if path.is_file() and "__pycache__" not in path.parts and ".egg-info" not in str(path)
    ]


if __name__ == "__main__":
    print(build(Path(sys.argv[1])))
