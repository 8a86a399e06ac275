"""A real Kafka cluster on this machine: three brokers, one of which is also the controller."""

import base64
import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tidegate.launch import jars
from tidegate_local.ports import free_port

_PATIENCE = 60.0


@dataclass(frozen=True)
class Brokers:
    """Running brokers by their ids; 1 is the controller too, 2 and 3 are only brokers."""

    bootstrap: str
    processes: Mapping[int, subprocess.Popen[bytes]]

    def create(self, topic: str, *, partitions: int, config: Mapping[str, str]) -> None:
        """Create a topic with a replica on every broker; two of them must take a record."""
        copies = {"min.insync.replicas": "2", **config}
        new = NewTopic(topic, partitions, len(self.processes), config=copies)
        admin = AdminClient({"bootstrap.servers": self.bootstrap})  # must outlive what it was asked
        admin.create_topics([new])[topic].result(30)

    def leaders(self, topic: str) -> dict[int, int]:
        """Return the broker that leads each partition; -1 for none."""
        told = AdminClient({"bootstrap.servers": self.bootstrap}).list_topics(topic, timeout=30)
        return {p: each.leader for p, each in told.topics[topic].partitions.items()}

    def kill(self, number: int) -> None:
        """End a broker as a power cut would."""
        self.processes[number].kill()
        self.processes[number].wait()


@contextlib.contextmanager
def running(home: Path) -> Iterator[Brokers]:
    """Start three brokers, wait until they know each other, and end those that still run."""
    ports = {number: free_port() for number in (1, 2, 3)}
    controller = free_port()
    cluster_id = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=").replace("-", "_")
    started: dict[int, subprocess.Popen[bytes]] = {}
    try:
        for number, port in ports.items():
            started[number] = _start(home / str(number), number, port, controller, cluster_id)
        bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports.values())
        _wait(bootstrap, started, home)
        yield Brokers(bootstrap, started)
    finally:
        for process in reversed(started.values()):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _start(
    home: Path, number: int, port: int, controller: int, cluster_id: str
) -> subprocess.Popen[bytes]:
    home.mkdir(parents=True)
    plain, inner = f"PLAINTEXT://127.0.0.1:{port}", f"CONTROLLER://127.0.0.1:{controller}"
    also = number == 1
    settings = {
        "process.roles": "broker,controller" if also else "broker",
        "node.id": str(number),
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
        "listeners": f"{plain},{inner}" if also else plain,
        "advertised.listeners": f"{plain},{inner}" if also else plain,
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(home / "data"),
        "auto.create.topics.enable": "false",
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": "3000",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
    }
    properties = home / "server.properties"
    lines = (f"{key}={json.dumps(value)[1:-1]}\n" for key, value in settings.items())
    properties.write_text("".join(lines))
    class_path = ":".join(map(str, jars.lock_paths("kafka-broker")))
    java = [str(jars.find_java()), "-Xmx384m", "-XX:+UseSerialGC", "-cp", class_path]
    alone = ["--standalone"] if also else []
    with (home / "log").open("wb") as log:
        subprocess.run(
            [*java, "kafka.tools.StorageTool", "format", *alone, "--cluster-id", cluster_id,
             "--config", str(properties)],
            cwd=home, stdout=log, stderr=log, check=True, timeout=60,
        )  # fmt: skip
        return subprocess.Popen(
            [*java, "kafka.Kafka", str(properties)],
            cwd=home, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip


def _wait(bootstrap: str, started: Mapping[int, subprocess.Popen[bytes]], home: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        for number, process in started.items():
            assert process.poll() is None, (home / str(number) / "log").read_text()[-2000:]
        with contextlib.suppress(KafkaException):
            admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
            if len(admin.list_topics(timeout=2.0).brokers) == len(started):
                return
        time.sleep(0.2)
    raise AssertionError(f"three brokers did not meet within {_PATIENCE:.0f} s: see {home}")
