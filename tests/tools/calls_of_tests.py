"""Print what tests and programs of the docs do with the product that it no longer takes.

Of what runs in slow tests alone, nobody would see it. These are calls with wrong arguments, names
that are gone, and documents read by keys. mypy reads the tests for this alone: they have no types
of their own. Ends with 1 if there are any.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]
FLAGS = (
    "--check-untyped-defs", "--explicit-package-bases", "--ignore-missing-imports",
    "--follow-imports=silent", "--config-file=", "--cache-dir=.mypy_cache/tests",
)  # fmt: skip
_GONE = re.compile(
    r'Value of type "(?!None)[A-Z]\w*" is not indexable|Module "tidegate[.\w]*" has no attribute'
)
PROGRAMS = PROJECT / "build/programs"
_FENCED = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def write_programs() -> None:
    """Write each program of the docs into a file, so that mypy reads it."""
    shutil.rmtree(PROGRAMS, ignore_errors=True)
    PROGRAMS.mkdir(parents=True)
    for page in sorted(PROJECT.glob("docs/**/*.md")):
        for n, program in enumerate(_FENCED.findall(page.read_text())):
            (PROGRAMS / f"{page.stem.replace('-', '_')}_{n}.py").write_text(program)


def wrong_calls() -> list[str]:
    """Return the lines of mypy's report about such places."""
    write_programs()
    report = subprocess.run(
        [sys.executable, "-m", "mypy", *FLAGS, "tests", str(PROGRAMS.relative_to(PROJECT))],
        cwd=PROJECT,
        env={"MYPYPATH": "include:tests"},
        capture_output=True,
        text=True,
    )
    if report.returncode not in (0, 1):
        raise SystemExit(report.stdout + report.stderr)
    lines = report.stdout.splitlines()
    return [
        each
        for each in lines
        if each.startswith(("tests/", "build/programs/"))
        and (each.endswith("[call-arg]") or _GONE.search(each))
    ]


if __name__ == "__main__":
    found = wrong_calls()
    print("\n".join(found) or "Success: no wrong call in tests and docs")
    sys.exit(bool(found))
