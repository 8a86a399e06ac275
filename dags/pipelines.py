"""One Airflow DAG per file in include/pipelines (or TIDEGATE_PIPELINES)."""

from tidegate.orchestration.factory import pipeline_dags

globals().update(pipeline_dags())
