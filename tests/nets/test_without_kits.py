"""The rules of a run need no kit: crashes and interleavings are played without any."""

import os
import subprocess
import sys
from pathlib import Path

from nets import without_kits

TESTS = Path(__file__).parents[1]


def test_runs_crash_and_recover_without_any_kit(tmp_path: Path) -> None:
    """In a process of its own: in this one, other tests have loaded them."""
    surroundings = {**os.environ, "PYTHONPATH": f"{TESTS}:{TESTS.parent / 'include'}"}
    done = subprocess.run(
        [sys.executable, str(TESTS / "nets/without_kits.py")],
        env=surroundings | {"MINUTES": "0.05", "SEED": "1", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "seeds from 1: nothing is lost or repeated" in done.stdout
    assert not done.stdout.startswith("0 seeds")


def test_what_is_blocked_exists() -> None:
    """A package that is renamed would no longer be blocked."""
    package = TESTS.parent / "include/tidegate"
    paths = [package / kit.replace(".", "/") for kit in without_kits.KITS]
    missing = [p for p in paths if not (p.is_dir() or p.with_suffix(".py").is_file())]
    assert missing == []
