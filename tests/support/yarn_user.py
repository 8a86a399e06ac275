"""A user whose Spark connection is a YARN in cluster mode, on this machine."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from support import spark_cluster
from support.cli_user import Terminal
from support.yarn_cluster import Cluster
from tidegate.launch import application_state
from tidegate.launch.application_state import Application
from tidegate.spark.answers import DRIVER
from tidegate.spark.yarn_container import Container

STORE = "yarn.resourcemanager"


def recovery(home: Path) -> dict[str, str]:
    """Return the settings of a resource manager that keeps what it was submitted, in files."""
    package = "org.apache.hadoop.yarn.server.resourcemanager.recovery"
    return {
        f"{STORE}.recovery.enabled": "true",
        f"{STORE}.store.class": f"{package}.FileSystemRMStateStore",
        f"{STORE}.fs.state-store.uri": f"file://{home}/state-store",
    }


def on_yarn(terminal: Terminal, yarn: Cluster, **conf: Any) -> None:
    """Let the applications of a user run there; drivers with a Python that has no Tidegate."""
    settings = {
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.instances": "1",
        "spark.yarn.jars": f"local:{spark_cluster.spark_home()}/jars/*",
        "spark.yarn.stagingDir": f"file://{yarn.home}/staging",
        # This machine's name need not resolve.
        "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
        "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
        **conf,
    }
    extra = {
        "deploy-mode": "cluster",
        "python": str(spark_cluster.bare_python()),
        "conf": settings,
    }
    terminal.environ |= {
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(
            {"conn_type": "spark", "host": "yarn", "extra": extra}
        ),
        "HADOOP_CONF_DIR": str(yarn.conf),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def ask(yarn: Cluster) -> application_state.Ask:
    """Return YARN's client, for a test whose environment names no cluster."""
    import os
    import subprocess

    def run(args: Any) -> str:
        done = subprocess.run(
            [f"{spark_cluster.spark_home()}/bin/spark-class",
             "org.apache.hadoop.yarn.client.cli.ApplicationCLI", *args],
            env={**os.environ, "HADOOP_CONF_DIR": str(yarn.conf)},
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        return done.stdout

    return run


def applications(yarn: Cluster, tag: str) -> list[Application]:
    return application_state.tagged(tag, ask(yarn))


def drivers(lake: Path) -> Iterator[tuple[str, Container]]:
    """Yield attempt and container of each driver that has named itself in the lake."""
    for path in sorted(lake.glob(f"*/_tidegate/staging/*/*/*/{DRIVER}")):
        yield path.parent.name, Container.from_json(json.loads(path.read_text()))


def wait(until: Callable[[], object], limit: float = 120) -> float:
    """Wait; return the seconds that it took."""
    started = time.monotonic()
    while not until():
        assert time.monotonic() < started + limit
        time.sleep(0.02)
    return time.monotonic() - started
