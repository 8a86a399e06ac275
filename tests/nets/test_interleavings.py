"""Publishers, sleepers, a sweeper, replacers, repair, checkpoints, in orders by seeds."""

from collections import Counter

import pytest

from nets import interleavings
from nets.world import playing
from tidegate.lake import committing, ledger

RARE = (127, 669, 1312)
"""Orders in which an attempt is committed too late, or abandoned too late."""


def seeds(often: int, all_of_them: int) -> pytest.MarkDecorator:
    """Return the ranges of seeds: those of every change, and the slow rest."""
    rest = pytest.param(range(often, all_of_them), id="more", marks=pytest.mark.slow)
    return pytest.mark.parametrize("seeds", [pytest.param(range(often), id="often"), rest])


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    """The state in which all processes begin."""
    with playing(tmp_path_factory.mktemp("world") / "in") as world:
        interleavings.start(world)
        yield world


@seeds(100, 300)
@pytest.mark.parametrize("is_sent", [False, True], ids=["first", "again"])
def test_senders_in_any_order(state, is_sent, seeds):
    """Two processes of a run or of a replay, others that find a dead claim, sweeps: each record is
    there once, and once more for each replay.
    """
    world = state.copy()
    interleavings.Now.world = world
    if is_sent:
        world.egress("first")
    found = [
        (seed, wrong) for seed in seeds if (wrong := interleavings.judged_senders(world, seed))
    ]
    assert not found, found[:3]


STAGED_BEFORE = 63750418
"""The last run first commits what an earlier plan has staged, by the schema of before."""


@seeds(80, 250)
def test_edits_in_any_order(tmp_path_factory, seeds):
    """The schema is corrected, or the connection leads elsewhere, while plans are unfinished."""
    with playing(tmp_path_factory.mktemp("edited") / "in") as world:
        found = [
            (seed, wrong)
            for seed in (*seeds, STAGED_BEFORE)
            if (wrong := interleavings.judged_edits(world, seed))
        ]
    assert not found, found[:3]


@seeds(80, 200)
def test_any_order(state, monkeypatch, seeds):
    """Nothing is lost or repeated, and two readers see each committed row once at any moment.

    The orders are such that what the ledger must refuse does happen.
    """
    verdicts: Counter[tuple[str, str]] = Counter()
    for module in (committing, ledger):
        judge = module.judge

        def counted(fold, entry, judge=judge):
            verdict = judge(fold, entry)
            verdicts[type(entry).__name__, type(verdict).__name__] += 1
            return verdict

        monkeypatch.setattr(module, "judge", counted)
    found = [
        (seed, wrong) for seed in (*seeds, *RARE) if (wrong := interleavings.judged(state, seed))
    ]
    assert not found, found[:3]
    assert verdicts.keys() >= {
        ("Commit", "Adopt"), ("Commit", "CoveredBy"), ("Commit", "PartlyCovered"),
        ("Commit", "NotLive"), ("Commit", "Refused"), ("Abandon", "Accepted"),
        ("Abandon", "Refused"),
    }  # fmt: skip
