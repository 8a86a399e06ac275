#!/bin/sh
# The environment's startup script: Java for Spark's driver, and Tidegate's variables.
set -eu

sudo dnf install --assumeyes java-17-amazon-corretto-headless

export TIDEGATE_PIPELINES=/usr/local/airflow/dags/pipelines
export TIDEGATE_LAKE=s3://bucket/lake
export TIDEGATE_CACHE=/usr/local/airflow/plugins/tidegate-cache
