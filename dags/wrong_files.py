"""No DAG: an import error in Airflow while a pipeline file is wrong."""

from tidegate.orchestration.factory import refuse_wrong_files

refuse_wrong_files()
