"""A real Kafka broker of a version that has a lock beside this file, or that of the local stack."""

import base64
import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from support import locked_jars
from tidegate.launch import jars
from tidegate_local.ports import free_port

TOO_OLD = "2.7.2"
"""Of the last line without topic ids."""
LOCKED = ("2.8.2", "3.3.2", "3.9.1")
LOCAL = next(jar.version for jar in jars.read_lock("kafka-broker") if jar.artifact == "kafka_2.13")
_PATIENCE = 60.0
_LOG4J = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n
"""


@contextlib.contextmanager
def running(home: Path, version: str) -> Iterator[str]:
    """Start a broker, before 3.0 with a ZooKeeper; yield its address; end them."""
    home.mkdir(parents=True)
    names = jars.ensure_jars("kafka-broker") if version == LOCAL else _of(version)
    (home / "log4j.properties").write_text(_LOG4J)
    java = [
        str(jars.find_java()),
        "-Xmx384m",
        "-XX:+UseSerialGC",
        "-Dzookeeper.jmx.log4j.disable=true",
    ]
    java += [
        f"-Dlog4j.configuration=file:{home}/log4j.properties",
        "-cp",
        ":".join(map(str, names)),
    ]
    port, other = free_port(), free_port()
    started = []
    try:
        if version < "3":
            zookeeper = {
                "dataDir": str(home / "zookeeper"), "clientPort": str(other),
                "clientPortAddress": "127.0.0.1", "admin.enableServer": "false",
            }  # fmt: skip
            main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
            started.append(_start(java, main, _write(home / "zookeeper.properties", zookeeper)))
            mode = {"broker.id": "1", "zookeeper.connect": f"127.0.0.1:{other}"}
            properties = _write(home / "server.properties", mode | _common(home, port))
        else:
            mode = {
                "process.roles": "broker,controller",
                "node.id": "1",
                "controller.quorum.voters": f"1@127.0.0.1:{other}",
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "inter.broker.listener.name": "PLAINTEXT",
            }
            both = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{other}"
            common = _common(home, port) | {"listeners": both}
            properties = _write(home / "server.properties", mode | common)
            _format(java, properties)
        started.append(_start(java, "kafka.Kafka", properties))
        _wait(f"127.0.0.1:{port}", started, home)
        yield f"127.0.0.1:{port}"
    finally:
        for process in reversed(started):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _of(version: str) -> list[Path]:
    return locked_jars.fetched(f"kafka-{version}")


def _common(home: Path, port: int) -> dict[str, str]:
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(home / "data"),
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
    }


def _write(path: Path, settings: Mapping[str, str]) -> Path:
    path.write_text("".join(f"{key}={json.dumps(text)[1:-1]}\n" for key, text in settings.items()))
    return path


def _format(java: list[str], properties: Path) -> None:
    cluster_id = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=").replace("-", "_")
    command = ["kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(properties)]
    subprocess.run(
        [*java, *command], cwd=properties.parent, check=True, capture_output=True, timeout=60
    )


def _start(java: list[str], main: str, properties: Path) -> "subprocess.Popen[bytes]":
    with properties.with_suffix(".log").open("wb") as log:
        return subprocess.Popen(
            [*java, main, str(properties)], cwd=properties.parent, stdin=subprocess.DEVNULL,
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip


def _wait(bootstrap: str, started: list["subprocess.Popen[bytes]"], home: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        for process in started:
            assert process.poll() is None, [p.read_text()[-2000:] for p in home.glob("*.log")]
        with contextlib.suppress(KafkaException):
            admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
            if admin.list_topics(timeout=2.0).brokers:
                return
        time.sleep(0.2)
    raise AssertionError([path.read_text()[-2000:] for path in home.glob("*.log")])
