"""Reports of runs in the lake: written once, read by the report page."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from tidegate.core import canonical, layout
from tidegate.core.plan import Plan
from tidegate.errors import TidegateError
from tidegate.lake import json_documents
from tidegate.lake.store_protocol import Store
from tidegate.runs.run import AnyRun
from tidegate.runs.steps import FORMAT, RunDetails, RunReport

logger = logging.getLogger(__name__)


def keep_report(
    run: AnyRun,
    store: Store,
    summary: RunReport,
    plan: Plan,
    note: Mapping[str, Any],
    describe: Callable[[], RunDetails],
    *,
    is_new: bool = False,
) -> None:
    """Write the full report of a run that had work, unless one exists. Never raises.

    `note` is the plan's note. `describe` returns what the full report adds to the `summary`.
    With `is_new` no existing report is looked up. One that exists is still not overwritten.
    """
    path = layout.report(run.key, summary.generation)
    if not plan.has_work and not plan.left_out:
        return
    try:
        if not is_new and store.size(path) is not None:
            return
        report = {
            **summary.to_json(),
            "dag": run.dag_id,
            "window_date": plan.window_date,
            "planned_at": note.get("at"),
            "published_at": datetime.now(UTC).isoformat(timespec="seconds"),
            **describe().to_json(),
        }
        store.create(path, canonical.encode(report))
    except TidegateError as error:
        logger.warning("plan %s: its report was not written: %s", plan.id, error)
    except Exception:  # the run is committed: a report must not fail it
        logger.exception("plan %s: its report was not written", plan.id)


def read_report(store: Store, run_key: str, generation: int) -> Mapping[str, Any] | None:
    """Return a run's full report, or None if it was not kept."""
    return json_documents.read_document(
        store, layout.report(run_key, generation), dict, number=FORMAT
    )
