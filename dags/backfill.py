"""The Airflow DAG tidegate_backfill: any window of a topic again, by a form."""

from tidegate.orchestration.form_dags import backfill_dag

dag = backfill_dag()
