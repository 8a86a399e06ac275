"""A real Spark standalone cluster on this machine: a master and a worker, by `spark-class`."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from support.process_list import command_line, descendants
from tidegate_local.ports import free_port


@dataclass(frozen=True)
class Cluster:
    """A running cluster; `home` has its logs and its worker's directory."""

    master: str
    worker: int
    home: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables with which a command uses this cluster."""
        connection = {"conn_type": "spark", "host": self.master}
        return {
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connection),
            "SPARK_LOCAL_IP": "127.0.0.1",  # this machine's name need not resolve
        }

    def executors(self) -> list[int]:
        """Return the executors: processes of their own, below the worker."""
        below = descendants(self.worker)
        return [pid for pid in below if "CoarseGrainedExecutorBackend" in command_line(pid)]


def spark_home() -> Path:
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def bare_python() -> Path:
    """Return the interpreter that this environment was made with: it has neither package."""
    return Path(sys._base_executable).resolve()  # type: ignore[attr-defined]


@contextlib.contextmanager
def running(home: Path, *, cores: int = 2) -> Iterator[Cluster]:
    """Start a master and a worker, wait until they know each other, and end both."""
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    env = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYTHON", "AWS_"))},
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_PUBLIC_DNS": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": str(bare_python()),
    }
    package = "org.apache.spark.deploy"
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *args: str) -> subprocess.Popen[bytes]:
        with (home / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [spark_home() / "bin/spark-class", *args],
                env=env, cwd=home, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        started.append(process)
        return process

    try:
        start("master", f"{package}.master.Master", "--host", "127.0.0.1", "--port", str(port),
              "--webui-port", str(free_port()))  # fmt: skip
        _wait(lambda: _listens(port), home / "master.log")
        worker = start(
            "worker", f"{package}.worker.Worker", "--host", "127.0.0.1",
            "--webui-port", str(free_port()), "--cores", str(cores), "--memory", "1g",
            "--work-dir", str(home / "work"), master,
        )  # fmt: skip
        log = home / "worker.log"
        _wait(lambda: "Successfully registered with master" in log.read_text(), log)
        yield Cluster(master, worker.pid, home)
    finally:
        for process in reversed(started):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _wait(until: object, log: Path) -> None:
    give_up = time.monotonic() + 60
    while not until():  # type: ignore[operator]
        assert time.monotonic() < give_up, log.read_text()
        time.sleep(0.05)
