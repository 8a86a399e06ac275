"""What YARN knows of an application in cluster mode, and the proof that its driver has ended.

A state is no proof: KILLED is shown before the containers end, and a resource manager that has
lost a node shows FAILED while the driver still runs there. The proof is the node manager's, which
has seen the process end.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.launch.spark_output import failure_line
from tidegate.spark.yarn_container import Container

Ask = Callable[[Sequence[str]], str]
"""Runs Hadoop's command line client with arguments. Returns its output, or raises OSError."""
LookUp = Callable[[str], tuple[int, str]]
"""Returns status and body of a page, or raises OSError."""

_CLIENT = "org.apache.hadoop.yarn.client.cli.ApplicationCLI"
CLIENT_TIMEOUT = 60  # seconds. The client itself tries for 15 minutes
_ENDED = frozenset({"FINISHED", "FAILED", "KILLED"})
# States of the node manager's ContainerState in which no process runs.
_NO_PROCESS = frozenset(
    {
        "EXITED_WITH_SUCCESS",
        "EXITED_WITH_FAILURE",
        "CONTAINER_CLEANEDUP_AFTER_KILL",
        "CONTAINER_RESOURCES_CLEANINGUP",
        "DONE",
    }
)
_COUNT = re.compile(r"^Total number of applications .*:(\d+)\s*$", re.MULTILINE)
_ID = re.compile(r"application_\d+_\d+")


@dataclass(frozen=True)
class YarnApplication:
    """An application by its id, as the resource manager knows it: state and final state."""

    id: str
    state: str
    final: str


def application_client(spark_home: Path) -> Ask:
    """Return the client that is among Spark's jars. HADOOP_CONF_DIR names the cluster."""

    def ask(args: Sequence[str]) -> str:
        command = [str(spark_home / "bin/spark-class"), _CLIENT, *args]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                errors="replace", timeout=CLIENT_TIMEOUT, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise OSError(f"no answer within {CLIENT_TIMEOUT} s") from None
        if done.returncode:
            # What is thrown names the address. Its cause does not.
            lines = [line for line in done.stderr.splitlines() if not line.startswith("Caused by")]
            raise OSError(f"the client ended with {done.returncode}: {failure_line(lines)}")
        return done.stdout

    return ask


def tagged_name(tag: str) -> str:
    """Return what messages call the application with a tag."""
    return f"the YARN application with the tag {tag}"


def list_tagged(tag: str, ask: Ask) -> list[YarnApplication]:
    """Return all applications with a tag. OSError if YARN does not answer as expected."""
    output = ask(["application", "-list", "-appTags", tag, "-appStates", "ALL"])
    # Id, name, type, user, queue, state, final state, progress, URL. A name may hold tabs.
    rows = [line.split("\t") for line in output.splitlines() if "\t" in line]
    found = [
        YarnApplication(row[0].strip(), row[-4].strip(), row[-3].strip())
        for row in rows
        if len(row) >= 9 and _ID.fullmatch(row[0].strip())
    ]
    count = _COUNT.search(output)
    if count is None or int(count[1]) != len(found):
        raise OSError(f"not a list of applications: {output.strip()[:200]!r}")
    return found


def running_ids(tag: str, ask: Ask) -> list[str]:
    """Return the ids of the applications with a tag that are not in a final state."""
    return [each.id for each in list_tagged(tag, ask) if each.state not in _ENDED]


def kill_applications(tag: str, ask: Ask) -> list[str]:
    """End the applications with a tag. Return their ids. The end of spark-submit ends none."""
    found = running_ids(tag, ask)
    if found:
        ask(["application", "-kill", *found])
    return found


def kill_tagged(tag: str, spark_home: Path, log: Callable[[str], None]) -> None:
    """End the applications with a tag, and log each. Log why, if YARN does not answer."""
    try:
        for each in kill_applications(tag, application_client(spark_home)):
            log(f"{each}: killed")
    except OSError as error:
        log(f"{tagged_name(tag)} may still run: {error}")


def not_ended(tag: str, driver: Container, ask: Ask, look_up: LookUp | None = None) -> str | None:
    """Return why the application of an attempt is not proven to have ended. None is the proof.

    `driver` is the container that the driver itself has named before it sent anything. Executors
    end with their driver, as on any master.
    """
    try:
        found = list_tagged(tag, ask)
    except OSError as error:
        return f"YARN cannot be asked: {error}"
    if not found:
        return (
            f"YARN knows no application with the tag {tag}: it may have forgotten it, or is "
            "another cluster than that of the attempt"
        )
    for each in found:
        if each.state not in _ENDED:
            return f"{each.id} is {each.state}"
    if not any(_is_of(driver, each) for each in found):
        return f"{driver.id} is of none of {', '.join(each.id for each in found)}"
    try:
        return _still_there(driver, look_up or _page)
    except (OSError, ValueError) as error:
        return f"node manager {driver.node} cannot be asked for {driver.id}: {error}"


def _is_of(driver: Container, application: YarnApplication) -> bool:
    """Say whether a container is one of an application: `container[_e<epoch>]_<its number>_…`."""
    number = application.id.removeprefix("application_")
    return re.fullmatch(rf"container_(e\d+_)?{number}_\d+_\d+", driver.id) is not None


def _still_there(driver: Container, look_up: LookUp) -> str | None:
    """Return why a container may have a process. None if its node manager has seen the end."""
    node = f"http://{driver.node}/ws/v1/node"
    status, body = look_up(f"{node}/containers/{driver.id}")
    if status == 404 and f"{driver.id}, not found" in body:
        status, body = look_up(f"{node}/info")
        if status == 200 and _value(body, "nodeInfo", "nmStartupTime") < driver.started:
            return None
        return f"node manager {driver.node} was started after {driver.id} and may not know it"
    if status != 200:
        return f"node manager {driver.node} answers {status} about {driver.id}"
    state = _value(body, "container", "state")
    return None if state in _NO_PROCESS else f"{driver.id} on {driver.node} is {state}"


def _value(body: str, envelope: str, name: str) -> Any:
    """Return a value of an answer of Hadoop's REST; ValueError for another kind of answer.

    Shaded servers have no envelope, and other capitals (`nmstartupTime`).
    """
    form = json.loads(body)
    answer = form.get(envelope, form) if isinstance(form, dict) else {}
    found = {key.lower(): value for key, value in answer.items()}
    if name.lower() not in found:
        raise ValueError(f"unknown answer: {body[:200]!r}")
    return found[name.lower()]


def _page(url: str) -> tuple[int, str]:
    import httpx

    try:
        answer = httpx.get(url, headers={"Accept": "application/json"}, timeout=10, trust_env=False)
    except httpx.HTTPError as error:
        raise OSError(str(error)) from None
    return answer.status_code, answer.text
