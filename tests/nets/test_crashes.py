"""A fault at any request of any step of a pipeline's life, or two: no row is lost or repeated."""

import pytest

from nets import crashes
from nets.crashes import INGEST, STEPS
from nets.world import playing
from tidegate.lake import checkpointing

SEEDS = 120


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """The state before each step, in a world in which all tests of this file play.

    A publish makes a checkpoint there of every third entry.
    """
    with playing(tmp_path_factory.mktemp("world") / "in"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpointing, "DUE", 3)
        yield crashes.states()


@pytest.mark.parametrize("step", STEPS)
def test_one_fault(known, step):
    """Every request of a step: with a crash after it, an error before or after it, or late."""
    found = [
        (case, wrong)
        for case in crashes.cases({step: known[step]})
        if (wrong := crashes.judged(known[step], case))
    ]
    assert not found, found[:3]


def test_two_faults(known):
    """The recovery meets a fault, too: by seeds, of which `make fuzz` tries others."""
    cases = [crashes.nested(known, seed) for seed in range(SEEDS)]
    found = [(c, wrong) for c in cases if (wrong := crashes.judged(known[c.step], c))]
    assert not found, found[:3]


def test_each_step_changes_something(known):
    """A step that only reads would prove nothing."""
    kinds = {step: {kind for kind, _ in state.requests} for step, state in known.items()}
    assert all(kinds[step] & set(crashes.CHANGES) for step in STEPS)
    assert {kind for step in INGEST for kind in kinds[step]} >= {
        "create",
        "write",
        "copy",
        "delete",
    }
