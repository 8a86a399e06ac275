"""`doctor --try-store`: what a place for lakes must do, and what is said of one that does not."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.in_process import run
from tidegate.doctor import store_trial
from tidegate.doctor.check import run_checks
from tidegate.errors import LakeUnavailable
from tidegate.lake import create_check
from tidegate.lake.store import LocalStore


def overwrites(store: LocalStore, path: str, data: bytes) -> bool:
    store.delete(path)
    return LocalStore.create(store, path, data)


def forgets(store: LocalStore, directory: str, *, after: str = "") -> list[str]:
    return LocalStore.names(store, directory)


def goes_on(store: LocalStore, prefix: str) -> list[Any]:
    """A listing by the beginning of names."""
    found = LocalStore.objects(store, "")
    return [each for each in found if each.path.startswith(prefix.rstrip("/"))]


def cuts(store: LocalStore, source: str, target: str, size: int) -> None:
    if store.size(target) is None:
        store.create(target, store.read(source, 0, size - 1))


def keeps(store: LocalStore, *paths: str) -> None:
    del store, paths


def denies(store: LocalStore, path: str, start: int, end: int) -> bytes:
    raise LakeUnavailable(f"{path}: away")


@pytest.mark.parametrize(
    ("method", "instead", "said"),
    [
        ("create", overwrites, "other bytes: True, and not False"),
        ("names", forgets, "after a name"),
        ("objects", goes_on, "a directory"),
        ("place", cuts, "both names: [4, 3], and not [4, 4]"),
        ("read", denies, "read: away"),
        ("delete", keeps, "a deleted object"),
    ],
)
def test_a_place_that_is_none(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    instead: Callable[..., Any],
    said: str,
) -> None:
    """One line says what is not so, and the trial ends there."""
    planted = type("Planted", (LocalStore,), {method: instead})
    monkeypatch.setattr(store_trial, "open_store", lambda lake, name: planted(Path(lake, name)))
    found = run_checks(store_trial.store_trial(str(tmp_path)))
    assert found.failures == 1
    assert found.checks[-1].state == "failure"
    assert said in found.checks[-1].says
    assert ("not so" in found.checks[-1].says) == (method != "read")  # an outage is no verdict


def test_a_good_place(tmp_path: Path) -> None:
    """Nothing is left there."""
    answer = run(("doctor", "--try-store", str(tmp_path), "--json"), os.environ)
    form = json.loads(answer.stdout)
    assert (form["failures"], form["warnings"]) == (0, 0)
    assert len(form["checks"]) == 7
    assert [*tmp_path.iterdir()] == []


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    """It may be a mount that is not mounted: it is not made."""
    found = run_checks(store_trial.store_trial(str(tmp_path / "lake")))
    assert [line.state for line in found.checks] == ["failure"]
    assert not (tmp_path / "lake").exists()


def test_several_winners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(create_check, "compete_for_names", lambda _: create_check.Outcome(3, 2))
    found = run_checks(store_trial.store_trial(str(tmp_path)))
    assert "2 of 8 rivals" in found.checks[-1].says
    assert found.checks[-1].fix is not None


def test_what_cannot_be_a_place() -> None:
    answer = run(("doctor", "--try-store", "ftp://host/x"), os.environ)
    assert answer.returncode == 2
    assert "ftp:// is not supported" in answer.stderr
