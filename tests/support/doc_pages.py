"""The pages of the docs, and their fenced examples."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parents[2]
DOCS = sorted([*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md")])
FENCED = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def page(name: str) -> str:
    """Return the text of a page, by its path in the project, or of a section: `page.md#heading`.

    A section ends at the next heading of its level.
    """
    path, _, section = name.partition("#")
    text = (PROJECT / path).read_text()
    if not section:
        return text
    parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    (found,) = (part for part in parts if anchor(part.partition("\n")[0].lstrip("# ")) == section)
    return found


def anchor(heading: str) -> str:
    """Return the anchor of a heading, as code forges make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


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
