"""What a cluster refuses, and logins that pods make: each is named, and nothing is left."""

import json
import subprocess
from pathlib import Path

import pytest

import tidegate
from support import kube_user, topic_records
from support.certificates import Authority
from support.cli_user import Terminal
from support.kube_user import check, drivers, kubectl
from tidegate_local.kafka import Broker

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.timeout(600),
    pytest.mark.parametrize("terminal", ["cluster"], indirect=True),
]
PROJECT = Path(tidegate.__file__).parents[2]


def pipeline(terminal: Terminal, broker: Broker) -> None:
    topic_records.numbers(broker.bootstrap, terminal.home.name, 100, partitions=2)
    terminal.pipeline("p", [terminal.home.name])


def apply(form: object) -> None:
    command = [str(kube_user.HOME / "k"), "kubectl", "-n", kube_user.NAMESPACE, "create", "-f", "-"]
    subprocess.run(command, input=json.dumps(form), text=True, check=True, timeout=60)


def test_a_full_quota(terminal: Terminal, broker: Broker) -> None:
    pipeline(terminal, broker)
    kubectl("create", "quota", "none", "--hard=pods=0")
    try:
        refused = terminal.run("run", "p", "--run-id", "r", code=4)
    finally:
        kubectl("delete", "quota", "none")
    assert "exceeded quota: none" in refused.stderr
    assert terminal.json("run", "p", "--run-id", "r")["rows"] == 100
    check(terminal, "p")


def test_a_name_that_is_taken(terminal: Terminal, broker: Broker) -> None:
    """A pod that was there before is no driver of the run, and is not touched."""
    pipeline(terminal, broker)
    process = terminal.start("run", "p", "--run-id", "r")
    jobs = terminal.lake / "p/_tidegate/staging"
    kube_user.wait(lambda: list(jobs.glob("*/0/*/*")))
    attempt = next(jobs.glob("*/0/*/*")).parent.name
    name = f"tidegate-{attempt}-driver"
    apply(
        {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"own": "yes"}},
            "spec": {"containers": [{"name": "c", "image": kube_user.IMAGE,
                                     "command": ["sleep", "300"]}]},
        }
    )  # fmt: skip
    out, err = process.communicate(timeout=180)
    try:
        assert process.returncode == 4, out + err
        assert "already exists" in err
        phase = json.loads(kubectl("get", "pod", name, "-o", "json"))
        assert "deletionTimestamp" not in phase["metadata"]
    finally:
        kubectl("delete", "pod", name, "--grace-period=0", "--force", "--ignore-not-found")
    assert terminal.json("run", "p", "--run-id", "r")["rows"] == 100
    check(terminal, "p")


def test_executors_without_the_lake(terminal: Terminal, broker: Broker) -> None:
    """Their files are in their own containers: Spark returns without an error, the run does not."""
    pipeline(terminal, broker)
    mount = "spark.kubernetes.executor.volumes.hostPath.lake.mount.path"
    kube_user.on_kubernetes(terminal, "cluster", **{mount: "/elsewhere"})
    refused = terminal.run("run", "p", "--run-id", "r", code=None)
    assert refused.returncode != 0
    assert str(terminal.lake) in refused.stderr
    assert "executors" in refused.stderr
    kube_user.on_kubernetes(terminal, "cluster")
    assert terminal.json("run", "p", "--run-id", "r")["rows"] == 100
    check(terminal, "p")


def test_certificates_that_the_connection_has_as_text(terminal: Terminal, tmp_path: Path) -> None:
    """Driver and executors read them from a Secret, at the path that the client's options name."""
    authority = Authority.create()
    server = authority.server((kube_user.NODE,))
    (tmp_path / "server.pem").write_text(server.keystore_pem)
    (tmp_path / "ca.pem").write_text(authority.pem)
    login = {
        "ssl.keystore.type": "PEM", "ssl.keystore.location": str(tmp_path / "server.pem"),
        "ssl.truststore.type": "PEM", "ssl.truststore.location": str(tmp_path / "ca.pem"),
        "ssl.client.auth": "required",
    }  # fmt: skip
    client = authority.client("u")
    with kube_user.broker(tmp_path / "broker", "SSL", login) as broker:
        topic_records.numbers(kube_user.without_login(broker), "certificates", 100, partitions=2)
        terminal.bootstrap = broker.bootstrap
        terminal.extra |= {
            "security.protocol": "SSL", "ssl.ca.pem": authority.pem,
            "ssl.certificate.pem": client.chain_pem, "ssl.key.pem": client.key_pem(),
        }  # fmt: skip
        terminal.pipeline("p", ["certificates"])
        assert terminal.json("run", "p")["rows"] == 100
    check(terminal, "p")
    kube_user.wait(lambda: not drivers(), 40)
    secrets = json.loads(kubectl("get", "secrets", "-o", "json"))["items"]
    assert [each for each in secrets if "tidegate" in each["metadata"]["name"]] == []


def test_a_run_inside_of_a_pod(terminal: Terminal, broker: Broker) -> None:
    """A task of Airflow on Kubernetes: its login is the account of its pod. A window of offsets."""
    pipeline(terminal, broker)
    environ = terminal.env()
    names = [name for name in environ if name.startswith(("TIDEGATE_", "AIRFLOW_CONN_"))]
    cache = str(Path.home() / ".cache")
    places = {str(terminal.home): False, str(PROJECT): True, cache: True}
    window = ["--start", "0", "--end", "30"]
    tidegate_there = ["/opt/venv/bin/tidegate", "backfill", "p", *window]
    apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "task"},
            "spec": {
                "serviceAccountName": "tidegate",
                "restartPolicy": "Never",
                "securityContext": {"runAsUser": 0},
                "containers": [
                    {
                        "name": "task",
                        "image": kube_user.IMAGE,
                        "command": tidegate_there,
                        "env": [
                            {"name": "HOME", "value": str(Path.home())},
                            *({"name": name, "value": environ[name]} for name in names),
                        ],
                        "volumeMounts": [
                            {"name": f"v{i}", "mountPath": place, "readOnly": is_read_only}
                            for i, (place, is_read_only) in enumerate(places.items())
                        ],
                    }
                ],
                "volumes": [
                    {"name": f"v{i}", "hostPath": {"path": place}} for i, place in enumerate(places)
                ],
            },
        }
    )

    def phase() -> str:
        return json.loads(kubectl("get", "pod", "task", "-o", "json"))["status"]["phase"]

    try:
        kube_user.wait(lambda: phase() in ("Succeeded", "Failed"))
        assert phase() == "Succeeded", kubectl("logs", "task")
    finally:
        kubectl("delete", "pod", "task", "--grace-period=0", "--force")
    (counted,) = terminal.json("sql", "p", "SELECT count(*) AS n FROM lake")["rows"]
    assert counted == [60]
    check(terminal, "p")
