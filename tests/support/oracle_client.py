"""Ask the oracle, which runs in a process of its own and does not know Tidegate."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ORACLE = Path(__file__).parents[1] / "oracle"


def agree(
    bootstrap: str,
    lake: Path | str,
    pipeline: str,
    topics: Sequence[str],
    *,
    isolation: str = "read_committed",
    files: Path | None = None,
    ranges: Mapping[str, Mapping[str, Sequence[int]]] | None = None,
    environ: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Assert that the oracle finds lake and topics equal; return its report.

    The lake is read by globbing `data/`, or by `files` (what `tidegate files --json` printed).
    Compared is the whole log of `topics`, or `ranges`: `{topic: {"0": (start, end)}}`. `environ`
    is what it needs to get to a lake in a bucket.
    """
    report = ask(
        bootstrap, lake, pipeline, topics,
        isolation=isolation, files=files, ranges=ranges, environ=environ,
    )  # fmt: skip
    assert report["equal"], json.dumps(report, indent=2, ensure_ascii=False)
    return report


def ask(
    bootstrap: str,
    lake: Path | str,
    pipeline: str,
    topics: Sequence[str],
    *,
    isolation: str = "read_committed",
    files: Path | None = None,
    ranges: Mapping[str, Mapping[str, Sequence[int]]] | None = None,
    environ: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the oracle's report, whether or not it found a difference."""
    compared = ["--ranges", json.dumps(ranges)] if ranges else ["--topics", ",".join(topics)]
    where = ["--files", str(files)] if files else ["--lake", str(lake), "--pipeline", pipeline]
    # -I: neither PYTHONPATH nor the working directory lead to the project.
    command = [sys.executable, "-I", str(ORACLE), "--json", "--bootstrap", bootstrap]
    command += ["--isolation", isolation, *compared, *where]
    env = {**os.environ, **(environ or {})}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env=env
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"the oracle could not judge: {done.stderr}")
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["equal"] == (done.returncode == 0)
    return report
