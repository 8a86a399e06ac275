"""`tidegate` commands in the test's own process, and their applications in its one Spark session.

A command is what it is in a process of its own, but for the seconds in which Python and the JVM
start. What is killed, what reads its environment on the way, and what is asked for its processes
needs one of its own: `support.cli_user` decides.
"""

import io
import logging
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

from support import spark_session
from tidegate import faults
from tidegate.cli import main
from tidegate.errors import StageFailed
from tidegate.launch import spark_output, spark_submit
from tidegate.launch.masters import for_master
from tidegate.launch.submission import Submission
from tidegate.spark import egress_driver, ingest_driver, session
from tidegate.spark.answers import LocalAnswers
from tidegate.spark.egress_job import EgressJob


def can_have(env: Mapping[str, str]) -> bool:
    """Return whether the variables of a command leave this process as it is."""
    fault = env.get(faults.VARIABLE, "")
    return env.keys() <= {faults.VARIABLE} and not re.search("exit|kill|wait", fault)


def run(args: tuple[str, ...], env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; its output and exit code are those of a process."""
    out, err = io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(err)
    handler.setFormatter(logging.Formatter("%(message)s"))
    with (
        mock.patch.dict(os.environ, env, clear=True),
        mock.patch.object(sys, "argv", ["tidegate", *args]),
        mock.patch.object(spark_submit, "submit", submit_here),
        mock.patch.object(faults, "passed", Counter[str]()),
        _logging_to(handler),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main.run()
            code: object = 0
        except SystemExit as ended:
            code = ended.code
    return subprocess.CompletedProcess(args, int(code or 0), out.getvalue(), err.getvalue())  # type: ignore[call-overload]


@contextmanager
def _logging_to(handler: logging.Handler, name: str | None = None) -> Iterator[None]:
    logger = logging.getLogger(name)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


class _Lines(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self.lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self.lines += record.getMessage().splitlines()


def submit_here(given: Submission, *, master: str, log: Callable[[str], None]) -> None:
    """Do what spark-submit does with an application of Tidegate, in a session of its own."""
    application = for_master(given, master)
    spark = spark_session.shared().newSession()
    for key, value in application.conf.items():
        if key.startswith("spark.sql.") and spark.conf.isModifiable(key):
            spark.conf.set(key, value)
    job_file, output = Path(application.args[0]), []
    with _logging_to(_Lines(output), "tidegate.spark"):
        if application.application.endswith("/ingest.py"):
            with (
                mock.patch.object(session, "start", return_value=session.configure_session(spark)),
                mock.patch.object(spark, "stop"),
            ):
                code = ingest_driver.main(str(job_file))
        else:
            job = EgressJob.read(job_file)
            job_file.unlink()
            code = egress_driver.attempt_sending(spark, job, LocalAnswers(job_file.parent))
    for line in output:
        log(line)
    if code:
        message = spark_output.failure_line(output)
        raise StageFailed(
            f"{application.name}: {message} (spark-submit ended with {code})", exit_code=code
        )
