"""How a Spark application is started: the one description that the CLI and Airflow share.

What correctness needs wins over a pipeline's `spark.conf`, which wins over what is merely fast.
Nothing secret passes through here: secrets are in the job file, of which only the path is told.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import tidegate
from tidegate.errors import ConfigurationError, StageFailed, TidegateError
from tidegate.lake import s3_settings
from tidegate.launch import cds_archive, jars
from tidegate.pipelines import secret_settings
from tidegate.spark import kafka_source as options
from tidegate.spark.ingest_job import refusal

_SPARK_SUBMIT = Path(__file__).with_name("spark-submit.sh")
_DRIVER_PYTHON = Path(__file__).with_name("driver-python.sh")
_JOBS = Path(tidegate.__file__).parents[2] / "spark_jobs"

_CLASS_PATH = "spark.driver.extraClassPath"
_TASK_TRIES = "spark.task.maxFailures"
_CLASS_PATH_END = "SPARK_DIST_CLASSPATH"
# Records; below, generating code or compiling it to the end costs more than it brings (ADR 5).
_TINY, _SMALL = 200_000, 750_000
# An archive that does not fit is ignored, as is a class that cannot be archived: no news.
_SILENT = ("-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")
# C2 only for what every record passes through: the rest of an application runs once.
_COMPILE_THE_HOT = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=20000",
    "-XX:Tier4CompileThreshold=100000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
# Spark keeps what its page would show of the last thousand queries and jobs, page or not.
_FORGET = {
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "2000",
    "spark.sql.ui.retainedExecutions": "20",
}
_NOISE = re.compile(r"^\s*(at |\.\.\. \d+ more|$)|\b(INFO|DEBUG|WARN|WARNING)\b")
_EXCEPTION = re.compile(r"^(Exception in thread|Caused by: )|\b[A-Z]\w+(Error|Exception)\b")
_NO_START = re.compile(r"^(Error|Invalid|Unrecognized|Improperly|Could not)\b")


@dataclass(frozen=True)
class Submission:
    """One call of spark-submit, in client mode; `env` is added to the caller's environment."""

    binary: str
    application: str
    args: tuple[str, ...]
    name: str
    conf: Mapping[str, str]
    jars: tuple[str, ...]
    env: Mapping[str, str]


def submission(job_file: Path, conf: Mapping[str, str], records: int, *, name: str) -> Submission:
    """Describe the application that stages a job file's chunks, for any master.

    `conf` is the pipeline's own; ConfigurationError if it holds a secret, which all could see.
    `records` is the size of the work: it decides how hard the JVM compiles.
    """
    _refuse_secrets(conf)
    fast = {"spark.driver.defaultJavaOptions": _java_options(records, conf)}
    if records < _TINY:
        fast |= _INTERPRETED
    return _described("ingest.py", (str(job_file),), {**fast, **conf}, name=name)


def sending_submission(
    job_file: Path, conf: Mapping[str, str], *, name: str, rows: int
) -> Submission:
    """Describe the application that sends a plan's rows, about `rows` of them."""
    _refuse_secrets(conf)
    fast = {
        "spark.driver.defaultJavaOptions": _java_options(rows, conf),
    }
    # One layer of retries, and that is the next attempt's: what a task has sent cannot be unsent.
    once = {
        _TASK_TRIES: "1",
        "spark.stage.maxConsecutiveAttempts": "1",
        "spark.speculation": "false",
        "spark.dynamicAllocation.enabled": "false",
    }
    return _described("egress.py", (str(job_file),), {**fast, **conf, **once}, name=name)


def ensure_archive(log: Callable[[str], None]) -> Path | None:
    """Make the archive of classes if there is none yet; None, told why, if that cannot be done."""
    try:
        with cds_archive.made() as archive:
            if archive is not None:
                options = [_java_options(0, {}), *_SILENT, f"-XX:ArchiveClassesAtExit={archive}"]
                conf = {"spark.driver.defaultJavaOptions": " ".join(options)}
                warm_up = _described("warm_up.py", (), conf, name="tidegate warm-up")
                submit(warm_up, master="local[1]", log=log)
    except (OSError, TidegateError) as error:
        log(f"no archive of classes, Spark will start more slowly: {error}")
    return cds_archive.find()


def for_places(given: Submission, *places: str) -> Submission:
    """Add what Spark needs for the places it reads or writes, if one of them is on S3."""
    if not any(place.startswith("s3a://") for place in places):
        return given
    needed = [str(path) for path in jars.paths("spark-s3")]
    # At the class path's end: the archive of classes fits what begins as it was made with.
    end = ":".join([*needed, *filter(None, [os.environ.get(_CLASS_PATH_END)])])
    return replace(
        given,
        conf={**s3_settings.spark_conf(), **given.conf},
        jars=(*given.jars, *needed),
        env={**given.env, _CLASS_PATH_END: end},
    )


