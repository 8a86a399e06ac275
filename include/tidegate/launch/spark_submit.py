"""Calls of spark-submit: described once, for the command line and for Airflow.

Settings that correctness needs win over a pipeline's `spark.conf`, which wins over settings for
speed. No secret is passed here: secrets are in the job file, and only its path is an argument.
"""

from __future__ import annotations

import importlib.util
import os
import re
import select
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import tidegate
from tidegate.broker import kerberos
from tidegate.broker.client_settings import KafkaSettings
from tidegate.broker.outage import BrokerWatch
from tidegate.errors import BrokerUnreachable, ConfigurationError, StageFailed, TidegateError
from tidegate.lake import s3_settings
from tidegate.launch import cds_archive, delegation_tokens, environment, jars, java_options
from tidegate.launch.spark_output import SparkOutput, failure_line
from tidegate.settings import secrets, spark_conf
from tidegate.spark.job_files import read_refusal

_SPARK_SUBMIT = Path(__file__).with_name("spark-submit.sh")
_DRIVER_PYTHON = Path(__file__).with_name("driver-python.sh")
_JOBS = Path(tidegate.__file__).parents[2] / "spark_jobs"

_CLASS_PATH = "spark.driver.extraClassPath"
_TASK_TRIES = "spark.task.maxFailures"
_CLASS_PATH_END = "SPARK_DIST_CLASSPATH"
# Records; below, generating code or optimising it fully costs more than it saves (ADR 5).
_TINY = 200_000
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
# pipeline replaces the pattern that hides secrets among them; this one stays beside it.
_REDACTED = "spark.sql.redaction.options.regex"
_SECRET_OPTIONS = "(?i:url|jaas|secret|passw|token)"
_END = 10.0  # seconds that an application may take to end when it is asked to


@dataclass(frozen=True)
class Submission:
    """One call of spark-submit, in client mode; `env` is added to the caller's environment.

    `kafka` is the cluster that the application cannot do without: it is watched meanwhile.
    """

    binary: str
    application: str
    args: tuple[str, ...]
    name: str
    conf: Mapping[str, str]
    jars: tuple[str, ...]
    env: Mapping[str, str]
    kafka: KafkaSettings | None = None


def submission(
    job_file: Path,
    conf: Mapping[str, str],
    records: int,
    *,
    name: str,
    kafka: KafkaSettings | None = None,
) -> Submission:
    """Return the application that stages a job file's chunks, for any master.

    `records` decides how much the JVM optimises. Raises ConfigurationError if `conf`, the
    pipeline's own settings, holds a secret: all users of the machine could see it.
    """
    fast = _INTERPRETED if records < _TINY else {}
    given = _application("ingest.py", (str(job_file),), {**fast, **conf}, records, name=name)
    return _with_kerberos(_with_kafka(given, kafka))


def sending_submission(
    job_file: Path,
    conf: Mapping[str, str],
    *,
    name: str,
    rows: int,
    kafka: KafkaSettings | None = None,
) -> Submission:
    """Return the application that sends a plan's rows, about `rows` of them."""
    once = {**conf, **spark_conf.RUN_ONCE}
    given = _application("egress.py", (str(job_file),), once, rows, name=name)
    return _with_kerberos(_with_kafka(given, kafka))


def _with_kerberos(given: Submission) -> Submission:
    """Give Java the krb5.conf of KRB5_CONFIG, a variable that it does not read."""
    path = given.kafka and given.kafka.mechanism == "GSSAPI" and kerberos.krb5_conf()
    if not path:
        return given
    option = shlex.quote(f"-Djava.security.krb5.conf={path}")
    names = ("spark.driver.defaultJavaOptions", "spark.executor.defaultJavaOptions")
    added = {name: f"{given.conf.get(name, '')} {option}".strip() for name in names}
    return replace(given, conf={**given.conf, **added})


