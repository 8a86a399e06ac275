"""Whether an open claim may be taken over: its sender must be proven dead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.core.entries import Claim
from tidegate.egress.sender import TaskEnded, has_ended, is_dead
from tidegate.lake.attempts import Attempt
from tidegate.lake.store_protocol import Store
from tidegate.runs.engine_protocol import Engine, Unknown


def not_dead(claim: Claim, engine: Engine, store: Store, task_ended: TaskEnded) -> str | None:
    """Return why the sender of an open claim is not proven dead; None is the proof.

    An application that may outlive its submitter is ended by `engine`, which waits for its end.
    """
    sender = claim.sender
    if (application := sender.get("application")) is None:
        dead = is_dead(sender, claim.attempt, task_ended)
        return None if dead else f"{_process(sender)} may still run{_proof(sender)}"
    if not has_ended(sender, claim.attempt, task_ended):
        return f"its submitter, {_process(sender)}, may still run{_proof(sender)}"
    end = engine.end(application, Attempt(claim.plan_id, 0, claim.attempt), store)
    return end.why if isinstance(end, Unknown) else None


def _process(sender: Mapping[str, Any]) -> str:
    return f"process {sender['pid']} on {sender['host']}"


def _proof(sender: Mapping[str, Any]) -> str:
    """Return who can prove the end of a sender that is a task of Airflow."""
    if (task := sender["task"]) is None:
        return ""
    named = f" (try {task['try']} of task {task['task']} of {task['dag']}, run {task['run']}"
    return f"{named}): only tasks of its Airflow deployment, {task['deployment']}, can take over"
