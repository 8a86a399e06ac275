"""What people see of Spark's output, and the file with all of it."""

import os
import stat
import time
from pathlib import Path

import pytest
from pyspark.logger import PySparkLogger
from pyspark.logger.logger import JSONFormatter

from tidegate.launch import spark_output
from tidegate.launch.spark_output import SparkOutput

START = """\
NOTE: Picked up JDK_JAVA_OPTIONS: -XX:TieredStopAtLevel=1
WARNING: Using incubator modules: jdk.incubator.vector
26/11/22 07:25:45 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform...
Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties
Setting default log level to "WARN".
To adjust logging level use sc.setLogLevel(newLevel). For SparkR, use setLogLevel(newLevel).
26/11/22 07:25:47 INFO SparkContext: Running Spark version 4.0.4
26/11/22 07:25:47 INFO SparkContext: OS info Linux, 6.18.44, amd64
26/11/22 07:25:47 INFO SparkContext: Java version 17.0.15
Setting Spark log level to "WARN".
"""
PROGRESS = "2026-11-22 07:25:59,794 plan b2512f09db186832 chunk 0: 30000 rows in 4 files, 10.48 s\n"
AWAY = (
    "26/11/22 07:26:{second} WARN NetworkClient: [Consumer clientId=tidegate-p-b251-{client}, "
    "groupId=tidegate-b251] Connection to node {node} (/127.0.0.1:22529) could not be established."
    " Node may not be available.\n"
)
LOST = (
    "26/11/22 07:26:01 WARN TaskSetManager: Lost task 1.0 in stage 3.0 (TID 7) (localhost executor "
    "driver): org.apache.kafka.common.errors.TimeoutException: Timeout of 60000ms expired\n"
)
TRACE = f"""\
26/11/22 07:26:00 ERROR Utils: Aborting task
org.apache.kafka.common.errors.TimeoutException: Timeout of 60000ms expired
26/11/22 07:26:00 WARN FileOutputCommitter: Could not delete file:/lake/x
26/11/22 07:26:00 ERROR FileFormatWriter: Job: job_20261122, Task: task_2026112214 aborted.
26/11/22 07:26:00 ERROR Executor: Exception in task 1.0 in stage 3.0 (TID 7)
{LOST}org.apache.kafka.common.errors.TimeoutException: Timeout of 60000ms expired
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: java.io.IOException: gone
\tat java.base/java.lang.Thread.run(Thread.java:840)
\t... 12 more

26/11/22 07:26:02 ERROR TaskSetManager: Task 1 in stage 3.0 failed 1 times; aborting job
26/11/22 07:26:02 ERROR FileFormatWriter: Aborting job 21ae1bf2-e142-465e-ab9e-60fa515facf9.
Driver stacktrace:
"""


@pytest.fixture(autouse=True)
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory of the files."""
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path))
    return tmp_path / "logs"


def shown(text: str) -> tuple[SparkOutput, list[str]]:
    output = SparkOutput("tidegate p manual__2026-11-22T07:25:42")
    return output, list(output.shown(text.splitlines(keepends=True)))


def test_a_good_run_shows_its_own_lines() -> None:
    _, lines = shown(START + PROGRESS)
    assert lines == [PROGRESS.rstrip("\n")]


def test_of_yarns_client_its_reports_are_shown() -> None:
    """And why an application has failed, which `diagnostics` says."""
    said = """\
