"""A user whose Spark connection is a YARN in cluster mode, on this machine."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from support import spark_cluster, yarn_cluster
from support.cli_user import Terminal
from support.yarn_cluster import Cluster
from tidegate.spark.answers import DRIVER
from tidegate.spark.yarn_container import Container


def settings(home: Path, *inherited: str) -> dict[str, str]:
    """Return those of a resource manager that keeps what it was submitted, in files, and of nodes
    whose containers inherit these variables.
    """
    package = "org.apache.hadoop.yarn.server.resourcemanager.recovery"
    return {
        "yarn.nodemanager.env-whitelist": ",".join(["JAVA_HOME", "PATH", "LANG", "TZ", *inherited]),
        # Else launch scripts, with these variables, are kept among the logs of the containers.
        "yarn.nodemanager.log-container-debug-info.enabled": "false",
        "yarn.resourcemanager.recovery.enabled": "true",
        "yarn.resourcemanager.store.class": f"{package}.FileSystemRMStateStore",
        "yarn.resourcemanager.fs.state-store.uri": f"file://{home}/state-store",
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
        "spark.yarn.appMasterEnv.TIDEGATE_TESTING": "1",
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


def unanswered(home: Path) -> Path:
    """Return a HADOOP_CONF_DIR of a resource manager that does not answer."""
    conf = home / "nobody"
    conf.mkdir()
    settings = {
        "yarn.resourcemanager.address": "127.0.0.1:9",
        "yarn.resourcemanager.connect.max-wait.ms": "2000",
        "yarn.resourcemanager.connect.retry-interval.ms": "500",
        "ipc.client.connect.max.retries": "0",
    }
    yarn_cluster.write_settings(conf / "yarn-site.xml", settings)
    return conf


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
