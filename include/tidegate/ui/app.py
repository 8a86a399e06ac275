"""The pages of Tidegate in Airflow, for users who may read a pipeline's DAG: overview, pipeline,
backfill, report; and the statuses as JSON.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeGuard
from urllib.parse import urlencode

from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.core_api.security import get_user
from fastapi import Depends, FastAPI, Form, HTTPException, Query, Request, Response
from fastapi import Path as Path_
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException as AnyHTTPException

from tidegate import flows
from tidegate.core.requests import Backfill
from tidegate.core.wording import counted, duration
from tidegate.errors import ConfigurationError, TidegateError
from tidegate.lake import shown_records
from tidegate.lake.ledger import read_existing
from tidegate.metrics import CONTENT_TYPE, open_metrics
from tidegate.orchestration import airflow_connections
from tidegate.pipelines import pipeline_files
from tidegate.pipelines.spec import Ingest, Spec
from tidegate.runs import report_store
from tidegate.runs.measures import measures
from tidegate.runs.pipeline_state import State
from tidegate.runs.requested_windows import absolute_edge
from tidegate.runs.topics import choose_topic
from tidegate.ui import actions, figures, triggers
from tidegate.ui.watch import Look, PipelineWatch, dag_states

FORMAT = 1
BACKFILL = "tidegate_backfill"
PATIENCE = 1.0  # seconds that a page waits for the first look at a pipeline
TIMEOUT = 15.0  # seconds that the JSON document does. A client gives up a dead broker after 8
MOST_RUNS = 30  # in the table
_DONE = "tidegate_done"  # a cookie: what was just done
_HERE = Path(__file__).parent
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'self'; base-uri 'none'"
    ),
}
_STATIC = {"page.css": "text/css", "page.js": "text/javascript"}

logger = logging.getLogger(__name__)
watch = PipelineWatch()
"""Shared by all requests."""
_templates = Environment(
    loader=FileSystemLoader(_HERE),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters.update(
    number=lambda n: "—" if n is None else f"{n:,}" if n != "" else "",
    counted=counted,
    duration=duration,
    human=figures.human,
    moment=figures.moment,
    iso=lambda at: at.isoformat(timespec="seconds"),
    size=figures.size,
    took=figures.took,
    ways=figures.ways,
    worst_first=figures.worst_first,
    spans=figures.spans,
    content=figures.content,
    instant=figures.instant,
)
_templates.filters["with"] = lambda query, **more: urlencode({**query, **more})


async def signed_in(user: Annotated[BaseUser, Depends(get_user)]) -> BaseUser:
    """Return the user of a request, or raise HTTPException 401 or 403."""
    return user


# Airflow's API server does not protect mounted routes: all need this dependency.
app = FastAPI(
    title="Tidegate",
    dependencies=[Depends(signed_in)],
    openapi_url=None,
    docs_url=None,
    redoc_url=None,
)


@app.exception_handler(RequestValidationError)
async def explain_wrong_input(request: Request, wrong: RequestValidationError) -> Response:
    """Return what is wrong with a request."""
    places = (".".join(map(str, each["loc"][1:])) + f": {each['msg']}" for each in wrong.errors())
    return await explain_refusal(request, HTTPException(422, "; ".join(places)))


@app.exception_handler(AnyHTTPException)
async def explain_refusal(request: Request, refusal: AnyHTTPException) -> Response:
    """Return an error as a page to a browser, with a link where a session has ended, else JSON."""
    if "text/html" not in request.headers.get("accept", ""):
        text = json.dumps({"detail": refusal.detail})
        return Response(text, refusal.status_code, _HEADERS, "application/json")
    login = refusal.status_code == 401
    text = "Your session in Airflow has ended." if login else str(refusal.detail)
    return _page("message.html", request, refusal.status_code, text=text, login=login)


def readable_pipelines(user: Annotated[BaseUser, Depends(signed_in)]) -> list[str]:
    """Return the pipelines whose DAG this user may read."""
    try:
        names = pipeline_files.pipeline_names()
    except ConfigurationError as error:  # there is no directory of pipelines
        raise HTTPException(503, str(error)) from None
    readable = triggers.readable_dags((f"tidegate__{name}" for name in names), user)
    return [name for name in names if f"tidegate__{name}" in readable]


Readable = Annotated[list[str], Depends(readable_pipelines)]
User = Annotated[BaseUser, Depends(signed_in)]


def _page(template: str, request: Request, status: int = 200, **values: Any) -> Response:
    """Return a page. `up` in it leads to the overview, whatever stands before it in the address."""
    depth = request.scope["path"].removeprefix(request.scope["root_path"]).count("/") - 1
    up = "../" * depth or "./"
    html = _templates.get_template(template).render(up=up, **values)
    return Response(html, status, _HEADERS, "text/html")


@app.get("/static/{name}")
def static_file(name: str) -> Response:
    """Return the style sheet or the script of the pages."""
    if name not in _STATIC:
        raise HTTPException(404, "there is no such file")
    return Response((_HERE / name).read_bytes(), 200, _HEADERS, _STATIC[name])


@app.get("/")
def overview(
    request: Request,
    pipelines: Readable,
    q: str = "",
    kind: str = "",
    state: str = "",
    sort: str = "",
) -> Response:
    """Return a line for each pipeline, the worst first. Those without a problem are folded."""
    now = datetime.now(UTC)
    rows = [figures.row_of(look, now) for look in watch.looks(pipelines, PATIENCE)]
    counts = [(each.value, sum(row.state == each for row in rows)) for each in State]
    wanted = [
        row
        for row in figures.sorted_rows(rows, sort)
        if q.lower() in row.name.lower() and kind in ("", row.kind) and state in ("", row.state)
    ]
    is_plain = not (q or kind or state or sort)
    folded = [row for row in wanted if is_plain and row.state in figures.HEALTHY]
    query = {"q": q, "kind": kind, "state": state, "sort": sort}
    return _page(
        "overview.html",
        request,
        total=len(rows),
        counts=[(name, n) for name, n in counts if n],
        rows=[row for row in wanted if row not in folded],
        healthy=folded,
        columns=figures.COLUMNS,
        query={key: value for key, value in query.items() if value},
        q=q,
        kind=kind,
        chosen=state,
        sort=sort if sort in dict(key[:2] for key in figures.COLUMNS) else "",
    )


@app.get("/status.json")
def status_documents(pipelines: Readable, user: User) -> Response:
    """Return the documents of `tidegate status --json`. `error` where a pipeline has none."""
    documents = [
        look.document(shows_errors=triggers.may_read_logs(f"tidegate__{look.name}", user))
        for look in watch.looks(pipelines, TIMEOUT)
    ]
    text = json.dumps({"format": FORMAT, "pipelines": documents}, default=str)
    return Response(text, 200, _HEADERS, "application/json")


@app.get("/metrics")
def metrics(pipelines: Readable) -> Response:
    """Return the numbers of the pipelines that the user may read, in OpenMetrics."""
    found = [
        each
        for look in watch.looks(pipelines, TIMEOUT)
        for each in measures(look.name, look.judged.state, look.status, look.runs)
    ]
    return Response(open_metrics(found), 200, _HEADERS, CONTENT_TYPE)


def readable_look(name: str, pipelines: Readable) -> Look:
    """Return the last look at a pipeline. HTTPException 404 for one that the user may not read."""
    if name not in pipelines:
        raise HTTPException(404, "there is no such pipeline, or you may not read its DAG")
    return watch.looks([name], PATIENCE)[0]


Looked = Annotated[Look, Depends(readable_look)]


@app.get("/pipeline/{name}")
def pipeline(request: Request, look: Looked, user: User) -> Response:
    """Return the page of one pipeline: its state, what to do, its runs and its numbers."""
    dag_id, dag = f"tidegate__{look.name}", dag_states([look.name]).get(look.name)
    runs = look.runs[: -MOST_RUNS - 1 : -1]
    in_airflow = {run.dag.partition("/")[0] for run in runs if run.in_airflow}
    page = _page(
        "pipeline.html",
        request,
        look=look,
        dag=dag,
        runs=runs,
        charts=figures.charts(look.runs[-100:]),
        may_act=triggers.may_trigger(dag_id, user),
        shows_errors=triggers.may_read_logs(dag_id, user),
        shows_records=_shows_records(look.spec, user),
        linked=triggers.readable_dags(in_airflow, user),
        said=_SAID.get(request.cookies.get(_DONE, ""), ""),
    )
    page.delete_cookie(_DONE)
    return page


def _shows_records(spec: Spec | None, user: BaseUser) -> TypeGuard[Ingest]:
    """Return whether a user may see records: who may also start runs, if the pipeline shows any."""
    shown = isinstance(spec, Ingest) and spec.airflow.show_records
    return shown and spec is not None and triggers.may_trigger(f"tidegate__{spec.name}", user)


@app.get("/pipeline/{name}/records")
def records(
    request: Request, name: str, pipelines: Readable, user: User, topic: str = ""
) -> Response:
    """Return the newest records of a topic, and those that do not fit its schema."""
    try:
        spec = pipeline_files.load_named(name) if name in pipelines else None
        if not _shows_records(spec, user):
            raise HTTPException(404, "there are no records that you may see here")
        store = flows.store(spec)
        fold = read_existing(store, name)
        if topic not in fold.topic_ids:
            raise HTTPException(404, "the lake has no such topic")
        newest = shown_records.newest_records(store, fold, topic)
        unfit = shown_records.unfit_records(store, fold, topic)
    except TidegateError as error:
        raise HTTPException(503, f"{type(error).__name__}: {error}") from None
    tables = [("Records that do not fit", unfit), ("The newest records", newest)]
    return _page("records.html", request, name=name, topic=topic, tables=tables)


_SAID = {
    "run": "A run was started.",
    "pause": "The DAG is paused.",
    "unpause": "The DAG is unpaused.",
    "clear": "The failed tasks are cleared, and run again.",
    "backfill": "The backfill was started, as a run of tidegate_backfill.",
}


@app.post("/pipeline/{name}/backfill")
async def start_backfill(
    request: Request,
    look: Looked,
    start: Annotated[str, Form()],
    topic: Annotated[str, Form()] = "",
    end: Annotated[str, Form()] = "",
    partitions: Annotated[list[int] | None, Form()] = None,
) -> Response:
    """Start a run of the DAG of backfills, as the user."""
    conf = {
        "pipeline": look.name,
        "topic": topic or None,
        "partitions": partitions,
        "start": start,
        "end": end or None,
    }
    return await _do(request, look.name, "backfill", actions.trigger(request, BACKFILL, conf), 2)


@app.post("/pipeline/{name}/{action}")
async def act(
    request: Request,
    look: Looked,
    action: str,
    run: Annotated[str, Form()] = "",
) -> Response:
    """Do what a button of the page says, as the user, and return to the page."""
    dag_id = f"tidegate__{look.name}"
    match action:
        case "run":
            doing: Any = actions.trigger(request, dag_id, {})
        case "pause" | "unpause":
            doing = actions.pause(request, dag_id, paused=action == "pause")
        case "clear":
            doing = actions.clear_failed(request, dag_id, run)
        case _:
            raise HTTPException(404, "there is no such action")
    return await _do(request, look.name, action, doing, 1)


async def _do(request: Request, name: str, action: str, doing: Any, depth: int) -> Response:
    try:
        actions.refuse_foreign(request)
        await doing
    except actions.NotDone as refused:
        return _page("message.html", request, 409, text=str(refused), login=False)
    finally:
        doing.close()
    watch.refresh()
    back = RedirectResponse(f"{'../' * depth}{name}", 303, _HEADERS)
    back.set_cookie(_DONE, action, max_age=30, httponly=True, samesite="strict")
    return back


@app.get("/pipeline/{name}/backfill")
async def plan_backfill(
    request: Request,
    look: Looked,
    topic: str = "",
    start: str = "",
    end: str = "",
    partitions: Annotated[list[int] | None, Query()] = None,
) -> Response:
    """Return the form of a backfill, and, once it has a start, what it would read."""
    if not isinstance(look.spec, Ingest):
        raise HTTPException(404, "only an ingest pipeline has a backfill")
    topics = list(look.status.topics) if look.status else []
    topic = topic or (topics[0] if topics else "")
    of_topic = look.status.topics[topic].partitions if topic in topics else {}
    given = {"topic": topic, "start": start, "end": end, "partitions": partitions or []}
    explained, problem, fixed = None, "", {}
    if start:
        now = datetime.now(UTC)
        try:
            fixed = {
                "start": absolute_edge(start, "UTC", now),
                "end": absolute_edge(end or None, "UTC", now),
            }
            explained = await run_in_threadpool(_explain, look.spec, topic, partitions, fixed)
        except TidegateError as error:
            problem = str(error)
    return _page(
        "backfill.html",
        request,
        name=look.name,
        topics=topics,
        given=given,
        partitions=sorted(of_topic),
        problem=problem,
        explained=explained,
        fixed=fixed,
    )


def _explain(
    spec: Ingest, topic: str, partitions: list[int] | None, edges: Mapping[str, str | None]
) -> Any:
    """Return what a backfill would read: the document of `backfill --dry-run --json`."""
    asked = Backfill(
        topic=choose_topic(spec.name, spec.topics, topic or None),
        partitions=None if partitions is None else tuple(sorted(set(partitions))),
        start=edges["start"],
        end=edges["end"],
    )
    run: Any = flows.new_run(spec, airflow_connections.kafka(spec), dag_id=BACKFILL, asked=asked)
    return flows.INGEST.explain(run, airflow_connections.spark(spec), airflow_connections.kafka)


@app.get("/dag/{dag_id}")
def of_dag(dag_id: str) -> Response:
    """Lead from a DAG in Airflow to the page of its pipeline."""
    name = dag_id.removeprefix("tidegate__")
    if name == dag_id:
        raise HTTPException(404, f"{dag_id} is not the DAG of one pipeline")
    return RedirectResponse(f"../pipeline/{name}", 303, _HEADERS)


@app.get("/dag/{dag_id}/{run_id}")
def of_run(dag_id: str, run_id: str, pipelines: Readable) -> Response:
    """Lead from a run in Airflow to its report, or to the page of its pipeline."""
    name = dag_id.removeprefix("tidegate__")
    if name == dag_id or name not in pipelines:
        raise HTTPException(404, f"{dag_id} is not the DAG of one pipeline that you may read")
    (look,) = watch.looks([name], PATIENCE)
    for run in reversed(look.runs):
        if (run.dag, run.run) == (dag_id, run_id) and run.report:
            key, generation = run.report
            return RedirectResponse(f"../../report/{name}/{key}/{generation}", 303, _HEADERS)
    return RedirectResponse(f"../../pipeline/{name}", 303, _HEADERS)


@app.get("/report/{pipeline}/{run_key}/{generation}")
def report(
    request: Request,
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
    return _page(f"report_of_{spec.kind}.html", request, report=found)
