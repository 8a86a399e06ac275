"""What the steps of both kinds of run share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tidegate.core.plan import Plan
from tidegate.errors import (
    NotSealed,
    TidegateError,
)
from tidegate.lake import plans
from tidegate.lake.plans import Frozen
from tidegate.launch.spark_submit import Submission
from tidegate.runs.run import AnyRun


@dataclass(frozen=True)
class Planned:
    """A run's living plan. `known` says that it was frozen before this call.

    `sealed` are the chunks of it that this call has sealed, of attempts that had been finished
    before; `unproven` chunks have such an attempt, too, and why it cannot be sealed now.
    """

    frozen: Frozen
    known: bool
    sealed: tuple[int, ...] = ()
    unproven: Mapping[int, TidegateError] = field(default_factory=dict)

    @property
    def plan(self) -> Plan:
        return self.frozen.plan


Submit = Callable[[Submission], None]
"""Runs one Spark application to its end; raises StageFailed when it fails."""


def frozen_plan(run: AnyRun) -> Frozen:
    """Return the run's latest plan; NotSealed if it never had one."""
    frozen = plans.latest(run.store(), run.key)
    if frozen is None:
        raise NotSealed(
            f"run {run.run_id} of {run.spec.name!r} has no plan: its plan step never ran, or the "
            f"lake at {run.spec.lake} is not the one it ran on"
        )
    return frozen
