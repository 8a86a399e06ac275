"""The overview of all pipelines: what stands first, what is folded, what is asked for."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest

from support.made_looks import made_look
from support.status_page import Login, TestClient
from tidegate.runs.pipeline_state import State
from tidegate.ui import app as ui_app
from tidegate.ui import figures
from tidegate.ui.watch import Look

STATES = [State.OK, State.IDLE, *State]


@pytest.fixture
def looks(login: Login, monkeypatch: pytest.MonkeyPatch) -> list[Look]:
    """A pipeline for each state, the healthy ones first, all of which may be read."""
    made = [made_look(n, state) for n, state in enumerate(STATES)]
    by_name = {look.name: look for look in made}
    watch: Any = mock.Mock()
    watch.looks = lambda names, _: [by_name[name] for name in names]
    monkeypatch.setattr(ui_app, "watch", watch)
    monkeypatch.setattr(ui_app.pipeline_files, "pipeline_names", lambda: [*by_name])
    return made


def shown(html: str) -> list[tuple[str, str]]:
    """Return the names and states of the rows of a page, in its order."""
    rows = re.findall(r'<tr data-name="([^"]+)"[^>]*>\s*<td><span class="state (\w+)"', html)
    return [(name, state) for name, state in rows]


def test_the_worst_come_first_and_the_healthy_are_folded(
    ann: TestClient, looks: list[Look]
) -> None:
    html = ann.get("/tidegate/").text
    told, folded = html.split('<details id="healthy">')
    order = [state for _, state in shown(told)]
    assert order == ["failing", "losing", "blocked", "unknown", "late", "paused", "running"]
    assert [state for _, state in shown(folded)] == ["ok", "ok", "idle", "idle"]
    assert "4 pipelines without a problem" in folded
    counts = re.findall(r'href="\?state=(\w+)"[^>]*>\w+ (\d+)<', html)
    assert dict(counts) == {each.value: "1" for each in State} | {"ok": "2", "idle": "2"}
    assert "why p0002 is failing" in told
    assert "on_expired: skip</code>" in told
    assert "why p0000" not in html  # nothing is wrong with it
    assert "<b>see" not in html


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("state=late", ["p0006"]),
        ("q=P0003", ["p0003"]),
        ("kind=egress", ["p0004", "p0009"]),
        ("kind=egress&state=ok", ["p0009"]),
        ("q=nothing", []),
        ("sort=name", [f"p{n:04d}" for n in range(11)]),
    ],
)
def test_filter_and_sort(ann: TestClient, looks: list[Look], query: str, names: list[str]) -> None:
    """What was asked for is not folded."""
    html = ann.get(f"/tidegate/?{query}").text
    assert [name for name, _ in shown(html)] == names
    assert "details" not in html
    if not names:
        assert "No pipeline fits." in html


def test_sorted_by_what_waits(ann: TestClient, looks: list[Look]) -> None:
    html = ann.get("/tidegate/?sort=waiting").text
    waiting = {look.name: look.judged.waiting or 0 for look in looks}
    found = [waiting[name] for name, _ in shown(html)]
    assert found == sorted(found, reverse=True)
    assert 'aria-sort="descending"' in html
    assert ann.get("/tidegate/?sort=<b>").status_code == 200


def test_the_page_of_one(ann: TestClient, looks: list[Look]) -> None:
    """Runs as charts and a table, the newest first; a red one with its error; links both ways."""
    html = ann.get("/tidegate/pipeline/p0002").text
    assert html.count('class="failed"') == 10  # of two runs, one with three steps each
    assert "last 100 runs" in html
    assert "&lt;b&gt;see its log" in html
    assert 'href="../report/p0002/' in html
    assert 'href="../../dags/tidegate__p0002/runs/scheduled__' in html
    rows = re.findall(r'class="words (bad|good)"', html)
    assert rows[:3] == ["bad", "bad", "good"]
    assert len(rows) == 30
    assert ann.get("/tidegate/pipeline/p0004").status_code == 200  # an egress
    assert ann.get("/tidegate/pipeline/nobody").status_code == 404


def test_metrics_are_those_of_the_pipelines_that_may_be_read(
    ann: TestClient, login: Login, looks: list[Look]
) -> None:
    answer = ann.get("/tidegate/metrics")
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    assert 'tidegate_state{pipeline="p0002",state="failing"} 1.0' in answer.text
    scraper = login(None)
    token = ann.cookies["_token"]
    scraper.cookies.clear()
    bearer = {"Authorization": f"Bearer {token}"}
    scraped = scraper.get("/tidegate/metrics", headers=bearer).text
    assert 'tidegate_state{pipeline="p0002",state="failing"} 1.0' in scraped
    assert "p0002" not in login(None).get("/tidegate/metrics").text


def test_numbers_in_words() -> None:
    now = datetime.now(UTC)
    assert figures.size(None) == "—"
    assert [figures.size(n) for n in (0, 999, 1_000, 1_250_000)] == [
        "0 B",
        "999 B",
        "1.0 KB",
        "1.2 MB",
    ]
    assert figures.human(now - timedelta(seconds=130), now) == "2m 10s ago"
    assert figures.human(now + timedelta(hours=2), now) == "in 2h"
    assert figures.heights([0, 1, 1000]) == [0, 1, 100]
    one, other = figures.ways("`tidegate run p` starts it; wait")
    assert (one.command, one.parts) == (
        "tidegate run p",
        [("tidegate run p", True), (" starts it", False)],
    )
    assert other.command == ""