def ensure_archive(log: Callable[[str], None]) -> Path | None:
    """Return the archive of classes, made if it is missing; None, and a log line, on failure."""
    try:
        with cds_archive.create() as archive:
            if archive is not None:
                options = [
                    java_options.driver(0, {}),
                    *java_options.CLASS_ARCHIVE,
                    f"-XX:ArchiveClassesAtExit={archive}",
                ]
                conf = {"spark.driver.defaultJavaOptions": " ".join(options)}
                warm_up = _application("warm_up.py", (), conf, 0, name="tidegate warm-up")
                submit(warm_up, master="local[1]", log=log)
    except (OSError, TidegateError) as error:
        log(f"no archive of classes, Spark will start more slowly: {error}")
    return cds_archive.find()


def for_places(given: Submission, *places: str) -> Submission:
    """Add the settings and jars for S3 if one of the places that Spark reads or writes is there."""
    if not any(place.startswith("s3a://") for place in places):
        return given
    s3_jars = [str(path) for path in jars.paths("spark-s3")]
    # At the end: the archive of classes needs the class path to begin as when it was made.
    end = ":".join([*s3_jars, *filter(None, [os.environ.get(_CLASS_PATH_END)])])
    return replace(
        given,
        conf={**s3_settings.spark_conf(), **given.conf},
        jars=(*given.jars, *s3_jars),
        env={**given.env, _CLASS_PATH_END: end},
    )


def for_master(given: Submission, master: str) -> Submission:
    """Remove, for a local master, the jars that only executors on other machines need.

    Raises ConfigurationError for one that retries tasks (`local[2,4]`) which must run once: it
    overrides `spark.task.maxFailures`.
    """
    if given.kafka:
        tokens = delegation_tokens.tokens_of([given.kafka])
        kerberos = delegation_tokens.for_master(tokens, master)
        given = replace(given, conf={**given.conf, **kerberos})
    if master.partition("[")[0] != "local":
        return given
    tries = re.fullmatch(r"local\[([^,\]]*),\s*(\d+)\s*\]", master)
    if tries and int(tries[2]) > 1 and given.conf.get(_TASK_TRIES) == "1":
        raise ConfigurationError(
            f"Spark master {master!r}: it runs a failed task up to {tries[2]} times, and so would "
            f"send records twice; make it local[{tries[1]}], the task's own retries send the rest"
        )
    class_path = given.conf.get(_CLASS_PATH, ""), given.env.get(_CLASS_PATH_END, "")
    local_jars = ":".join(class_path).split(":")
    return replace(
        given,
        jars=tuple(jar for jar in given.jars if jar not in local_jars),
        # Otherwise Spark looks up this machine's host name, which may not resolve.
        env={**given.env, "SPARK_LOCAL_IP": "127.0.0.1"},
    )


def submit(given: Submission, *, master: str, log: Callable[[str], None]) -> None:
    """Run an application to its end, and pass what people are to see, line by line, to `log`.

    Raises StageFailed, with the line that names the cause, or BrokerUnreachable. It does not
    outlive this process.
    """
    application = for_master(given, master)
    with subprocess.Popen(
        _command(application, master),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, **application.env},
    ) as process:
        assert process.stdout is not None
        with (
            _terminated_on_error(process),
            supervised(application, lambda: _end(process), log) as output,
        ):
            for line in output.shown(process.stdout):
                log(line)
            if code := process.wait():
                raise StageFailed(
                    f"{application.name}: {failure_line(output.causes)} "
                    f"(spark-submit ended with {code})",
                    exit_code=code,
                )


