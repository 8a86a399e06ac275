"""kill -9 of each process of a run, at each step: nothing is lost, and nothing is there twice."""

import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Set

import psutil
import pytest

from support import kube_user, topic_reader, topic_records
from support.cli_user import Terminal
from support.kube_user import check, drivers, kubectl, objects, started_until
from tidegate_local.kafka import Broker

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.timeout(600),
    pytest.mark.parametrize("terminal", ["cluster"], indirect=True),
]
RECORDS = 300


def ingest(terminal: Terminal, broker: Broker) -> None:
    """Make a pipeline of two chunks."""
    topic = terminal.home.name
    topic_records.numbers(broker.bootstrap, topic, RECORDS, partitions=2)
    terminal.pipeline("p", [topic], max_records=200)


def egress(terminal: Terminal, broker: Broker) -> None:
    """Make a lake, and a pipeline that sends it."""
    topic = terminal.home.name
    topic_records.numbers(broker.bootstrap, topic, RECORDS, partitions=1)
    terminal.pipeline("p", [topic])
    terminal.run("run", "p")
    target = {"topic": f"{topic}-back", "partitions": 1}
    terminal.egress("back", source={"lake": "p"}, target=target)


def finish(terminal: Terminal, name: str, left: Set[str] = frozenset()) -> None:
    """Run a pipeline again, and see each record once, and no driver but these."""
    ends_well(terminal, terminal.start("run", name, "--run-id", "r", "--json"), left)


def ends_well(
    terminal: Terminal, process: subprocess.Popen[str], left: Set[str] = frozenset()
) -> None:
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    assert json.loads(out)["rows"] == RECORDS
    topic, bootstrap = terminal.home.name, terminal.bootstrap
    wanted = Counter(each.value for each in topic_reader.read(bootstrap, topic))
    assert wanted.total() == RECORDS
    assert terminal.json("verify", "p", "--against-kafka")["differences"] == 0
    check(terminal, "p")
    if (terminal.pipelines / "back.yaml").exists():
        sent = topic_reader.read(bootstrap, f"{topic}-back")
        assert Counter(each.value for each in sent) == wanted
    kube_user.wait(lambda: names_of_drivers() == left, 60)


def names_of_drivers() -> set[str]:
    return {each["metadata"]["name"] for each in drivers()}


def kill_java(pod: str) -> None:
    kubectl("exec", pod, "--", "pkill", "-9", "java")


def executors() -> list[str]:
    labels = {each["metadata"]["name"]: each["metadata"]["labels"] for each in objects("pods")}
    return [name for name, each in labels.items() if each.get("spark-role") == "executor"]


@pytest.mark.parametrize(
    ("name", "point"), [("p", "stage.done"), ("back", "send.before"), ("back", "send.sent")]
)
def test_a_killed_driver(terminal: Terminal, broker: Broker, name: str, point: str) -> None:
    """One that has staged all, one that begins to send, one that has sent and not said so."""
    (ingest if name == "p" else egress)(terminal, broker)
    process = started_until(terminal, point, "run", name, "--run-id", "r")
    kill_java(drivers()[0]["metadata"]["name"])
    out, err = process.communicate(timeout=180)
    assert process.returncode == 4, out + err
    finish(terminal, name)


@pytest.mark.parametrize(("name", "point"), [("p", "stage.half"), ("back", "send.before")])
def test_a_killed_executor(terminal: Terminal, broker: Broker, name: str, point: str) -> None:
    """Spark starts another one, and the run ends as if nothing had been."""
    (ingest if name == "p" else egress)(terminal, broker)
    process = started_until(terminal, point, "run", name, "--run-id", "r", "--json")
    kube_user.wait(executors)
    kill_java(executors()[0])
    (terminal.home / "hold").touch()
    ends_well(terminal, process)


def test_a_killed_spark_submit(terminal: Terminal, broker: Broker) -> None:
    """While it submits: the run fails, and the next one does it."""
    ingest(terminal, broker)
    process = terminal.start("run", "p", "--run-id", "r")

    def submitting() -> list[psutil.Process]:
        children = psutil.Process(process.pid).children(recursive=True)
        return [each for each in children if each.name() == "java"]

    kube_user.wait(submitting)
    submitting()[0].kill()
    out, err = process.communicate(timeout=180)
    assert process.returncode == 4, out + err
    finish(terminal, "p")


@pytest.mark.parametrize(
    ("name", "point"),
    [
        ("p", "plan.frozen"),
        ("p", "seal.written"),
        ("p", "publish.before"),
        ("p", "publish.committed"),
        ("p", "publish.finalising"),
        ("back", "send.claimed"),
        ("back", "seal.written"),
    ],
)
def test_a_killed_run(terminal: Terminal, broker: Broker, name: str, point: str) -> None:
    """The process that plans, proves, publishes and claims."""
    (ingest if name == "p" else egress)(terminal, broker)
    process = terminal.start("run", name, "--run-id", "r", TIDEGATE_FAULT=f"{point}:kill")
    process.communicate(timeout=180)
    assert process.returncode == -signal.SIGKILL
    stages = (name, point) == ("p", "seal.written")  # the other chunk
    kube_user.wait(lambda: len(names_of_drivers()) == stages)  # a pod goes a moment after its run
    left = names_of_drivers()
    finish(terminal, name, left)
    for each in left:  # it has ended, and stays until a run ten minutes later
        assert each in terminal.run("doctor", "p", code=None).stdout
        kubectl("patch", "pod", each, "--type=merge", '-p={"metadata":{"finalizers":null}}')
        kubectl("delete", "pod", each)


@pytest.mark.parametrize("program", ["kubelet", "kube-apiserver"])
def test_a_killed_program_of_the_cluster(terminal: Terminal, broker: Broker, program: str) -> None:
    """The run waits for it: what the driver has done meanwhile counts."""
    ingest(terminal, broker)
    process = started_until(terminal, "stage.half", "run", "p", "--run-id", "r", "--json")
    with kube_user.killed(program):
        (terminal.home / "hold").touch()
        time.sleep(15)
        assert process.poll() is None
    ends_well(terminal, process)


def test_a_driver_on_a_lost_node(terminal: Terminal, broker: Broker) -> None:
    """It is deleted by force and lives on: its claim is taken over when its kubelet is back."""
    egress(terminal, broker)
    process = started_until(terminal, "send.before", "run", "back", "--run-id", "r")
    process.kill()
    process.communicate(timeout=60)
    pod = drivers()[0]["metadata"]["name"]
    with kube_user.killed("kubelet"):
        kubectl("delete", "pod", pod, "--grace-period=0", "--force", "--wait=false")
        refused = terminal.run("run", "back", "--run-id", "r", code=None)
        assert refused.returncode != 0
        assert "has not reported its end" in refused.stderr
        assert topic_reader.read(broker.bootstrap, f"{terminal.home.name}-back") == []
    finish(terminal, "back")
