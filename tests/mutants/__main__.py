"""Run the mutants: `.venv/bin/python tests/mutants [NAME…]`."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue

PROJECT = Path(__file__).parents[2]
sys.path[0] = str(PROJECT / "tests")

from mutants import MUTANTS  # noqa: E402
from mutants.mutant import Mutant  # noqa: E402
from tidegate_local import kafka  # noqa: E402

WITH_SPARK = 3
"""Mutants of Spark and Airflow tested at a time: most of a test's time is waiting for a JVM."""
WITHOUT = os.cpu_count() or 2
"""Mutants of other tests tested at a time: these compute."""
SECONDS = 60
"""Time limit of a test without servers: without some guards it never ends, which is a failure."""
LONGEST = 600
"""Time limit of a test with servers, in seconds."""


def needs_servers(mutant: Mutant) -> bool:
    """Return whether the test of a mutant starts Spark, Airflow or a broker."""
    return mutant.test.startswith(("tests/spark/", "tests/integration/", "tests/dags/"))


def red(mutant: Mutant, broker: str = "") -> bool:
    """Run the mutant's test on a copy that has the mutant; return whether it failed.

    A test with servers that has no result in time has not: the others go on.
    """
    limit = [] if needs_servers(mutant) else [f"--timeout={SECONDS}"]
    with tempfile.TemporaryDirectory(prefix="tidegate-mutant-") as directory:
        copy = Path(directory)
        for name in ("include", "tests", "spark_jobs", "dags", "plugins"):
            shutil.copytree(PROJECT / name, copy / name)  # compiled files, too
        shutil.copy(PROJECT / "pyproject.toml", copy)
        name, text = mutant.applied()
        file = copy / "include" / name
        file.write_text(text)
        shutil.rmtree(file.parent / "__pycache__", ignore_errors=True)
        try:
            done = _tested(mutant, copy, broker, limit)
        except subprocess.TimeoutExpired:
            print(f"LATE   without {mutant.name}: no result in {LONGEST} s", flush=True)
            return False
    if done.returncode not in (0, 1):
        raise SystemExit(f"{mutant.name}: pytest ended with {done.returncode}\n{done.stdout}")
    return done.returncode == 1


def _tested(
    mutant: Mutant, copy: Path, broker: str, limit: list[str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-m", "", "-p", "no:cacheprovider",
         *limit, mutant.test],
        cwd=copy,
        env={
            **os.environ,
            "PYTHONPATH": str(copy / "include"),
            "TIDEGATE_TEST_BROKER": broker,
            "TIDEGATE_TEST_MUTANT": mutant.name,
        },
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )  # fmt: skip


@contextmanager
def brokers(number: int) -> Iterator["SimpleQueue[str]"]:
    """Start brokers for the tests of Spark, whose topics have names of their own."""
    homes: SimpleQueue[str] = SimpleQueue()
    with ExitStack() as stack:
        for _ in range(number):
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-broker-")))
            kafka.start(home)
            stack.callback(kafka.stop, home)
            homes.put(str(home))
        yield homes


def main() -> int:
    unknown = set(sys.argv[1:]) - {mutant.name for mutant in MUTANTS}
    if unknown:
        raise SystemExit(f"no such mutants: {', '.join(sorted(unknown))}")
    chosen = [m for m in MUTANTS if not sys.argv[1:] or m.name in sys.argv[1:]]
    survivors = []

    def report(mutant: Mutant, went_red: bool) -> None:
        color = "red  " if went_red else "GREEN"
        print(f"{color}  without {mutant.name}: {mutant.test}", flush=True)
        survivors.extend([] if went_red else [mutant.name])

    costly = [mutant for mutant in chosen if needs_servers(mutant)]
    cheap = [mutant for mutant in chosen if not needs_servers(mutant)]
    with ThreadPoolExecutor(WITHOUT) as pool:
        for mutant, went_red in zip(cheap, pool.map(red, cheap), strict=True):
            report(mutant, went_red)
    at_once = min(WITH_SPARK, len(costly))
    with brokers(at_once) as homes, ThreadPoolExecutor(at_once or 1) as pool:

        def red_with_broker(mutant: Mutant) -> bool:
            home = homes.get()
            try:
                return red(mutant, home if mutant.test.startswith("tests/spark/") else "")
            finally:
                homes.put(home)

        for mutant, went_red in zip(costly, pool.map(red_with_broker, costly), strict=True):
            report(mutant, went_red)
    print(f"{len(survivors)} survived")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
