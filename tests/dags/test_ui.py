"""The page in Airflow's UI: behind Airflow's own login, with the numbers of a ledger on disk."""

import dataclasses
import json
import os
import re
import runpy
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from airflow import plugins_manager
from fastapi.routing import APIRoute

from support.kafka_answers import answer
from support.status_page import (
    CLUSTER,
    PIPELINE,
    TOPIC,
    TOPIC_ID,
    Login,
    TestClient,
    cells,
)
from tidegate import ui
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core.cluster_answers import Survey, TopicIdentity
from tidegate.core.cursor import Watermarks
from tidegate.core.entries import Gap
from tidegate.errors import BrokerUnreachable
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import open_store
from tidegate.ui import app as ui_app
from tidegate.ui.app import app as page
from tidegate.ui.watch import PipelineWatch

PROJECT = Path(__file__).parents[2]
DOWN = "Kafka at nowhere: no broker answered"


@pytest.fixture(autouse=True)
def _kafka_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"bootstrap.servers": "127.0.0.1:1"}
    form = {"conn_type": "kafka", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(form))


@pytest.fixture
def survey() -> Iterator[mock.Mock]:
    """The broker's answer: 1,234,567 records wait in the first partition."""
    with mock.patch.object(KafkaCluster, "survey", autospec=True) as asked:
        asked.return_value = Survey(
            CLUSTER,
            {TOPIC: TopicIdentity(TOPIC_ID, {0: 0, 1: 0})},
            {TOPIC: {0: Watermarks(1_000, 1_237_067, 1_237_067), 1: Watermarks(20, 20, 20)}},
        )
        yield asked


