"""YARN's word on applications, and what proves the end of a driver; outputs are Hadoop 3.4.1's."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tidegate.launch import yarn_client
from tidegate.launch.yarn_client import (
    YarnApplication,
    application_client,
    kill_applications,
    list_tagged,
    not_ended,
)
from tidegate.spark.yarn_container import Container

APP = "application_1795412612181_0001"
DRIVER = Container("container_1795412612181_0001_01_000001", "node-1:8042", 2_000)
_HEAD = """\
Total number of applications (application-types: [], states: [NEW, NEW_SAVING, SUBMITTED, \
ACCEPTED, RUNNING, FINISHED, FAILED, KILLED] and tags: [tidegate-a1]):{}
                Application-Id\t    Application-Name\t    Application-Type\t      User\t     Queue\
\t             State\t       Final-State\t       Progress\t                       Tracking-URL
"""
_ROW = (
    "{}\t                {}\t               SPARK\t      root\troot.default\t"
    "          {}\t         {}\t           100%\t                                N/A\n"
)


class Yarn:
    """Answers as the command line client does, and keeps what it was asked."""

    def __init__(self, *states: str, name: str = "flights r1") -> None:
        self.asked: list[Sequence[str]] = []
        rows = [
            _ROW.format(f"application_1795412612181_{number:04}", name, state, "UNDEFINED")
            for number, state in enumerate(states, start=1)
        ]
        self.output = _HEAD.format(len(rows)) + "".join(rows)

    def __call__(self, args: Sequence[str]) -> str:
        self.asked.append(args)
        return self.output


class Node:
    """A node manager by what it says of the driver's container."""

    def __init__(self, status: int, body: object, started: int = 1_000) -> None:
        self.answers = {
            f"http://node-1:8042/ws/v1/node/containers/{DRIVER.id}": (status, body),
            "http://node-1:8042/ws/v1/node/info": (200, {"nmStartupTime": started}),
        }

    def __call__(self, url: str) -> tuple[int, str]:
        status, body = self.answers[url]
        return status, body if isinstance(body, str) else json.dumps(body)


def gone(started: int = 1_000) -> Node:
    message = f"java.lang.Exception: container with id, {DRIVER.id}, not found"
    return Node(404, {"RemoteException": {"exception": "NotFoundException", "message": message}},
                started)  # fmt: skip


def unreachable(_: object) -> str:
    raise OSError("no answer within 60 s")


def test_applications_are_listed_by_their_tag() -> None:
    yarn = Yarn("FINISHED", "RUNNING")
    assert list_tagged("tidegate-a1", yarn) == [
        YarnApplication(APP, "FINISHED", "UNDEFINED"),
        YarnApplication(f"{APP[:-1]}2", "RUNNING", "UNDEFINED"),
    ]
    assert yarn.asked == [["application", "-list", "-appTags", "tidegate-a1", "-appStates", "ALL"]]
    assert list_tagged("tidegate-a1", Yarn()) == []


def test_a_name_with_tabs_moves_no_column() -> None:
    (found,) = list_tagged("tidegate-a1", Yarn("KILLED", name="a\tFINISHED\tb"))
    assert found.state == "KILLED"


@pytest.mark.parametrize(
    "output",
    ["", "usage: application\n", _HEAD.format(1),
     _HEAD.format(0) + _ROW.format(APP, "a", "FAILED", "FAILED")],
)  # fmt: skip
def test_an_unknown_answer_is_no_list(output: str) -> None:
    yarn = Yarn()
    yarn.output = output
    with pytest.raises(OSError, match="not a list of applications"):
        list_tagged("tidegate-a1", yarn)


def test_only_what_runs_is_killed() -> None:
    yarn = Yarn("FINISHED", "RUNNING", "ACCEPTED")
    assert kill_applications("tidegate-a1", yarn) == [f"{APP[:-1]}2", f"{APP[:-1]}3"]
    assert yarn.asked[1:] == [["application", "-kill", f"{APP[:-1]}2", f"{APP[:-1]}3"]]
    assert kill_applications("tidegate-a1", ended := Yarn("KILLED")) == []
    assert len(ended.asked) == 1


@pytest.mark.parametrize("state", ["FINISHED", "FAILED", "KILLED"])
@pytest.mark.parametrize(
    "node",
    [
        gone(),
        Node(200, {"container": {"state": "DONE", "exitCode": 0}}),
        Node(200, {"state": "EXITED_WITH_FAILURE", "exitCode": 137}),
        Node(200, {"state": "CONTAINER_CLEANEDUP_AFTER_KILL"}),
    ],
)
def test_an_ended_application_without_its_process_is_dead(state: str, node: Node) -> None:
    assert not_ended("tidegate-a1", DRIVER, Yarn(state), node) is None


