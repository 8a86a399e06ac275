"""The maintenance steps in their order: what the DAG and the commands do for each pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.errors import CursorAhead, LakeDamaged, NeedsAirflow, TidegateError
from tidegate.flows import FLOWS, KafkaOf, lazy
from tidegate.pipelines.spec import Ingest, Spec

if TYPE_CHECKING:
    from tidegate.runs.run import Mirror

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Environment:
    """What the steps are given: `run` is the author in the ledger, `abandon_after` in seconds.

    Without Airflow, `variables` is the error that says so.
    """

    run: str
    kafka_of: KafkaOf
    variables: Mirror | NeedsAirflow
    abandon_after: float


@dataclass(frozen=True)
class Step:
    """A step for one pipeline of some kinds.

    `do` returns its document, and `problem` what of it an operator must solve.
    """

    description: str
    do: Callable[[Any, Environment], dict[str, Any]]
    problem: Callable[[Spec, Document], TidegateError | None] = lambda _, __: None
    kinds: tuple[str, ...] = tuple(FLOWS)


def _reconcile(spec: Spec, given: Environment) -> dict[str, Any]:
    from tidegate.maintenance.reconcile import reconcile

    group = isinstance(spec, Ingest) and spec.progress_group
    kafka = given.kafka_of(spec.kafka) if group else None
    if not isinstance(given.variables, NeedsAirflow):
        return reconcile(spec, given.variables, kafka)
    if kafka is None:
        raise given.variables
    return reconcile(spec, None, kafka)


def _ahead(spec: Spec, reconciled: Document) -> CursorAhead | None:
    from tidegate.maintenance.reconcile import left_ahead

    if not (ahead := left_ahead(reconciled)):
        return None
    return CursorAhead(
        f"ahead of the ledger: {', '.join(ahead)}. Either the lake at {spec.lake} is not "
        "the one it was (mount or restore it), or they were edited: delete them to go on "
        "from the ledger, or skip to them with move_cursor"
    )


def _kept(_: Spec, swept: Document) -> LakeDamaged | None:
    if not swept["left"]:
        return None
    kept = "; ".join(f"commit #{each['commit']}: {each['why']}" for each in swept["left"])
    return LakeDamaged(f"copies were kept, for the files in data/ are not right: {kept}")


# A step is imported when it runs: a DAG file reads this list.
STEPS = {
    "repair": Step(
        "Place what crashed publishers left; quarantine strange files in `data/`.",
        lambda spec, _: lazy("tidegate.maintenance.repair.repair")(spec),
        kinds=("ingest",),
    ),
    "reconcile": Step("Rewrite Variables that are not the ledger's cursors.", _reconcile, _ahead),
    "sweep": Step(
        "Remove staging that nobody needs any more.",
        lambda spec, given: lazy("tidegate.maintenance.sweep.sweep")(
            spec, run=given.run, abandon_after=given.abandon_after
        ),
        _kept,
    ),
    "checkpoint": Step(
        "Write down what the ledger adds up to, so that opening it stays quick.",
        lambda spec, _: lazy("tidegate.maintenance.checkpoint.checkpoint")(spec),
    ),
}
