"""Types that the steps of ingest and egress runs share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegate.core.plan import Plan
from tidegate.lake.plans import Frozen
from tidegate.launch.submission import Submission

MOST_LISTED = 20
"""Partitions, commits or findings that one message lists; of more it has only the number."""


@dataclass(frozen=True)
class Planned:
    """A run's living plan; `known` if it was frozen before this call."""

    frozen: Frozen
    known: bool

    @property
    def plan(self) -> Plan:
        return self.frozen.plan


@dataclass(frozen=True)
class EarlyEnd:
    """What a run that ended early leaves behind; `finished` if nothing of its plan is left to do.

    `planned`: it has a plan, which the same run id continues.
    """

    text: str
    finished: bool = False
    planned: bool = True


NO_PLAN = EarlyEnd("nothing: no plan was frozen", planned=False)

Submit = Callable[[Submission], None]
"""Runs one Spark application to its end; raises StageFailed, or BrokerUnreachable in an outage."""
