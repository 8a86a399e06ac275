"""Reports of egress runs: the XCom, the document in the lake, status and the page."""

import json
from pathlib import Path

import pytest
from jinja2 import Environment, FileSystemLoader, StrictUndefined

import tidegate
from support.egress_world import (
    SETTINGS,
    World,
    sends_all,
)
from tidegate import flows
from tidegate.core import layout
from tidegate.core.wording import counted
from tidegate.egress.publish import publish, verdict
from tidegate.egress.status import EgressStatus, read_egress_status
from tidegate.lake import plans
from tidegate.lake.store import STORES
from tidegate.maintenance.checkpoint_step import checkpoint_pipeline
from tidegate.pipelines import pipeline_files
from tidegate.spark.egress_job import DONE, EgressJob


def test_what_is_told_and_what_is_kept(world: World) -> None:
    """The XCom, and the whole of it in the lake: receipts, rows of each file, what still waits; the
    first one stays (docs/internals/storage.md).
    """
    world.settings = {"max_files": 1}
    world.put(a="1\n", b="22\n")
    report = world.send_and_publish()
    run = world.run()
    frozen = plans.latest_plan(run.store(), run.key)
    assert frozen
    assert report == {
        "format": 1, "pipeline": "out", "kind": "egress", "run": "r", "run_key": run.key,
        "generation": 1, "plan_id": frozen.plan.id, "lane": "live", "rows": 1, "duplicates": 0,
        "quarantined": 0, "quarantine": None, "files": ["a"], "commit": 2,
        "receipts": [{"topic": "t", "topic_id": "id-t", "partition": 0, "before": 5, "after": 6,
                      "sent": 1, "duplicates": 0}],
        "proof": "full", "broken_order": [], "left_out": [],
    }  # fmt: skip
    path = layout.report(run.key, 1)
    kept = json.loads(run.store().get(path) or b"")
    assert kept.pop("attempt")
    assert kept.pop("planned_at") <= kept.pop("published_at")
    assert kept == {
        **report, "dag": "dag", "window_date": "2026-01-01", "replay": None,
        "target": {"t": {"topic_id": "id-t", "partitions": 1}},
        "versions": {"tidegate": tidegate.__version__},
        "sent": [{"file": "a", "rows": 1, "bad": 0, "digest": "0" * 16}],
        "source": str(world.home / "in"), "source_problem": None,
        "waiting": {"files": 1, "bytes": 3, "young": 0, "offsets": 0, "ahead": 0,
                    "unselected": 0, "settles_in": None},
        "settings": SETTINGS, "bytes": None, "lag": 1, "expires_at": None, "bad": 0,
        "complete_through": None,
    }  # fmt: skip
    page = Environment(
        loader=FileSystemLoader(Path(tidegate.__file__).parent / "ui"), undefined=StrictUndefined
    )
    page.filters |= {"number": str, "counted": counted, "excluded": str}
    whole = {**kept, "attempt": "a", "planned_at": "then", "published_at": "now"}
    assert "1 file," in page.get_template("report_of_egress.html").render(report=whole, up="")
    before = run.store().get(path)
    world.put(c="3\n")
    assert publish(world.open()).report.to_json() == report
    assert run.store().get(path) == before


def test_settings_that_the_pipeline_gives(world: World) -> None:
    """Options of the sink, its producer and settings of Spark, with their origin."""
    world.settings = {
        "target": {"topic": "t", "options": {"fetchOffset.numRetries": 5}, "producer": {"acks": 1}},
        "spark": {"conf": {"spark.kafka.consumer.cache.jmx.enable": True}},
    }
    world.put(a="1\n")
    world.send_and_publish()
    run = world.run()
    kept = json.loads(run.store().get(layout.report(run.key, 1)) or b"")
    given = {name: each for name, each in kept["settings"].items() if each["origin"] == "pipeline"}
    assert given == {
        "fetchOffset.numRetries": {"value": "5", "origin": "pipeline"},
        "kafka.acks": {"value": "1", "origin": "pipeline"},
        "spark.kafka.consumer.cache.jmx.enable": {"value": "true", "origin": "pipeline"},
    }


def test_a_broken_order_is_reported_everywhere(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Ledger, status, the log of `verdict`, asset event and page, beside report and XCom; each by
    the partition, or the topic, that it is about.
    """

    def breaks(job: EgressJob, directory: Path) -> None:
        sends_all(job, directory)
        done = json.loads((directory / DONE).read_text())
        (directory / DONE).write_text(json.dumps({**done, "broken_order": ["t-0", "u-t-0"]}))

    world.put(a="1\n")
    assert world.send_and_publish("one")["broken_order"] == []
    verdict(world.open("one"))
    assert "order" not in caplog.text
    world.put(b="1\n")
    report = world.send_and_publish("two", breaks)
    verdict(world.open("two"))
    assert f"out: commit #{report['commit']}: the order is broken in t-0, u-t-0" in caplog.text
    assert publish(world.open("two")).asset_event("t")["broken_order"] == ["t-0"]
    assert publish(world.open("one")).asset_event("t")["broken_order"] == []
    state = read_egress_status(world.spec, STORES, pipeline_files).to_json()
    assert state["broken_order"] == [{"commit": report["commit"], "where": ["t-0", "u-t-0"]}]
    assert checkpoint_pipeline(world.spec, flows.store(world.spec)).to_json()["bytes"]
    assert (
        read_egress_status(world.spec, STORES, pipeline_files).to_json()["broken_order"]
        == state["broken_order"]
    )
    page = Environment(
        loader=FileSystemLoader(Path(tidegate.__file__).parent / "ui"), undefined=StrictUndefined
    )
    page.filters |= {"number": str, "counted": counted, "size": str}
    seen = EgressStatus.from_json(state)
    html = page.get_template("status_of_egress.html").render(status=seen)
    assert f"Commit #{report['commit']}: the order is broken in t-0, u-t-0" in html


def test_a_report_without_its_source(world: World) -> None:
    """What was sent is committed and reported, although the source cannot be read."""
    world.put(a="1\n")
    world.send()
    (world.home / "in/a").unlink()
    (world.home / "in").rmdir()
    run = world.run()
    assert publish(world.open()).report.rows == 1
    kept = json.loads(run.store().get(layout.report(run.key, 1)) or b"")
    assert (kept["waiting"], kept["rows"]) == (None, 1)
    assert kept["source_problem"]


def test_nothing_to_send_leaves_no_report(world: World) -> None:
    """A run that had no work, and left nothing out, has no page."""
    world.put(a="1\n")
    world.send_and_publish()
    world.send_and_publish("later")
    run = world.run("later")
    assert run.store().get(layout.report(run.key, 1)) is None
