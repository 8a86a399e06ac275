"""What a Spark application prints: all of it goes into a file, and the new and useful to people."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import shorten

from tidegate.errors import ConfigurationError, OutOfMemory, StageFailed
from tidegate.launch import jars

_KEPT, _DAY = 20, 86_400  # files that are kept, whatever their age; seconds
# Of each start: the launcher, log4j's set-up, Spark's banner.
_START = re.compile(
    r"^WARNING: Using incubator modules: |^(NOTE: )?Picked up \w+_OPTIONS: "
    r"|^Using Spark's default log4j profile: |^Setting (default|Spark) log level to "
    r"|^To adjust logging level use |\bWARN NativeCodeLoader: "
    r"|\bINFO SparkContext: (Running Spark|OS info|Java) "
)
# What Spark's client on YARN says before the application is submitted, and with each report of it.
_CLIENT = re.compile(
    r"\bINFO (Configuration|ResourceUtils|SecurityManager|ShutdownHookManager|\w+ProxyProvider): "
    r"|\bINFO Client: (?!Application report )"
    r"|^\s+ (client token|ApplicationMaster (host|RPC port)|queue|start time|final status"
    r"|tracking URL|user): |^\s+ diagnostics: (N/A|AM container is launched)"
)
_STACK_TRACE = re.compile(
    r"^\s*(at |\.\.\. \d+ |Caused by: |Suppressed: )|^([a-z]\w*\.)+\w+(Exception|Error)\b"
    r"|^Driver stacktrace:|^$"
    r'|^\{"ts": ?".*"logger": ?"\w*QueryContextLogger"'  # PySpark's copy of an SQL error
)
# A task that failed, as each layer above it says once more, without the cause: `Lost task` has it.
_ECHO = re.compile(
    r"\b(ERROR Utils: Aborting task|(ERROR|WARN) (FileFormatWriter|FileOutputCommitter): "
    r"|ERROR Executor: Exception in task |ERROR TaskSetManager: .* aborting job"
    r"|(ERROR|WARN) (DiskBlockObjectWriter|BlockManager): )"
)
_WARNING = re.compile(r"^[\d/]{8} [\d:]{8} (?:WARN|ERROR) (\w+: )(?:\[[^]]*\] )?(.*)")
_NO_CAUSE = re.compile(r"^\s*(at |\.\.\. \d+ more|$)|\b(INFO|DEBUG|WARN|WARNING)\b")
_EXCEPTION = re.compile(r"^(Exception in thread|Caused by: )|\b[A-Z]\w+(Error|Exception)\b")
_NO_MASTER = "All masters are unresponsive"
_EXIT_OUT_OF_MEMORY = 52  # of a driver or an executor: Spark's SparkExitCode.OOM
_OUT_OF_MEMORY = re.compile(
    r"\bjava\.lang\.OutOfMemoryError\b|\bexited with (exit )?code 52\b"
    r"|\bContainer killed by \w+ for exceeding \w* ?memory|\bbeyond the '\w+' memory limit\b"
)
_LOOKED_AT = 4_000  # characters of a line: a row of any size may be quoted in it
_VM = "Error occurred during initialization of VM"  # its reason is the next line
_NO_JAVA = re.compile(rf"^\s*({_VM}|Error: Could not create the Java Virtual Machine)")
_NO_START = re.compile(r"^(Error|Invalid|Unrecognized|Improperly|Could not)\b")


class SparkOutput:
    """The output of one application.

    `path` is the file with all of it, readable by its owner only. It is None if no file could be
    written (no space, no home directory), and then every line is shown. `causes` are the lines that
    may name why it failed.
    """

    def __init__(self, name: str) -> None:
        self.causes: list[str] = []
        self.path: Path | None = None
        with contextlib.suppress(OSError, ConfigurationError):
            self.path = create_log(name)

    def shown(self, lines: Iterable[str]) -> Iterator[str]:
        """Yield the lines that people are to see, each warning once, and then the counts."""
        warnings: dict[str, tuple[str, int]] = {}
        with contextlib.ExitStack() as files:
            file = files.enter_context(self.path.open("ab", buffering=0)) if self.path else None
            for line in (each.rstrip("\n") for each in lines):
                if not _NO_CAUSE.search(line):
                    self.causes.append(line)
                try:
                    if file and self.path:
                        file.write(f"{line}\n".encode())
                except OSError:
                    self.path = None
                if self.path is None or not (_is_hidden(line) or _is_repeated(line, warnings)):
                    yield line
        for text, count in warnings.values():
            if count > 1:
                yield f"{count - 1} more of: {shorten(text, 100, placeholder=' …')}"

    def tail(self, most: int) -> list[str]:
        """Return the last lines of the file."""
        if self.path is None:
            return []
        return self.path.read_text(errors="replace").splitlines()[-most:]


def application_failure(
    name: str, lines: Iterable[str], code: int | None
) -> StageFailed | OutOfMemory | ConfigurationError:
    """Return the error of an application that has failed, by its output and its exit code."""
    causes = list(lines)
    how = "" if code is None else f" (spark-submit ended with {code})"
    # Spark recovers from the loss of an executor: the line that names the cause decides.
    if code == _EXIT_OUT_OF_MEMORY or _OUT_OF_MEMORY.search(failure_line(causes)):
        return OutOfMemory(
            f"{name}: Java ran out of memory{how}. Give it more (`spark.conf`: "
            "spark.driver.memory, on a cluster spark.executor.memory), or let fewer tasks run at "
            "once (master local[1], spark.task.cpus): each holds records of the size that the "
            "topic allows (max.message.bytes)",
            exit_code=code,
        )
    if any(_NO_JAVA.search(line) for line in causes):
        return ConfigurationError(
            f"{name}: Java did not start: {failure_line(causes)}{how}. Correct "
            "spark.driver.memory or spark.driver.extraJavaOptions (`spark.conf`, or conf of the "
            "Spark connection)",
            exit_code=code,
        )
    return StageFailed(f"{name}: {failure_line(causes)}{how}", exit_code=code)


def failure_line(lines: Iterable[str]) -> str:
    """Return the line of an application's output that names the cause of its failure."""
    lines = list(lines)
    if any(_NO_MASTER in line for line in lines):
        return (
            "Spark's master does not answer (all masters are unresponsive): check that it runs, "
            "and host and port of the Spark connection"
        )
    messages = [line.strip() for line in lines if not _NO_CAUSE.search(line)]
    if ours := [line for line in messages if "tidegate: " in line]:
        return ours[-1].partition("tidegate: ")[2]
    if exceptions := [line for line in messages if _EXCEPTION.search(line)]:
        return exceptions[-1]
    if _VM in messages[:-1]:
        return messages[messages.index(_VM) + 1]
    # Java and spark-submit print the error first, and then their usage.
    if refusals := [line for line in messages if _NO_START.search(line)]:
        return refusals[0]
    return messages[-1] if messages else "it said nothing"


