"""Freezing: a run has one plan, whoever asks and however often."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.core import canonical, layout
from tidegate.core.plan import Plan
from tidegate.errors import LakeDamaged
from tidegate.lake.store import Store


@dataclass(frozen=True)
class Frozen:
    """A run's plan: its `generation` counts from 1."""

    plan: Plan
    generation: int


def load(store: Store, plan_id: str) -> Plan:
    """Return a frozen plan; LakeDamaged if it is missing or is not what its name says."""
    where = store.uri(layout.plan(plan_id))
    data = store.get(layout.plan(plan_id))
    if data is None:
        raise LakeDamaged(f"plan {plan_id} is missing ({where})")
    plan = Plan.from_json(json.loads(data))
    if plan.id != plan_id or plan.encoded != data:
        raise LakeDamaged(f"plan {plan_id} was changed ({where}); restore it from a copy")
    return plan


def note(store: Store, plan_id: str) -> Mapping[str, Any] | None:
    """Return what was seen when the plan was first frozen."""
    data = store.get(layout.note(plan_id))
    return None if data is None else json.loads(data)


def latest(store: Store, run_key: str) -> Frozen | None:
    """Return the run's plan of the highest generation, if it has any."""
    found = None
    number = 1
    while (data := store.get(layout.generation(run_key, number))) is not None:
        found = Frozen(load(store, json.loads(data)["plan_id"]), number)
        number += 1
    return found


def freeze(
    store: Store, run_key: str, plan: Plan, generation: int, *, note: Mapping[str, Any]
) -> Frozen:
    """Make `plan` the run's plan of this generation, or return the one that was first.

    `note` (what was seen: watermarks, time, run) is kept beside the plan, and is not part of it.
    """
    store.create(layout.note(plan.id), canonical.encode(note))
    store.create(layout.plan(plan.id), plan.encoded)
    pointer = canonical.encode({"format": 1, "plan_id": plan.id})
    if store.create(layout.generation(run_key, generation), pointer):
        return Frozen(plan, generation)
    first = latest(store, run_key)
    if first is None:
        raise LakeDamaged(f"run {run_key}: generation {generation} was there and is gone")
    return first
