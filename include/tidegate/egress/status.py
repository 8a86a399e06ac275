"""Where an egress pipeline stands: what was sent, what waits, who holds a claim."""

from __future__ import annotations

from typing import Any

from tidegate.core.entries import Claim
from tidegate.core.ledger import Fold
from tidegate.egress.backlog import waiting
from tidegate.egress.sender import is_dead
from tidegate.errors import TidegateError
from tidegate.lake import plans
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import Store, open_store
from tidegate.pipelines.spec import Egress

FORMAT = 1


def status(spec: Egress, *, footers: bool = True) -> dict[str, Any]:
    """Return what was sent and what waits (contract: `status --json`, egress).

    `waiting` is null, and `source_problem` says why, when the source cannot be looked at. Without
    footers, Parquet files that are broken are not told from others.
    """
    store = open_store(spec.lake, spec.name)
    fold = Ledger(store, spec.name).fold
    return {
        "format": FORMAT,
        "pipeline": spec.name,
        "kind": spec.kind,
        **standing(spec, fold, spec.max_records if footers else None),
        "sent": {
            "files": len(fold.sent),
            "rows": sum(r.sent for commit in fold.live.values() for r in commit.receipts),
            "duplicates": sum(r.duplicates for c in fold.live.values() for r in c.receipts),
        },
        "target": {
            topic: {str(p): end for p, end in sorted(ends.items())}
            for topic, ends in sorted(fold.target_ends.items())
        },
        "commits": len(fold.live),
        "last_commit": max(fold.live, default=None),
        "broken_order": [
            {"commit": n, "where": list(commit.broken_order)}
            for n, commit in fold.live.items()
            if commit.broken_order
        ],
        "open_claims": [_told(store, claim) for claim in fold.claims.values()],
    }


def standing(spec: Egress, fold: Fold, max_records: int | None = None) -> dict[str, Any]:
    """Return what the source has that was not sent, as far as it can be looked at.

    The files that the next run of `max_records` would take are looked into.
    """
    problem, found = None, None
    try:
        found = waiting(spec, fold, max_records)
    except TidegateError as error:
        problem = str(error)
    return {
        "source": spec.source.path or f"the lake of {spec.source.lake}",
        "source_problem": problem,
        "waiting": found
        and {
            "files": len(found.files),
            "bytes": sum(file.size for file in found.files),
            "young": len(found.young),
            "offsets": sum(map(len, found.ranges)),
            "ahead": found.ahead,
            "unselected": found.unselected,
        },
        "left_out": [each.to_json() for each in found.left_out] if found else [],
    }


def _told(store: Store, claim: Claim) -> dict[str, Any]:
    """Return a claim; `sender_dead` is true only where that is proven from here."""
    replay = plans.load(store, claim.plan_id).replay or {}
    return {
        "plan_id": claim.plan_id,
        "replay": replay["id"] if "asked" in replay else None,  # a --resend has no id of its own
        "attempt": claim.attempt,
        "sender": dict(claim.sender),
        "sender_dead": is_dead(claim.sender, claim.attempt, lambda _: False, patience=0),
        "files": [file.name for file in claim.files],
        "offsets": sum(map(len, claim.window)),
    }
