"""Run an application by spark-submit, to its end."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from tidegate.errors import (
    BrokerUnreachable,
    IdentityChanged,
    OutOfMemory,
    StageFailed,
    TidegateError,
)
from tidegate.launch import cds_archive, java_options
from tidegate.launch.masters import for_master
from tidegate.launch.spark_output import SparkOutput, application_failure
from tidegate.launch.submission import Submission as Submission
from tidegate.launch.submission import job_submission

TIME_TO_END = 10.0  # seconds that an application may take to end when it is asked to
_GRACE = 1.0  # seconds more before it is killed


def ensure_archive(log: Callable[[str], None]) -> Path | None:
    """Return the archive of classes, made if it is missing. None, and a log line, on failure."""
    try:
        with cds_archive.create_archive() as archive:
            if archive is not None:
                options = [
                    java_options.driver_options(0, {}),
                    *java_options.CLASS_ARCHIVE,
                    f"-XX:ArchiveClassesAtExit={archive}",
                ]
                conf = {"spark.driver.defaultJavaOptions": " ".join(options)}
                warm_up = job_submission("warm_up.py", (), conf, 0, name="tidegate warm-up")
                submit(warm_up, master="local[1]", log=log)
    except (OSError, TidegateError) as error:
        log(f"no archive of classes, Spark will start more slowly: {error}")
    return cds_archive.find_archive()


def submit(given: Submission, *, master: str, log: Callable[[str], None]) -> None:
    """Run an application to its end, and pass what people are to see, line by line, to `log`.

    Raises StageFailed, with the line that names the cause, OutOfMemory or BrokerUnreachable. It
    does not outlive this process; in cluster mode it does if this process is killed.
    """
    application = for_master(given, master)
    with (
        killed_on_error(application, log),
        subprocess.Popen(
            render_command(application, master),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, **application.env},
        ) as process,
    ):
        assert process.stdout is not None
        with (
            _terminated_on_error(process),
            supervise(application, lambda: _end(process), log) as output,
        ):
            for line in output.shown(process.stdout):
                log(line)
            if code := process.wait():
                raise application_failure(application.name, output.causes, code)


@contextmanager
def killed_on_error(application: Submission, log: Callable[[str], None]) -> Iterator[None]:
    """Kill an application in cluster mode if the block, which waits for spark-submit, raises."""
    try:
        yield
    except BaseException:
        if application.kill:
            application.kill(log)
        raise


@contextmanager
def supervise(
    application: Submission, stop: Callable[[], object], log: Callable[[str], None]
) -> Iterator[SparkOutput]:
    """Yield what takes the application's output. Call `stop` if its brokers are out, or a topic
    that it sends to is another one.

    Raises BrokerUnreachable or IdentityChanged in the place of the block's StageFailed then. Each
    error names the file of the output, and so does the log at the end.
    """
    output = SparkOutput(application.name)
    kafka, ids = application.kafka, application.target_ids
    watch = None
    try:
        with kafka.watch(ids, stop) if kafka else nullcontext() as watch:
            yield output
    except (StageFailed, OutOfMemory) as error:
        where = f"; Spark's output: {output.path}" if output.path else ""
        if watch and watch.changed:
            raise IdentityChanged(
                f"{application.name}: topics {', '.join(watch.changed)} were deleted, or made "
                f"anew, while rows were sent to them; Spark was stopped{where}"
            ) from error
        if kafka and watch and (outage := watch.outage()):
            raise BrokerUnreachable(
                f"{kafka.cluster}: {outage}; check that it runs. What is finished is "
                f"kept, and a retry does the rest{where}"
            ) from error
        error.args = (f"{error}{where}",)
        raise
    if output.path:
        log(f"Spark's output: {output.path}")


@contextmanager
def _terminated_on_error(process: subprocess.Popen[str]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        process.terminate()
        _await_driver(process)
        _kill_if_alive(process, _GRACE)
        raise


def _await_driver(process: subprocess.Popen[str]) -> None:
    """Wait until nobody holds Spark's output, at most 10 seconds: Python ends after its Java."""
    assert process.stdout is not None
    output, deadline = process.stdout.fileno(), time.monotonic() + TIME_TO_END
    while (left := deadline - time.monotonic()) > 0:
        if select.select([output], [], [], left)[0] and not os.read(output, 1 << 16):
            return


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    _kill_if_alive(process, TIME_TO_END)


def _kill_if_alive(process: subprocess.Popen[str], patience: float) -> None:
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()


def render_command(application: Submission, master: str) -> list[str]:
    command = [application.binary, "--master", master, "--name", application.name]
    if application.jars:
        command += ["--jars", ",".join(application.jars)]
    for key, value in application.conf.items():
        command += ["--conf", f"{key}={value}"]
    return [*command, application.application, *application.args]
