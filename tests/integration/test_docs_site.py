"""`make docs` builds a site that needs no network, and refuses a broken link."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.doc_pages import PROJECT

pytestmark = pytest.mark.slow


def build(docs: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build a site with the options of the Makefile."""
    (command,) = re.findall(r"\$\(BIN\)/sphinx-build (.*) docs build/site$",
                            (PROJECT / "Makefile").read_text(), re.MULTILINE)  # fmt: skip
    return subprocess.run(
        [sys.executable, "-m", "sphinx", *command.split(), docs, site],
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_the_site(tmp_path: Path) -> None:
    """Every page is there; styles, scripts, fonts and images are files of the site."""
    done = build(PROJECT / "docs", tmp_path)
    assert done.returncode == 0, done.stderr
    pages = {
        path.relative_to(PROJECT / "docs").with_suffix(".html")
        for path in PROJECT.glob("docs/**/*.md")
    }
    built = {path.relative_to(tmp_path) for path in tmp_path.rglob("*.html")}
    assert pages <= built
    for path in built:
        text = (tmp_path / path).read_text()
        loaded = re.findall(r"<(?:script|img)[^>]* src=\"([^\"]+)|<link[^>]* href=\"([^\"]+)", text)
        assert not [each for each in loaded if "//" in "".join(each)], path


def test_a_broken_link_fails(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    shutil.copytree(PROJECT / "docs", docs)
    shutil.copytree(PROJECT / "tests/bench/results", tmp_path / "tests/bench/results")
    page = docs / "doctor.md"
    page.write_text(page.read_text().replace("json.md#doctor", "json.md#surgeon"))
    done = build(docs, tmp_path / "site")
    assert done.returncode != 0
    assert "surgeon" in done.stderr
