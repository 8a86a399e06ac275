"""Plans with a chunk that may still be committed."""

from __future__ import annotations

import logging
import posixpath
from collections import defaultdict
from collections.abc import Iterator, Sequence

from tidegate.core.fold import Fold
from tidegate.core.intervals import NOTHING
from tidegate.core.offsets import Window
from tidegate.core.plan import Plan
from tidegate.core.work import Standing, chunk_of, chunks_of
from tidegate.errors import LakeDamaged, OtherFormat, TidegateError
from tidegate.lake import attempts, committing, plans
from tidegate.lake.attempts import Staged
from tidegate.lake.ledger import Ledger
from tidegate.lake.plan_work import open_attempts
from tidegate.lake.store_protocol import Store
from tidegate.spark.ingest_job import DONE

logger = logging.getLogger(__name__)


def publish_unfinished(
    store: Store, ledger: Ledger, unfinished: Sequence[Plan], *, run: str
) -> bool:
    """Commit what other runs have sealed and not published. Return whether anything was.

    A run that is still working on such a plan finds its chunk committed. A plan that cannot be
    published now is logged and stays unfinished. Raises OtherFormat, and
    transient errors: after such an error nothing that is sealed may be given up.
    """
    before = ledger.fold.n
    listed = store.each(lambda plan: attempts.staged_files(store, plan.id), unfinished)
    for plan, staged in zip(unfinished, listed, strict=True):
        names = _names_by_chunk(ledger.fold, staged)
        try:
            if any(DONE in each for each in names.values()):
                ledger.refresh()
                committing.commit_sealed_chunks(store, ledger, plan, run=run, not_placed=[])
        except TidegateError as error:
            if error.kind == "transient" or isinstance(error, OtherFormat):
                raise
            logger.warning("plan %s: its sealed chunks were not published: %s", plan.id, error)
            continue
        if _is_over(store, ledger.fold, plan):
            plans.finish_plan(store, plan.id)
    return ledger.fold.n > before


def load_unfinished(store: Store, *, other_than: str | None = None) -> list[Plan]:
    """Return the plans that may have chunks to commit. One that is damaged is logged."""

    def load(plan_id: str) -> Plan | None:
        try:
            return plans.load_plan(store, plan_id)
        except LakeDamaged as error:
            logger.warning("plan %s: nothing of it was sealed or published: %s", plan_id, error)
            return None

    others = [plan_id for plan_id in plans.unfinished_ids(store) if plan_id != other_than]
    return [plan for plan in store.each(load, others) if plan]


def pending_chunks(store: Store, fold: Fold) -> Iterator[tuple[Plan, int]]:
    """Yield each chunk with an attempt in staging that may still be committed.

    That is: it is neither committed nor overlaps what is, and not every attempt is abandoned.
    Replays are excluded: they bring no offsets that the lake did not have.
    """
    chunks = {attempt[:2] for attempt in open_attempts(fold, attempts.staged_files(store))}
    for plan_id, chunk in sorted(chunks):
        try:
            plan = plans.load_plan(store, plan_id)
        except LakeDamaged:
            continue  # `verify` and `repair` report it
        if chunk < len(plan.chunks) and plan.replay is None and _is_pending(fold, plan, chunk):
            yield plan, chunk


def _is_pending(fold: Fold, plan: Plan, chunk: int) -> bool:
    return chunk_of(fold, plan, chunk).standing is Standing.PENDING


def _names_by_chunk(fold: Fold, staged: Staged) -> dict[int, set[str]]:
    """Return the names of the files that are staged of each chunk that is not committed.

    Those of abandoned attempts are excluded: they cannot be committed.
    """
    names: dict[int, set[str]] = defaultdict(set)
    for attempt, files in open_attempts(fold, staged).items():
        names[attempt.chunk] |= {posixpath.basename(f.path) for f in files}
    return names


def _is_over(store: Store, fold: Fold, plan: Plan) -> bool:
    """Return whether no further chunk can be committed: coverage never shrinks.

    A chunk that is skipped, or of a topic that was recreated, is over when nothing of it is staged:
    until then another process may still seal it and end before it publishes, and only the marker
    leads to its manifest.
    """
    pending = {c.number: c.window for c in chunks_of(fold, plan) if c.standing is Standing.PENDING}
    if not all(_recreated(fold, plan, w) or _skipped(fold, plan, w) for w in pending.values()):
        return False
    # Listed after the ledger was read: what is staged from now on comes after the gap.
    staged = _names_by_chunk(fold, attempts.staged_files(store, plan.id)) if pending else {}
    return not pending.keys() & staged.keys()


def _recreated(fold: Fold, plan: Plan, window: Window) -> bool:
    """Return whether a topic of a chunk was recreated: its old records cannot be read."""
    ids = fold.topic_ids
    return any(ids.get(r.topic, plan.topics[r.topic]) != plan.topics[r.topic] for r in window)


def _skipped(fold: Fold, plan: Plan, window: Window) -> bool:
    return all(
        not fold.skipped.get((plan.topics[r.topic], r.partition), NOTHING).missing(r.start, r.end)
        for r in window
    )
