"""The senders of an egress: processes, which may be tasks of Airflow.

Whether an open claim may be taken over is asked here: its sender must be proven dead.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from tidegate.core.entries import Claim
from tidegate.egress.sender import TaskEnded, has_ended, hold_attempt, is_dead, sender_identity
from tidegate.lake.attempts import Attempt
from tidegate.lake.store_protocol import Store
from tidegate.runs.engine_protocol import Engine, Unknown


@dataclass(frozen=True)
class ProcessSenders:
    """Senders as `tidegate.runs.run.Senders` asks for them.

    `task` identifies the task instance of Airflow that this process is, if it is one: dag, run,
    task, try and deployment. `task_ended` says of another one whether Airflow knows that it has
    ended.
    """

    task: Mapping[str, Any] | None = None
    task_ended: TaskEnded = lambda _: False

    def holding(self) -> AbstractContextManager[str]:
        return hold_attempt()

    def identity(self, application: Mapping[str, str] | None) -> dict[str, Any]:
        return sender_identity(self.task, application)

    def doubt(self, claim: Claim, engine: Engine, store: Store) -> str | None:
        sender = claim.sender
        if (application := sender.get("application")) is None:
            dead = is_dead(sender, claim.attempt, self.task_ended)
            return None if dead else f"{_process(sender)} may still run{_proof(sender)}"
        if not has_ended(sender, claim.attempt, self.task_ended):
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
