"""Types that the steps of ingest and egress runs share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidegate.core.plan import Plan
from tidegate.lake.plans import Frozen
from tidegate.launch.spark_submit import Submission

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


Submit = Callable[[Submission], None]
"""Runs one Spark application to its end; raises StageFailed when it fails."""
