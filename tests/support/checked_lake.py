"""A lake, as those who do not trust Tidegate see it."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from support import oracle_client
from support.cli_user import Terminal

CHECKER = Path(__file__).parents[2] / "include/tidegate_check/lake.py"


def is_consistent(user: Terminal, pipeline: str, topics: list[str]) -> None:
    """Compare the lake with Kafka by another client, and with its format by another program."""
    oracle_client.agree(user.bootstrap, user.lake, pipeline, topics)
    has_its_format(user.lake / pipeline)
    user.run("verify", pipeline)
    user.run("verify", pipeline, "--against-kafka")


def has_its_format(lake: Path | str, environ: Mapping[str, str] | None = None) -> None:
    """Assert that the independent checker finds nothing wrong."""
    found = subprocess.run(
        [sys.executable, CHECKER, lake],
        capture_output=True, text=True, check=False, env={**os.environ, **(environ or {})},
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr
