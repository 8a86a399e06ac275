# Tidegate with Airflow, Spark and the jars of a run: one image for all that is not Kafka, Postgres
# or S3. Everything is installed by hashes. docs/how-to/containers.md lists what is in it.
FROM python:3.11.13-slim-bookworm AS base

RUN apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps util-linux \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/tidegate
ENV TIDEGATE_CACHE=/opt/tidegate/cache \
    PATH=/opt/tidegate/.venv/bin:${PATH}


FROM base AS builder

# Packages that come as source are built by the locked backend, which is installed first.
COPY include/tidegate_local/compose/image.lock ./
RUN python -m venv .venv \
 && awk '/^[a-z]/ {keep = /^(packaging|setuptools|wheel)==/} keep' image.lock > backend.lock \
 && pip install --no-cache-dir --require-hashes --no-deps --requirement backend.lock \
 && pip install --no-cache-dir --require-hashes --no-deps --no-build-isolation --requirement image.lock \
 && rm image.lock backend.lock

COPY pyproject.toml README.md LICENSE /tmp/source/
COPY include /tmp/source/include
COPY docs /tmp/source/include/tidegate/pages
# a+rX: the umask of who has checked the project out may be 077.
RUN pip install --no-cache-dir --no-deps --no-build-isolation /tmp/source \
 && tidegate jars --no-archive \
 && pip uninstall --yes pip \
 && mkdir --parents cache/logs include/pipelines \
 && chmod --recursive a+rX /opt/tidegate


FROM base

RUN useradd --uid 10001 --create-home tidegate \
 && install --directory --owner=tidegate \
      /opt/airflow /opt/airflow/logs /opt/airflow/secrets /opt/spark-conf /opt/spark-work
COPY --from=builder --chown=tidegate /opt/tidegate /opt/tidegate

USER 10001
ENV AIRFLOW_HOME=/opt/airflow \
    SPARK_HOME=/opt/tidegate/.venv/lib/python3.11/site-packages/pyspark
ENV PATH=${PATH}:${SPARK_HOME}/bin
