"""The page of pipelines that nobody has, served as in Airflow's API server, for a browser."""

import contextlib
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

import uvicorn

from tidegate.runs.pipeline_state import State
from tidegate_local.ports import free_port

_BAD = [State.FAILING, State.LOSING, State.BLOCKED, State.UNKNOWN, State.LATE, State.PAUSED,
        State.RUNNING]  # fmt: skip


def _state(n: int, every: int) -> State:
    """Return the state of a pipeline: one of so many is not well."""
    if n % every == 0:
        return _BAD[n // every % len(_BAD)]
    return State.OK if n % 3 else State.IDLE


@contextlib.contextmanager
def made_page(count: int, every: int = 20) -> Iterator[tuple[str, str]]:
    """Serve the page of so many pipelines, one of `every` of which is not well.

    Give its URL, and the token of a user who may do all.
    """
    with tempfile.TemporaryDirectory(prefix="tidegate-page-") as home:
        os.environ.setdefault("AIRFLOW_HOME", home)
        os.environ.setdefault("AIRFLOW__API_AUTH__JWT_SECRET", "s" * 64)
        from airflow.utils.db import initdb

        initdb()
        with _served(count, every) as served:
            yield served


@contextlib.contextmanager
def _served(count: int, every: int) -> Iterator[tuple[str, str]]:
    from airflow.api_fastapi.app import init_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from fastapi import FastAPI

    from support.made_looks import made_look
    from tidegate import ui
    from tidegate.ui import app as ui_app

    made = {look.name: look for look in (made_look(n, _state(n, every)) for n in range(count))}
    watch: Any = mock.Mock()
    watch.looks = lambda names, _: [made[name] for name in names]
    manager = init_auth_manager()
    token = manager.generate_jwt(SimpleAuthManagerUser(username="ann", role="ADMIN"))
    root = FastAPI()
    root.mount("/tidegate", ui.serve)
    port = free_port()
    server = uvicorn.Server(
        uvicorn.Config(ui.SignTriggers(root), host="127.0.0.1", port=port, log_level="warning")
    )
    with (
        mock.patch.object(ui_app, "watch", watch),
        mock.patch.object(ui_app.pipeline_files, "pipeline_names", return_value=[*made]),
    ):
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        until = time.monotonic() + 30
        while not server.started:
            assert time.monotonic() < until, "the page is not served"
            time.sleep(0.05)
        try:
            yield f"http://127.0.0.1:{port}/tidegate/", str(token)
        finally:
            server.should_exit = True
            thread.join(30)
