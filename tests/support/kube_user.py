"""A user whose Spark connection is a Kubernetes, in a network namespace of its own."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from support.cli_user import Terminal
from tidegate_check.lake import Checker, Stored
from tidegate_local import kafka
from tidegate_local.kafka import Broker
from tidegate_local.ports import free_port

HOME = Path("/tmp/tgk8s")
NODE = "10.99.0.1"
NAMESPACE = "spark"
IMAGE = "tidegate.test/spark:4.0.4"


@contextmanager
def broker(
    home: Path, protocol: str = "PLAINTEXT", login: Mapping[str, str] | None = None
) -> Iterator[Broker]:
    """Start a broker that pods can reach, and end it. `login` has settings of their listener."""
    home.mkdir()
    plain, controller, pods = free_port(), free_port(), free_port()
    listeners = (
        f"PLAINTEXT://127.0.0.1:{plain},CONTROLLER://127.0.0.1:{controller},PODS://{NODE}:{pods}"
    )
    settings = {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
        "listener.security.protocol.map": (
            f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PODS:{protocol}"
        ),
        **{f"listener.name.pods.{name}": value for name, value in (login or {}).items()},
    }
    try:
        started = kafka.start(home, port=plain, settings=settings)
        yield Broker(f"{NODE}:{pods}", started.pid, home)
    finally:
        kafka.stop(home)


def without_login(broker: Broker) -> str:
    """Return the address at which a broker wants no login."""
    return f"127.0.0.1:{json.loads((broker.home / 'node.json').read_text())['port']}"


def kubectl(*arguments: str) -> str:
    """Return the output of a command, as admin, in Spark's namespace."""
    command = [str(HOME / "k"), "kubectl", "-n", NAMESPACE, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def objects(kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(kubectl("get", kind, "-o", "json"))["items"]
    return found


def delete_pods() -> None:
    """Delete what a test has left: also a driver whose outcome no run has recorded."""
    for each in objects("pods"):
        name = each["metadata"]["name"]
        with contextlib.suppress(subprocess.CalledProcessError):  # it is gone meanwhile
            kubectl("patch", "pod", name, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
            kubectl("delete", "pod", name, "--grace-period=1")


def drivers() -> list[dict[str, Any]]:
    """Return the pods of drivers."""
    pods = objects("pods")
    return [each for each in pods if each["metadata"]["labels"].get("spark-role") == "driver"]


class UserOfPods(Terminal):
    """A user whose faults are those of the driver's pod, too."""

    def env(self, **more: str) -> dict[str, str]:
        env = super().env(**more)
        if fault := more.get("TIDEGATE_FAULT"):
            connection = json.loads(env["AIRFLOW_CONN_SPARK_DEFAULT"])
            connection["extra"]["conf"]["spark.kubernetes.driverEnv.TIDEGATE_FAULT"] = fault
            env["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps(connection)
        return env


def new_user(home: Path, broker: Broker, mode: str) -> Terminal:
    """Return a user with a lake that pods have as well."""
    user = UserOfPods(home, broker.bootstrap, processes=True)
    user.lake.mkdir(mode=0o777)
    user.lake.chmod(0o777)
    on_kubernetes(user, mode)
    return user


def on_kubernetes(terminal: Terminal, mode: str, **conf: Any) -> None:
    """Let the applications of a user run there, as the service account."""
    volumes = {
        f"spark.kubernetes.{who}.volumes.hostPath.lake.{what}.path": str(terminal.home)
        for who in ("driver", "executor")
        for what in ("mount", "options")
    }
    # Else the pods would have another user than the submitter, and the lake is one directory.
    template = terminal.home / "root.yaml"
    template.write_text("spec: {securityContext: {runAsUser: 0}}\n")
    settings = {
        "spark.kubernetes.driver.podTemplateFile": str(template),
        "spark.kubernetes.executor.podTemplateFile": str(template),
        "spark.kubernetes.container.image": IMAGE,
        "spark.kubernetes.authenticate.driver.serviceAccountName": "spark",
        "spark.kubernetes.driver.request.cores": "0.1",
        "spark.kubernetes.executor.request.cores": "0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.instances": "1",
        "spark.kubernetes.driverEnv.TIDEGATE_TESTING": "1",
        **(volumes if mode == "cluster" else {"spark.driver.host": NODE}),
        **({} if mode == "cluster" else {k: v for k, v in volumes.items() if "executor" in k}),
        **conf,
    }
    extra = {
        "deploy-mode": mode,
        "namespace": NAMESPACE,
        "conf": settings,
        **({"jars": "image"} if mode == "cluster" else {}),
    }
    host = f"k8s://https://{NODE}:6443"
    terminal.environ |= {
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(
            {"conn_type": "spark", "host": host, "extra": extra}
        ),
        "KUBECONFIG": str(_login(terminal.home)),
    }


def _login(home: Path) -> Path:
    """Return a kubeconfig of the account that docs/examples/kubernetes gives to Tidegate."""
    token = kubectl("create", "token", "tidegate").strip()
    form = yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text())
    form["users"] = [{"name": "tidegate", "user": {"token": token}}]
    form["contexts"][0]["context"]["user"] = "tidegate"
    found = home / "kubeconfig"
    found.write_text(yaml.safe_dump(form))
    return found


def wait(until: Callable[[], object], limit: float = 180) -> None:
    deadline = time.monotonic() + limit
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@contextmanager
def killed(program: str) -> Iterator[None]:
    """Kill a program of the cluster by -9, and start it again at the end of the block."""
    noted = HOME / "pid" / program
    command = Path(f"/proc/{noted.read_text().strip()}/cmdline").read_bytes().split(b"\0")[:-1]
    os.kill(int(noted.read_text()), signal.SIGKILL)
    try:
        yield
    finally:
        log = (HOME / "log" / f"{program}.log").open("ab")
        again = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        noted.write_text(str(again.pid))


def started_until(terminal: Terminal, point: str, *command: str) -> subprocess.Popen[str]:
    """Start a command, and return it when its driver waits at a fault point for the file `hold`.

    Later commands have no fault.
    """
    hold = terminal.home / "hold"
    fault = {"spark.kubernetes.driverEnv.TIDEGATE_FAULT": f"{point}:wait={hold}"}
    on_kubernetes(terminal, "cluster", **fault)
    process = terminal.start(*command)
    wait(lambda: list(terminal.home.glob("hold.reached.*")) or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    on_kubernetes(terminal, "cluster")
    return process


def check(terminal: Terminal, name: str) -> None:
    assert Checker(Stored(f"{terminal.lake}/{name}")).run() == []
