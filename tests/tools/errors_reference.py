"""Print the page of errors and exit codes: docs/errors.md is what it prints."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from tidegate import errors

PROJECT = Path(__file__).parents[2]
_INTRODUCTION = """\
# Errors and exit codes

A *terminal* error fails the Airflow task at once. Airflow retries a *transient* error. Each \
message has the numbers and the next step.

## Exit codes

| Exit code | Meaning |
|---|---|
| 0 | done, or nothing to do |
| 1 | internal error |
| 2 | wrong use or configuration |
| 3 | refused: action needed. Also: `verify` found a difference, `reconcile` a Variable that is \
ahead, `doctor` a failure, or `sweep` kept copies of a damaged file. Of `status` and `list`: a \
pipeline needs action |
| 4 | temporary failure: retry. Of `status` and `list`: no answer from the broker or a source |
| 129 | ended by SIGHUP: its terminal was closed |
| 130 | interrupted |
| 143 | ended by SIGTERM |

A command over several pipelines ends with the most important code: 3, then 2, then 1, then 4.

## Errors

All of them have the base class `TidegateError`, and the transient ones `Transient`. `tidegate \
docs NAME` shows one of them.
"""
_OTHERS = """
## Errors of the local stack and the set-up

Each names its next step in its message: {}.
"""


def classes() -> list[type[errors.TidegateError]]:
    """Return the errors with a way out, by name."""
    found = (cls for _, cls in inspect.getmembers(errors, inspect.isclass))
    bases = (errors.TidegateError, errors.Transient)
    return [cls for cls in found if issubclass(cls, errors.TidegateError) and cls not in bases]


def text() -> str:
    """Return the page in Markdown."""
    others = ", ".join(f"`{name}`" for name in sorted(_elsewhere()))
    return "\n".join((_INTRODUCTION, *map(_section, classes()), _OTHERS.format(others)[1:]))


def _section(cls: type[errors.TidegateError]) -> str:
    says = " ".join((inspect.getdoc(cls) or "").split())
    return (
        f"### {cls.__name__}\n\n"
        f"{cls.kind.capitalize()}, exit code {cls.exit_code}. {says}\n\n"
        f"**What to do.** {cls.fix}{_link(cls.page)}\n"
    )


def _link(target: str) -> str:
    if not target:
        return ""
    name, _, anchor = target.partition("#")
    headings = re.findall(r"^#+ (.+)$", (PROJECT / "docs" / name).read_text(), re.MULTILINE)
    title = next(each for each in headings if not anchor or _anchor(each) == anchor)
    return f" See [{title}]({target})."


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _elsewhere() -> Iterator[str]:
    """Yield the errors that are defined beside the code that raises them."""
    for path in sorted((PROJECT / "include").rglob("*.py")):
        if path != Path(errors.__file__):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and any(
                    isinstance(base, ast.Name) and base.id in ("TidegateError", "Transient")
                    for base in node.bases
                ):
                    yield node.name


if __name__ == "__main__":
    print(text(), end="")
