"""Links on tasks in Airflow's UI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseOperatorLink
from airflow.sdk.execution_time.xcom import XCom

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class ReportLink(BaseOperatorLink):  # type: ignore[misc]  # Airflow is not read by mypy
    """Link from a publish task to the page with the report of its run."""

    name = "Report"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the page's URL, relative to Airflow's. Empty before there is a report."""
        report = XCom.get_one(
            key="report", dag_id=ti_key.dag_id, task_id=operator.task_id, run_id=ti_key.run_id,
            map_index=ti_key.map_index,
        )  # fmt: skip
        if not report:
            return ""
        return f"tidegate/report/{report['pipeline']}/{report['run_key']}/{report['generation']}"
