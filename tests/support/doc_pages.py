"""The pages of the docs, and their fenced examples."""

import re
import shlex
from collections.abc import Iterator
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


def command_lines(text: str) -> Iterator[list[str]]:
    """Yield the words after `tidegate` of each command line in a page's shell examples."""
    for language in ("", "sh"):
        for block in fenced(text, language):
            for line in block.replace("\\\n", " ").splitlines():
                if called := re.match(r"\s*(?:\.venv/bin/)?tidegate ([^>]*)", line):
                    yield shlex.split(called[1], comments=True)


def named(path: Path) -> str:
    return str(path.relative_to(PROJECT))
