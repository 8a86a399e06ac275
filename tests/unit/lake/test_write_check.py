"""Whether a lake can be written: asked before any work is planned, and nothing stays there."""

from pathlib import Path

import pytest
from obstore.store import MemoryStore

from support import ingest_world
from support.ingest_steps import explain
from support.kafka_answers import answer
from tidegate.core.cursor import Watermarks
from tidegate.errors import LakeReadOnly, LakeUnavailable
from tidegate.lake.store import LocalStore, ObjectStore


def test_a_directory_that_can_be_written_or_made(tmp_path: Path) -> None:
    for root in (tmp_path, tmp_path / "not/yet/made"):
        LocalStore(root).check_writing()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("root", "error", "says"),
    [
        ("/sys/lake/p", LakeReadOnly, "'/sys'; give this user write access"),  # root's, too
        ("/etc/hostname/p", LakeUnavailable, "Not a directory: '/etc/hostname'"),
    ],
)
def test_a_directory_that_cannot(root: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        LocalStore(Path(root)).check_writing()


def test_a_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe is created and removed."""
    store = ObjectStore("memory:///p", MemoryStore())
    store.check_writing()
    assert store.objects("") == []

    def refuses(*_: object) -> bool:
        raise LakeReadOnly("lake memory:///p: not permitted")

    monkeypatch.setattr(store, "create", refuses)
    with pytest.raises(LakeReadOnly):
        store.check_writing()


def test_explain_of_a_lake_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run could not begin: explain fails as it would."""
    world = ingest_world.make(tmp_path, monkeypatch, {0: Watermarks(0, 3, 3)})
    answer(monkeypatch, expiries=lambda *_: {})
    assert explain(world.run("r"))["records"] == 3
    assert not world.root.exists()
    world.root = Path("/sys/lake")
    with pytest.raises(LakeReadOnly):
        explain(world.run("r"))
