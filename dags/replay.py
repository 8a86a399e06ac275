"""The Airflow DAG tidegate_replay: a window that is in the lake, read again, by a form."""

from tidegate.orchestration.form_dags import replay_dag

dag = replay_dag()
