"""Status of an egress pipeline: what was sent, what waits, and open claims."""

from __future__ import annotations

from typing import Any

from tidegate.core.entries import Claim
from tidegate.core.fold import Fold
from tidegate.egress.backlog import read_backlog
from tidegate.egress.sender import is_dead_here
from tidegate.errors import TidegateError
from tidegate.lake import plans
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import Store, open_store
from tidegate.pipelines.spec import Egress

FORMAT = 1


def status(spec: Egress, *, footers: bool = True) -> dict[str, Any]:
    """Return what was sent and what waits (contract: `status --json`, egress).

    `waiting` is null, and `source_problem` says why, when the source cannot be read. Broken Parquet
    files are recognised only with `footers`.
    """
    store = open_store(spec.lake, spec.name)
    fold = Ledger(store, spec.name).fold
    return {
        "format": FORMAT,
        "pipeline": spec.name,
        "kind": spec.kind,
        **source_backlog(spec, fold, spec.max_records if footers else None),
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
        "open_claims": [_claim_to_json(store, claim) for claim in fold.claims.values()],
    }


def source_backlog(spec: Egress, fold: Fold, max_records: int | None = None) -> dict[str, Any]:
    """Return what the source has that was not sent; or why it cannot be read.

    Footers are read of the files that the next run of `max_records` would take.
    """
    problem, found = None, None
    try:
        found = read_backlog(spec, fold, max_records)
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
            "offsets": sum(map(len, found.unsent.ranges)),
            "ahead": found.unsent.ahead,
            "unselected": sum(found.unsent.unselected.values()),
        },
        "left_out": [each.to_json() for each in found.left_out] if found else [],
    }


def _claim_to_json(store: Store, claim: Claim) -> dict[str, Any]:
    """Return a claim; `sender_dead` is true only if this machine proves it."""
    replay = plans.load(store, claim.plan_id).replay or {}
    return {
        "plan_id": claim.plan_id,
        "replay": replay["id"] if "asked" in replay else None,  # a --resend has no id of its own
        "attempt": claim.attempt,
        "sender": dict(claim.sender),
        "sender_dead": is_dead_here(claim.sender, claim.attempt),
        "files": [file.name for file in claim.files],
        "offsets": sum(map(len, claim.window)),
    }
