"""Sweep: delete staged files that no run and no reader needs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tidegate.lake import multipart_uploads, sweeping
from tidegate.lake.ledger import Ledger
from tidegate.lake.store_protocol import Store
from tidegate.pipelines.spec import Ingest, Spec

FORMAT = 1


def sweep_pipeline(
    spec: Spec, store: Store, *, run: str, abandon_after: float = sweeping.ABANDON_AFTER
) -> dict[str, Any]:
    """Delete what the rules of `lake.sweeping` allow. Return what was deleted and what was kept.

    `abandon_after` is in seconds. It must be longer than any application runs. On an object store,
    multipart uploads that have been open for that long are aborted, too. Attempts of an egress are
    not abandoned: only files of attempts that lost are deleted.
    """
    ledger = Ledger(store, spec.name)
    if isinstance(spec, Ingest):
        swept = sweeping.sweep(store, ledger, run=run, abandon_after=abandon_after)
    else:
        swept = sweeping.sweep_egress(store, ledger)
    before = datetime.now(UTC) - timedelta(seconds=abandon_after)
    aborted = multipart_uploads.abort_uploads(store, before=before)
    return {
        "format": FORMAT,
        "pipeline": spec.name,
        "swept": swept.attempts,
        "left": swept.left,
        "files": sum(each["files"] for each in swept.attempts),
        "bytes": sum(each["bytes"] for each in swept.attempts),
        "uploads": len(aborted),
    }
