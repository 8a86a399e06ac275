"""What a user does on the page: asked of Airflow's own API, as that user, with that user's rights.

A run of a form DAG is signed on the way, as one from Airflow's own form (`ui.triggers`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import httpx
from fastapi import HTTPException, Request

from tidegate.errors import TidegateError

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

AIRFLOW = "tidegate.airflow"
"""The key in a request's scope: Airflow's own application, and its scope (`ui.SignTriggers`)."""
_HOST = "http://airflow"


class NotDone(TidegateError):
    """Airflow has refused what a user asked for on the page."""


def refuse_foreign(request: Request) -> None:
    """Raise HTTPException 403 for a form that another site has sent with the user's cookie."""
    if site := request.headers.get("sec-fetch-site"):  # a proxy may have changed the host
        is_own = site == "same-origin"
    else:  # of a browser only without TLS
        origin = urlsplit(request.headers.get("origin", ""))
        is_own = bool(origin.netloc) and origin.netloc == request.headers.get("host")
    if not is_own:
        raise HTTPException(403, "this was not sent by Tidegate's own page, and nothing was done")


async def trigger(request: Request, dag_id: str, conf: Mapping[str, Any]) -> str:
    """Start a run of a DAG, and return its id. NotDone if Airflow refuses."""
    body = {"logical_date": None, "conf": conf}
    answer = await _call(request, "POST", f"dags/{quote(dag_id)}/dagRuns", body)
    return str(answer["dag_run_id"])


async def pause(request: Request, dag_id: str, *, paused: bool) -> None:
    """Pause or unpause a DAG. NotDone if Airflow refuses."""
    path = f"dags/{quote(dag_id)}?update_mask=is_paused"
    await _call(request, "PATCH", path, {"is_paused": paused})


async def clear_failed(request: Request, dag_id: str, run_id: str) -> int:
    """Clear the failed tasks of a run and those after them, and return how many.

    `publish` may have ended well beside a failed `stage`, and has to commit the rest. NotDone if
    Airflow refuses, or no task has failed.
    """
    dag = f"dags/{quote(dag_id)}"
    states = "state=failed&state=upstream_failed"
    path = f"{dag}/dagRuns/{quote(run_id, safe='')}/taskInstances?{states}"
    failed = await _call(request, "GET", path, None)
    if not (tasks := [each["task_id"] for each in failed["task_instances"]]):
        raise NotDone(f"run {run_id} has no failed task")
    body = {
        "dry_run": False, "dag_run_id": run_id, "task_ids": tasks, "include_downstream": True,
        "only_failed": False, "reset_dag_runs": True,
    }  # fmt: skip
    answer = await _call(request, "POST", f"{dag}/clearTaskInstances", body)
    return int(answer["total_entries"])


async def _call(request: Request, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
    """Return the answer of Airflow's API to the user of this request."""
    application, scope = request.scope[AIRFLOW]

    own = {"app": scope["app"], "state": dict(scope.get("state", {}))}

    async def airflow(inner: Scope, receive: Receive, send: Send) -> None:
        await application({**scope, **inner, **own}, receive, send)

    given = {
        name: value
        for name in ("cookie", "authorization")
        if (value := request.headers.get(name)) is not None
    }
    transport = httpx.ASGITransport(app=airflow)
    async with httpx.AsyncClient(transport=transport, base_url=_HOST, timeout=60) as client:
        answer = await client.request(method, f"/api/v2/{path}", json=body, headers=given)
    if answer.is_success:
        return answer.json()
    raise NotDone(f"Airflow refuses: {_reason(answer)}")


def _reason(answer: httpx.Response) -> str:
    try:
        detail = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        return f"{answer.status_code} {answer.reason_phrase}"
    return str(detail)
