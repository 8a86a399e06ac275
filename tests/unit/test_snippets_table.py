"""No fenced block of README and how-tos is forgotten: a test runs it, or judges it for a reason."""

import ast
import re

import pytest

from support.doc_pages import DOCS, FENCED, PROJECT, fenced, named, page
from support.snippets import PAGES, RUN

EXAMPLES = {name: FENCED.findall(page(name)) for name in PAGES}
RUN_BY_UNIT_TESTS = {
    "test_the_command_of_the_page_makes_pipelines_readable",
}  # fmt: skip


def test_each_example_is_listed_once() -> None:
    """The sections of a page that are listed have all of its examples."""
    for path in DOCS:
        if named(path) == "README.md" or named(path).startswith(("docs/how-to/", "docs/runbook")):
            sections = [name for name in PAGES if name.partition("#")[0] == named(path)]
            listed = [example for name in sections for example in EXAMPLES[name]]
            assert listed == FENCED.findall(path.read_text()), named(path)


@pytest.mark.parametrize("name", PAGES)
def test_each_block_has_a_test(name: str) -> None:
    """In the order of the page. The named test exists; a block that no test runs has a reason.
    Unit tests run none, but for what needs no server: `chmod`.
    """
    found = EXAMPLES[name]
    assert len(found) == len(PAGES[name]), [text.splitlines()[0] for _, text in found]
    for (language, text), block in zip(found, PAGES[name], strict=True):
        assert language == block.language
        assert text.startswith(block.begins)
        file, _, test = block.test.partition("::")
        tree = ast.parse((PROJECT / file).read_text())
        assert test in {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}
        if file.startswith("tests/unit/"):
            assert block.not_run or test in RUN_BY_UNIT_TESTS
        assert not (block.not_run and block.test == RUN)


def test_what_other_tools_are_told() -> None:
    """Targets of make, and files that are copied."""
    make, compose = fenced(page("README.md"), "")[0], fenced(page("docs/how-to/containers.md"), "")
    targets = re.findall(r"^make (\w+)", make, re.MULTILINE)
    assert targets == ["demo", "test"]
    assert all(f"\n{target}:" in page("Makefile") for target in targets)
    assert (PROJECT / re.findall(r"^cp (\S+)", compose[0])[0]).is_file()
