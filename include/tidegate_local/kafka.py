"""Run a Kafka broker, one KRaft node on the loopback address, from the pinned jars.

Data, settings, log and the two ports are kept in its home directory.
"""

import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tidegate.errors import TidegateError
from tidegate.launch import jars
from tidegate.launch.file_lock import hold_lock
from tidegate_local import processes, state_files
from tidegate_local.ports import free_port, is_free

_NAME = "kafka"
_TIMEOUT = 60.0
_JVM = ("-Xmx512m", "-Xms128m", "-XX:+UseSerialGC", "-Djava.awt.headless=true")

_LOG4J = """\
rootLogger.level=INFO
rootLogger.appenderRef.out.ref=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{ISO8601}{UTC} %p %c{1}: %m%n
logger.config.name=org.apache.kafka.common.config
logger.config.level=WARN
"""


class KafkaDidNotStart(TidegateError):
    """The local broker ended, or did not answer in time. The message has its last error."""

    exit_code = 2


@dataclass(frozen=True)
class Broker:
    """A running broker."""

    bootstrap: str
    pid: int
    home: Path


@dataclass(frozen=True)
class _Node:
    """The state of a home, kept from its first start on."""

    cluster_id: str
    port: int
    controller_port: int
    settings: Mapping[str, str] = field(default_factory=dict)


def start(
    home: Path, *, port: int | None = None, settings: Mapping[str, str] | None = None
) -> Broker:
    """Start the broker of this home, or return the running one, once it answers.

    `port` and `settings` (of server.properties) are kept in the home. A running broker does not
    see new ones before its next start.
    """
    home = home.absolute()
    home.mkdir(parents=True, exist_ok=True)
    with hold_lock(home / ".lock"):
        if find(home) is None:
            node = _configure(home, port, settings or {})
            _format(home, node)
            command = _java(home, "kafka.Kafka", str(home / "server.properties"))
            processes.start(_NAME, command, home=home, cwd=home)
        broker = find(home)
        processes.wait_until_ready(
            processes.find(_NAME, home=home),
            lambda: broker is not None and _answers(broker),
            timeout=_TIMEOUT,
            failure=lambda reason: _failure(home, reason),
        )
        assert broker is not None
        return broker


def find(home: Path) -> Broker | None:
    """Return the broker of this home if it is running or paused."""
    home = home.absolute()
    process, node = processes.find(_NAME, home=home), _node(home)
    if process is None or node is None:
        return None
    return Broker(f"127.0.0.1:{node.port}", process.pid, home)


def stop(home: Path) -> bool:
    """Shut the broker down cleanly. False when it was not running."""
    return processes.stop(_NAME, home=home.absolute(), timeout=20.0)


def kill(home: Path) -> None:
    """End the broker as a power cut would, with SIGKILL."""
    _send(home, signal.SIGKILL)
    while find(home):
        time.sleep(0.01)


def pause(home: Path) -> None:
    """Pause the broker with SIGSTOP: connections stay open and get no answer."""
    _send(home, signal.SIGSTOP)


def resume(home: Path) -> None:
    """Resume a paused broker."""
    _send(home, signal.SIGCONT)


def _send(home: Path, number: signal.Signals) -> None:
    process = processes.find(_NAME, home=home.absolute())
    if process is None or not processes.send(process, number):
        raise ProcessLookupError(f"no broker runs in {home}")


def _node(home: Path) -> _Node | None:
    kept = state_files.read(home / "node.json")
    return _Node(**kept) if kept else None


def _configure(home: Path, port: int | None, settings: Mapping[str, str]) -> _Node:
    """Create or update node.json, and write server.properties from it."""
    node = _node(home)
    if node is None:
        # No "-": the storage tool would take a leading one for an option.
        random_id = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=").replace("-", "_")
        node = _Node(random_id, port or free_port(), controller_port=free_port())
    node = replace(node, port=port or node.port, settings={**node.settings, **settings})
    if not is_free(node.controller_port):  # another process took it while this one was down
        node = replace(node, controller_port=free_port())
    state_files.write(home / "node.json", asdict(node))
    # JSON's escapes are also those of a properties file, which is Latin-1.
    lines = (f"{key}={json.dumps(value)[1:-1]}\n" for key, value in _properties(home, node).items())
    (home / "server.properties").write_text("".join(lines))
    (home / "log4j2.properties").write_text(_LOG4J)
    return node


def _properties(home: Path, node: _Node) -> dict[str, str]:
    plain, controller = f"127.0.0.1:{node.port}", f"127.0.0.1:{node.controller_port}"
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": controller,
        "listeners": f"PLAINTEXT://{plain},CONTROLLER://{controller}",
        "advertised.listeners": f"PLAINTEXT://{plain},CONTROLLER://{controller}",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(home / "data"),
        "auto.create.topics.enable": "false",
        "delete.topic.enable": "true",
        "group.initial.rebalance.delay.ms": "0",
        # A killed node is let in again only when its former session has timed out (default: 9 s).
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": "2000",
        # One node holds one replica of everything.
        "default.replication.factor": "1",
        "min.insync.replicas": "1",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # The default buffer is a quarter of this heap. Compaction should show within a second.
        "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
        "log.cleaner.backoff.ms": "500",
        **node.settings,
    }


def _format(home: Path, node: _Node) -> None:
    """Format the data directory, once. An unfinished one is formatted again."""
    formatted = home / "formatted"
    if formatted.exists():
        return
    shutil.rmtree(home / "data", ignore_errors=True)
    properties = str(home / "server.properties")
    run = subprocess.run(
        _java(
            home, "kafka.tools.StorageTool",
            "format", "--standalone", "--cluster-id", node.cluster_id, "--config", properties,
        ),
        cwd=home, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if run.returncode != 0:
        last = (run.stdout + run.stderr).strip().rpartition("\n")[2]
        raise KafkaDidNotStart(f"the storage of {home} could not be formatted: {last}")
    formatted.touch()


def _java(home: Path, main: str, *arguments: str) -> list[str]:
    class_path = ":".join(map(str, jars.lock_paths(jars.OF_THE_BROKER)))
    logging = f"-Dlog4j2.configurationFile={home / 'log4j2.properties'}"
    return [str(jars.find_java()), *_JVM, logging, "-cp", class_path, main, *arguments]


def _answers(broker: Broker) -> bool:
    """Return whether the broker answers a metadata request and is registered in the cluster."""
    host, _, port = broker.bootstrap.partition(":")
    socket.create_connection((host, int(port)), timeout=1.0).close()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    try:
        return bool(admin.list_topics(timeout=2.0).brokers)
    except KafkaException:
        return False


def _failure(home: Path, reason: str) -> KafkaDidNotStart:
    line = processes.last_error_line(_NAME, home=home, pattern=" (ERROR|FATAL) ")
    return KafkaDidNotStart(f"the broker in {home} {reason}: {line}")
