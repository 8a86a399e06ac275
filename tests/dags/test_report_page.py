"""The report of a run as a page, and the link to it on the publish task."""

import json
from pathlib import Path
from unittest import mock

import pytest

from support.status_page import Login, TestClient, cells
from tidegate.core import layout
from tidegate.lake.store import open_store
from tidegate.orchestration import factory
from tidegate.orchestration.links import ReportLink
from tidegate.pipelines.spec import parse_spec

KEY = layout.run_key("tidegate__flights", "demo-1")
REPORT = {
    "format": 1, "pipeline": "flights", "run": "demo-1", "run_key": KEY, "generation": 1,
    "plan_id": "9c9c939ba08dd0cc", "lane": "live", "rows": 1_499, "dag": "tidegate__flights",
    "window_date": "2026-03-14", "planned_at": "2026-03-14T12:00:00+00:00",
    "published_at": "2026-03-14T12:00:30+00:00", "records": 1_700,
    "commits": [{
        "chunk": 0, "commit": 2, "rows": 1_499, "attempt": "9f3c", "bytes": 20_000,
        "topics": {"flights": {
            "0": {"start": 1_000, "end": 2_500, "rows": 1_499, "invisible": 1}}},
        "proofs": {"flights": {"0": {"holes": 1, "probed": 1, "unprovable": 0}}},
        "undecodable": {"flights": {"value: a: no <INT>": 1_200, "value: no UTF-8": 3}},
        "versions": {"spark": "4.0.4"},
        "files": [{"uri": "file:///lake/x.parquet", "topic": "flights", "rows": 1_499,
                   "bytes": 20_000,
                   "parts": [{"partition": 0, "first": 1_000, "last": 2_499, "rows": 1_499}]}],
    }],
    "covered_by": {"1": [1]},
    "left_out": [{"topic": "<b>gone</b>", "partition": 3, "reason": "expired", "start": 4,
                  "end": 9}],
    "gaps": [{"topic": "flights", "topic_id": "i", "partition": 1, "start": 3, "end": 9,
              "reason": "expired", "by": "demo-1"}],
    "taken_up": {"flights": [1]},
    "topics": {"flights": {"topic_id": "i", "partitions": {
        "0": {"cursor": 2_500, "end": 1_237_000, "high": 1_237_067, "lag": 1_234_567,
              "open_since": "2026-03-14T08:00:00+00:00", "expires_at": "2026-03-21T12:00:00+00:00"},
        "1": {"cursor": 9, "end": None, "lag": None, "expires_at": None}}}},
    "broker": "<i>away</i>",
}  # fmt: skip
HIDDEN = "behind a transaction that is open since 2026-03-14T08:00:00+00:00"
SOURCE = {"path": "/in", "format": "json"}
SENT = {
    "format": 1, "pipeline": "back", "kind": "egress", "run": "send-1", "run_key": KEY,
    "generation": 1, "plan_id": "5b8a2f0e9d1c7364", "lane": "replay", "rows": 3_001,
    "duplicates": 1, "quarantined": 2, "files": ["<i>a</i>.parquet"], "commit": 7,
    "receipts": [{"topic": "t", "topic_id": "i", "partition": 0, "before": 1_200, "after": 4_202,
                  "sent": 3_001, "duplicates": 1}],
    "broken_order": ["t-0"],
    "left_out": [{"file": "b.parquet", "reason": "not a whole Parquet file: <b>x</b>"}],
    "dag": "tidegate_replay", "window_date": "2026-03-14",
    "planned_at": "2026-03-14T12:00:00+00:00", "published_at": "2026-03-14T12:00:30+00:00",
    "replay": {"id": "march", "where": "offset < 7"},
    "target": {"t": {"topic_id": "i", "partitions": 4}}, "attempt": "9f3c",
    "versions": {"spark": "4.0.4"},
    "sent": [{"file": "<i>a</i>.parquet", "rows": 3_001, "bad": 2}],
    "source": "/in", "source_problem": None,
    "waiting": {"files": 5, "bytes": 1_000, "young": 6, "offsets": 0},
}  # fmt: skip
PAGE = f"/tidegate/report/flights/{KEY}/1"


@pytest.fixture
def report(flights: str) -> None:
    open_store(flights, "flights").create(layout.report(KEY, 1), json.dumps(REPORT).encode())


