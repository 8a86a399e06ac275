"""The installed size of two sets of packages, from the RECORD files of this environment.

`python tests/tools/image_size.py` prints, in MB of files, what requirements.lock and image.lock
install on this platform, and each package that only the first has.
"""

import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

PROJECT = Path(__file__).parents[2]
ALL = PROJECT / "requirements.lock"
IMAGE = PROJECT / "include/tidegate_local/compose/image.lock"


def names(lock: Path) -> list[str]:
    """Return the packages of a lock, those for other platforms too."""
    return re.findall(r"^([a-z0-9._-]+)(?:\[.*\])?==", lock.read_text(), re.MULTILINE)


def size(name: str) -> int | None:
    """Return the bytes of a package's files, of bytecode too; None if it is not installed here."""
    try:
        files = distribution(name).files or []
    except PackageNotFoundError:
        return None
    return sum(path.stat().st_size for file in files if (path := Path(file.locate())).is_file())


def table() -> list[str]:
    """Return lines of Markdown: both sets, then what the image does not have, largest first."""
    whole = {name: found for name in names(ALL) if (found := size(name)) is not None}
    image = whole.keys() & set(names(IMAGE))
    left_out = sorted(whole.keys() - image, key=lambda name: -whole[name])
    lines = ["| Packages | Number | MB |", "|---|---|---|"]
    for what, chosen in (("`requirements.lock`", list(whole)), ("`image.lock`", sorted(image))):
        lines.append(f"| {what} | {len(chosen)} | {_mb(sum(whole[name] for name in chosen))} |")
    large = [name for name in left_out if whole[name] >= 5e6]
    lines += [f"| without {name} | 1 | {_mb(whole[name])} |" for name in large]
    rest = [name for name in left_out if name not in large]
    return [
        *lines,
        f"| without {len(rest)} others | {len(rest)} | {_mb(sum(whole[n] for n in rest))} |",
    ]


def _mb(size: int) -> str:
    return f"{size / 1e6:,.0f}"


if __name__ == "__main__":
    print("\n".join(table()))
