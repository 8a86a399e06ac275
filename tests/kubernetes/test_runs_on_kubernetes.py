"""Whole runs on a real Kubernetes, in both modes: `make test-kubernetes`."""

import json
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from support import kube_user, topic_reader, topic_records
from support.cli_user import Terminal
from support.kube_user import check, drivers, kubectl, objects, started_until
from support.secret_scan import HOLDERS, Scan
from tidegate_local.kafka import Broker

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]


def test_there_and_back(terminal: Terminal, broker: Broker) -> None:
    """An ingest, an egress of its lake and a replay: each record once, with its timestamp."""
    topic = f"there-{Path(terminal.home).name}"
    topic_records.numbers(broker.bootstrap, topic, 2_000, partitions=2)
    terminal.pipeline("p", [topic], max_records=1_500)
    report = terminal.json("run", "p")
    assert report["rows"] == 2_000
    assert terminal.json("verify", "p", "--against-kafka")["differences"] == 0
    target = {"topic": f"{topic}-back", "partitions": 2, "timestamps": "source"}
    terminal.egress("back", source={"lake": "p"}, target=target)
    assert terminal.json("run", "back")["rows"] == 2_000
    sent, wanted = (
        Counter((each.value, each.timestamp) for each in topic_reader.read(broker.bootstrap, name))
        for name in (f"{topic}-back", topic)
    )
    assert sent == wanted
    terminal.run("replay", "p", "--replay-id", "again", "--start", "0")
    assert terminal.json("verify", "p", "--against-kafka")["differences"] == 0
    check(terminal, "p")
    kube_user.wait(lambda: not drivers(), 40)
    assert [each for each in objects("secrets") if "tidegate" in each["metadata"]["name"]] == []


@pytest.mark.parametrize("terminal", ["cluster"], indirect=True)
def test_a_killed_driver_is_retried(terminal: Terminal, broker: Broker) -> None:
    """kill -9 of its JVM between two chunks: the first is kept, and the retry does the other."""
    topic = "killed-driver"
    topic_records.numbers(broker.bootstrap, topic, 300, partitions=2)
    terminal.pipeline("p", [topic], max_records=200)
    process = started_until(terminal, "stage.half", "run", "p", "--run-id", "r")
    (pod,) = drivers()
    kubectl("exec", pod["metadata"]["name"], "--", "pkill", "-9", "java")
    out, err = process.communicate(timeout=180)
    assert process.returncode == 4, out + err
    assert terminal.json("run", "p", "--run-id", "r")["rows"] == 300
    check(terminal, "p")


@pytest.mark.parametrize("terminal", ["cluster"], indirect=True)
def test_a_killed_submitter_leaves_a_driver_that_is_ended(
    terminal: Terminal, broker: Broker
) -> None:
    """Its claim is taken over once the API server has shown the driver's end: each row once."""
    topic = "killed-submitter"
    topic_records.numbers(broker.bootstrap, topic, 500, partitions=1)
    terminal.pipeline("p", [topic])
    terminal.run("run", "p")
    target = {"topic": "killed-submitter-back", "partitions": 1}
    terminal.egress("back", source={"lake": "p"}, target=target)
    process = started_until(terminal, "send.before", "run", "back", "--run-id", "r")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    (pod,) = drivers()
    assert pod["status"]["phase"] == "Running"
    assert terminal.json("run", "back", "--run-id", "r")["rows"] == 500
    sent = Counter(each.value for each in topic_reader.read(broker.bootstrap, target["topic"]))
    assert sent == Counter(each.value for each in topic_reader.read(broker.bootstrap, topic))
    assert sent.total() == 500
    kube_user.wait(lambda: not drivers(), 40)


