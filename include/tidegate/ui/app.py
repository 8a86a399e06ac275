"""The status of every pipeline as a page and as JSON, for users who may read its DAG in Airflow."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.core_api.security import get_user, requires_access_dag
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi import Path as Path_
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tidegate import flows
from tidegate.core.coverage import coverage_bar
from tidegate.core.partition import LeftOut
from tidegate.core.wording import counted
from tidegate.egress.status import read_egress_status
from tidegate.errors import ConfigurationError, TidegateError, Transient
from tidegate.ingest.status import read_ingest_status, read_state
from tidegate.ingest.topic_coverage import coverage_intervals
from tidegate.lake.store import STORES
from tidegate.orchestration import airflow_connections
from tidegate.pipelines import pipeline_files
from tidegate.pipelines.spec import Egress, Spec
from tidegate.runs import report_store

FORMAT = 1
BAR = 200  # cells
TIMEOUT = 15.0  # seconds for all pipelines together. A client gives up a dead broker after 8
FRESH = 5.0  # seconds for which an answer is cached
_AT_ONCE = 8
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'; base-uri 'none'"
    ),
}

logger = logging.getLogger(__name__)
# Shared by all requests: reloading the page while a broker hangs starts no more threads.
_lock = threading.Lock()
_pools: dict[tuple[str, str], ThreadPoolExecutor] = {}
answer_cache: dict[str, tuple[float, Future[dict[str, Any]]]] = {}
down_until: dict[
    str, tuple[float, str]
] = {}  # by connection: until when it counts as down, and its error
_templates = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters["number"] = lambda n: "—" if n is None else f"{n:,}"
_templates.filters["counted"] = counted
_templates.filters["excluded"] = lambda form: str(LeftOut.from_json(form))

# Airflow's API server does not protect mounted routes: all need this dependency.
app = FastAPI(
    title="Tidegate",
    dependencies=[Depends(get_user)],
    openapi_url=None,
    docs_url=None,
    redoc_url=None,
)


class NoAnswer(Transient):
    """The status of a pipeline took longer than the time limit."""


def readable_pipelines(request: Request, user: Annotated[BaseUser, Depends(get_user)]) -> list[str]:
    """Return the pipelines whose DAG this user may read."""

    def may_read(name: str) -> bool:
        try:
            requires_access_dag("GET", param_dag_id=f"tidegate__{name}")(request, user)
        except HTTPException:
            return False
        return True

    try:
        return [name for name in pipeline_files.pipeline_names() if may_read(name)]
    except ConfigurationError as error:  # there is no directory of pipelines
        raise HTTPException(503, str(error)) from None


Readable = Annotated[list[str], Depends(readable_pipelines)]


@app.get("/")
def page(pipelines: Readable) -> Response:
    """Return the page, which loads no other files and refreshes itself."""
    html = _templates.get_template("status.html").render(
        pipelines=read_statuses(pipelines), now=datetime.now(UTC)
    )
    return Response(html, media_type="text/html", headers=_HEADERS)


@app.get("/status.json")
def status_documents(pipelines: Readable) -> Response:
    """Return the documents of `tidegate status --json`. `error` where a pipeline has none."""
    documents = [
        {k: v for k, v in each.items() if k != "bars"} for each in read_statuses(pipelines)
    ]
    text = json.dumps({"format": FORMAT, "pipelines": documents}, default=str)
    return Response(text, media_type="application/json", headers=_HEADERS)


@app.get("/report/{pipeline}/{run_key}/{generation}")
def report(
    pipeline: str,
    run_key: Annotated[str, Path_(pattern="^[0-9a-f]{64}$")],
    generation: Annotated[int, Path_(ge=1)],
    pipelines: Readable,
) -> Response:
    """Return the report of a run, as a page."""
    try:
        spec = pipeline_files.load_named(pipeline) if pipeline in pipelines else None
        found = report_store.read_report(flows.store(spec), run_key, generation) if spec else None
    except TidegateError as error:
        raise HTTPException(503, f"{type(error).__name__}: {error}") from None
    if spec is None or found is None:
        raise HTTPException(
            404,
            "there is no such report: the run has not published yet, or had nothing to do, or you "
            "may not read its DAG",
        )
    html = _templates.get_template(f"report_of_{spec.kind}.html").render(report=found)
    return Response(html, media_type="text/html", headers=_HEADERS)


def read_statuses(names: Iterable[str]) -> list[dict[str, Any]]:
    """Return the status of each pipeline, read in parallel. A timeout is that pipeline's error."""
    answers = {name: _request(name) for name in names}
    wait(answers.values(), timeout=TIMEOUT)
    return [_result(name, answer) for name, answer in answers.items()]


def _request(name: str) -> Future[dict[str, Any]]:
    """Return a status that is in progress or cached, else start reading it.

    Each pair of connection and lake has its own threads, so that a broker that hangs delays no
    other.
    """
    with _lock:
        started, answer = answer_cache.get(name, (0.0, None))
        if answer and (not answer.done() or time.monotonic() - started < FRESH):
            return answer
        try:
            spec = pipeline_files.load_named(name)
        except Exception as error:
            answer = Future()
            answer.set_exception(error)
            return answer
        # The status of an egress asks no broker.
        resources = ("" if isinstance(spec, Egress) else spec.kafka, spec.lake)
        if resources not in _pools:
            _pools[resources] = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="tidegate-status")
        answer = _pools[resources].submit(_status, spec)
        answer_cache[name] = time.monotonic(), answer
        return answer


def _status(spec: Spec) -> dict[str, Any]:
    """Return a status. A broker that did not answer for one pipeline is not asked by others."""
    if isinstance(spec, Egress):
        return read_egress_status(spec, STORES, pipeline_files, footers=False).to_json()
    kafka = airflow_connections.kafka(spec)
    until, why = down_until.get(spec.kafka, (0.0, ""))
    down = why if time.monotonic() < until else None
    store = flows.store(spec)
    state = read_state(spec, store, kafka, down=down)
    if state.unreachable:
        down_until[spec.kafka] = time.monotonic() + TIMEOUT, state.problem or ""
    bars = {  # of each partition: (kind, cells) from left to right
        topic: {str(p): coverage_bar(each, BAR) for p, each in partitions.items()}
        for topic, partitions in coverage_intervals(state).items()
    }
    return read_ingest_status(spec, store, kafka, state).to_json() | {"bars": bars}


def _result(name: str, answer: Future[dict[str, Any]]) -> dict[str, Any]:
    try:
        if not answer.done():
            raise NoAnswer(
                f"no answer within {TIMEOUT:.0f} s from lake and broker; "
                f"`tidegate status {name}` waits longer",
                seconds=int(TIMEOUT),
            )
        return answer.result()
    except TidegateError as error:
        return {"pipeline": name, "error": error.to_json()}
    except Exception as error:
        # Its text may contain secrets, such as a password in a URL: it is only logged.
        logger.exception("%s: unexpected error in its status", name)
        message = f"{type(error).__name__}: see the log of Airflow's API server"
        internal = {"name": "Internal", "kind": "terminal", "message": message, "numbers": {}}
        return {"pipeline": name, "error": internal}
