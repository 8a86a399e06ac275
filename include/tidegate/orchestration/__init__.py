"""DAGs and tasks: the only package, with `ui`, that imports airflow.

Parsing a DAG file imports neither Kafka nor Spark nor Arrow: tasks import them when they run.
"""
