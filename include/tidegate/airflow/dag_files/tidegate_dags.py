"""Every DAG of Tidegate, for Airflow's DAG processor."""

from tidegate.airflow import dags

globals().update(dags())
