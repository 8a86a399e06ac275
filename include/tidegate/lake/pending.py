"""Chunks that are staged and not committed: their rows may become a part of the lake."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tidegate.core import layout
from tidegate.core.ledger import Fold
from tidegate.core.plan import Plan
from tidegate.errors import LakeDamaged
from tidegate.lake import plans
from tidegate.lake.attempts import SEAL
from tidegate.lake.store import Store


def pending(store: Store, fold: Fold) -> Iterator[tuple[Plan, int]]:
    """Yield each chunk with an attempt in staging that may still be committed.

    That is: it is neither committed nor overlaps what is, and not every attempt is abandoned.
    A replay brings no offsets that the lake did not have.
    """
    staged: dict[tuple[str, int], set[str]] = defaultdict(set)
    for listed in store.objects(layout.STAGING):
        parts = listed.path.removeprefix(layout.STAGING).split("/")
        if len(parts) < 4 or not parts[1].isdecimal() or parts[-1] == SEAL:
            continue  # a seal alone: its files are gone
        plan_id, chunk, attempt = parts[0], int(parts[1]), parts[2]
        if (plan_id, chunk) not in fold.committed:
            staged[plan_id, chunk].add(attempt)
    for (plan_id, chunk), names in sorted(staged.items()):
        if all((plan_id, chunk, name) in fold.abandoned for name in names):
            continue
        try:
            plan = plans.load(store, plan_id)
        except LakeDamaged:
            continue  # `verify` and `repair` report it
        if plan.replay is None and not fold.covered_part(plan.chunks[chunk], plan.topics):
            yield plan, chunk
