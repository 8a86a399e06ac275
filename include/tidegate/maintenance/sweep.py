"""Sweep: collect the staging that nobody needs any more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tidegate.lake import multipart_uploads, sweeping
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import open_store
from tidegate.pipelines.spec import Ingest, Spec

FORMAT = 1


def sweep(spec: Spec, *, run: str, abandon_after: float = sweeping.ABANDON_AFTER) -> dict[str, Any]:
    """Remove what the rules of `lake.sweeping` allow; tell what went and what had to be left.

    `abandon_after` is in seconds; it must be longer than any application runs. Of an object store,
    uploads that were left open for as long are ended too. Of an egress nothing is given up: what is
    removed is another attempt's.
    """
    store = open_store(spec.lake, spec.name)
    ledger = Ledger(store, spec.name)
    if isinstance(spec, Ingest):
        swept = sweeping.sweep(store, ledger, run=run, abandon_after=abandon_after)
    else:
        swept = sweeping.sweep_egress(store, ledger)
    moment = datetime.now(UTC) - timedelta(seconds=abandon_after)
    ended = multipart_uploads.end(store, before=moment)
    return {
        "format": FORMAT,
        "pipeline": spec.name,
        "swept": swept.attempts,
        "left": swept.left,
        "files": sum(each["files"] for each in swept.attempts),
        "bytes": sum(each["bytes"] for each in swept.attempts),
        "uploads": len(ended),
    }