def for_master(given: Submission, master: str) -> Submission:
    """Leave out what is only needed when the executors are on other machines.

    ConfigurationError for a master that retries tasks (`local[2,4]`) where none may be: it beats
    `spark.task.maxFailures`.
    """
    if master.partition("[")[0] != "local":
        return given
    tries = re.fullmatch(r"local\[([^,\]]*),\s*(\d+)\s*\]", master)
    if tries and int(tries[2]) > 1 and given.conf.get(_TASK_TRIES) == "1":
        raise ConfigurationError(
            f"Spark master {master!r}: it runs a failed task up to {tries[2]} times, and so would "
            f"send records twice; make it local[{tries[1]}], the task's own retries send the rest"
        )
    paths = given.conf.get(_CLASS_PATH, ""), given.env.get(_CLASS_PATH_END, "")
    here = ":".join(paths).split(":")
    return replace(
        given,
        jars=tuple(jar for jar in given.jars if jar not in here),
        # No look-up of this machine's name, which may not resolve.
        env={**given.env, "SPARK_LOCAL_IP": "127.0.0.1"},
    )


def submit(given: Submission, *, master: str, log: Callable[[str], None]) -> None:
    """Run the application to its end, its output line by line to `log`.

    StageFailed with the one line that tells why if it fails. It never outlives this process.
    """
    application = for_master(given, master)
    told: list[str] = []
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
        try:
            for line in process.stdout:
                log(line.rstrip("\n"))
                told.append(line)
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        raise StageFailed(
            f"{application.name}: {telling(told)} (spark-submit ended with {process.returncode})",
            exit_code=process.returncode,
        )


@contextmanager
def terminal_if_refused(directory: Path) -> Iterator[None]:
    """Raise ConfigurationError for an application that says that a retry would fail as well.

    It does so by a file beside its job file: Airflow's operator returns nothing of the output.
    """
    try:
        yield
    except StageFailed as error:
        if (message := refusal(directory)) is None:
            raise
        raise ConfigurationError(message) from error


def telling(lines: Iterable[str]) -> str:
    """Return the line of an application's output that says why it failed."""
    said = [line.strip() for line in lines if not _NOISE.search(line)]
    if ours := [line for line in said if "tidegate: " in line]:
        return ours[-1].partition("tidegate: ")[2]
    if exceptions := [line for line in said if _EXCEPTION.search(line)]:
        return exceptions[-1]
    # Java and spark-submit begin with what is wrong, and go on with how they are used.
    if refusals := [line for line in said if _NO_START.search(line)]:
        return refusals[0]
    return said[-1] if said else "it said nothing"


def _refuse_secrets(conf: Mapping[str, str]) -> None:
    if secrets := secret_settings.secret_settings(conf):
        raise ConfigurationError(secret_settings.complaint(secrets), settings=secrets)


def _described(
    job: str, args: tuple[str, ...], conf: Mapping[str, str], *, name: str
) -> Submission:
    connector = [str(path) for path in jars.paths("spark-kafka")]
    settings = {
        "spark.ui.enabled": "false",
        "spark.log.level": "WARN",
        "spark.sql.catalogImplementation": "in-memory",
        **options.CACHES,
        **_FORGET,
        **conf,
        "spark.submit.deployMode": "client",  # elsewhere the job file would not be found
    }
    # On the class path proper, because the archive of classes holds only what is found there.
    class_path = [*connector, *filter(None, [settings.get(_CLASS_PATH)])]
    settings[_CLASS_PATH] = ":".join(class_path)
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
        "SPARK_HOME": str(Path(spec.origin).parent),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": str(_DRIVER_PYTHON),
        "TIDEGATE_PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        # For the small JVM that only puts the command line together.
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData",
    }


def _java_options(records: int, conf: Mapping[str, str]) -> str:
    # Metaspace's first limit, 21 MB, would cost several full collections until Spark has started.
    options = ["-XX:-UsePerfData", "-XX:MetaspaceSize=256m"]
    options += ["-XX:TieredStopAtLevel=1"] if records < _SMALL else _COMPILE_THE_HOT
    if "GC" not in conf.get("spark.driver.extraJavaOptions", ""):  # given two, no JVM starts
        options.append("-XX:+UseSerialGC" if records < _SMALL else "-XX:+UseParallelGC")
    if archive := cds_archive.find():
        options += [*_SILENT, f"-XX:SharedArchiveFile={archive}"]
    return " ".join(options)
