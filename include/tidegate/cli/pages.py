"""`tidegate docs`: the pages for users, which an installation carries."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from tidegate.core.nearest import did_you_mean
from tidegate.errors import ConfigurationError
from tidegate.terminal.console import out, say

app = typer.Typer()

PLACES = (Path(__file__).parents[1] / "pages", Path(__file__).parents[3] / "docs")
"""Of an installation, and of a checkout."""
_ERRORS = "errors"
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#+) (.*)$", re.MULTILINE)


def _complete_topic(incomplete: str) -> list[str]:
    return [name for name in _pages() if name.startswith(incomplete)]


@app.command()
def docs(
    topic: Annotated[
        str | None,
        typer.Argument(
            autocompletion=_complete_topic,
            help="A page, a page and its section as page#section, or the name of an error. By "
            "default the list of pages.",
        ),
    ] = None,
) -> None:
    """Show a page of the documentation, a section of one, or what to do about an error."""
    pages = _pages()
    if topic is None:
        for name, path in pages.items():
            title = _HEADING.search(path.read_text())
            say(f"{name:<26} {title[2] if title else ''}")
        return
    text = _find_topic(pages, topic)
    if out.is_terminal:
        from rich.markdown import Markdown

        out.print(Markdown(text))
    else:
        print(text, end="")


def _pages() -> dict[str, Path]:
    """Return the pages for users by their names, as `how-to/s3`. Those of contributors are not."""
    place = next((place for place in PLACES if (place / "index.md").exists()), None)
    if place is None:
        raise ConfigurationError("this installation has no pages: install the wheel")
    names = {str(path.relative_to(place).with_suffix("")): path for path in place.rglob("*.md")}
    return {name: names[name] for name in sorted(names) if not name.startswith("internals/")}


def _find_topic(pages: Mapping[str, Path], topic: str) -> str:
    """Return the text of a page, of its section, or of an error. ConfigurationError if unknown."""
    asked, _, section = topic.removeprefix("docs/").partition("#")
    short = {name.rpartition("/")[2]: name for name in pages}
    name = asked.removesuffix(".md")
    if page := pages.get(name) or pages.get(short.get(name, "")):
        text = page.read_text()
        return _section(text, section, topic) if section else text
    errors = pages[_ERRORS].read_text()
    if name in (titles := [title for _, title in _HEADING.findall(errors)]):
        return _section(errors, _slug(name), topic)
    near = did_you_mean(name, [*pages, *short, *titles])
    raise ConfigurationError(f"no page is named {name!r}{near or ': `tidegate docs` lists them'}")


def _section(text: str, section: str, topic: str) -> str:
    """Return the part of a page below the heading of a section, as links name it."""
    # A comment in a block of code is no heading.
    headings = list(_HEADING.finditer(_FENCED.sub(lambda block: " " * len(block[0]), text)))
    for i, found in enumerate(headings):
        if _slug(found[2]) == section:
            after = (each for each in headings[i + 1 :] if len(each[1]) <= len(found[1]))
            end = next(after, None)
            return text[found.start() : end.start() if end else None]
    slugs = [_slug(each[2]) for each in headings]
    near = did_you_mean(section, slugs) or f"; there are: {', '.join(slugs)}"
    raise ConfigurationError(f"{topic.partition('#')[0]} has no section {section!r}{near}")


def _slug(heading: str) -> str:
    """Return a heading as links name it: `runbook.md#open-claim`."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
