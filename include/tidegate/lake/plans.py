"""Frozen plans: all processes and retries of a run get the same plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.core import canonical, layout
from tidegate.core.canonical import FORMAT
from tidegate.core.plan import Plan
from tidegate.core.wording import counted
from tidegate.errors import LakeDamaged
from tidegate.lake import json_documents
from tidegate.lake.store_protocol import Store


@dataclass(frozen=True)
class Frozen:
    """A run's plan: its `generation` counts from 1.

    `note` is its note if it is in the run's pointer, or this process has written it.
    """

    plan: Plan
    generation: int
    note: Mapping[str, Any] | None = field(default=None, compare=False)

    def __str__(self) -> str:
        """Announce the plan: its id, its generation if it is not the first, and its work."""
        plan = self.plan
        again = f" (generation {self.generation})" if self.generation > 1 else ""
        work = "nothing new"
        if plan.files:
            size = sum(file.size for file in plan.files)
            work = f"{counted(len(plan.files), 'file')}, {counted(size, 'byte')}"
        elif plan.chunks:
            records, chunks = counted(plan.records, "offset"), counted(len(plan.chunks), "chunk")
            work = f"{records} in {chunks}"
        return f"plan {plan.id}{again}: {work}"


def load_plan(store: Store, plan_id: str) -> Plan:
    """Return a frozen plan. LakeDamaged if it is missing or is not what its name says.

    OtherFormat if a newer release has planned with what this version does not know.
    """
    where = store.uri(layout.plan(plan_id))

    def read_plan(form: Mapping[str, Any]) -> Plan:
        plan = Plan.from_json(form)
        # The digest covers all keys: the bytes are right, and the plan has lost some of them.
        if plan.id != plan_id and canonical.digest(canonical.encode(form)).startswith(plan_id):
            raise json_documents.too_new(where, "a plan with keys that this version does not know")
        return plan

    plan = json_documents.read_document(store, layout.plan(plan_id), read_plan)
    if plan is None:
        raise LakeDamaged(f"plan {plan_id} is missing ({where})")
    if plan.id != plan_id:
        raise LakeDamaged(f"plan {plan_id} was changed ({where}); restore it from a copy")
    return plan


def read_note(store: Store, plan_id: str) -> Mapping[str, Any] | None:
    """Return the note of a plan: watermarks, time and run when it was first frozen."""
    return json_documents.read_document(store, layout.note(plan_id), dict)


def noted_epochs(note: Mapping[str, Any]) -> dict[tuple[str, int], int]:
    """Return the leader epochs in a plan's note, those of its ends, by topic and partition."""
    noted = note.get("epochs", {})
    return {(topic, int(p)): epoch for topic, each in noted.items() for p, epoch in each.items()}


def latest_plan(store: Store, run_key: str, *, after: Frozen | None = None) -> Frozen | None:
    """Return the run's plan of the highest generation, if it has any.

    With `after`, a generation that is known, only those after it are looked up.
    """
    number = after.generation if after else 0
    later = _pointers(store, run_key, after=number)
    if not later:
        return after
    plan_id, note = later[-1]
    return Frozen(load_plan(store, plan_id), number + len(later), note)


def plan_ids(store: Store, run_key: str) -> list[str]:
    """Return the ids of a run's plans, in order."""
    return [plan_id for plan_id, _ in _pointers(store, run_key)]


def _pointers(
    store: Store, run_key: str, *, after: int = 0
) -> list[tuple[str, Mapping[str, Any] | None]]:
    """Return the ids of a run's plans after that generation, in order, and the notes with them."""
    found: list[tuple[str, Mapping[str, Any] | None]] = []
    while pointer := json_documents.read_document(
        store,
        layout.generation(run_key, after + len(found) + 1),
        lambda form: (str(form["plan_id"]), form.get("note")),
    ):
        found.append(pointer)
    return found


def unfinished_ids(store: Store) -> list[str]:
    """Return the ids of plans that may have sealed chunks to commit. Not those of replays.

    A replay is finished by its own id: it replaces what is committed, and covers nothing new.
    """
    # This lists a directory that is nearly always empty, however old the lake is. If a marker is
    # lost, its own run still publishes.
    return [name for name in store.names(layout.UNFINISHED) if not name.startswith(".")]


def finish_plan(store: Store, plan_id: str) -> None:
    """Record that nothing of a plan is left to commit."""
    store.delete(layout.unfinished(plan_id))


def freeze_plan(
    store: Store, run_key: str, plan: Plan, generation: int, *, note: Mapping[str, Any]
) -> Frozen:
    """Make `plan` the run's plan of this generation, or return the one that exists.

    `note` (watermarks, time, run) is not part of the plan. It is kept beside it; of a plan without
    work in the run's pointer, because all runs of a date that find nothing have the same plan.
    """
    noted = canonical.encode({"format": FORMAT, **note})
    is_ours = not plan.has_work or store.create(layout.note(plan.id), noted)
    inline = {} if plan.has_work else {"note": json.loads(noted)}
    if not store.create(layout.plan(plan.id), plan.encoded):
        load_plan(store, plan.id)  # raises LakeDamaged
    if plan.kind == "ingest" and plan.chunks and plan.replay is None:
        store.create(layout.unfinished(plan.id), b"")  # before it can be staged
    pointer = canonical.encode({"format": FORMAT, "plan_id": plan.id, **inline})
    if store.create(layout.generation(run_key, generation), pointer):
        return Frozen(plan, generation, json.loads(noted) if is_ours else None)
    first = latest_plan(store, run_key)
    if first is None:
        raise LakeDamaged(f"run {run_key}: generation {generation} was there and is gone")
    return first