@pytest.fixture(autouse=True)
def _first_look(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test begins with a watch that has seen nothing, and pages wait for the first look."""
    monkeypatch.setattr("tidegate.ui.app.watch", PipelineWatch())
    monkeypatch.setattr("tidegate.ui.app.PATIENCE", 15.0)
    yield
    ui_app.watch.stop()


def look_anew() -> None:
    """Forget what was seen, as if the API server had just been started."""
    ui_app.watch.stop()
    ui_app.watch = PipelineWatch()


def page_of(browser: TestClient, name: str = "flights") -> str:
    """Return the page of a pipeline, by a new look."""
    look_anew()
    answer = browser.get(f"/tidegate/pipeline/{name}")
    assert answer.status_code == 200, answer.text
    return answer.text


def statuses(browser: TestClient) -> list[dict[str, Any]]:
    answer = browser.get("/tidegate/status.json")
    assert answer.status_code == 200
    form = answer.json()
    assert form.keys() == {"format", "pipelines"}
    assert form["format"] == 1
    found: list[dict[str, Any]] = form["pipelines"]
    return found


def test_every_route_wants_airflows_login(login: Login, flights: str, survey: mock.Mock) -> None:
    """Airflow's plugin routes are public unless they say otherwise."""
    routes = [route for route in page.routes if isinstance(route, APIRoute)]
    assert len(page.routes) == len(routes) >= 10  # no docs, no schema
    for route in routes:
        path = route.path.format(
            pipeline="flights", run_key="0" * 64, generation=1, name="flights", action="run",
            dag_id="tidegate__flights", run_id="r",
        )  # fmt: skip
        (method,) = route.methods
        browser = login("VIEWER")
        browser.cookies.clear()
        assert browser.request(method, f"/tidegate{path}").status_code == 401, path
        browser.cookies.set("_token", "forged")
        assert browser.request(method, f"/tidegate{path}").status_code == 403, path
    assert not survey.called


def test_the_end_of_a_session_is_a_sentence_with_a_link(login: Login, flights: str) -> None:
    """To a browser; a program gets JSON."""
    browser = login("VIEWER")
    browser.cookies.clear()
    answer = browser.get("/tidegate/pipeline/flights", headers={"Accept": "text/html"})
    assert answer.status_code == 401
    assert "Your session in Airflow has ended." in answer.text
    assert 'href="../../" target="_top"' in answer.text
    assert browser.get("/tidegate/").json() == {"detail": "Not authenticated"}


def test_who_may_not_read_the_dag_does_not_see_the_pipeline(
    login: Login, flights: str, survey: mock.Mock
) -> None:
    """Nor with the id of another DAG as a parameter, which Airflow would take for the question."""
    nobody = login(None)
    assert statuses(nobody) == []
    assert "flights" not in nobody.get("/tidegate/?dag_id=another").text


def test_the_numbers_are_those_of_ledger_and_broker(
    ann: TestClient, flights: str, survey: mock.Mock
) -> None:
    html = page_of(ann)
    assert cells(html) == [
        ["0", "unseen 200", "1,000", "2,500", "1,000", "1,237,067", "1,234,567"],
        ["1", "", "20", "20", "20", "20", "0"],
        ["total of 2 partitions", "1,234,567"],
    ]
    assert "1,234,567 offsets waiting" in html
    assert "1 live commit, the newest is #2" in " ".join(html.split())
    (form,) = statuses(ann)
    assert (form["pipeline"], form["commits"], form["last_commit"]) == ("flights", 1, 2)
    assert form["topics"][TOPIC]["partitions"]["0"]["lag"] == 1_234_567


def test_what_an_open_transaction_hides(
    ann: TestClient, flights: str, survey: mock.Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a problem once it has been open for long, and is shown with the time since when."""
    marks = {0: Watermarks(1_000, 2_500, 1_002_500), 1: Watermarks(20, 20, 20)}
    survey.return_value = replace(survey.return_value, watermarks={TOPIC: marks})
    since = {(TOPIC, 0): 1_714_557_600_000}
    answer(monkeypatch, open_since=lambda *_: since)
    html = page_of(ann)
    assert '<span class="state blocked">blocked</span>' in html
    line = "up to 1,002,500 behind a transaction that is open since 2024-05-01T10:00:00+00:00"
    assert ["", line] in cells(html)


def test_gaps_are_listed(ann: TestClient, flights: str, survey: mock.Mock) -> None:
    gap = Gap(TOPIC, TOPIC_ID, 0, 2_500, 1_002_500, "expired", "<b>ann</b>")
    Ledger(open_store(flights, "flights"), "flights").append(gap, run="r")
    html = page_of(ann)
    listed = [TOPIC, "0", "2,500", "1,002,500", "expired", "&lt;b&gt;ann&lt;/b&gt;"]
    assert cells(html)[-1] == listed
    assert "234,567 offsets waiting" in html


def test_the_bar_shows_what_became_of_the_offsets(
    ann: TestClient, flights: str, survey: mock.Mock
) -> None:
    """Half covered, a quarter given up, a quarter to come; and a word for each colour."""
    gap = Gap(TOPIC, TOPIC_ID, 0, 2_500, 3_250, "expired", "ann")
    Ledger(open_store(flights, "flights"), "flights").append(gap, run="r")
    marks = {0: Watermarks(1_000, 4_000, 4_000), 1: Watermarks(20, 20, 20)}
    survey.return_value = dataclasses.replace(survey.return_value, watermarks={TOPIC: marks})
    html = page_of(ann)
    assert cells(html)[0][1] == "live 100 skipped 50 unseen 50"
    assert {"live", "backfill", "replay", "skipped", "expired", "unseen", "before"} <= set(
        re.findall(r'<rect class="(\w+) key"', html)
    )


def test_a_topic_that_is_not_there_is_no_good_news(
    ann: TestClient, flights: str, survey: mock.Mock
) -> None:
    survey.return_value = Survey(CLUSTER, {}, {})
    html = page_of(ann)
    assert '<span class="state blocked">blocked</span>' in html
    assert "kafka-topics.sh --create --topic flights" in html


def test_what_needs_a_hand_has_its_way_out(
    ann: TestClient, flights: str, survey: mock.Mock
) -> None:
    """A recreated topic, and records that expired unread; the broker has answered."""
    identity = TopicIdentity("another", {0: 0})
    survey.return_value = Survey(CLUSTER, {TOPIC: identity}, {TOPIC: {0: Watermarks(0, 9, 9)}})
    html = page_of(ann)
    assert "the topic was recreated" in html
    command = "tidegate offsets adopt flights flights --reason …"
    assert f"<code>{command}</code>" in html
    assert f'data-copy="{command}"' in html
    assert "does not answer" not in html
    marks = {0: Watermarks(2_600, 2_700, 2_700)}
    survey.return_value = Survey(CLUSTER, {TOPIC: TopicIdentity(TOPIC_ID, {0: 0})}, {TOPIC: marks})
    text = " ".join(page_of(ann).split())
    assert "flights-0: expired: [2,500, 2,600), 100 offsets" in text
    assert '<span class="state losing">losing</span>' in text


def test_nothing_comes_from_elsewhere(ann: TestClient, flights: str, survey: mock.Mock) -> None:
    answer = ann.get("/tidegate/")
    sources = re.findall(r'(?:src|href|action)="([^"]*)"', answer.text)
    assert sources
    assert not [each for each in sources if "//" in each or each.startswith("/")]
    assert not re.search(r"<style|<script>|style=|onclick=|@import", answer.text)
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for name in ("page.css", "page.js"):
        file = ann.get(f"/tidegate/static/{name}")
        assert file.status_code == 200
        assert not re.search(r"https?:|@import", file.text)
    assert ann.get("/tidegate/static/app.py").status_code == 404
    assert answer.headers["Cache-Control"] == "no-store"


def test_a_silent_broker_leaves_the_ledgers_part(
    ann: TestClient, flights: str, survey: mock.Mock
) -> None:
    survey.side_effect = BrokerUnreachable(DOWN)
    html = page_of(ann)
    assert f"<pre>{DOWN}</pre>" in html
    assert cells(html) == [
        ["0", "live 200", "1,000", "2,500", "—", "—", "—"],
        ["1", "", "20", "20", "—", "—", "—"],
        ["total of 2 partitions", "—"],
    ]
    assert statuses(ann)[0]["broker"] == DOWN


def test_a_bad_file_shows_its_complaints_and_takes_nobody_with_it(
    ann: TestClient, flights: str, survey: mock.Mock, pipelines: Path
) -> None:
    """Names and complaints are text, whatever they look like."""
    (pipelines / "bad<i>.yaml").write_text("kind: '<script>alert(1)</script>'\ntopics: []\n")
    html = ann.get("/tidegate/").text
    assert "<script>" not in html
    assert "<i>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "lake: missing" in html
    assert "1,234,567" in html
    assert "lake: missing" in page_of(ann, "bad<i>")
    bad, good = statuses(ann)
    assert bad["pipeline"] == "bad<i>"
    assert bad["error"]["name"] == "ConfigurationError"
    assert bad["error"]["numbers"]["complaints"]
    assert "error" not in good


def test_a_connection_that_does_not_exist_is_named(ann: TestClient, pipelines: Path) -> None:
    text = PIPELINE.format(name="lost", lake="/nowhere") + "kafka: kafka_lost\n"
    (pipelines / "lost.yaml").write_text(text)
    (form,) = statuses(ann)
    assert "'kafka_lost'" in form["error"]["message"]
    assert "kafka_lost" in ann.get("/tidegate/").text


def test_one_that_hangs_is_left_behind(
    ann: TestClient,
    flights: str,
    survey: mock.Mock,
    pipelines: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The others are shown; all are asked at the same time."""
    monkeypatch.setattr("tidegate.ui.app.TIMEOUT", 1.0)
    healthy, release = survey.return_value, threading.Event()

    def answer(kafka: Any, *_: Any) -> Survey:
        if kafka.connection == "kafka_slow":
            release.wait(30)
        return healthy

    survey.side_effect = answer
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_SLOW", '{"extra": {"bootstrap.servers": "b:1"}}')
    text = PIPELINE.format(name="a_slow", lake=flights) + "kafka: kafka_slow\n"
    (pipelines / "a_slow.yaml").write_text(text)
    slow, good = statuses(ann)
    release.set()
    assert (slow["error"]["name"], slow["error"]["kind"]) == ("NoAnswer", "transient")
    assert good["commits"] == 1


def test_a_dead_broker_hides_no_healthy_pipeline(
    ann: TestClient,
    flights: str,
    survey: mock.Mock,
    pipelines: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 100 pipelines of a broker that is away and 160 others all are shown in time: each of the
    former with its ledger's part, after a few of them have waited for the broker.
    """
    monkeypatch.setattr("tidegate.ui.watch.PERIOD", 1.0)
    healthy, waited = survey.return_value, []

    def answer(kafka: Any, *_: Any) -> Survey:
        if kafka.connection == "kafka_dead":
            waited.append(1)
            time.sleep(1.5)  # 8 s, really
            raise BrokerUnreachable(DOWN)
        return healthy

    survey.side_effect = answer
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEAD", '{"extra": {"bootstrap.servers": "b:1"}}')
    for n in range(100):
        text = PIPELINE.format(name=f"a_dead{n}", lake=flights) + "kafka: kafka_dead\n"
        (pipelines / f"a_dead{n}.yaml").write_text(text)
    for n in range(160):
        (pipelines / f"b{n}.yaml").write_text(PIPELINE.format(name=f"b{n}", lake=flights))
    found = statuses(ann)
    assert [each["pipeline"] for each in found if "error" in each] == []
    dead = [each for each in found if each["pipeline"].startswith("a_dead")]
    assert {each["broker"] for each in dead} == {DOWN}
    assert {each["broker"] for each in found if each not in dead} == {None}
    assert 1 <= len(waited) <= 8


def test_the_page_waits_for_nobody(
    ann: TestClient, flights: str, survey: mock.Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a broker hangs, what is not known is said at once, and nothing piles up."""
    monkeypatch.setattr("tidegate.ui.app.PATIENCE", 0.3)
    monkeypatch.setattr("tidegate.ui.watch.PERIOD", 0.2)
    release = threading.Event()
    healthy = survey.return_value
    survey.side_effect = lambda *_: release.wait(30) and healthy
    for _ in range(3):
        began = time.monotonic()
        html = ann.get("/tidegate/").text
        assert time.monotonic() - began < 2
        assert "no answer yet from lake and broker" in html
    time.sleep(1.2)  # the second round
    release.set()
    assert statuses(ann)[0]["commits"] == 1
    assert survey.call_count == 1
    ann.cookies.clear()
    assert ann.get("/tidegate/status.json").status_code == 401


def test_what_was_seen_is_served_without_a_question(
    ann: TestClient, flights: str, survey: mock.Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither broker nor lake is asked by a request, once there was a look; it says its age."""
    page_of(ann)
    asked = survey.call_count
    monkeypatch.setattr("tidegate.ui.watch.PERIOD", 600.0)
    with mock.patch("tidegate.flows.store", side_effect=AssertionError):
        for _ in range(3):
            html = ann.get("/tidegate/").text
            assert " s ago</time>" in html
            assert ann.get("/tidegate/pipeline/flights").status_code == 200
    assert survey.call_count == asked


def test_no_footer_is_read_for_the_page(
    ann: TestClient, flights: str, pipelines: Path, tmp_path: Path
) -> None:
    """Of a source of many Parquet files each would be opened, with every reload."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/broken.parquet").write_bytes(b"no footer")
    os.utime(tmp_path / "in/broken.parquet", (0, 0))
    form = {"name": "back", "kind": "egress", "lake": flights, "target": {"topic": "out"}}
    source = {"path": str(tmp_path / "in"), "format": "parquet"}
    (pipelines / "back.yaml").write_text(json.dumps({**form, "source": source}))
    (pipelines / "flights.yaml").unlink()
    with mock.patch("tidegate.lake.sources.read_footer", autospec=True) as footer:
        (found,) = statuses(ann)
    assert (found["waiting"]["files"], footer.called) == (1, False)


def test_what_nobody_foresaw_is_told_without_its_words(
    ann: TestClient, flights: str, survey: mock.Mock
) -> None:
    survey.side_effect = RuntimeError("postgres://user:secret@host")
    answer = ann.get("/tidegate/status.json")
    assert answer.json()["pipelines"][0]["error"]["name"] == "Internal"
    assert "secret" not in answer.text


def test_no_directory_of_pipelines_is_named(
    ann: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_PIPELINES", "/nowhere")
    answer = ann.get("/tidegate/")
    assert answer.status_code == 503
    assert answer.json()["detail"].startswith("there is no directory /nowhere; set TIDEGATE_PIPE")


@pytest.mark.parametrize("installed", [True, False])
def test_the_plugins_folder_adds_no_second_plugin(
    monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    """Airflow reports a second plugin of one name as an error, in every process."""
    mine = [mock.Mock()] if installed else []
    monkeypatch.setattr(metadata, "entry_points", lambda **_: mine)
    module = runpy.run_path(str(PROJECT / "plugins/tidegate_plugin.py"))
    plugins = {name for name, found in module.items() if plugins_manager.is_valid_plugin(found)}
    assert plugins == (set() if installed else {"TidegatePlugin"})


def test_airflow_takes_the_plugin() -> None:
    """A plugin that cannot be imported is silent: Airflow only notes it."""
    assert plugins_manager.get_import_errors() == {}
    (mounted,) = [
        each for each in plugins_manager.get_fastapi_plugins()[0] if each["name"] == "Tidegate"
    ]
    assert (mounted["url_prefix"], mounted["app"]) == ("/tidegate", ui.serve)
    views, _ = plugins_manager._get_ui_plugins()
    mine = [each for each in views if each["name"] == "Tidegate"]
    assert mine[0]["href"] == "tidegate/"
    assert "category" not in mine[0]
    assert [each["destination"] for each in mine[1:]] == ["dag", "dag_run", "task"]


def test_a_setting_that_may_be_secret_is_not_shown(
    ann: TestClient, flights: str, survey: mock.Mock, pipelines: Path
) -> None:
    """Nor is a variable of the file expanded on the page."""
    text = PIPELINE.format(name="flights", lake=flights)
    conf = "spark:\n  conf:\n    spark.executorEnv.APP_PIN: geheim\n"
    (pipelines / "flights.yaml").write_text(text + conf)
    html = page_of(ann)
    assert "spark.executorEnv.APP_PIN" in html
    assert "not shown" in html
    assert "geheim" not in html
