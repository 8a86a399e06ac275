"""What a plan pays to know at which leader epochs the rows below its cursors were proven."""

from collections import Counter
from pathlib import Path
from threading import Barrier

import pytest

from support import ingest_world
from support.ingest_steps import ingest
from tidegate.core import checkpoint
from tidegate.core.cursor import Watermarks
from tidegate.ingest import truncation
from tidegate.lake import attempts

LAST = 4


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ingest_world.World:
    """Partition 0 got a commit from each of five runs; partition 1 never had a record."""
    world = ingest_world.make(tmp_path, monkeypatch, {})
    for n in range(LAST + 1):
        world.epoch = n
        world.marks = {0: Watermarks(0, 2 * n + 2, 2 * n + 2), 1: Watermarks(0, 0, 0)}
        ingest(world.run(f"r{n}"), world.submit())
    return world


def test_an_empty_partition_costs_nothing(world: ingest_world.World) -> None:
    """It is in no commit, so none but the last of the other partition is read."""
    fold = world.ledger.fold
    lines, asked = checkpoint.commit_lines(fold), Counter()

    class Live(checkpoint.LiveCommits):
        def __getitem__(self, n):
            asked[n] += 1
            return super().__getitem__(n)

    fold.live = Live(sorted(fold.live), lambda: lines.split(b"\n"))
    found = truncation._sealed_epochs(
        world.run("any").store(), fold, {("t", 0): 2 * LAST + 2, ("t", 1): 0}
    )
    assert found == {("t", 0): LAST}
    assert dict(asked) == {max(fold.live): 1}


def test_manifests_are_read_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight partitions, each last committed by another run; one that is missing says nothing."""
    world = ingest_world.make(tmp_path, monkeypatch, {})
    count = 8
    marks = dict.fromkeys(range(count), Watermarks(0, 0, 0))
    for p in range(count):
        world.epoch = p
        marks = world.marks = {**marks, p: Watermarks(0, 2, 2)}
        ingest(world.run(f"r{p}"), world.submit())
    fold, store = world.ledger.fold, world.run("any").store()
    gone = fold.live[max(fold.live)]
    store.delete(gone.manifest.path)
    together = Barrier(count)
    read = attempts.proven_epochs

    def wait(*args):
        together.wait(timeout=10)
        return read(*args)

    monkeypatch.setattr(attempts, "proven_epochs", wait)
    found = truncation._sealed_epochs(store, fold, {("t", p): 2 for p in range(count)})
    assert found == {("t", p): p for p in range(count - 1)}
