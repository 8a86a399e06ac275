"""Programs that tests and the product give to another Python name modules and functions that exist.

They run where a test of its own runs them, which may be slow: a renamed function is noticed here.
"""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def programs() -> Iterator[tuple[Path, ast.Module]]:
    """Yield the texts in Python files that are programs which import Tidegate."""
    for path in (*PROJECT.glob("tests/**/*.py"), *PROJECT.glob("include/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and "from tidegate" in text:
                try:
                    yield path, ast.parse(text)
                except SyntaxError:  # a text with a sentence about an import
                    continue


def test_what_they_import_and_call_exists() -> None:
    missing = []
    for path, program in programs():
        modules = {}
        for node in ast.walk(program):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tidegate"):
                module = import_module(node.module or "")
                for each in node.names:
                    try:
                        exec(f"from {node.module} import {each.name}", {})
                    except ImportError:
                        missing.append(f"{path.name}: {node.module}.{each.name}")
                        continue
                    modules[each.asname or each.name] = getattr(module, each.name)
        missing += [
            f"{path.name}: {node.value.id}.{node.attr}"
            for node in ast.walk(program)
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in modules
            and not hasattr(modules[node.value.id], node.attr)
        ]
    assert missing == []
