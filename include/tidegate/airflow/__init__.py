"""Tidegate in an Airflow that users have: its DAGs, and operators for DAGs that users write.

`from tidegate.airflow import dags; globals().update(dags())` is all that a DAG file needs. The
operators are imported when one of them is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from tidegate.orchestration.operators import TidegateCompleteThroughSensor, TidegateRunOperator

__all__ = ["TidegateCompleteThroughSensor", "TidegateRunOperator", "check", "dags"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tidegate.orchestration import operators

    return getattr(operators, name)


def dags() -> dict[str, DAG]:
    """Return the DAG of each pipeline file, the form DAGs and the maintenance DAG, by their ids.

    Pipeline files are those in TIDEGATE_PIPELINES. ConfigurationError if there is no such
    directory. An invalid file has a DAG that shows what is wrong. In a task there are the form
    DAGs, the maintenance DAG and, of the pipelines', only the task's own.
    """
    from tidegate.orchestration.factory import pipeline_dags, wanted_pipelines
    from tidegate.orchestration.form_dags import backfill_dag, replay_dag
    from tidegate.orchestration.maintenance import maintenance_dag

    loaded = wanted_pipelines()
    others = (backfill_dag(loaded), replay_dag(loaded), maintenance_dag())
    return {**pipeline_dags(loaded), **{dag.dag_id: dag for dag in others}}


def check() -> None:
    """Raise ConfigurationError if a pipeline file is wrong; for a second DAG file, without DAGs."""
    from tidegate.orchestration.factory import refuse_wrong_files

    refuse_wrong_files()
