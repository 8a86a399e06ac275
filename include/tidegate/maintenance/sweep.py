"""Sweep: delete staged files that no run and no reader needs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tidegate.core.json_codec import Document
from tidegate.lake import multipart_uploads, sweeping
from tidegate.lake.ledger import Ledger
from tidegate.lake.store_protocol import Store
from tidegate.lake.sweeping import SweptAttempt, UndeletedAttempt
from tidegate.pipelines.spec import Ingest, Spec

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class SweptPipeline(Document):
    """The attempts whose files were deleted, and those that had to stay (`left`).

    `files` and `bytes` are sums. `uploads` counts the multipart uploads that were aborted.
    """

    format: int = FORMAT
    pipeline: str
    swept: tuple[SweptAttempt, ...]
    left: tuple[UndeletedAttempt, ...]
    files: int
    bytes: int
    uploads: int


def sweep_pipeline(
    spec: Spec, store: Store, *, run: str, abandon_after: float = sweeping.ABANDON_AFTER
) -> SweptPipeline:
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
    return SweptPipeline(
        pipeline=spec.name,
        swept=tuple(swept.attempts),
        left=tuple(swept.left),
        files=sum(each.files for each in swept.attempts),
        bytes=sum(each.bytes for each in swept.attempts),
        uploads=len(aborted),
    )
