"""Airflow's side: the only package that imports airflow.

What a DAG file imports to be parsed loads neither Kafka nor Spark nor Arrow: the use cases are
imported by the tasks.
"""
