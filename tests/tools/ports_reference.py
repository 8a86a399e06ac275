"""Print the ports of the heart, as their Protocols declare them: docs/internals/ports.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "include/tidegate"
PORTS = {
    "Stores": "lake/store_protocol.py",
    "Engines": "runs/engine_protocol.py",
    "Kafka": "runs/kafka_protocol.py",
    "Formats": "spark/format_protocol.py",
    "Configuration": "runs/spec_protocol.py",
}
"""The modules of Protocols by what varies."""
INTRODUCTION = """\
# Ports

What the rules of Tidegate (`core`, `ingest`, `egress`, `runs`, and the ledger in `lake`) ask of \
what varies. A variant is a class that has these members; `CONTRIBUTING.md` says where it is \
listed, and which contract test it must pass. This page is generated from the Protocols, whose \
docstrings say all of it.
"""
_ERRORS = re.compile(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b")


def protocols() -> Iterator[tuple[str, ast.ClassDef]]:
    """Yield each Protocol with the port that it belongs to."""
    for port, path in PORTS.items():
        for node in ast.parse((PACKAGE / path).read_text()).body:
            if isinstance(node, ast.ClassDef) and "Protocol" in map(ast.unparse, node.bases):
                yield port, node


def members(protocol: ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AnnAssign]:
    """Yield the functions and attributes that a Protocol declares, without those of Python."""
    for node in protocol.body:
        if isinstance(node, ast.AnnAssign) or (
            isinstance(node, ast.FunctionDef) and not node.name.startswith("__")
        ):
            yield node


def is_attribute(member: ast.FunctionDef | ast.AnnAssign) -> bool:
    return isinstance(member, ast.AnnAssign) or any(
        ast.unparse(each) == "property" for each in member.decorator_list
    )


def annotations(member: ast.FunctionDef | ast.AnnAssign) -> Iterator[str]:
    """Yield the types of a member: of an attribute, or of parameters and result."""
    if isinstance(member, ast.AnnAssign):
        yield ast.unparse(member.annotation)
        return
    for arg in (*member.args.args, *member.args.kwonlyargs, member.args.vararg):
        if arg and arg.annotation:
            yield ast.unparse(arg.annotation)
    if member.returns:
        yield ast.unparse(member.returns)


def text() -> str:
    """Return the page in Markdown."""
    lines, last = [INTRODUCTION], ""
    for port, protocol in protocols():
        if port != last:
            lines += [f"## {port}", ""]
            last = port
        lines += [f"### `{protocol.name}`", "", _first(protocol), ""]
        lines += ["| Member | What it is, or does | Errors |", "|---|---|---|"]
        lines += [_row(each) for each in members(protocol)]
        lines.append("")
    return "\n".join(lines)


def _row(member: ast.FunctionDef | ast.AnnAssign) -> str:
    if isinstance(member, ast.AnnAssign):
        return f"| `{ast.unparse(member)}` | an attribute: see above | |"
    said = " ".join((ast.get_docstring(member) or "").split())
    errors = ", ".join(f"`{each}`" for each in dict.fromkeys(_ERRORS.findall(said)))
    if is_attribute(member):
        name = f"{member.name}: {ast.unparse(member.returns) if member.returns else ''}"
    else:
        arguments = ast.unparse(member.args).removeprefix("self, ").removeprefix("self")
        returns = ast.unparse(member.returns) if member.returns else ""
        name = f"{member.name}({arguments}) -> {returns}"
    return f"| `{name.replace('|', chr(92) + '|')}` | {_first(member)} | {errors} |"


def _first(node: ast.ClassDef | ast.FunctionDef) -> str:
    """Return the first paragraph of a docstring."""
    return " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())


if __name__ == "__main__":
    print(text(), end="")
