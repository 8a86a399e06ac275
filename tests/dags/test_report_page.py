"""The report of a run as a page, and the link to it on the publish task."""

import json
from pathlib import Path
from unittest import mock

import pytest
from test_ui import (  # noqa: F401 - fixtures among them
    Login,
    TestClient,
    ann,
    cells,
    flights,
    login,
)

from tidegate.core import layout
from tidegate.lake.store import open_store
from tidegate.orchestration import factory
from tidegate.orchestration.links import ReportLink
from tidegate.pipelines.spec import parse

KEY = layout.run_key("tidegate__flights", "demo-1")
REPORT = {
    "format": 1, "pipeline": "flights", "run": "demo-1", "run_key": KEY, "generation": 1,
    "plan_id": "732d22296d2cd0f8", "lane": "live", "rows": 1_499, "dag": "tidegate__flights",
    "window_date": "2026-03-14", "planned_at": "2026-03-14T12:00:00+00:00",
    "published_at": "2026-03-14T12:00:30+00:00", "records": 1_700,
    "commits": [{
        "chunk": 0, "commit": 2, "rows": 1_499, "attempt": "9f3c", "bytes": 20_000,
        "topics": {"flights": {
            "0": {"start": 1_000, "end": 2_500, "rows": 1_499, "invisible": 1}}},
        "proofs": {"flights": {"0": {"holes": 1, "probed": 1, "unprovable": 0}}},
        "versions": {"spark": "4.0.4"},
        "files": [{"uri": "file:///lake/x.parquet", "topic": "flights", "partition": 0,
                   "first": 1_000, "last": 2_499, "rows": 1_499, "bytes": 20_000}],
    }],
    "covered_by": {"1": [1]},
    "left_out": [{"topic": "<b>gone</b>", "partition": 3, "reason": "expired", "start": 4,
                  "end": 9}],
    "gaps": [{"topic": "flights", "topic_id": "i", "partition": 1, "start": 3, "end": 9,
              "reason": "expired", "by": "demo-1"}],
    "taken_up": {"flights": [1]},
    "topics": {"flights": {"topic_id": "i", "partitions": {
        "0": {"cursor": 2_500, "end": 1_237_067, "lag": 1_234_567,
              "expires_at": "2026-03-21T12:00:00+00:00"},
        "1": {"cursor": 9, "end": None, "lag": None, "expires_at": None}}}},
    "broker": "<i>away</i>",
}  # fmt: skip
PAGE = f"/tidegate/report/flights/{KEY}/1"


@pytest.fixture
def report(flights: str) -> None:  # noqa: F811
    open_store(flights, "flights").create(layout.report(KEY, 1), json.dumps(REPORT).encode())


def test_what_a_person_reads(ann: TestClient, report: None) -> None:  # noqa: F811
    """Plan, accounts and proofs, files, lag, expiry, what was not read and why; text is text."""
    answer = ann.get(PAGE)
    assert answer.status_code == 200
    rows = cells(answer.text)
    for row in (
        ["lane", "live, 2026-03-14"],
        ["offsets", "1,700 in 2 chunks"],
        ["taken up", "flights, partitions 1"],
        ["&lt;b&gt;gone&lt;/b&gt;-3", "left out: expired, start 4, end 9"],
        ["flights-1 [3, 9)", "given up: expired"],
        ["chunk 1", "in the lake already, by #1"],
        ["0", "1,000", "2,500", "1,500", "1,499", "1", "1 of 1"],
        ["file:///lake/x.parquet", "1,000", "2,499", "1,499", "20,000"],
        ["0", "2,500", "1,237,067", "1,234,567", "2026-03-21T12:00:00+00:00"],
        ["1", "9", "—", "—", "—"],
    ):
        assert row in rows, row
    assert "1 left out" in answer.text
    assert "&lt;i&gt;away&lt;/i&gt;" in answer.text
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


def test_who_may_not_read_the_dag_sees_no_report(login: Login, report: None) -> None:  # noqa: F811
    """Nor does anyone see one that is not there."""
    assert login(None).get(PAGE).status_code == 404
    viewer = login("VIEWER")
    for other in (f"flights/{KEY}/2", f"other/{KEY}/1", f"flights/{'0' * 64}/1"):
        assert viewer.get(f"/tidegate/report/{other}").status_code == 404
    for wrong in (f"flights/{KEY}/0", "flights/..%2F..%2Fx/1", "flights/x/1"):
        assert viewer.get(f"/tidegate/report/{wrong}").status_code in (404, 422)


def test_the_link_on_the_task(pipelines: Path) -> None:
    """It is known to the UI by the serialised DAG, and made from the XCom when the task ends."""
    form = {"name": "flights", "kind": "ingest", "topics": ["t"], "lake": "/lake"}
    task = factory.ingest_dag(parse(form)).get_task("publish")
    (link,) = task.operator_extra_links
    assert (type(link), link.name) == (ReportLink, "Report")
    ti = mock.Mock(dag_id="d", run_id="r")
    with mock.patch("tidegate.orchestration.links.XCom.get_one", return_value=REPORT) as pulled:
        assert link.get_link(task, ti_key=ti) == f"tidegate/report/flights/{KEY}/1"
        pulled.return_value = None
        assert link.get_link(task, ti_key=ti) == ""
    assert pulled.call_args.kwargs == {
        "key": "report", "dag_id": "d", "task_id": "publish", "run_id": "r",
    }  # fmt: skip
