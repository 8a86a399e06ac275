"""The maintenance steps in their order: what the DAG and the commands do for each pipeline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.core.json_codec import Document
from tidegate.errors import CursorAhead, LakeDamaged, NeedsAirflow, TidegateError
from tidegate.flows import FLOWS, KafkaOf, store
from tidegate.pipelines.spec import Ingest, Spec

if TYPE_CHECKING:
    from tidegate.maintenance.reconcile import Reconciled
    from tidegate.maintenance.sweep import SweptPipeline
    from tidegate.runs.run import Mirror
    from tidegate.runs.spec_protocol import IngestSpec


@dataclass(frozen=True)
class Environment:
    """The arguments of the steps: `run` is the author in the ledger, `abandon_after` in seconds.

    Without Airflow, `variables` is a NeedsAirflow error.
    """

    run: str
    kafka_of: KafkaOf
    variables: Mirror | NeedsAirflow
    abandon_after: float


@dataclass(frozen=True)
class Step:
    """A step for one pipeline, of the `kinds`.

    `do` returns its document. `problem` returns the error in it that an operator must solve.
    """

    description: str
    do: Callable[[Any, Environment], Document]
    problem: Callable[[Spec, Any], TidegateError | None] = lambda _, __: None
    kinds: tuple[str, ...] = tuple(FLOWS)


def _reconcile(spec: Spec, given: Environment) -> Reconciled:
    from tidegate.maintenance.reconcile import reconcile_pipeline

    group = isinstance(spec, Ingest) and spec.progress_group
    kafka = given.kafka_of(spec) if group else None
    if not isinstance(given.variables, NeedsAirflow):
        return reconcile_pipeline(spec, given.variables, kafka)
    if kafka is None:
        raise given.variables
    return reconcile_pipeline(spec, None, kafka)


def _ahead(spec: Spec, reconciled: Reconciled) -> CursorAhead | None:
    if not (ahead := reconciled.ahead):
        return None
    return CursorAhead(
        f"ahead of the ledger: {', '.join(ahead)}. Either the lake at {spec.lake} is not "
        "the one it was (mount or restore it), or they were edited: delete them to go on "
        "from the ledger, or skip to them with move_cursor"
    )


def _kept(_: Spec, swept: SweptPipeline) -> LakeDamaged | None:
    if not swept.left:
        return None
    kept = "; ".join(f"commit #{each.commit}: {each.why}" for each in swept.left)
    return LakeDamaged(f"staged copies were kept, because files in data/ are damaged: {kept}")


def _repair(spec: IngestSpec, _: Environment) -> Document:
    from tidegate.maintenance.repair import repair_lake

    return repair_lake(spec, store(spec))


def _sweep(spec: Spec, given: Environment) -> Document:
    from tidegate.maintenance.sweep import sweep_pipeline

    return sweep_pipeline(spec, store(spec), run=given.run, abandon_after=given.abandon_after)


def _checkpoint(spec: Spec, _: Environment) -> Document:
    from tidegate.maintenance.checkpoint_step import checkpoint_pipeline

    return checkpoint_pipeline(spec, store(spec))


# A step imports what it needs when it runs, because DAG files import this table.
STEPS = {
    "repair": Step(
        "Place committed files after crashes; quarantine unknown files in `data/`.",
        _repair,
        kinds=("ingest",),
    ),
    "reconcile": Step("Rewrite Variables that differ from the ledger.", _reconcile, _ahead),
    "sweep": Step(
        "Delete staged files that are no longer needed.",
        _sweep,
        _kept,
    ),
    "checkpoint": Step(
        "Write a checkpoint of the ledger, so that opening it reads few entries.",
        _checkpoint,
    ),
}
