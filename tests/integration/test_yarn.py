"""Cluster mode on a real YARN: what runs, what stays behind, and what a killed driver costs.

Drivers and executors run with a Python that has neither Tidegate nor PySpark.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support import (
    oracle_client,
    scram_broker,
    topic_records,
    yarn_cluster,
    yarn_user,
)
from support.cli_user import Terminal
from support.scram_broker import ScramBroker
from support.secret_scan import HOLDERS, Scan
from support.yarn_cluster import Cluster
from support.yarn_user import wait
from tidegate.spark.answers import JOB
from tidegate_local.kafka import Broker

FAULT = "spark.yarn.appMasterEnv.TIDEGATE_FAULT"


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Yield a cluster whose resource manager keeps in files what it was submitted."""
    home = tmp_path_factory.mktemp("yarn")
    with yarn_cluster.running(home, yarn_user.recovery(home)) as running:
        yield running


@pytest.fixture
def terminal(yarn: Cluster, broker: Broker, tmp_path: Path) -> Terminal:
    user = Terminal(tmp_path, broker.bootstrap)
    yarn_user.on_yarn(user, yarn)
    return user


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScramBroker]:
    home = tmp_path_factory.mktemp("scram") / "broker"
    with scram_broker.running(home, mechanism="SCRAM-SHA-512", tls=False) as running:
        yield running


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
    yarn: Cluster, secured: ScramBroker, tmp_path: Path
) -> None:
    """The state store of the resource manager keeps the key of the job, and nothing it opens."""
    user = Terminal(tmp_path, secured.bootstrap, extra=dict(secured.extra))
    yarn_user.on_yarn(user, yarn)
    topic_records.numbers(secured.bootstrap, "on-yarn", 300, partitions=2)
    user.pipeline("in", ["on-yarn"])
    scan = Scan("application_", allowed={HOLDERS: {"password"}})
    scan.add(password=scram_broker.PASSWORD)
    places = ("containers", "container-logs", "staging", "state-store")
    jobs: set[str] = set()

    def look() -> None:
        jobs.update(path.name for path in user.lake.rglob(JOB))
        for place in places:
            scan.look_at_tree(place, yarn.home / place)

    with scan.processes(lambda argv: b"/bin/tidegate\0run" in argv, at_times(look, 2)):
        done = user.run("run", "in", "--json")
    print(done.stdout, done.stderr)
    assert '"rows": 300' in done.stdout
    oracle_client.agree(secured.bootstrap, user.lake, "in", ["on-yarn"])
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
