"""Tidegate's DAGs for an own Airflow.

`from tidegate.airflow import dags; globals().update(dags())` is all that a DAG file needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import DAG


def dags() -> dict[str, DAG]:
    """Return the DAG of each pipeline file, the form DAGs and the maintenance DAG, by their ids.

    Pipeline files are those in TIDEGATE_PIPELINES; ConfigurationError if there is no such
    directory. An invalid file has a DAG that shows what is wrong.
    """
    from tidegate.orchestration.factory import pipeline_dags
    from tidegate.orchestration.form_dags import backfill_dag, replay_dag
    from tidegate.orchestration.maintenance import maintenance_dag

    others = (backfill_dag(), replay_dag(), maintenance_dag())
    return {**pipeline_dags(), **{dag.dag_id: dag for dag in others}}
