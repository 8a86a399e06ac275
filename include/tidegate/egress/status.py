"""Status of an egress pipeline: what was sent, its backlog, and open claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.core import layout
from tidegate.core.entries import Claim, Commit
from tidegate.core.fold import Fold
from tidegate.egress.backlog import read_backlog
from tidegate.egress.sender import is_dead_here
from tidegate.errors import TidegateError
from tidegate.lake import json_documents, plans
from tidegate.lake.ledger import Ledger, last_entry
from tidegate.lake.store_protocol import Store, Stores
from tidegate.runs.spec_protocol import EgressSpec, Pipelines

FORMAT = 1


def status(
    spec: EgressSpec, stores: Stores, pipelines: Pipelines, *, footers: bool = True
) -> dict[str, Any]:
    """Return what was sent, and the backlog (contract: `status --json`, egress).

    `waiting` is null, and `source_problem` says why, when the source cannot be read. Only with
    `footers` are broken Parquet files recognised, and rows in quarantine counted.
    """
    store = stores.open(spec.lake, spec.name)
    fold = Ledger(store, spec.name).fold
    return {
        "format": FORMAT,
        "pipeline": spec.name,
        "kind": spec.kind,
        **source_backlog(
            spec, stores, pipelines, store, fold, spec.max_records if footers else None
        ),
        "sent": {
            "files": len(fold.sent),
            "rows": sum(r.sent for commit in fold.live.values() for r in commit.receipts),
            "duplicates": sum(commit.duplicates for commit in fold.live.values()),
        },
        "target": {
            topic: {str(p): end for p, end in sorted(ends.items())}
            for topic, ends in sorted(fold.target_ends.items())
        },
        "quarantine": _quarantine(store, fold) if footers else None,
        "commits": len(fold.live),
        "last_commit": max(fold.live, default=None),
        "last_entry": last_entry(store, fold),
        "broken_order": [
            {"commit": n, "where": list(commit.broken_order)}
            for n, commit in fold.live.items()
            if commit.broken_order
        ],
        "open_claims": [_claim_to_json(store, claim) for claim in fold.claims.values()],
    }


def source_backlog(
    spec: EgressSpec,
    stores: Stores,
    pipelines: Pipelines,
    store: Store,
    fold: Fold,
    max_records: int | None = None,
) -> dict[str, Any]:
    """Return the backlog of the source, or why it cannot be read.

    With `max_records`, the footers of the files that the next run would send are read.
    """
    problem, backlog = None, None
    try:
        backlog = read_backlog(spec, stores, pipelines, store, fold, max_records)
    except TidegateError as error:
        problem = str(error)
    return {
        "source": spec.source.path or f"the lake of {spec.source.lake}",
        "source_problem": problem,
        "waiting": backlog
        and {
            "files": len(backlog.files),
            "bytes": sum(file.size for file in backlog.files),
            "young": len(backlog.young),
            "settles_in": backlog.settles_in,
            "offsets": sum(map(len, backlog.unsent.ranges)),
            "ahead": backlog.unsent.ahead,
            "unselected": sum(backlog.unsent.unselected.values()),
        },
        "left_out": [each.to_json() for each in backlog.left_out] if backlog else [],
    }


def _quarantine(store: Store, fold: Fold) -> dict[str, Any] | None:
    """Return how many rows of live commits are in quarantine, and where. None if there are none."""
    kept = {each.path.removeprefix(layout.QUARANTINE).split("/")[0]
            for each in store.objects(layout.QUARANTINE)}  # fmt: skip
    commits = [commit for commit in fold.live.values() if commit.plan_id in kept]
    rows = sum(store.each(lambda commit: _bad_rows(store, commit), commits))
    return {"rows": rows, "uri": store.uri(layout.QUARANTINE.rstrip("/"))} if rows else None


def _bad_rows(store: Store, commit: Commit) -> int:
    """Return how many rows of a commit are in quarantine. 0 if its manifest is missing."""

    def count(form: Mapping[str, Any]) -> int:
        return sum(each["bad"] for each in form["files"])

    return json_documents.read_document(store, commit.manifest.path, count) or 0


def _claim_to_json(store: Store, claim: Claim) -> dict[str, Any]:
    """Return a claim. `sender_dead` is true only if this machine proves it."""
    replay = plans.load_plan(store, claim.plan_id).replay or {}
    return {
        "plan_id": claim.plan_id,
        "replay": replay["id"] if "asked" in replay else None,  # a --resend has no id of its own
        "attempt": claim.attempt,
        "sender": dict(claim.sender),
        "sender_dead": is_dead_here(claim.sender, claim.attempt),
        "files": [file.name for file in claim.files],
        "offsets": sum(map(len, claim.window)),
    }