def _is_hidden(line: str) -> bool:
    return any(each.search(line[:_LOOKED_AT]) for each in (_START, _CLIENT, _STACK_TRACE, _ECHO))


def _is_repeated(line: str, warnings: dict[str, tuple[str, int]]) -> bool:
    """Count a warning by its words, without numbers and the client that says it."""
    if (warning := _WARNING.match(line)) is None:
        return False
    kind = re.sub(r"\d+", "0", warning[1] + warning[2])
    text, count = warnings.get(kind, (warning[1] + warning[2], 0))
    warnings[kind] = (text, count + 1)
    return bool(count)


def create_log(name: str) -> Path:
    """Create the file, and delete old ones: not the latest, nor any that was written to today."""
    directory = jars.cache_dir() / "logs"
    directory.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):  # another process deletes, too
        with os.scandir(directory) as entries:  # there may be ten thousands
            times = {
                each.path: each.stat().st_mtime for each in entries if each.name.endswith(".log")
            }
        for path in sorted(times, key=times.__getitem__)[: 1 - _KEPT]:
            if times[path] < time.time() - _DAY:
                Path(path).unlink()
    slug = re.sub(r"[^\w.-]+", "-", name)[:100]
    with tempfile.NamedTemporaryFile(
        prefix=f"{slug}-", suffix=".log", dir=directory, delete=False
    ) as file:
        return Path(file.name)
