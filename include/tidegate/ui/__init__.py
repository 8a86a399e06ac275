"""Tidegate in Airflow's API server: the status page, and the rights of the form DAGs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_TRIGGER = re.compile(
    r"/api/v2/dags/(?P<dag>tidegate_backfill|tidegate_replay|tidegate_maintenance)/dagRuns/?$"
)


async def serve(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve the status page, which is imported with the first request.

    Airflow imports plugins in the scheduler and in every task, too, where the page is not needed.
    """
    from tidegate.ui.app import app as page

    await page(scope, receive, send)


class SignTriggers:
    """Middleware of Airflow's API server that signs the runs of form DAGs.

    The page calls Airflow's API through it, as the user of its request.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope["tidegate.airflow"] = self, dict(scope)  # a mount changes it
        is_post = scope["type"] == "http" and scope["method"] == "POST"
        if is_post and (found := _TRIGGER.search(scope["path"])):
            from starlette.responses import PlainTextResponse

            from tidegate.ui.triggers import TooLarge, signed

            try:
                scope, receive = await signed(found["dag"], scope, receive)
            except TooLarge:
                await PlainTextResponse("too large", 413)(scope, receive, send)
                return
        await self._app(scope, receive, send)
