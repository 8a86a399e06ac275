"""Plans that may still have sealed chunks to commit: found without listing all of the staging."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from tidegate.core import layout
from tidegate.core.intervals import NOTHING
from tidegate.core.ledger import Fold
from tidegate.core.offsets import Window
from tidegate.core.plan import Plan
from tidegate.errors import TidegateError
from tidegate.lake import attempts, plans, publishing
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import Listed, Store

_AT_ONCE = 16  # requests

logger = logging.getLogger(__name__)


def publish_unfinished(store: Store, ledger: Ledger, plan_ids: Sequence[str], *, run: str) -> bool:
    """Commit what other runs have sealed and not published; return whether anything was.

    A run that still works on such a plan finds its chunk committed, and goes on with the rest. A
    plan that cannot be published now is logged and stays; it never stops the caller's own work.
    Raises transient errors of the lake only: what is sealed must not be given up because of them.
    """
    before = ledger.fold.n
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        opened = list(pool.map(lambda plan_id: _opened(store, plan_id), plan_ids))
    for plan_id, found in zip(plan_ids, opened, strict=True):
        try:
            if isinstance(found, TidegateError):
                raise found
            plan, listed = found
            staged = _staged(ledger.fold, plan, listed)
            if any(attempts.SEAL in names for names in staged.values()):
                publishing.publish_sealed(store, ledger, plan, run=run, not_placed=[])
        except TidegateError as error:
            if error.kind == "transient":
                raise
            logger.warning("plan %s: its sealed chunks were not published: %s", plan_id, error)
            continue
        if _is_over(ledger.fold, plan, staged):
            plans.finish(store, plan_id)
    return ledger.fold.n > before


def _opened(store: Store, plan_id: str) -> tuple[Plan, list[Listed]] | TidegateError:
    """Return a plan and what is in its staging directory, or what is wrong with the plan."""
    try:
        return plans.load(store, plan_id), store.objects(f"{layout.STAGING}{plan_id}/")
    except TidegateError as error:
        return error


def _staged(fold: Fold, plan: Plan, listed: Iterable[Listed]) -> dict[int, set[str]]:
    """Return what is staged of each chunk that is not committed: the names of its files.

    Not those of abandoned attempts: nobody can commit them.
    """
    found: dict[int, set[str]] = defaultdict(set)
    for each in listed:
        parts = each.path.removeprefix(layout.STAGING).split("/")
        if len(parts) < 4 or not parts[1].isdecimal():
            continue
        chunk = int(parts[1])
        if (plan.id, chunk) in fold.committed or (plan.id, chunk, parts[2]) in fold.abandoned:
            continue
        found[chunk].add(parts[-1])
    return found


def _is_over(fold: Fold, plan: Plan, staged: Mapping[int, set[str]]) -> bool:
    """Say whether no chunk can be committed any more: what is covered never becomes uncovered.

    A chunk that is skipped, or of a topic that was recreated, is over when nothing of it is staged:
    until then another process may still seal it and end before it publishes, and only the marker
    leads to that seal. A seal alone does not count: its files are gone.
    """
    return all(
        (plan.id, number) in fold.committed
        or fold.covered_part(window, plan.topics)
        or (
            not staged.get(number, set()) - {attempts.SEAL}
            and (_recreated(fold, plan, window) or _skipped(fold, plan, window))
        )
        for number, window in enumerate(plan.chunks)
    )


def _recreated(fold: Fold, plan: Plan, window: Window) -> bool:
    """Say whether a topic of a chunk is another one by now: its old records cannot be read."""
    ids = fold.topic_ids
    return any(ids.get(r.topic, plan.topics[r.topic]) != plan.topics[r.topic] for r in window)


def _skipped(fold: Fold, plan: Plan, window: Window) -> bool:
    return all(
        not fold.skipped.get((plan.topics[r.topic], r.partition), NOTHING).missing(r.start, r.end)
        for r in window
    )
