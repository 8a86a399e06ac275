"""The nets find what they are there for: each planted bug, by the net that its name says."""

import pytest

from nets import crashes, interleavings, planted
from nets.world import playing

SEEDS = 1500


def wrong_at(net, world):
    """Return the first thing that a net finds, and where; None if it finds nothing."""
    if net == "interleavings":
        interleavings.start(world)
        for seed in range(SEEDS):
            if wrong := interleavings.judged(world, seed):
                return seed, wrong
        return None
    try:
        known = crashes.states()
    except AssertionError as error:
        return "no fault at all", error
    for case in crashes.cases(known):
        if wrong := crashes.judged(known[case.step], case):
            return case, wrong
    return None


@pytest.mark.parametrize("bug", planted.BUGS)
def test_it_is_found(bug, tmp_path):
    plant, net = planted.BUGS[bug]
    with playing(tmp_path / "in") as world, pytest.MonkeyPatch.context() as patch:
        plant(patch)
        found = wrong_at(net, world)
    assert found, f"no net has found {bug}"
    print(f"{bug}: {net}, {found[0]}: {str(found[1])[:300]}")