@contextmanager
def supervised(
    application: Submission, stop: Callable[[], object], log: Callable[[str], None]
) -> Iterator[SparkOutput]:
    """Yield what takes the application's output; call `stop` if its brokers are out.

    Raises BrokerUnreachable in the place of the block's StageFailed if no broker answers. Either
    names the file of the output, and so does the log at the end.
    """
    output = SparkOutput(application.name)
    watch = BrokerWatch(application.kafka, stop) if application.kafka else None
    try:
        with watch or nullcontext():
            yield output
    except StageFailed as error:
        where = f"; Spark's output: {output.path}" if output.path else ""
        if application.kafka and watch and (outage := watch.outage()):
            raise BrokerUnreachable(
                f"{application.kafka.cluster}: {outage}; check that it runs. What is finished is "
                f"kept, and a retry does the rest{where}"
            ) from error
        error.args = (f"{error}{where}",)
        raise
    if output.path:
        log(f"Spark's output: {output.path}")


@contextmanager
def terminal_if_refused(directory: Path) -> Iterator[None]:
    """Raise the error of which an application has recorded that a retry would have it again.

    It records that beside its job file, because Airflow's operator returns none of the output.
    """
    try:
        yield
    except (StageFailed, BrokerUnreachable) as error:
        if (refusal := read_refusal(directory)) is None:
            raise
        raise refusal from error


@contextmanager
def _terminated_on_error(process: subprocess.Popen[str]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        process.terminate()
        _await_driver(process)
        raise


def _await_driver(process: subprocess.Popen[str]) -> None:
    """Wait until nobody holds Spark's output, at most 10 seconds: Python ends after its Java."""
    assert process.stdout is not None
    output, deadline = process.stdout.fileno(), time.monotonic() + _END
    while (left := deadline - time.monotonic()) > 0:
        if select.select([output], [], [], left)[0] and not os.read(output, 1 << 16):
            return


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(_END)
    except subprocess.TimeoutExpired:
        process.kill()


def _application(
    job: str, args: tuple[str, ...], conf: Mapping[str, str], records: int, *, name: str
) -> Submission:
    if found := secrets.secret_settings(conf):
        raise ConfigurationError(secrets.complaint(found), settings=found)
    connector = [str(path) for path in jars.paths("spark-kafka")]
    settings = {
        "spark.ui.enabled": "false",
        "spark.log.level": "WARN",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.driver.defaultJavaOptions": java_options.driver(records, conf),
        "spark.executor.defaultJavaOptions": java_options.NO_CORE_DUMP,
        **spark_conf.CONSUMER_CACHES,
        **_RETAINED,
        **conf,
        "spark.submit.deployMode": "client",  # elsewhere there is no job file
        _REDACTED: "|".join([_SECRET_OPTIONS, *filter(None, [conf.get(_REDACTED)])]),
    }
    # In the class path, because the archive of classes holds only classes from there.
    settings[_CLASS_PATH] = ":".join([*connector, *filter(None, [settings.get(_CLASS_PATH)])])
    others = settings.pop("spark.jars", "")
    return Submission(
        binary=str(_SPARK_SUBMIT),
        application=str(_JOBS / job),
        args=args,
        name=name,
        conf=settings,
        jars=(*connector, *filter(None, others.split(","))),
        env=_environment(),
    )


def _with_kafka(given: Submission, kafka: KafkaSettings | None) -> Submission:
    tokens = delegation_tokens.conf([kafka], given.conf) if kafka else {}
    return replace(given, conf={**given.conf, **tokens}, kafka=kafka)


def _command(application: Submission, master: str) -> list[str]:
    command = [application.binary, "--master", master, "--name", application.name]
    if application.jars:
        command += ["--jars", ",".join(application.jars)]
    for key, value in application.conf.items():
        command += ["--conf", f"{key}={value}"]
    return [*command, application.application, *application.args]


def _environment() -> dict[str, str]:
    """Return the variables that make spark-submit use this environment's Python and Spark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ConfigurationError("PySpark is not installed beside Tidegate: run `make setup`")
    return {
        **environment.withheld(),  # the job file has what an application needs
        "SPARK_HOME": str(Path(spec.origin).parent),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": str(_DRIVER_PYTHON),
        "TIDEGATE_PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        # For the small JVM that builds the command line.
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData",
    }
