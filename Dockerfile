# Tidegate with Airflow, Spark and the pinned jars: one image for all that is not Kafka, Postgres
# or S3. `make setup` checks, installs by hashes and fetches, as on any machine.
FROM python:3.11.13-slim-bookworm

RUN apt-get update \
 && apt-get install --yes --no-install-recommends make openjdk-17-jre-headless procps util-linux \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --create-home tidegate \
 && install --directory --owner=tidegate /opt/tidegate /opt/airflow /opt/airflow/logs

USER tidegate
WORKDIR /opt/tidegate
ENV TIDEGATE_CACHE=/opt/tidegate/cache \
    AIRFLOW_HOME=/opt/airflow

COPY --chown=tidegate Makefile pyproject.toml requirements.lock requirements.txt README.md LICENSE ./
COPY --chown=tidegate include include
COPY --chown=tidegate spark_jobs spark_jobs
COPY --chown=tidegate dags dags
COPY --chown=tidegate plugins plugins
RUN UV_NO_CACHE=1 make setup

ENV SPARK_HOME=/opt/tidegate/.venv/lib/python3.11/site-packages/pyspark
ENV PATH=/opt/tidegate/.venv/bin:${SPARK_HOME}/bin:${PATH}
