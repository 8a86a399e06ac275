"""The pages of the docs, and their fenced examples."""

import re
from pathlib import Path

PROJECT = Path(__file__).parents[2]
DOCS = sorted([*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md")])
FENCED = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def page(name: str) -> str:
    """Return the text of a page, by its path in the project."""
    return (PROJECT / name).read_text()


def fenced(text: str, language: str) -> list[str]:
    """Return the examples in a language; without one: `""`."""
    return [body for found, body in FENCED.findall(text) if found == language]


def named(path: Path) -> str:
    return str(path.relative_to(PROJECT))
