"""The Airflow DAG that keeps the pipelines: repair, reconcile, sweep, move a cursor."""

from tidegate.orchestration.maintenance import maintenance_dag

dag = maintenance_dag()
