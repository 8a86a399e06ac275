"""Measures of the product's code: what varies, and in how many places; names; sentences.

`python tests/tools/measures.py` prints them. `architecture/test_measures.py` holds each within its
budget.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "include/tidegate"
TESTS = Path(__file__).parents[1]
PROJECT = TESTS.parent
_REPLACERS = ("setattr", "mock.patch", "patch.object")
VARIANTS = {
    "YARN": re.compile(r"yarn", re.I),
    "S3": re.compile(r"(?<![a-z0-9])s3(?![0-9])", re.I),
    "Kerberos": re.compile(r"kerberos|gssapi", re.I),
    "MSK": re.compile(r"(?<![a-z])msk(?![a-z])", re.I),
    "CSV": re.compile(r"(?<![a-z])csv", re.I),
}
"""Variants of engines, stores, logins and formats, as code names them."""
TURNS = {"semicolons": ";", "there is none": "there is none", "of which": "of which"}
"""Turns of prose that a reader must decode, counted per 10,000 words."""
DECIDING = ("core/work.py", "core/judge.py", "core/fold.py", "core/checkpoint.py", "lake/audit.py")
"""Modules that derive how work stands, so that others ask them."""
_FOLDED = tuple(
    f"fold.{name}" for name in ("committed", "barred", "egress.claims", "egress.released")
)
_STAGED = {"done_path", "manifest_path", "read_done", "read_manifest"}
AT_THE_ACT = {
    "lake/attempts.py": {"create_manifest"},
    "lake/committing.py": {"commit_entry"},
    "lake/deliveries.py": {"read_delivery", "create_delivery"},
    "lake/sweeping.py": {"_remove"},
    "ingest/sealing.py": {"seal", "_give_up", "delete_unfinished_attempt"},
    "ingest/stage.py": {"_sealing", "is_finished"},
}
"""Functions that read or write the record of an attempt where they act on it, by module."""
SHORT = 50
"""Lines below which a module is short."""
HEART = ("core/", "ingest/", "egress/", "runs/")
"""Packages that carry the promises, and should know no kit."""
KITS = {
    "engines": "launch", "Kafka": "broker", "configuration": "pipelines",
    "formats": "spark.formats",
}  # fmt: skip
"""Packages of what varies."""
LIBRARIES = ("kafka", "pydantic", "obstore", "tenacity", "yaml")
"""Client libraries that the heart should not load."""


@cache
def modules() -> dict[str, ast.Module]:
    """Return the syntax tree of each module, by its path below the package."""
    return {
        path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text())
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def naming(variant: str) -> list[str]:
    """Return the modules whose code names a variant: docstrings and comments do not count."""
    pattern = VARIANTS[variant]
    return [
        path
        for path in modules()
        if pattern.search(path) or any(map(pattern.search, _words_of_code(path)))
    ]


def modules_of_one_name() -> list[str]:
    """Return the modules whose base name another module has, too."""
    names = Counter(Path(path).stem for path in modules())
    return [path for path in modules() if names[stem := Path(path).stem] > 1 and stem[:2] != "__"]


def public_names_defined_twice() -> list[str]:
    """Return functions and classes that two or more modules define at their top."""
    names = Counter(
        name
        for tree in modules().values()
        for name in {
            node.name
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
        }
    )
    return sorted(name for name, n in names.items() if n > 1)


def reads_by_string() -> int:
    """Return how often a document is read by a constant key, as in `report["rows"]`."""
    return sum(
        isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Load)
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
        for tree in modules().values()
        for node in ast.walk(tree)
        if not _is_annotation(node)
    )


def crossing(kit: str) -> set[str]:
    """Return the names that the heart imports of a kit, those of annotations included."""
    return {
        f"{node.module}.{alias.name}"
        for path, tree in modules().items()
        if path.startswith(HEART)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if f"{node.module}.{alias.name}.".startswith(f"tidegate.{KITS[kit]}.")
    }


def loading(library: str) -> list[str]:
    """Return the modules of the heart that load a library when they are imported."""
    return [path for path in modules() if path.startswith(HEART) and library in _loaded(path)]


@cache
def _loaded(path: str) -> frozenset[str]:
    """Return what a module imports when it is imported, directly or not, but for functions."""
    found, todo = set[str](), [path]
    while todo:
        for name in _imports_of(modules()[todo.pop()].body):
            inner = f"{name.removeprefix('tidegate.').replace('.', '/')}.py"
            if inner in modules() and inner not in found:
                todo.append(inner)
            found.add(inner if inner in modules() else name.partition(".")[0])
    return frozenset(found)


def _imports_of(body: list[ast.stmt]) -> Iterator[str]:
    """Yield the modules that statements import, each also as a name of its package."""
    for node in body:
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield module
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                pass
            case ast.If() | ast.Try() | ast.With():
                yield from _imports_of(node.body)


def private_names_replaced() -> list[str]:
    """Return where tests put something in the place of a private name, as `file:line name`."""
    found = []
    for path in sorted(TESTS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(_REPLACERS):
                texts = (each.value for each in node.args[:2] if isinstance(each, ast.Constant))
                names = [str(text).rpartition(".")[2] for text in texts]
                private = [name for name in names if re.match("_[a-z]", name, re.I)]
                found += [f"{path.relative_to(TESTS)}:{node.lineno} {name}" for name in private]
    return found


def readers_of_the_fold() -> list[str]:
    """Return the functions that read for themselves what was committed, claimed or given up."""
    found = []
    for path, tree in modules().items():
        for node in ast.walk(tree) if path not in DECIDING else ():
            if isinstance(node, ast.FunctionDef):
                read = {
                    each.attr
                    for each in ast.walk(node)
                    if isinstance(each, ast.Attribute) and ast.unparse(each).endswith(_FOLDED)
                }
                found += [f"{path} {node.name}: {', '.join(sorted(read))}"] if read else []
    return found


def readers_of_staging() -> list[str]:
    """Return the functions that decide by the record of an attempt, or by its manifest."""
    found = []
    for path, tree in modules().items():
        for node in ast.walk(tree) if path not in DECIDING else ():
            if isinstance(node, ast.FunctionDef) and node.name not in _STAGED:
                names = {
                    each.attr if isinstance(each, ast.Attribute) else each.id
                    for each in ast.walk(node)
                    if isinstance(each, ast.Attribute | ast.Name)
                }
                read = sorted(names & _STAGED) if node.name not in AT_THE_ACT.get(path, ()) else ()
                found += [f"{path} {node.name}: {', '.join(read)}"] if read else []
    return found


def quoted_sentences() -> list[str]:
    """Return where tests compare a message by six of its words or more, as `file:line`."""
    found = []
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            of = node if isinstance(node, ast.Assert) else None
            if isinstance(node, ast.keyword) and node.arg == "match":
                of = node
            texts = (
                (each.value for each in ast.walk(of) if isinstance(each, ast.Constant))
                if of
                else ()
            )
            if any(isinstance(text, str) and len(text.split()) >= 6 for text in texts):
                found.append(f"{path.relative_to(TESTS)}:{node.lineno}")
    return found


def lines() -> dict[str, int]:
    """Return the number of lines of each module."""
    return {path: (PACKAGE / path).read_bytes().count(b"\n") for path in modules()}


def turns() -> dict[str, float]:
    """Return how often docstrings and comments have each turn, per 10,000 of their words."""
    return _turns_of(" ".join(text for path in modules() for text in _prose(PACKAGE / path)))


def turns_of_docs() -> dict[str, float]:
    """Return how often README and docs have each turn, per 10,000 of their words.

    Code does not count.
    """
    found = _turns_of(" ".join(map(_prose_of_page, _pages())))
    return {f"{name} of docs": number for name, number in found.items()}


def words_of_docs() -> dict[str, int]:
    """Return the words of README, of the pages for users, and of all pages below docs."""
    pages = {page: _words(page) for page in PROJECT.glob("docs/**/*.md")}
    users = [n for page, n in pages.items() if "internals" not in page.parts]
    return {
        "words of README": _words(PROJECT / "README.md"),
        "words of docs for users": sum(users),
        "words of docs": sum(pages.values()),
    }


def _words(page: Path) -> int:
    """Return the number of a page's words: the bars of tables are none."""
    return sum(bool(re.search(r"\w", word)) for word in page.read_text().split())


