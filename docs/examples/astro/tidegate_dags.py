"""The DAGs of Tidegate, for Airflow's DAG folder: one for each pipeline file, and the form DAGs."""

from tidegate.airflow import dags

globals().update(dags())
