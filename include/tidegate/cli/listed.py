"""What `tidegate list` says of each pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidegate import flows
from tidegate.core.json_codec import Document
from tidegate.pipelines.spec import Spec
from tidegate.runs.pipeline_state import judge_error


@dataclass(frozen=True)
class ListedPipeline(Document):
    """A pipeline, its state and the reason for it.

    `state` is a State as text. `kind` and `schedule` are None if its file is wrong. `waiting`
    counts the offsets or files of the next run, None if that is not known. `last` is the time of
    its last ledger entry.
    """

    pipeline: str
    kind: str | None
    schedule: str | None
    state: str
    reason: str
    waiting: int | None
    last: str | None

    @classmethod
    def of(cls, name: str, result: tuple[Spec, Any] | Exception) -> ListedPipeline:
        """Return the line of a pipeline by its spec and status, or by the error in their place."""
        if isinstance(result, Exception):
            state, reason, waiting = judge_error(result)
            return cls(name, None, None, str(state), reason, waiting, None)
        spec, status = result
        state, reason, waiting = flows.flow_of(spec).judge(spec, status)
        last = status.last_entry and status.last_entry.at
        return cls(name, spec.kind, spec.schedule, str(state), reason, waiting, last)


@dataclass(frozen=True, kw_only=True)
class PipelineList(Document):
    """All pipelines (contract: `list --json`)."""

    format: int = 1
    pipelines: tuple[ListedPipeline, ...]
