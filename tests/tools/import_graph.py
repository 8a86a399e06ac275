"""Print the import graph of `include/`: packages with their lines, arrows between them, circles.

`tests/tools/import_graph.py [DIRECTORY]`, another checkout for one. Imports within functions and
under TYPE_CHECKING count: a reader follows them, too.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

PROJECT = Path(__file__).parents[2]
Graph = Mapping[str, set[str]]


def modules(root: Path) -> dict[str, Path]:
    """Return the files of all packages below `root`, by module name."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """Yield the modules among `known` that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in known else node.module


def import_graph(root: Path) -> dict[str, set[str]]:
    """Return which module imports which."""
    known = modules(root)
    return {name: set(imported(path, known)) - {name} for name, path in known.items()}


def circles(graph: Graph) -> list[list[str]]:
    """Return the groups of modules that import each other, directly or not."""
    behind: dict[str, set[str]] = {}
    for start in graph:
        seen: set[str] = set()
        todo = [start]
        while todo:
            for name in graph.get(todo.pop(), ()):
                if name not in seen:
                    seen.add(name)
                    todo.append(name)
        behind[start] = seen
    groups = {
        tuple(sorted(other for other in behind[name] if name in behind.get(other, ())))
        for name in graph
        if name in behind[name]
    }
    return [list(group) for group in sorted(groups)]


def package(module: str) -> str:
    """Return the package that a module lies in, below `tidegate`."""
    parts = module.split(".")
    return ".".join(parts[: 2 if parts[0] == "tidegate" else 1])


def by_package(graph: Graph) -> dict[str, Counter[str]]:
    """Return how many imports lead from each package to each other one."""
    arrows: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, others in graph.items():
        for other in others:
            if package(other) != package(name):
                arrows[package(name)][package(other)] += 1
    return dict(arrows)


def main() -> None:
    root = Path(sys.argv[1] if sys.argv[1:] else PROJECT, "include")
    known, graph = modules(root), import_graph(root)
    arrows = by_package(graph)
    lines: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for name, path in known.items():
        lines[package(name)] += len(path.read_text().splitlines())
        files[package(name)] += 1
    for name, count in lines.most_common():
        print(
            f"{name:24} {files[name]:3} files {count:6} lines {count / lines.total():4.0%}", end=""
        )
        print("  →", ", ".join(f"{to} {n}" for to, n in sorted(arrows.get(name, {}).items())))
    both = sorted((a, b) for a in arrows for b in arrows[a] if a < b and a in arrows.get(b, ()))
    print(f"{lines.total()} lines, {sum(map(len, arrows.values()))} arrows between packages")
    print("packages that import each other:", both or "none")
    print("circles of files:", circles(graph) or "none")


if __name__ == "__main__":
    main()
