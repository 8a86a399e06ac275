"""Tidegate's DAGs as a DAG bundle of Airflow, without a file in the DAGs folder."""

from __future__ import annotations

from typing import Any

from airflow.dag_processing.bundles.local import LocalDagBundle

from tidegate.airflow import dag_files


class TidegateDagBundle(LocalDagBundle):  # type: ignore[misc]
    """The bundle of the DAG file in this package. Give it in `[dag_processor]`:

    `dag_bundle_config_list = [{"name": "tidegate",
    "classpath": "tidegate.airflow.bundle.TidegateDagBundle", "kwargs": {}}]`
    """

    def __init__(self, **given: Any) -> None:
        super().__init__(path=dag_files.__path__[0], **given)