def test_what_a_person_reads(ann: TestClient, report: None) -> None:
    """Plan, accounts and proofs, files, lag, expiry, what was not read and why; text is text."""
    answer = ann.get(PAGE)
    assert answer.status_code == 200
    rows = cells(answer.text)
    for row in (
        ["lane", "live, 2026-03-14"],
        ["offsets", "1,700 in 2 chunks"],
        ["discovered", "flights, partitions 1"],
        ["&lt;b&gt;gone&lt;/b&gt;-3", "left out: expired, start 4, end 9"],
        ["flights-1 [3, 9)", "given up: expired"],
        ["chunk 1", "in the lake already, by #1"],
        ["0", "1,000", "2,500", "1,500", "1,499", "1", "1 of 1"],
        ["file:///lake/x.parquet", "1,000 to 2,499", "1,499", "20,000"],
        ["0", "2,500", "1,237,000", "1,234,567", "2026-03-21T12:00:00+00:00"],
        ["", f"up to 1,237,067 {HIDDEN}"],
        ["1", "9", "—", "—", "—"],
    ):
        assert row in rows, row
    assert "1 left out" in answer.text
    assert "1,203 rows with a value in" in answer.text
    assert "1,200: value: a: no &lt;INT&gt;;" in answer.text
    assert "&lt;i&gt;away&lt;/i&gt;" in answer.text
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


def test_what_a_person_reads_of_an_egress(
    ann: TestClient,
    pipelines: Path,
    tmp_path: Path,
) -> None:
    """Receipts, doubled rows, files, what was left out, what waits; text is text."""
    lake = tmp_path / "lake"
    form = {"name": "back", "kind": "egress", "source": SOURCE, "target": {"topic": "t"}}
    (pipelines / "back.yaml").write_text(json.dumps(form | {"lake": str(lake)}))
    store = open_store(str(lake), "back")
    store.create(layout.report(KEY, 1), json.dumps(SENT).encode())
    sad = SENT | {"source_problem": "<b>gone</b>", "waiting": None, "commit": None, "replay": None}
    store.create(layout.report(KEY, 2), json.dumps(sad).encode())
    text = ann.get(f"/tidegate/report/back/{KEY}/1").text
    rows = cells(text)
    for row in (
        ["sent again", "replay march, where offset &lt; 7"],
        ["source", "/in"],
        ["b.parquet", "left out: not a whole Parquet file: &lt;b&gt;x&lt;/b&gt;"],
        ["t", "0", "1,200", "4,202", "3,001", "1"],
        ["&lt;i&gt;a&lt;/i&gt;.parquet", "3,001", "2"],
    ):
        assert row in rows, (row, rows)
    for words in ("1 left out", "broken in t-0", "5 files, 1,000 bytes", "2 in quarantine"):
        assert words in text
    answer = ann.get(f"/tidegate/report/back/{KEY}/2")
    assert answer.status_code == 200
    assert "&lt;b&gt;gone&lt;/b&gt;" in answer.text
    store.create(layout.report(KEY, 3), b"{")
    answer = ann.get(f"/tidegate/report/back/{KEY}/3")
    assert (answer.status_code, "LakeDamaged" in answer.text) == (503, True)


def test_who_may_not_read_the_dag_sees_no_report(login: Login, report: None) -> None:
    """Nor does anyone see one that is not there."""
    assert login(None).get(PAGE).status_code == 404
    viewer = login("VIEWER")
    for other in (f"flights/{KEY}/2", f"other/{KEY}/1", f"flights/{'0' * 64}/1"):
        assert viewer.get(f"/tidegate/report/{other}").status_code == 404
    for wrong in (f"flights/{KEY}/0", "flights/..%2F..%2Fx/1", "flights/x/1"):
        assert viewer.get(f"/tidegate/report/{wrong}").status_code in (404, 422)


def test_the_link_on_the_task(pipelines: Path) -> None:
    """It is known to the UI by the serialised DAG, and made from the XCom when the task ends."""
    back = {"name": "back", "kind": "egress", "source": SOURCE, "target": {"topic": "t"}}
    form = {"name": "flights", "kind": "ingest", "topics": ["t"]}
    for each in (back, form):
        for task in factory.pipeline_dag(parse_spec(each | {"lake": "/lake"})).tasks:
            (link,) = task.operator_extra_links
            assert (type(link), link.name) == (ReportLink, "Report"), task.task_id
    ti = mock.Mock(dag_id="d", run_id="r", map_index=3)
    own = {"key": "plan", "dag_id": "d", "task_id": task.task_id, "run_id": "r", "map_index": 3}
    planned = own | {"task_id": "plan", "map_index": -1}
    with mock.patch("tidegate.orchestration.links.XCom.get_one", return_value=REPORT) as pulled:
        for each, where in ((link, planned), (ReportLink(), own)):
            assert each.get_link(task, ti_key=ti) == f"tidegate/report/flights/{KEY}/1"
            assert pulled.call_args.kwargs == where
        pulled.return_value = None
        assert link.get_link(task, ti_key=ti) == ""
