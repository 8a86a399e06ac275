"""The nets find what they are there for: each planted bug, by the net that its name says."""

import pytest

from nets import crashes, interleavings, planted
from nets.world import playing

SEEDS = 1500
FOUND = {
    "an abandoned attempt is not brought to the judge, abandoned attempts": 193,
    "another cluster": 264,
    "a release ends its own claim only": 231,
}
"""The seeds that have found a bug lately, where it takes many: they are tried first."""
ORDERS = {
    "interleavings": interleavings.judged,
    "edits": interleavings.judged_edits,
    "senders": interleavings.judged_senders,
}


def wrong_at(net, world, first):
    """Return the first thing that a net finds, and where, from a seed on. None if it is nothing."""
    if net in ORDERS:
        if net == "interleavings":
            interleavings.start(world)
        for seed in (*range(first, SEEDS), *range(first)):
            if wrong := ORDERS[net](world, seed):
                return seed, wrong
        return None
    try:
        known = crashes.states()
    except AssertionError as error:
        return "no fault at all", error
    for case in crashes.sampled(known):
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
        found = wrong_at(net, world, FOUND.get(bug, 0))
    assert found, f"no net has found {bug}"
    print(f"{bug}: {net}, {found[0]}: {str(found[1])[:300]}")
