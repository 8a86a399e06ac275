"""Links on tasks in Airflow's UI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseOperatorLink
from airflow.sdk.execution_time.xcom import XCom

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class ReportLink(BaseOperatorLink):  # type: ignore[misc]  # Airflow is not read by mypy
    """Link from a task to the page with the report of its run.

    `plan_task` has the XCom `plan`: by default the task itself, which carries out a whole run.
    """

    name = "Report"
    plan_task: str | None = None

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """Return the page's URL, relative to Airflow's. Empty before there is a plan."""
        plan = XCom.get_one(
            key="plan", dag_id=ti_key.dag_id, run_id=ti_key.run_id,
            task_id=self.plan_task or operator.task_id,
            map_index=-1 if self.plan_task else ti_key.map_index,
        )  # fmt: skip
        if not plan or "run_key" not in plan:
            return ""
        return f"tidegate/report/{plan['pipeline']}/{plan['run_key']}/{plan['generation']}"


OF_A_RUN = ReportLink()
OF_A_RUN.plan_task = "plan"
"""The link of each task of a pipeline's own DAG."""