26/11/23 08:35:14 INFO DefaultNoHARMFailoverProxyProvider: Connecting to ResourceManager at /h:8032
26/11/23 08:35:15 INFO Client: Uploading resource file:/jars/a.jar -> hdfs:/staging/a.jar
26/11/23 08:35:15 INFO YarnClientImpl: Submitted application application_1795422905726_0001
26/11/23 08:35:16 INFO Client: Application report for application_1795422905726_0001 (state: FAILED)
26/11/23 08:35:16 INFO Client:{blank}
\t client token: N/A
\t diagnostics: AM Container for appattempt_1795422905726_0001_000001 exited with exitCode: 137
\t ApplicationMaster host: N/A
\t final status: FAILED
\t tracking URL: http://localhost:30540/proxy/application_1795422905726_0001/
\t user: root
26/11/23 08:35:29 INFO ShutdownHookManager: Shutdown hook called
""".format(blank=" ")
    lines = said.splitlines()
    assert shown(said)[1] == [lines[2], lines[3], lines[6]]


def test_a_copy_of_an_sql_error_is_for_the_file() -> None:
    """PySpark logs it as JSON, with Java's stack trace, before the application names the cause."""
    copy = PySparkLogger.getLogger("SQLQueryContextLogger")
    copy.propagate = False
    handler = next(each for each in copy.handlers if isinstance(each.formatter, JSONFormatter))
    line = handler.format(copy.makeRecord(copy.name, 40, "f", 1, "no column", (), None))
    output, lines = shown(f"{line}\n{PROGRESS}")
    assert lines == [PROGRESS.rstrip("\n")]
    assert line in (output.path or Path()).read_text()


def test_warnings_are_shown_once_with_their_number() -> None:
    """Whichever client, node and task says it; stack traces are for the file."""
    away = [AWAY.format(second=10 + n, client=n % 3, node=n % 2) for n in range(20)]
    _, lines = shown("".join(away[:10]) + TRACE + PROGRESS + TRACE + "".join(away[10:]))
    assert lines == [
        away[0].rstrip("\n"),
        LOST.rstrip("\n"),
        PROGRESS.rstrip("\n"),
        "19 more of: NetworkClient: Connection to node 0 (/127.0.0.1:22529) could not be "
        "established. Node may not be …",
        "1 more of: TaskSetManager: Lost task 1.0 in stage 3.0 (TID 7) (localhost executor "
        "driver): …",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "26/11/22 07:25:47 INFO DAGScheduler: Submitting 2 missing tasks",  # its level was set
        "Traceback (most recent call last):",
        "KeyError: 'x'",
        'Exception in thread "main" org.apache.spark.SparkException: no such master',
        "Error: Could not create the Java Virtual Machine.",
        "Terminating due to java.lang.OutOfMemoryError: Java heap space",
    ],
)
def test_other_lines_are_shown_each_time(line: str) -> None:
    assert shown(f"{line}\n{line}\n")[1] == [line, line]


def test_the_file_has_every_line_for_its_owner(logs: Path) -> None:
    text = START + AWAY.format(second=10, client=1, node=1) * 2 + TRACE + "ünlesbar\n"
    output, _ = shown(text)
    assert output.path is not None
    assert output.path.parent == logs
    assert output.path.name.startswith("tidegate-p-manual__2026-11-22T07-25-42-")
    assert output.path.read_text() == text
    assert stat.S_IMODE(output.path.stat().st_mode) == 0o600
    assert output.tail(2) == ["Driver stacktrace:", "ünlesbar"]


def test_without_a_file_nothing_is_hidden(logs: Path) -> None:
    logs.touch()  # not a directory
    output, lines = shown(START + TRACE)
    assert output.path is None
    assert lines == (START + TRACE).splitlines()
    assert output.tail(9) == []


def test_a_full_disk_hides_nothing_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_output, "create_log", lambda _: Path("/dev/full"))
    output, lines = shown(START + TRACE)
    assert output.path is None
    assert lines == (START + TRACE).splitlines()


def test_old_files_go(logs: Path) -> None:
    """The latest stay whatever their age, and so does any that was written to within a day."""
    logs.mkdir()
    now = time.time()
    for number in range(30):
        path = logs / f"{number}.log"
        path.touch()
        days = 0.5 if number < 3 else number
        os.utime(path, (now - days * 86_400,) * 2)
    output, _ = shown("")
    assert output.path is not None
    left = {path.name for path in logs.glob("*.log")} - {output.path.name}
    assert left == {f"{number}.log" for number in range(19)}
    for number in range(19):
        os.utime(logs / f"{number}.log", (now - 3600,) * 2)
    for number in range(100, 120):
        (logs / f"{number}.log").touch()
    shown("")
    assert len(list(logs.glob("*.log"))) == 41
