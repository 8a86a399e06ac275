"""No DAG: an import error in Airflow while a pipeline file is wrong."""

from tidegate.airflow import check

check()
