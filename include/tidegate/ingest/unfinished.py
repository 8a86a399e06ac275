"""Plans that somebody is working on, or has given up: how far they have come."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tidegate.core import layout
from tidegate.core.ledger import Fold
from tidegate.errors import LakeDamaged
from tidegate.ingest.plan import settled
from tidegate.lake import plans
from tidegate.lake.attempts import SEAL
from tidegate.lake.store import Store


def unfinished(store: Store, fold: Fold) -> list[dict[str, Any]]:
    """Return the plans of which something is staged and not all is committed, oldest first.

    `sealed` chunks wait for their commit.
    """
    sealed: dict[str, set[int]] = defaultdict(set)
    for listed in store.objects(layout.STAGING):
        plan_id, chunk, *rest = listed.path.removeprefix(layout.STAGING).split("/")
        if rest and chunk.isdecimal() and (plan_id, int(chunk)) not in fold.committed:
            sealed[plan_id] |= {int(chunk)} if rest[-1] == SEAL else set()
    found = []
    for plan_id, chunks in sealed.items():
        try:
            plan, note = plans.load(store, plan_id), plans.note(store, plan_id) or {}
        except LakeDamaged:
            continue  # `verify` and `repair` speak of it
        done = [n for n in range(len(plan.chunks)) if settled(fold, plan, n)]
        if len(done) < len(plan.chunks):
            found.append(
                {
                    "plan_id": plan_id,
                    "lane": plan.lane,
                    "run": note.get("run"),
                    "at": note.get("at"),
                    "chunks": len(plan.chunks),
                    "committed": len(done),
                    "sealed": len(chunks - set(done)),
                }
            )
    return sorted(found, key=lambda each: (each["at"] or "", each["plan_id"]))
