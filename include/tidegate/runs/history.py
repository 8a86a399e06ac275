"""The history of a pipeline's runs, in its lake: how each one ended.

People and alerts are told by it. Nothing decides by it what is read, sent or committed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any

from tidegate.core import canonical, layout
from tidegate.core.ended_run import EndedRun, RunError
from tidegate.core.json_codec import OMITTED, Document
from tidegate.core.requests import Live
from tidegate.errors import LakeDamaged, LakeUnavailable, OtherFormat, TidegateError
from tidegate.lake import json_documents
from tidegate.lake.plans import Frozen
from tidegate.lake.store_protocol import Store
from tidegate.runs import report_store
from tidegate.runs.run import NO_MIRROR, AnyKind, OpenRun, open_run

MOST_RUNS = 200
"""A day of a pipeline that runs every ten minutes, and more."""
_TRIES = 5  # of writers that are faster
_KEPT = 5  # documents: a slower writer must not create one that was there

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class History(Document):
    """The newest runs of a pipeline that have ended, the newest last."""

    pipeline: str
    runs: tuple[EndedRun, ...]
    format: int = canonical.FORMAT


@dataclass(frozen=True, kw_only=True)
class _Reported(Document):
    """What the history takes of a report of either kind."""

    rows: int
    left_out: tuple[Any, ...]
    planned_at: str | None
    published_at: str
    bytes: int | None
    lag: int | None
    expires_at: str | None
    bad: int
    complete_through: str | None
    duplicates: Annotated[int, OMITTED] = 0


@contextmanager
def recorded(run: AnyKind) -> Iterator[OpenRun[AnyKind]]:
    """Open a run, and record how the block, all of its steps, ends. Errors are those of `open_run`.

    A run that is killed or interrupted is not recorded.
    """
    opened = None
    try:
        opened = open_run(run)
        yield opened
    except Exception as error:
        plan = opened.known_plan() if opened else None
        record_end(run, opened.store if opened else None, plan, RunError.of(error))
        raise
    record_end(run, opened.store, opened.known_plan(), None)


def record_end(
    run: Any,
    store: Store | None,
    frozen: Frozen | None,
    error: RunError | None,
    *,
    checked: bool = True,
) -> EndedRun | None:
    """Add a run that has ended, or the new end of one that is known, and return it.

    Never raises: None if it cannot be told.

    `run` is of either kind, `store` that of its lake, if it is open, `frozen` its plan. An error
    that was not found by the step that failed, but by the one that checks the run (`checked` is
    False), replaces no other of the run.
    """
    if error and error.name == LakeUnavailable.__name__:
        return None  # it was asked for long enough
    ended = None
    try:
        store = store or run.store()
        ended = _ended(run, store, frozen, error)
        if error and store.size(layout.entry(1)) is None:
            return ended  # a lake that is not mounted, or was never written: it stays so
        if error and frozen is None and not ended.is_regular:
            return None  # a window that was refused: nothing was begun
        _append(store, run.spec.name, ended, keeps_error=not checked)
    except TidegateError as problem:
        logger.warning("run %s: its end is not in the history: %s", run.run_id, problem)
    except Exception:  # the run is committed: its history must not fail it
        logger.exception("run %s: its end is not in the history", run.run_id)
    return ended


def _ended(run: Any, store: Store, frozen: Frozen | None, error: RunError | None) -> EndedRun:
    ended = EndedRun(
        run=run.run_id,
        dag=run.dag_id,
        began=run.began.isoformat(timespec="seconds"),
        ended=datetime.now(UTC).isoformat(timespec="seconds"),
        error=error,
        lane=frozen.plan.lane if frozen else run.lane,
        in_airflow=run.mirror is not NO_MIRROR,
    )
    if frozen is None:
        return ended
    plan, found = frozen.plan, None
    if plan.has_work or plan.left_out:
        found = report_store.read_report(store, run.key, frozen.generation)
    elif plan.lane == Live.lane and frozen.note and frozen.note.get("takes_all", True):
        # It found nothing new, and left nothing out.
        return replace(ended, complete_through=frozen.note.get("surveyed_at"))
    if found is None:
        return ended
    report = _Reported.from_json(found)
    return replace(
        ended,
        planned=report.planned_at,
        published=report.published_at,
        rows=report.rows,
        bytes=report.bytes,
        lag=report.lag,
        expires_at=report.expires_at,
        left_out=len(report.left_out),
        bad=report.bad,
        complete_through=report.complete_through,
        duplicates=report.duplicates,
        report=(run.key, frozen.generation),
    )


def _append(store: Store, pipeline: str, ended: EndedRun, *, keeps_error: bool) -> None:
    for _ in range(_TRIES):
        names = store.names(layout.HISTORY)
        known = _read(store, names)
        failed = any((e.dag, e.run) == (ended.dag, ended.run) and e.error for e in known)
        if not failed and any(_is_again(each, ended) for each in known):
            return
        history = History(pipeline, _with(known, ended, keeps_error=keeps_error))
        last = int(names[-1].partition(".")[0]) if names else 0
        if store.create(layout.history(last + 1), canonical.encode(history.to_json())):
            if old := names[: -(_KEPT - 1)]:
                store.delete(*(layout.HISTORY + name for name in old))
            return
    logger.warning("run %s: its end is not in the history: others were faster", ended.run)


def _is_again(known: EndedRun, ended: EndedRun) -> bool:
    """Return whether a run that has ended well has only found again that it is done.

    Of a replay another run may have done it, by the same id.
    """
    is_done = known.error is ended.error is None and known.report == ended.report
    return is_done and (bool(ended.report) or (known.dag, known.run) == (ended.dag, ended.run))


def _with(
    known: tuple[EndedRun, ...], ended: EndedRun, *, keeps_error: bool
) -> tuple[EndedRun, ...]:
    """Return the runs with one more. One that is known keeps its place: it is not the newest.

    The newest regular run, and the newest one that ended well, stay whatever follows them.
    """
    same = next((each for each in known if (each.dag, each.run) == (ended.dag, ended.run)), None)
    if same and same.error and ended.error and keeps_error and same.began == ended.began:
        ended = replace(ended, error=same.error)
    runs = [ended if each is same else each for each in known] if same else [*known, ended]
    regular = [each for each in runs if each.is_regular]
    good = [each for each in regular if each.error is None]
    kept = [*regular[-1:], *good[-1:], *runs[-MOST_RUNS:]]
    return tuple(each for each in runs if each in kept)


def read_history(store: Store) -> tuple[EndedRun, ...]:
    """Return the runs that have ended, the newest last. Empty for one of a newer Tidegate.

    LakeUnavailable for a store that does not answer.
    """
    try:
        return _read(store, store.names(layout.HISTORY))
    except OtherFormat as other:
        logger.warning("%s", other)
        return ()


def _read(store: Store, names: list[str]) -> tuple[EndedRun, ...]:
    """Return the runs of the newest document that can be read: it is a copy of what happened."""
    for name in reversed(names):
        try:
            path = layout.HISTORY + name
            found = json_documents.read_document(store, path, History.from_json)
        except LakeDamaged as damage:
            logger.warning("%s", damage)
            continue
        if found:
            return found.runs
    return ()
