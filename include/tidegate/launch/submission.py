"""Calls of spark-submit: described once, for the command line and for Airflow.

Settings that correctness needs win over a pipeline's `spark.conf`, which wins over its Spark
connection's `conf`, which wins over settings for speed. No secret is passed here: secrets are in
the job file, and only its path is an argument.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tidegate.errors import ConfigurationError
from tidegate.launch import (
    java_options,
    job_zip,
    spark_home,
    spark_jars,
    token_settings,
)
from tidegate.launch.spark_connection import LOCAL, SparkConnection
from tidegate.runs.kafka_protocol import JavaCluster
from tidegate.settings import secrets, spark_conf
from tidegate.spark import jobs
from tidegate.spark.egress_job import EgressJob
from tidegate.spark.ingest_job import IngestJob
from tidegate.spark.job_files import KafkaJob

CLASS_PATH = "spark.driver.extraClassPath"
PACKAGES = "spark.jars.packages"
MODULES = "spark.submit.pyFiles"
_JOBS = Path(jobs.__file__).parent
# Records. Below, generating code or optimising it fully costs more than it saves (ADR 14).
_TINY = 200_000
# Spark's compiler of generated code, Janino, is a signed jar, so its classes cannot be in the
# archive of classes.
_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
# Without these Spark keeps a thousand queries and jobs for its page, even if the page is off.
_RETAINED = {
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "2000",
    "spark.sql.ui.retainedExecutions": "20",
}
# The event log and the pages show the options of source and sink. A spark.redaction.regex of the
# pipeline replaces the pattern that hides secrets among them. This one stays beside it.
_REDACTED = "spark.sql.redaction.options.regex"
_SECRET_OPTIONS = "(?i:url|jaas|secret|passw|token)"


@dataclass(frozen=True)
class Submission:
    """One call of spark-submit. `env` is added to the caller's environment.

    `kafka` is the cluster that the application cannot do without: it is watched meanwhile, and so
    are the topics that it sends to, `target_ids` by name. `kill` ends an application that does not
    end with spark-submit. It is given what takes a log line.
    """

    binary: str
    application: str
    args: tuple[str, ...]
    name: str
    conf: Mapping[str, str]
    jars: tuple[str, ...]
    env: Mapping[str, str]
    kafka: JavaCluster | None = None
    kill: Callable[[Callable[[str], None]], None] | None = None
    target_ids: Mapping[str, str] = field(default_factory=dict)


def make_submission(
    job: KafkaJob,
    job_file: Path,
    conf: Mapping[str, str],
    *,
    kafka: JavaCluster | None = None,
    spark: SparkConnection = LOCAL,
) -> Submission:
    """Return the application that does the job of a job file, for any master.

    Its number of records decides how much the JVM optimises. Raises ConfigurationError if `conf`,
    the pipeline's own settings, holds a secret: all users of the machine could see it. Of `spark`
    all is used but the master.
    """
    fast = _INTERPRETED if isinstance(job, IngestJob) and job.records < _TINY else {}
    own = {**fast, **spark.conf, **conf}
    script = "ingest.py" if isinstance(job, IngestJob) else "egress.py"
    given = job_submission(
        script, (str(job_file),), own, job.records, name=job.app_name, spark=spark
    )
    if isinstance(job, EgressJob) and job.keeps_time:
        given = replace(given, jars=(*given.jars, str(spark_jars.TIMESTAMPS)))
    return _with_java_options(_with_kafka(given, kafka, spark))


def decoding_submission(
    job_file: Path, conf: Mapping[str, str], spark: SparkConnection
) -> Submission:
    """Return the application that decodes samples, for a local master, by a connection's Spark."""
    if spark.is_cluster:  # its Python is that of the nodes
        spark = replace(spark, deploy_mode="client", python=None)
    own = {**_INTERPRETED, **spark.conf, **conf}
    return job_submission(
        "decode.py", (str(job_file),), own, 0, name="tidegate sample", spark=spark
    )


def _with_java_options(given: Submission) -> Submission:
    """Give each JVM what the login of the Kafka connection needs."""
    if not (given.kafka and given.kafka.java_options):
        return given
    options = shlex.join(given.kafka.java_options)
    names = ("spark.driver.defaultJavaOptions", "spark.executor.defaultJavaOptions")
    added = {name: f"{given.conf.get(name, '')} {options}".strip() for name in names}
    return replace(given, conf={**given.conf, **added})


def job_submission(
    job: str,
    args: tuple[str, ...],
    conf: Mapping[str, str],
    records: int,
    *,
    name: str,
    spark: SparkConnection = LOCAL,
) -> Submission:
    """Return the call for a job of this package. ConfigurationError if `conf` holds a secret."""
    if found := secrets.secret_settings(conf):
        raise ConfigurationError(secrets.secrets_complaint(found), settings=found)
    connector = [str(p) for p in spark_jars.jar_files(spark.jars, spark_jars.KAFKA, spark.home)]
    is_other = spark.home is not None or spark.python is not None or spark.is_cluster
    archived = not is_other and spark.jars == spark_jars.CACHE
    settings = {
        "spark.ui.enabled": "false",
        "spark.log.level": "WARN",
        "spark.executorEnv.LC_ALL": "C.UTF-8",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.driver.defaultJavaOptions": java_options.driver_options(
            records, conf, archived=archived
        ),
        "spark.executor.defaultJavaOptions": java_options.EXECUTOR,
        **spark_conf.CONSUMER_CACHES,
        **_RETAINED,
        **conf,
        "spark.submit.deployMode": "client",
        _REDACTED: "|".join([_SECRET_OPTIONS, *filter(None, [conf.get(_REDACTED)])]),
    }
    if not spark.is_cluster:  # there, Spark itself puts jars into the driver's class path
        # In the class path, because the archive of classes holds only classes from there.
        settings = join_lists(settings, CLASS_PATH, *connector, by=":")
    if is_other:  # its Python need not have this package
        settings = join_lists(settings, MODULES, str(job_zip.build_zip()))
    fetched = spark_jars.package_coordinates(spark.jars, spark_jars.KAFKA, spark.home)
    settings = join_lists(settings, PACKAGES, fetched)
    others = settings.pop("spark.jars", "")
    return Submission(
        binary=str(spark_home.SPARK_SUBMIT),
        application=str(_JOBS / job),
        args=args,
        name=name,
        conf=settings,
        jars=(*connector, *filter(None, others.split(","))),
        env=spark_home.spark_environment(spark.home, spark.python),
    )


def join_lists(conf: Mapping[str, str], name: str, *values: str, by: str = ",") -> dict[str, str]:
    """Return settings in which a list begins with these values. Empty ones are left out."""
    listed = by.join(filter(None, [*values, conf.get(name, "")]))
    return {**conf, name: listed} if listed else dict(conf)


def _with_kafka(given: Submission, kafka: JavaCluster | None, spark: SparkConnection) -> Submission:
    tokens = token_settings.token_conf([kafka], given.conf, spark.home) if kafka else {}
    return replace(given, conf={**given.conf, **tokens}, kafka=kafka)
