"""Tidegate's page in Airflow's own UI."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


async def serve(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve the page, loading it with the first request.

    Airflow imports plugins into the scheduler and into every task, which never serve a request.
    """
    from tidegate.ui.app import app as page

    await page(scope, receive, send)
