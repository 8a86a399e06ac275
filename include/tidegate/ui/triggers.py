"""What users may do, as Airflow's API server knows; and signatures of runs of the form DAGs."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import (
    DagAccessEntity,
    DagDetails,
)
from airflow.api_fastapi.core_api.security import bearer_scheme, get_user, requires_access_dag
from airflow.models import DagModel
from fastapi import HTTPException, Request
from starlette.concurrency import run_in_threadpool

from tidegate.errors import ConfigurationError
from tidegate.orchestration import rights
from tidegate.pipelines.value_types import is_pipeline_name

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope

MOST_BYTES = 1 << 20


class TooLarge(Exception):
    """A request for a run is larger than MOST_BYTES."""


async def signed(dag_id: str, scope: Scope, receive: Receive) -> tuple[Scope, Receive]:
    """Return the request with a signature if its user may trigger the pipeline's own DAG.

    A signature in the request is removed. A request without a conf, which Airflow refuses, is
    returned unchanged.
    """
    parts, size = list[bytes](), 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return scope, _prepend(message, receive)
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MOST_BYTES:
            raise TooLarge
        if not message.get("more_body"):
            break
    body = b"".join(parts)
    form = _form(body)
    if form is not None:
        conf = form["conf"]
        conf.pop(rights.KEY, None)
        pipeline = conf.get("pipeline")
        named = isinstance(pipeline, str) and is_pipeline_name(pipeline)
        if named and (user := await permit_user(pipeline, scope)):
            with contextlib.suppress(ConfigurationError):  # no key: the run's tasks report it
                conf[rights.KEY] = rights.sign_trigger(dag_id, pipeline, user)
        body = json.dumps(form).encode()
        length = (b"content-length", str(len(body)).encode())
        others = [each for each in scope["headers"] if each[0].lower() != b"content-length"]
        scope = {**scope, "headers": [*others, length]}
    return scope, _prepend({"type": "http.request", "body": body, "more_body": False}, receive)


def _form(body: bytes) -> dict[str, Any] | None:
    """Return the body of a request for a run. None if it has no conf."""
    try:
        form = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return form if isinstance(form, dict) and isinstance(form.get("conf"), dict) else None


async def permit_user(pipeline: str, scope: Scope) -> str | None:
    """Return the name of the request's user, if they may trigger the pipeline's own DAG."""
    request = Request(scope)
    may = requires_access_dag("POST", DagAccessEntity.RUN, f"tidegate__{pipeline}")
    try:
        user = await get_user(request, None, await bearer_scheme(request))
        await run_in_threadpool(may, request, user)
    except HTTPException:
        return None
    return str(user.get_name())


def readable_dags(dag_ids: Iterable[str], user: BaseUser) -> set[str]:
    """Return those of the DAGs that a user may read: by one question to Airflow for each team."""
    by_team: dict[str | None, set[str]] = {}
    ids = list(dag_ids)
    teams = _teams(ids)
    for dag_id in ids:
        by_team.setdefault(teams.get(dag_id), set()).add(dag_id)
    manager, readable = get_auth_manager(), set[str]()
    for team, of_team in by_team.items():
        more: Any = {"team_name": team} if team else {}
        readable |= manager.filter_authorized_dag_ids(
            dag_ids=of_team, user=user, method="GET", **more
        )
    return readable


def may_trigger(dag_id: str, user: BaseUser) -> bool:
    """Return whether a user may start runs of a DAG."""
    return _may("POST", DagAccessEntity.RUN, dag_id, user)


def may_read_logs(dag_id: str, user: BaseUser) -> bool:
    """Return whether a user may read the logs of a DAG's tasks: errors may quote what they read."""
    return _may("GET", DagAccessEntity.TASK_LOGS, dag_id, user)


def _may(method: Any, entity: DagAccessEntity, dag_id: str, user: BaseUser) -> bool:
    team = _teams([dag_id]).get(dag_id)
    more: Any = {"team_name": team} if team else {}
    details = DagDetails(id=dag_id, **more)
    return bool(
        get_auth_manager().is_authorized_dag(
            method=method, access_entity=entity, details=details, user=user
        )
    )


def _teams(dag_ids: list[str]) -> Mapping[str, str | None]:
    """Return the teams of the DAGs that have one: Airflow before 3.2 has none."""
    teams_of = getattr(DagModel, "get_dag_id_to_team_name_mapping", None)
    found: Mapping[str, str | None] = teams_of(dag_ids) if teams_of else {}
    return found


def _prepend(message: Message, receive: Receive) -> Receive:
    """Return a channel that yields this message first, and then those of `receive`."""
    waiting = [message]

    async def channel() -> Message:
        return waiting.pop() if waiting else await receive()

    return channel
