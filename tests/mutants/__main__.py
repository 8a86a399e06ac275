"""Run the mutants: `.venv/bin/python tests/mutants [NAME…]`."""

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PROJECT = Path(__file__).parents[2]
sys.path[0] = str(PROJECT / "tests")

from mutants import MUTANTS  # noqa: E402
from mutants.mutant import Mutant  # noqa: E402

AT_ONCE = 2
"""Mutants tested side by side: most of a test's time is waiting for a JVM or a broker."""


def red(mutant: Mutant) -> bool:
    """Run the mutant's test on a copy that has the mutant; tell whether it failed."""
    with tempfile.TemporaryDirectory(prefix="tidegate-mutant-") as directory:
        copy = Path(directory)
        for name in ("include", "tests", "spark_jobs", "dags", "plugins"):
            shutil.copytree(
                PROJECT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        shutil.copy(PROJECT / "pyproject.toml", copy)
        file = copy / "include/tidegate" / mutant.file
        text = file.read_text()
        if text.count(mutant.guard) != 1:
            raise SystemExit(f"{mutant.name}: its guard is not in {mutant.file} once; update tests")
        file.write_text(text.replace(mutant.guard, mutant.instead))
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-m", "", mutant.test],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy / "include")},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    if done.returncode not in (0, 1):
        raise SystemExit(f"{mutant.name}: pytest ended with {done.returncode}\n{done.stdout}")
    return done.returncode == 1


def main() -> int:
    chosen = [m for m in MUTANTS if not sys.argv[1:] or m.name in sys.argv[1:]]
    survivors = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for mutant, went_red in zip(chosen, pool.map(red, chosen), strict=True):
            color = "red  " if went_red else "GREEN"
            print(f"{color}  without {mutant.name}: {mutant.test}", flush=True)
            survivors += [] if went_red else [mutant.name]
    print(f"{len(survivors)} survived")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
