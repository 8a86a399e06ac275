"""Processes that a run starts: JVMs, and the commands that Hadoop forks for files it writes."""

import os
import shutil
from pathlib import Path

import pytest

from support import topic_records
from support.cli_user import Terminal
from support.counters import refuse_more
from tidegate.launch import jars
from tidegate_local.kafka import Broker

COUNTED = ("chmod", "ls", "id", "bash", "readlink", "stat")
"""What Hadoop's local file system runs, where it has no native library."""


def counting(directory: Path, name: str, real: str) -> None:
    """Put a program in a directory that notes each start of the real one."""
    program = directory / name
    program.write_text(f'#!/bin/sh\necho {name} >> "{directory}/started"\nexec "{real}" "$@"\n')
    program.chmod(0o755)


@pytest.mark.slow
def test_processes(broker: Broker, tmp_path: Path, topic) -> None:
    """A run of four files: by programs that stand in the path, and in JAVA_HOME."""
    name = topic(partitions=4)
    topic_records.numbers(broker.bootstrap, name, 200, partitions=4)
    programs = tmp_path / "programs"
    programs.mkdir()
    for each in COUNTED:
        counting(programs, each, str(shutil.which(each)))
    java = Path(jars.find_java()).resolve()
    home = tmp_path / "java"
    home.mkdir()
    for part in java.parents[1].iterdir():
        if part.name != "bin":
            (home / part.name).symlink_to(part)
    (home / "bin").mkdir()
    for part in java.parent.iterdir():
        (home / "bin" / part.name).symlink_to(part)
    (home / "bin/java").unlink()
    counting(programs, "java", str(java))
    (home / "bin/java").symlink_to(programs / "java")
    paths = {"PATH": f"{programs}:{os.environ['PATH']}", "JAVA_HOME": str(home)}
    user = Terminal(tmp_path, broker.bootstrap, environ=paths)
    user.pipeline("p", topics=[name], options={"minPartitions": 4})  # a file for each
    user.run("run", "p")
    started = (programs / "started").read_text().split()
    files = list((tmp_path / "lake/p/data").rglob("*.parquet"))
    assert len(files) == 4
    refuse_more("processes of a run", {
        "JVMs": started.count("java"),
        "commands per file": len([each for each in started if each != "java"]) / len(files),
    })  # fmt: skip
