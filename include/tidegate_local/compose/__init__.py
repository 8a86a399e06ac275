"""What the services of docker-compose.yaml run besides Airflow and Spark: each step ends by itself.

`python -m tidegate_local.compose prepare|bucket|load`: exit code 0, or one line on stderr.
"""
