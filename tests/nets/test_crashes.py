"""A fault at any request of any step of a pipeline's life, or two: no row is lost or repeated."""

from contextlib import contextmanager

import pytest

from nets import crashes, world
from nets.crashes import INGEST, STEPS
from nets.world import playing
from tidegate.lake import checkpointing

SEEDS = 120


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """The state before each step, in a world in which all tests of this fixture play."""
    with played(tmp_path_factory, world.INGEST) as states:
        yield states


@pytest.fixture(scope="module")
def known_of_values(tmp_path_factory):
    """The same of a lake that is partitioned by values of its rows."""
    with played(tmp_path_factory, world.PARTITIONED) as states:
        yield states


@contextmanager
def played(tmp_path_factory, spec):
    """A publish makes a checkpoint of every third entry."""
    with (
        playing(tmp_path_factory.mktemp("world") / "in") as made,
        pytest.MonkeyPatch.context() as patch,
    ):
        made.spec = spec
        patch.setattr(checkpointing, "DUE", 3)
        yield crashes.states()


def wrong(known, step, cases=crashes.cases):
    """Return what a fault at a request leaves wrong: a crash, an error around it, or late."""
    judged = ((c, crashes.judged(known[step], c)) for c in cases({step: known[step]}))
    return [(case, found) for case, found in judged if found]


@pytest.mark.parametrize("step", STEPS)
def test_one_fault(known, step):
    found = wrong(known, step, crashes.sampled)
    assert not found, found[:3]


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_each_fault(known, step):
    found = wrong(known, step)
    assert not found, found[:3]


@pytest.mark.parametrize("step", ["replay", "repair"])
def test_one_fault_in_a_partitioned_lake(known_of_values, step):
    found = wrong(known_of_values, step, crashes.sampled)
    assert not found, found[:3]


@pytest.mark.slow
@pytest.mark.parametrize("step", INGEST)
def test_each_fault_in_a_partitioned_lake(known_of_values, step):
    found = wrong(known_of_values, step)
    assert not found, found[:3]


def test_two_faults(known):
    """The recovery meets a fault, too: by seeds, of which `make fuzz` tries others."""
    cases = [crashes.nested(known, seed) for seed in range(SEEDS)]
    found = [(c, wrong) for c in cases if (wrong := crashes.judged(known[c.step], c))]
    assert not found, found[:3]


def test_each_step_changes_something(known):
    """A step that only reads would prove nothing."""
    kinds = {step: {kind for kind, _ in state.requests} for step, state in known.items()}
    refused = {"old schema", "old cluster", "old path"}
    assert all(kinds[step] & set(crashes.CHANGES) for step in STEPS if step not in refused)
    assert {kind for step in INGEST for kind in kinds[step]} >= {
        "create",
        "write",
        "copy",
        "delete",
    }
