"""The Airflow DAG tidegate_replay: a window that is in the lake, read again, by a form."""

from tidegate.orchestration.windows import replay_dag

dag = replay_dag()
