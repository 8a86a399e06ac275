"""Sign requests for runs of the form DAGs in Airflow's API server, which knows the user."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import bearer_scheme, get_user, requires_access_dag
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


def _prepend(message: Message, receive: Receive) -> Receive:
    """Return a channel that yields this message first, and then those of `receive`."""
    waiting = [message]

    async def channel() -> Message:
        return waiting.pop() if waiting else await receive()

    return channel
