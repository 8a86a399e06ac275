"""Replay ids: each id belongs to one request."""

from __future__ import annotations

import re

from tidegate.core.plan import Plan
from tidegate.core.requests import FileReplay, Replay
from tidegate.errors import ReplayRefused
from tidegate.runs.run import AnyRun

_WINDOW = ("topic", "partitions", "start", "end", "where", "files")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:+-]{0,127}")


def id_complaints(asked: Replay | FileReplay) -> list[str]:
    """Return a list of one complaint if the replay id is malformed, else an empty list."""
    if _ID.fullmatch(asked.id):
        return []
    return [f"replay id {asked.id!r}: letters, digits and _.:+-, 128 at most"]


def refuse_another(run: AnyRun, asked: Replay | FileReplay, plan: Plan) -> None:
    """Raise ReplayRefused if the plan of this replay id is of another window."""
    if plan.replay is None or plan.replay["asked"] != asked.to_json():
        first = plan.replay["asked"] if plan.replay else {}
        given = [f"{key} {first[key]}" for key in _WINDOW if first.get(key)]
        window = ", ".join(given) or "another kind of run"
        raise ReplayRefused(
            f"pipeline {run.spec.name!r}: replay id {asked.id!r} stands for {window}, as plan "
            f"{plan.id}; nothing was done. Another window needs another id",
            replay_id=asked.id,
            plan_id=plan.id,
        )
