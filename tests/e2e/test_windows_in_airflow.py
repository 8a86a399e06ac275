"""A schedule, a backfill over dates, one over offsets and a replay, for half an hour."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import concurrent_runs
from tidegate_local import stack


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    stack.down(tmp_path)


@pytest.mark.slow
def test_all_lanes_at_once(home: Path) -> None:
    """A DAG every minute, beside it a backfill over 30 dates, one of 20 chunks over offsets and a
    replay, the scheduler killed twice: at the end every offset is there once, the oracle agrees,
    and the cursor is what the schedule alone would have reached.
    """
    concurrent_runs.pipeline(home)
    concurrent_runs.all_at_once(home, intervals=30, chunks=20)