@pytest.mark.parametrize("terminal", ["cluster"], indirect=True)
def test_a_driver_that_is_deleted_by_force_proves_nothing(
    terminal: Terminal, broker: Broker
) -> None:
    """Its finalizer keeps the pod, so its end is seen; the run fails, and the retry does it."""
    topic = "forced"
    topic_records.numbers(broker.bootstrap, topic, 300, partitions=2)
    terminal.pipeline("p", [topic], max_records=200)
    process = started_until(terminal, "stage.half", "run", "p", "--run-id", "r")
    (pod,) = drivers()
    kubectl("delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force", "--wait=false")
    out, err = process.communicate(timeout=180)
    assert process.returncode == 4, out + err
    assert terminal.json("run", "p", "--run-id", "r")["rows"] == 300
    check(terminal, "p")


@pytest.mark.parametrize("terminal", ["cluster"], indirect=True)
def test_an_image_that_is_not_there_is_named(terminal: Terminal, broker: Broker) -> None:
    """While the run waits, its log says why; when it is ended, its pod is, too."""
    topic_records.numbers(broker.bootstrap, "no-image", 10, partitions=1)
    terminal.pipeline("p", ["no-image"])
    kube_user.on_kubernetes(
        terminal, "cluster", **{"spark.kubernetes.container.image": "tidegate.test/none:1"}
    )
    process = terminal.start("run", "p", "--run-id", "r")
    kube_user.wait(drivers)
    kube_user.wait(
        lambda: "ErrImage" in json.dumps(drivers()) or "ImagePull" in json.dumps(drivers())
    )
    time.sleep(75)  # it is told after a minute
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=120)
    assert "does not run yet: " in err
    assert "ImagePull" in err or "ErrImage" in err
    kube_user.wait(lambda: not drivers(), 40)


@pytest.mark.parametrize("terminal", ["cluster"], indirect=True)
def test_a_driver_that_no_node_can_take(terminal: Terminal, broker: Broker) -> None:
    """It is told why, and nothing is left of it when the run is ended."""
    topic_records.numbers(broker.bootstrap, "no-node", 10, partitions=1)
    terminal.pipeline("p", ["no-node"])
    kube_user.on_kubernetes(terminal, "cluster", **{"spark.kubernetes.driver.request.cores": "500"})
    process = terminal.start("run", "p", "--run-id", "r")
    kube_user.wait(drivers)
    time.sleep(75)  # it is told after a minute
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=120)
    assert "does not run yet: Unschedulable" in err
    kube_user.wait(lambda: not drivers(), 40)


@pytest.mark.parametrize("terminal", ["cluster"], indirect=True)
def test_no_secret_is_in_the_cluster(terminal: Terminal, tmp_path: Path) -> None:
    """Pods, ConfigMaps, events and output, looked at while a driver that has logged in waits, have
    neither the password nor, in a Secret, the job.
    """
    password = "canary-of-kubernetes-7f3a"
    scan = Scan(control="no-secret", allowed={HOLDERS: {"password"}})
    scan.add(password=password)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    login = {
        "sasl.enabled.mechanisms": "PLAIN",
        "plain.sasl.jaas.config": f'{module} required user_u="{password}";',
    }
    with kube_user.broker(tmp_path / "broker", "SASL_PLAINTEXT", login) as broker:
        topic_records.numbers(kube_user.without_login(broker), "no-secret", 300, partitions=2)
        terminal.bootstrap = broker.bootstrap
        terminal.extra |= {
            "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
            "sasl.username": "u", "sasl.password": password,
        }  # fmt: skip
        terminal.pipeline("no-secret", ["no-secret"], max_records=200)
        with scan.processes(lambda argv: b"/bin/tidegate\0run" in argv):
            process = started_until(terminal, "stage.half", "run", "no-secret", "--run-id", "r")
            for kind in ("pods", "configmaps", "events", "secrets"):
                scan.look_at(kind, kind, f"no-secret {kubectl('get', kind, '-o', 'yaml')}")
            assert drivers()
            (terminal.home / "hold").touch()
            out, err = process.communicate(timeout=180)
        assert process.returncode == 0, out + err
        scan.look_at("output", "run", out + err)
    scan.look_at_tree("lake", terminal.lake)
    scan.nothing_found(seen=["pods", "configmaps", "events", "secrets", "output", "lake"])
