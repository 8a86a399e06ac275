"""Cluster mode on a real YARN: what runs, what stays behind, and what a killed driver costs.

Drivers and executors run with a Python that has neither Tidegate nor PySpark.
"""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from support import (
    oracle_client,
    scram_broker,
    topic_reader,
    topic_records,
    yarn_cluster,
    yarn_user,
)
from support.cli_user import Terminal
from support.scram_broker import ScramBroker
from support.secret_scan import HOLDERS, Scan
from support.yarn_cluster import Cluster
from support.yarn_user import wait
from tidegate.spark.answers import DRIVER, JOB
from tidegate.spark.egress_job import DONE, SENDING
from tidegate.spark.yarn_container import Container
from tidegate_local.kafka import Broker
from tidegate_local.s3 import Server

ROWS = 40_000
# Small requests, one at a time, so that the driver can be killed half-way.
SLOW = {"batch.size": 2_000, "linger.ms": 0, "max.in.flight.requests.per.connection": 1}
FAULT = "spark.yarn.appMasterEnv.TIDEGATE_FAULT"


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory, s3: Server) -> Iterator[Cluster]:
    """Yield a cluster whose resource manager keeps in files what it was submitted."""
    home = tmp_path_factory.mktemp("yarn")
    keys = {name: s3.environment[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    with yarn_cluster.running(home, yarn_user.settings(home, *keys), keys) as running:
        yield running
        for log in sorted((home / "container-logs").rglob("stdout")):
            print(f"{log}:\n{log.read_text()[-1500:]}")


@pytest.fixture
def terminal(yarn: Cluster, broker: Broker, tmp_path: Path) -> Terminal:
    user = Terminal(tmp_path, broker.bootstrap)
    yarn_user.on_yarn(user, yarn)
    return user


@pytest.fixture(scope="module")
def scram(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScramBroker]:
    home = tmp_path_factory.mktemp("scram") / "broker"
    with scram_broker.running(home, mechanism="SCRAM-SHA-512", tls=False) as running:
        yield running


def values(broker: Broker | ScramBroker, topic: str) -> list[bytes | None]:
    """Return the values of a topic's records, which number them, as another client reads them."""
    return sorted(each.value for each in topic_reader.read(broker.bootstrap, topic))


def at_times(do: Callable[[], object], seconds: float) -> Callable[[], object]:
    """Return a function that does it only after so many seconds."""
    last = 0.0

    def now_and_then() -> None:
        nonlocal last
        if time.monotonic() > last + seconds:
            do()
            last = time.monotonic()

    return now_and_then


@pytest.mark.slow
def test_a_run_with_a_login_leaves_no_password_and_no_job(
    yarn: Cluster, scram: ScramBroker, tmp_path: Path
) -> None:
    """The state store of the resource manager keeps the key of the job, and nothing it opens."""
    user = Terminal(tmp_path, scram.bootstrap, extra=dict(scram.extra))
    yarn_user.on_yarn(user, yarn)
    topic_records.numbers(scram.bootstrap, "on-yarn", 300, partitions=2)
    user.pipeline("in", ["on-yarn"])
    scan = Scan("application_", allowed={HOLDERS: {"password"}})
    scan.add(password=scram_broker.PASSWORD)
    places = ("containers", "container-logs", "staging", "state-store")
    jobs: set[str] = set()

    def look() -> None:
        jobs.update(path.name for path in user.lake.rglob(JOB))
        for place in places:
            scan.look_at_tree(place, yarn.home / place)

    topic_records.create(scram.bootstrap, "from-yarn", partitions=2)
    user.egress("out", source={"lake": "in"}, target={"topic": "from-yarn"})
    with scan.processes(lambda argv: b"/bin/tidegate\0run" in argv, at_times(look, 2)):
        ingested = user.json("run", "in")
        sent = user.json("run", "out")
    assert (ingested["rows"], sent["rows"]) == (300, 300)
    oracle_client.agree(scram.bootstrap, user.lake, "in", ["on-yarn"])
    assert values(scram, "from-yarn") == values(scram, "on-yarn")
    assert jobs == {JOB}
    look()
    for name in ("manager.log", "node.log"):
        scan.look_at("logs of YARN", name, (yarn.home / name).read_bytes())
    scan.look_at_tree("lake", user.lake)
    scan.nothing_found(seen={*places, "logs of YARN"})
    kept = [path for path in (yarn.home / "state-store").rglob("*") if path.is_file()]
    assert any(b"HDTS" in path.read_bytes() for path in kept)  # the credentials, with the key
    assert not list(user.lake.rglob(JOB))
    assert list(yarn_user.drivers(user.lake)) == []


@pytest.mark.faults
def test_an_ingest_whose_application_master_is_killed_is_retried(
    yarn: Cluster, terminal: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """kill -9 between two chunks: the first is kept, and the retry stages the other."""
    name = topic(partitions=2)
    topic_records.numbers(broker.bootstrap, name, 300, partitions=2)
    terminal.pipeline("in", [name], max_records=200)
    hold = terminal.home / "hold"
    yarn_user.on_yarn(terminal, yarn, **{FAULT: f"stage.half:wait={hold}"})
    process = terminal.start("run", "in", "--run-id", "r")
    wait(lambda: list(terminal.home.glob("hold.reached.*")) or process.poll() is not None)
    ((_, driver),) = yarn_user.drivers(terminal.lake)
    os.kill(yarn.driver_jvm(driver.id), signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    print(out, err)
    assert process.returncode != 0
    hold.touch()
    yarn_user.on_yarn(terminal, yarn)
    again = terminal.json("run", "in", "--run-id", "r")
    assert again["rows"] == 300
    oracle_client.agree(broker.bootstrap, terminal.lake, "in", [name])
    assert not list(terminal.lake.rglob(JOB))


@dataclass
class Sending:
    """An egress of 40,000 rows of files, `out`, and its target."""

    terminal: Terminal
    topic: str

    def count(self) -> int:
        return sum(topic_reader.ends(self.terminal.bootstrap, self.topic).values())

    def started(self) -> subprocess.Popen[str]:
        return self.terminal.start("run", "out", "--run-id", "r")

    def check(self) -> None:
        """Nothing is lost, and nothing is duplicated."""
        sent = topic_reader.read(self.terminal.bootstrap, self.topic)
        assert sorted(each.value for each in sent) == [b"%06d" % n for n in range(ROWS)]


@pytest.fixture
def sending(terminal: Terminal, topic: Callable[..., str]) -> Sending:
    name = topic(partitions=4)
    (terminal.home / "in").mkdir()
    (terminal.home / "in/a.text").write_text("".join(f"{n:06d}\n" for n in range(ROWS)))
    terminal.egress(
        "out",
        source={"path": str(terminal.home / "in"), "format": "text"},
        columns={"value": "value"},
        target={"topic": name, "producer": SLOW},
    )
    return Sending(terminal, name)


def driver_of(terminal: Terminal) -> Container:
    """Wait until the driver of the only open attempt has named its container."""
    wait(lambda: list(yarn_user.drivers(terminal.lake)))
    ((_, driver),) = yarn_user.drivers(terminal.lake)
    return driver


@pytest.mark.faults
def test_an_egress_whose_application_master_is_killed_is_retried(
    yarn: Cluster, sending: Sending
) -> None:
    """kill -9 while it sends: the end of its driver is proven, and the retry sends the rest."""
    terminal = sending.terminal
    process = sending.started()
    driver = driver_of(terminal)
    wait(lambda: sending.count() > 0 or process.poll() is not None)
    os.kill(yarn.driver_jvm(driver.id), signal.SIGKILL)
    out, err = process.communicate(timeout=180)
    sent = sending.count()
    print(out, err, sent)
    assert process.returncode != 0
    assert 0 < sent < ROWS
    assert yarn.processes(driver.id) == []
    assert terminal.json("run", "out", "--run-id", "r")["rows"] == ROWS
    sending.check()


@pytest.mark.faults
def test_an_egress_is_taken_over_when_its_orphan_has_ended(
    yarn: Cluster, sending: Sending, tmp_path: Path
) -> None:
    """The command is killed, its application runs on. While YARN cannot be asked, another run is
    refused; the next one ends the application, and sends the rest.
    """
    terminal = sending.terminal
    hold = terminal.home / "hold"
    yarn_user.on_yarn(terminal, yarn, **{FAULT: f"send.sent:wait={hold}"})
    process = sending.started()
    wait(lambda: list(terminal.home.glob("hold.reached.*")) or process.poll() is not None)
    process.kill()
    process.communicate()
    driver = driver_of(terminal)
    nobody = str(yarn_user.unanswered(tmp_path))
    refused = terminal.run("run", "out", "--run-id", "r", code=None, HADOOP_CONF_DIR=nobody)
    print(refused.stderr)
    assert refused.returncode == 4
    assert "SenderAlive" in refused.stderr
    assert re.search("YARN cannot be asked: .*Connection refused", refused.stderr)
    assert yarn.processes(driver.id)
    released = terminal.run("release", "out", "--how", "resend", "--reason", "x", code=None)
    print(released.stderr)
    assert released.returncode == 4
    assert "SenderAlive" in released.stderr
    assert "or its Spark driver, is alive" in released.stderr  # it is on this machine
    yarn_user.on_yarn(terminal, yarn)
    done = terminal.run("run", "out", "--run-id", "r", "--json")
    print(done.stderr)
    assert "killed: no process waits for it" in done.stderr
    assert yarn.processes(driver.id) == []
    sending.check()


@pytest.mark.faults
def test_without_its_node_manager_the_end_of_a_driver_is_not_proven(
    sending: Sending, tmp_path: Path
) -> None:
    """The state becomes KILLED, whether the driver runs or not; so it is not taken for dead."""
    terminal = sending.terminal
    with yarn_cluster.running(tmp_path / "yarn") as yarn:
        hold = terminal.home / "hold"
        yarn_user.on_yarn(terminal, yarn, **{FAULT: f"send.before:wait={hold}"})
        process = sending.started()
        wait(lambda: list(terminal.home.glob("hold.reached.*")) or process.poll() is not None)
        driver = driver_of(terminal)
        process.kill()
        process.communicate()
        psutil.Process(yarn.node).kill()
        refused = terminal.run("run", "out", "--run-id", "r", code=4)
        print(refused.stderr, yarn.processes(driver.id))
        assert "SenderAlive" in refused.stderr
        assert f"node manager {driver.node} cannot be asked for {driver.id}" in refused.stderr
    assert sending.count() == 0


@pytest.mark.slow
def test_a_lake_in_a_bucket(
    yarn: Cluster, broker: Broker, s3: Server, topic: Callable[..., str], tmp_path: Path
) -> None:
    """Job and answers are objects. The node manager has the keys in its environment, the submitter
    in its own; afterwards they are in no file of YARN.
    """
    source, target = topic(partitions=2), topic(partitions=2)
    topic_records.numbers(broker.bootstrap, source, 300, partitions=2)
    url = "s3://lakes/on-yarn"
    user = Terminal(tmp_path, broker.bootstrap, environ=dict(s3.environment), url=url)
    yarn_user.on_yarn(user, yarn)
    user.pipeline("in", [source])
    assert user.json("run", "in")["rows"] == 300
    oracle_client.agree(broker.bootstrap, url, "in", [source], environ=s3.environment)
    user.egress("out", lake=url, source={"lake": "in"}, target={"topic": target})
    assert user.json("run", "out")["rows"] == 300
    assert values(broker, target) == values(broker, source)
    listed = s3.client().list_objects_v2(Bucket="lakes", Prefix="on-yarn")["Contents"]
    names = {each["Key"].rpartition("/")[2] for each in listed}
    assert not names & {JOB, DRIVER, SENDING, DONE}
    scan = Scan("application_")
    scan.add(key=s3.secret_key)
    wait(lambda: not list((yarn.home / "containers").rglob("launch_container.sh")))
    for place in ("containers", "container-logs", "staging", "state-store"):
        scan.look_at_tree(place, yarn.home / place)
    scan.nothing_found(seen={"containers", "container-logs", "state-store"})