@pytest.mark.parametrize("state", ["FINISHED", "FAILED", "KILLED"])
@pytest.mark.parametrize("container", ["RUNNING", "KILLING", "SCHEDULED", "PAUSED", "UNHEARD_OF"])
def test_a_state_is_no_proof_while_the_container_is_there(state: str, container: str) -> None:
    why = not_ended("tidegate-a1", DRIVER, Yarn(state), Node(200, {"state": container}))
    assert why == f"{DRIVER.id} on node-1:8042 is {container}"


@pytest.mark.parametrize(
    "state", ["NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING", "UNHEARD_OF"]
)
def test_an_application_that_may_run_is_not_dead(state: str) -> None:
    """Whatever the node manager says."""
    why = not_ended("tidegate-a1", DRIVER, Yarn("KILLED", state), gone())
    assert why == f"{APP[:-1]}2 is {state}"


@pytest.mark.parametrize(
    ("node", "says"),
    [
        (gone(started=2_001), "was started after"),
        (Node(404, "<html>404 Not Found</html>"), "answers 404"),
        (Node(404, "container with id, container_1_1_01_000002, not found"), "answers 404"),
        (Node(401, ""), "answers 401"),
        (Node(200, "<html>"), "cannot be asked"),
        (Node(200, {}), "unknown answer"),
        (Node(200, []), "unknown answer"),
        (unreachable, "cannot be asked .*no answer"),
    ],
)
def test_a_node_manager_that_cannot_know_proves_nothing(node: Node, says: str) -> None:
    why = not_ended("tidegate-a1", DRIVER, Yarn("KILLED"), node)
    assert why
    assert re.search(says, why), why


@pytest.mark.parametrize(
    "info", [{"nodeInfo": {"id": "n", "nmStartupTime": 1_000}}, {"nmstartupTime": 1_000, "id": "n"}]
)
def test_the_start_of_a_node_manager_in_each_form(info: object) -> None:
    """As Hadoop's servers say it, and as the shaded ones do."""
    node = gone()
    node.answers["http://node-1:8042/ws/v1/node/info"] = (200, info)
    assert not_ended("tidegate-a1", DRIVER, Yarn("KILLED"), node) is None
    node.answers["http://node-1:8042/ws/v1/node/info"] = (200, {"id": "n"})
    assert "unknown answer" in str(not_ended("tidegate-a1", DRIVER, Yarn("KILLED"), node))


def test_no_application_and_no_answer_prove_nothing() -> None:
    why = not_ended("tidegate-a1", DRIVER, Yarn(), gone())
    assert why is not None
    assert "no application with the tag tidegate-a1" in why
    why = not_ended("tidegate-a1", DRIVER, unreachable, gone())
    assert why == "YARN cannot be asked: no answer within 60 s"


@pytest.mark.parametrize(
    ("container", "belongs"),
    [
        ("container_e17_1795412612181_0001_01_000001", True),
        ("container_1795412612181_0002_01_000001", False),
        ("container_1795412612182_0001_01_000001", False),
        ("container_1795412612181_00010_01_000001", False),
    ],
)
def test_the_container_must_be_of_the_application(container: str, belongs: bool) -> None:
    driver = Container(container, "node-1:8042", 2_000)
    node = lambda _: (200, '{"state": "DONE"}')  # noqa: E731
    assert (not_ended("tidegate-a1", driver, Yarn("FAILED"), node) is None) is belongs


# Of Hadoop's client, if no resource manager answers.
_REFUSED = """\
NOTE: Picked up JDK_JAVA_OPTIONS: -XX:TieredStopAtLevel=1
WARNING: Using incubator modules: jdk.incubator.vector
Exception in thread "main" java.net.ConnectException: Call From vm/127.0.0.1 to localhost:9 failed
\tat java.base/jdk.internal.reflect.NativeConstructorAccessorImpl.newInstance0(Native Method)
Caused by: java.net.ConnectException: Connection refused
\t... 22 more
"""


def spark(home: Path, script: str) -> Path:
    (home / "bin").mkdir(parents=True)
    program = home / "bin/spark-class"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return home


def test_the_client_is_started_by_spark(tmp_path: Path) -> None:
    ask = application_client(spark(tmp_path, 'echo "$@"; echo noise >&2'))
    assert ask(["application", "-list"]) == (
        "org.apache.hadoop.yarn.client.cli.ApplicationCLI application -list\n"
    )


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("echo 'Exception: denied' >&2; exit 255", "ended with 255: Exception: denied"),
        (f"cat >&2 <<'END'\n{_REFUSED}END\nexit 1", "ended with 1: .* to localhost:9 failed$"),
        ("exit 1", "ended with 1: it said nothing"),
        ("exec sleep 30", "no answer within 0.1 s"),
    ],
)
def test_a_client_that_fails_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, says: str
) -> None:
    monkeypatch.setattr(yarn_client, "CLIENT_TIMEOUT", 0.1 if "sleep" in script else 30)
    with pytest.raises(OSError, match=says):
        application_client(spark(tmp_path, script))(["application", "-list"])
