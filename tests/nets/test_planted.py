"""The nets find what they are there for: each planted bug, by the net that its name says."""

import pytest

from nets import crashes, interleavings, planted
from nets.world import playing

SEEDS = 1500
ORDERS = {
    "interleavings": interleavings.judged,
    "edits": interleavings.judged_edits,
    "senders": interleavings.judged_senders,
}


def wrong_at(net, world):
    """Return the first thing that a net finds, and where; None if it finds nothing."""
    if net in ORDERS:
        if net == "interleavings":
            interleavings.start(world)
        for seed in range(SEEDS):
            if wrong := ORDERS[net](world, seed):
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


@pytest.mark.parametrize(
    ("bug", "net"),
    [
        pytest.param(bug, net, marks=[pytest.mark.slow] if bug in planted.RARE else [])
        for net, bugs in planted.BUGS.items()
        for bug in bugs
    ],
)
def test_it_is_found(bug, net, tmp_path):
    with playing(tmp_path / "in") as world, pytest.MonkeyPatch.context() as patch:
        planted.plant(bug, patch)
        found = wrong_at(net, world)
    assert found, f"no net has found {bug}"
    print(f"{bug}: {net}, {found[0]}: {str(found[1])[:300]}")