def _turns_of(prose: str) -> dict[str, float]:
    words = len(prose.split())
    return {
        name: round(prose.lower().count(turn) * 10_000 / words, 1) for name, turn in TURNS.items()
    }


def _pages() -> list[Path]:
    return sorted([*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md")])


def _prose_of_page(page: Path) -> str:
    """Return the text of a page without its code."""
    return re.sub(r"```.*?```|`[^`]*`", " ", page.read_text(), flags=re.DOTALL)


def places(measure: str) -> list[str]:
    """Return the modules that a measure counts, for who must make it smaller."""
    turn = TURNS.get(measure.removesuffix(" per 10,000 words"))
    of_docs = TURNS.get(measure.removesuffix(" of docs per 10,000 words"))
    if of_docs:
        counts = {page.name: _prose_of_page(page).lower().count(of_docs) for page in _pages()}
        return [f"{page}: {n}" for page, n in counts.items() if n]
    if turn:
        found = {path: " ".join(_prose(PACKAGE / path)).lower().count(turn) for path in modules()}
        return [f"{path}: {n}" for path, n in found.items() if n]
    what = measure.rpartition(" ")[2]
    match measure.partition(what)[0]:
        case "modules that name ":
            return naming(what)
        case "names that the heart imports of ":
            return sorted(crossing(what))
        case "modules of the heart that load ":
            return loading(what)
    return {
        "modules whose name another has": modules_of_one_name,
        "public names defined twice or more": public_names_defined_twice,
        "private names that tests replace": private_names_replaced,
        "functions that read the fold for themselves": readers_of_the_fold,
        "functions that decide by what is staged": readers_of_staging,
        "sentences that tests quote": quoted_sentences,
        f"modules under {SHORT} lines": lambda: [p for p, n in lines().items() if n < SHORT],
    }.get(measure, list)()


def all_of_them() -> dict[str, float]:
    """Return every measure by its name."""
    sizes = lines()
    return {
        **{f"modules that name {name}": len(naming(name)) for name in VARIANTS},
        **{f"names that the heart imports of {kit}": len(crossing(kit)) for kit in KITS},
        **{f"modules of the heart that load {name}": len(loading(name)) for name in LIBRARIES},
        "modules whose name another has": len(modules_of_one_name()),
        "public names defined twice or more": len(public_names_defined_twice()),
        "reads of documents by string keys": reads_by_string(),
        f"modules under {SHORT} lines": sum(n < SHORT for n in sizes.values()),
        "private names that tests replace": len(private_names_replaced()),
        "functions that read the fold for themselves": len(readers_of_the_fold()),
        "functions that decide by what is staged": len(readers_of_staging()),
        "sentences that tests quote": len(quoted_sentences()),
        **{f"{name} per 10,000 words": n for name, n in (turns() | turns_of_docs()).items()},
        **words_of_docs(),
    }


@cache
def _words_of_code(path: str) -> tuple[str, ...]:
    """Return names and texts of a module's code."""
    return tuple(_code_words(modules()[path]))


def _code_words(tree: ast.Module) -> Iterator[str]:
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    } | {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }  # the text below an attribute is its docstring, too
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                yield text
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.alias(name=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.ImportFrom(module=str(name)):
                yield name


def _prose(path: Path) -> Iterator[str]:
    """Yield docstrings and comments of a file."""
    text = path.read_text()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string.lstrip("# ")
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(docstring))):
                yield docstring


def _is_annotation(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and (node.value.id in ("Literal", "Annotated"))
    )


if __name__ == "__main__":
    for each, number in all_of_them().items():
        print(f"{number:8} {each}")
    print(f"{sum(lines().values()):8} lines in {len(modules())} modules")
