"""Whether an open claim may be taken over: its sender must be proven dead."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidegate.core.entries import Claim
from tidegate.egress.sender import TaskEnded, has_ended, is_dead
from tidegate.errors import ConfigurationError
from tidegate.lake.attempts import Attempt
from tidegate.lake.store_protocol import Store
from tidegate.launch import application_state, spark_home
from tidegate.launch.application_state import Ask
from tidegate.launch.cluster_mode import answers_of, withdraw
from tidegate.spark.answers import DRIVER
from tidegate.spark.yarn_container import Container

_PATIENCE = 60.0  # seconds for an application that was killed to end
_LOOK_AGAIN = 2.0

logger = logging.getLogger(__name__)


def not_dead(
    claim: Claim, store: Store, task_ended: TaskEnded, home: Path | None = None
) -> str | None:
    """Return why the sender of an open claim is not proven dead; None is the proof.

    On YARN an application may outlive its submitter. Nobody waits for it any more, so it is ended,
    and its end is waited for. `home` is the Spark with whose client YARN is asked.
    """
    sender = claim.sender
    if (application := sender.get("application")) is None:
        dead = is_dead(sender, claim.attempt, task_ended)
        return None if dead else f"{_process(sender)} may still run{_proof(sender)}"
    if not has_ended(sender, claim.attempt, task_ended):
        return f"its submitter, {_process(sender)}, may still run{_proof(sender)}"
    return not_ended(Attempt(claim.plan_id, 0, claim.attempt), application["tag"], store, home)


def _process(sender: Mapping[str, Any]) -> str:
    return f"process {sender['pid']} on {sender['host']}"


def _proof(sender: Mapping[str, Any]) -> str:
    """Return who can prove the end of a sender that is a task of Airflow."""
    if (task := sender["task"]) is None:
        return ""
    named = f" (try {task['try']} of task {task['task']} of {task['dag']}, run {task['run']}"
    return f"{named}): only tasks of its Airflow deployment, {task['deployment']}, can take over"


def not_ended(
    attempt: Attempt,
    tag: str,
    store: Store,
    home: Path | None = None,
    *,
    patience: float = _PATIENCE,
) -> str | None:
    """End the application of an attempt whose submitter does not wait for it; return why its end
    is not proven, None is the proof.

    A driver names its container before it reads its job. With the job withdrawn, one that has not
    named itself by now sends nothing, whether YARN starts it or not.
    """
    withdraw(attempt, store)
    named = answers_of(attempt, store)(DRIVER)
    try:
        ask = application_state.client(home or spark_home.home())
    except ConfigurationError as error:
        return str(error) if named else None
    if named is None:
        _kill(tag, ask, set())
        return None
    driver = Container.from_json(json.loads(named))
    return _awaited(attempt, tag, driver, ask, patience)


def _awaited(
    attempt: Attempt, tag: str, driver: Container, ask: Ask, patience: float
) -> str | None:
    deadline, said = time.monotonic() + patience, set[str]()
    while True:
        _kill(tag, ask, said)
        why = application_state.not_ended(tag, driver, ask)
        if why is None or time.monotonic() > deadline:
            return why
        if why not in said:
            logger.info("attempt %s: %s; looking again", attempt.name, why)
            said.add(why)
        time.sleep(_LOOK_AGAIN)


def _kill(tag: str, ask: Ask, said: set[str]) -> None:
    """End the applications with a tag; log why that fails if it is not `said` yet."""
    try:
        for each in application_state.kill(tag, ask):
            logger.warning("%s: killed, nobody waits for it any more", each)
    except OSError as error:
        if (why := str(error)) not in said:
            logger.warning("the YARN application with the tag %s may still run: %s", tag, why)
            said.add(why)


def running(sender: Mapping[str, Any], home: Path | None = None) -> list[str]:
    """Return the applications of a sender that YARN shows as not ended; none if it cannot be asked.

    For an operator's decision, which needs no proof of death.
    """
    if (application := sender.get("application")) is None:
        return []
    try:
        ask = application_state.client(home or spark_home.home())
        return application_state.running(application["tag"], ask)
    except (OSError, ConfigurationError) as error:
        logger.warning(
            "YARN cannot be asked whether the application with the tag %s runs: %s",
            application["tag"], error,
        )  # fmt: skip
        return []
