"""A real YARN on this machine: a resource manager and a node manager, each a JVM of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

import psutil

from support import locked_jars
from support.process_list import command_line
from support.spark_cluster import spark_home
from tidegate.launch import jars
from tidegate_local.ports import free_port

_SERVER = "org.apache.hadoop.yarn.server"
MANAGER = f"{_SERVER}.resourcemanager.ResourceManager"
NODE = f"{_SERVER}.nodemanager.NodeManager"
_LOG4J = """\
rootLogger.level=INFO
rootLogger.appenderRef.out.ref=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{ISO8601} %p %c{1}: %m%n
"""
_QUEUES = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1",
}


@dataclass(frozen=True)
class Cluster:
    """A running cluster; `conf` is its HADOOP_CONF_DIR, `node` the pid of its node manager.

    `home` has the logs and the directories of both managers.
    """

    home: Path
    conf: Path
    node: int

    def processes(self, container: str) -> list[int]:
        """Return the processes of a container: they work in a directory with its name."""
        found = _processes_in(self.home / "containers")
        return [pid for pid, directory in found.items() if container in directory]

    def driver_jvm(self, container: str) -> int:
        """Return the JVM of a driver, whose container has shells, too."""
        (jvm,) = [
            pid
            for pid in self.processes(container)
            if "deploy.yarn.ApplicationMaster" in command_line(pid)
            and psutil.Process(pid).name() == "java"
        ]
        return jvm


@contextlib.contextmanager
def running(
    home: Path,
    settings: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Cluster]:
    """Start both managers, wait until the node is registered, and end them and all containers.

    `settings` go into yarn-site.xml, which applications are sent; `environment` is the node
    manager's alone, and containers inherit it if `yarn.nodemanager.env-whitelist` names it.
    """
    conf = home / "conf"
    conf.mkdir(parents=True)
    site = _site(home) | dict(settings or {})
    write_settings(conf / "yarn-site.xml", site)
    write_settings(conf / "core-site.xml", {"fs.defaultFS": "file:///"})
    write_settings(conf / "capacity-scheduler.xml", _QUEUES)
    # Not in `conf`: what lies there is sent to the containers of Spark.
    (home / "log4j2.properties").write_text(_LOG4J)
    web = site["yarn.resourcemanager.webapp.address"]
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, main: str, **env: str) -> subprocess.Popen[bytes]:
        with (home / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [
                    jars.find_java(), "-Xmx384m", "-XX:+UseSerialGC", "-Djava.awt.headless=true",
                    "--add-opens", "java.base/java.lang=ALL-UNNAMED",
                    f"-Dlog4j2.configurationFile={home}/log4j2.properties",
                    f"-Dyarn.log.dir={home}", f"-Djava.io.tmpdir={home}",
                    "-cp", os.pathsep.join([str(conf), *map(str, _class_path())]), main,
                ],
                cwd=home, env={**os.environ, **env},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        started.append(process)
        return process

    try:
        manager = start("manager", MANAGER)
        node = start("node", NODE, **(environment or {}))
        give_up = time.monotonic() + 120
        while not _has_a_node(web):
            for process, name in ((manager, "manager"), (node, "node")):
                assert process.poll() is None, (home / f"{name}.log").read_text()[-5000:]
            assert time.monotonic() < give_up, (home / "manager.log").read_text()[-5000:]
            time.sleep(0.1)
        yield Cluster(home, conf, node.pid)
    finally:
        for process in reversed(started):
            process.kill()  # on TERM they take more than 20 s
            process.wait()
        for pid in _processes_in(home / "containers"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _site(home: Path) -> dict[str, str]:
    manager, node = "yarn.resourcemanager", "yarn.nodemanager"
    addresses = (
        f"{manager}.address", f"{manager}.scheduler.address",
        f"{manager}.resource-tracker.address", f"{manager}.admin.address",
        f"{manager}.webapp.address", f"{node}.address", f"{node}.localizer.address",
        f"{node}.webapp.address",
    )  # fmt: skip
    return {
        **{name: f"127.0.0.1:{free_port()}" for name in addresses},
        f"{manager}.hostname": "127.0.0.1",
        f"{node}.hostname": "127.0.0.1",
        f"{node}.local-dirs": str(home / "containers"),
        f"{node}.log-dirs": str(home / "container-logs"),
        f"{node}.resource.memory-mb": "6144",
        f"{node}.resource.cpu-vcores": "4",
        f"{node}.vmem-check-enabled": "false",
        f"{node}.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.9",
        "yarn.scheduler.minimum-allocation-mb": "256",
    }


def _class_path() -> list[Path]:
    spark = spark_home() / "jars"
    names = ("hadoop-client-*", "slf4j-api-*", "log4j-*", "jcl-over-slf4j-*")
    found = [path for name in names for path in sorted(spark.glob(f"{name}.jar"))]
    return [*locked_jars.fetched("yarn"), *found]


def _has_a_node(web: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{web}/ws/v1/cluster/metrics", timeout=5) as answer:
            return bool(json.load(answer)["activeNodes"] == 1)  # the shaded one has no envelope
    except OSError:
        return False


def _processes_in(directory: Path) -> dict[int, str]:
    """Return the processes that work below a directory, each with its own directory."""
    found = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if Path(process.cwd()).is_relative_to(directory):
                found[process.pid] = process.cwd()
    return found


def write_settings(path: Path, settings: Mapping[str, str]) -> None:
    """Write a file of Hadoop's configuration."""
    rows = "".join(
        f"<property><name>{name}</name><value>{escape(value)}</value></property>\n"
        for name, value in settings.items()
    )
    path.write_text(f"<configuration>\n{rows}</configuration>\n")
