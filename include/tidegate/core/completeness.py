"""Whether a run has everything of a topic that could be read when it was planned."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.core.ledger import Fold
from tidegate.core.plan import LeftOut, Plan


def is_complete(
    fold: Fold, plan: Plan, topic: str, surveyed_id: str | None, ends: Mapping[int, int]
) -> bool:
    """Say whether each offset from origin to end of all partitions of a topic has an outcome.

    `surveyed_id` and `ends` are the topic id and the ends that the survey for the plan found: under
    read_committed the last stable offsets. An outcome is a commit, of any run, or a gap.

    False where it cannot be known: the plan is of another lane than the live one, which alone
    examines the state of all partitions; it excludes a partition, whose cursor then says nothing of
    what the broker has; the survey does not answer for one; or the ledger follows another topic id.
    """
    if plan.lane != "live" or surveyed_id is None or fold.topic_ids.get(topic) != surveyed_id:
        return False
    if any(isinstance(e, LeftOut) and e.topic == topic for e in plan.left_out):
        return False
    cursors = fold.cursors(topic)
    return cursors.keys() == ends.keys() and all(cursors[p] >= end for p, end in ends.items())
