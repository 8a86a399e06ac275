"""The demo with its lake in a bucket, on a real scheduler."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import oracle_client
from support.cli_user import TIDEGATE
from tidegate_check.lake import Checker, Stored
from tidegate_local import gcs, s3, stack

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
WHOLE = "336,776 rows = 336,776 distinct (partition, offset)"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    stack.down(tmp_path)


def command(home: Path, *args: str) -> str:
    foreign = ("AIRFLOW", "TIDEGATE_", "AWS_", "GOOGLE_")
    env = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
    kept = {k: v for k, v in os.environ.items() if k == "TIDEGATE_CACHE"}
    done = subprocess.run(
        [str(TIDEGATE), *args], env={**env, **kept, "TIDEGATE_HOME": str(home)},
        capture_output=True, text=True, timeout=800, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_s3(home: Path) -> None:
    """Every flight once, by count and by the oracle; again there is nothing new; a terminal finds
    the lake and the keys by itself; no file but the server's own has the key; `down` ends all.
    """
    assert WHOLE in command(home, "demo", "--store", "s3")
    known, server = stack.read(home), s3.find(home / "s3")
    assert known is not None
    assert server is not None
    report = oracle_client.agree(
        known.kafka, known.lake, "flights", ["flights"], environ=server.environment
    )
    assert report["lake"] == 336_776
    assert "nothing new" in command(home, "demo", "--store", "s3")
    assert " 0 differences" in command(home, "verify", "flights")
    assert not (home / "lake").exists()

    command(home, "local", "down")
    assert s3.find(home / "s3") is None
    key = server.secret_key.encode()
    telling = {
        str(path.relative_to(home))
        for path in home.rglob("*")
        if path.is_file() and key in path.read_bytes()
    }
    assert telling == {"s3/keys.json"}


def test_google_cloud_storage(home: Path) -> None:
    """Every flight once; the lake is there again after `down`, and nothing is new."""
    assert WHOLE in command(home, "demo", "--store", "gcs")
    command(home, "local", "down")
    assert gcs.find(home / "gcs") is None
    again = command(home, "demo", "--store", "gcs")
    assert "nothing new" in again
    assert WHOLE in again
    assert " 0 differences" in command(home, "verify", "flights", "--against-kafka")
    known, server = stack.read(home), gcs.find(home / "gcs")
    assert known is not None
    assert server is not None
    assert Checker(Stored(f"{known.lake}/flights", server.files)).run() == []
