"""The report of a run: beside the ledger, exactly as docs/internals/storage.md says."""

import json
from dataclasses import replace
from datetime import date

import pytest

from support import staged_attempts
from support.default_settings import SETTINGS
from support.handed_in import HERE
from support.kafka_answers import answer
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core import layout
from tidegate.core.cluster_answers import Survey, TopicIdentity
from tidegate.core.cursor import Watermarks
from tidegate.core.entries import Gap
from tidegate.core.offsets import OffsetRange
from tidegate.core.partition import LeftOut
from tidegate.errors import BrokerUnreachable, LakeUnavailable
from tidegate.ingest import publish, report
from tidegate.lake import attempts, plans
from tidegate.lake.store import LocalStore
from tidegate.pipelines.spec import parse_spec
from tidegate.runs.run import Run, open_run

KAFKA = KafkaCluster("kafka_default", {"bootstrap.servers": "nowhere:1"})
NOTE = {"format": 2, "at": "2024-05-01T10:00:00+00:00", "taken_up": {"t": [1]}}


@pytest.fixture
def run(tmp_path):
    form = {"name": "p", "kind": "ingest", "topics": ["t"], "lake": str(tmp_path)}
    return Run(parse_spec(form), KAFKA, "tidegate__p", "r", date(2024, 5, 1), **HERE)


@pytest.fixture
def store(run):
    """Chunk 0 of t-0 and t-1 is sealed, with a hole; chunk 1 is in the lake by another plan."""
    store = LocalStore(run.store().root)
    plan = staged_attempts.plan_of(
        (OffsetRange("t", 0, 0, 5), OffsetRange("t", 1, 0, 3)), (OffsetRange("t", 0, 5, 8),)
    )
    object.__setattr__(plan, "left_out", (LeftOut("gone", None, "no such topic"),))
    ledger = staged_attempts.ledger_of(store)
    other = staged_attempts.plan_of((OffsetRange("t", 0, 5, 8),))
    staged_attempts.seal(store, other)
    publish.committing.commit_sealed_chunks(store, ledger, other, run="other")
    ledger.append(Gap("t", "id-t", 1, 3, 4, "expired", "r"), run="r")
    ledger.append(Gap("t", "id-t", 1, 9, 10, "expired", "somebody else"), run="x")
    attempt = staged_attempts.stage(
        store, plan, files={("t", 0): [[0, 1, 4]], ("t", 1): [range(3)]}
    )
    proven = staged_attempts.check(
        store, plan, attempt, probe=lambda holes: dict.fromkeys(holes, "empty")
    )  # fmt: skip
    attempts.create_manifest(store, proven)
    plans.freeze_plan(store, run.key, plan, 1, note=NOTE)
    return store


def published(run, store, monkeypatch, *, away=False):
    """Publish, and return what is told and what is kept."""

    def survey(*_):
        if away:
            raise BrokerUnreachable("no broker answered")
        marks = {0: Watermarks(0, 8, 8), 1: Watermarks(0, 20, 22)}
        return Survey("cluster", {"t": TopicIdentity("id-t", {0: 0, 1: 0})}, {"t": marks})

    answer(monkeypatch, survey=survey)
    answer(monkeypatch, open_since=lambda *_: {("t", 1): 1_714_557_600_000})
    answer(monkeypatch, expiries=lambda *_: {("t", 1): 1_714_600_000_000})
    told = publish.publish(open_run(run)).report.to_json()
    kept = store.get(layout.report(run.key, 1))
    return told, kept and json.loads(kept)


def test_what_is_told_and_what_is_kept(run, store, monkeypatch):
    """The XCom, and the whole of it in the lake: proofs, files, lag, expiry, what was left out."""
    told, kept = published(run, store, monkeypatch)
    plan_id = plans.latest_plan(store, run.key).plan.id
    short = {
        "format": 1,
        "pipeline": "p",
        "run": "r",
        "run_key": run.key,
        "generation": 1,
        "plan_id": plan_id,
        "lane": "live",
        "rows": 6,
        "commits": [
            {
                "chunk": 0,
                "commit": 6,
                "rows": 6,
                "topics": {
                    "t": {
                        "0": {"start": 0, "end": 5, "rows": 3, "invisible": 2},
                        "1": {"start": 0, "end": 3, "rows": 3, "invisible": 0},
                    }
                },
                "undecodable": {},
            }
        ],
        "covered_by": {"1": [3]},
        "missing": [],
        "left_out": [{"topic": "gone", "partition": None, "reason": "no such topic"}],
    }
    assert told == short
    files = kept["commits"][0].pop("files")
    size = kept["commits"][0].pop("bytes")
    assert kept.pop("published_at")
    assert kept == {
        **short,
        "dag": "tidegate__p",
        "window_date": "2024-05-01",
        "planned_at": "2024-05-01T10:00:00+00:00",
        "records": 11,
        "commits": [
            {
                **short["commits"][0],
                "attempt": "attempt",
                "versions": {"tidegate": "test"},
                "proofs": {"t": {"0": {"holes": 1, "probed": 1, "unprovable": 0}}},
            }
        ],
        "gaps": [
            {
                "topic": "t", "topic_id": "id-t", "partition": 1,
                "start": 3, "end": 4, "reason": "expired", "by": "r",
            }
        ],
        "taken_up": {"t": [1]},
        "topics": {
            "t": {
                "topic_id": "id-t",
                "partitions": {
                    "0": {
                        "cursor": 8, "end": 8, "high": 8, "lag": 0, "open_since": None,
                        "expires_at": None,
                    },
                    "1": {
                        "cursor": 4, "end": 20, "high": 22, "lag": 18,
                        "open_since": "2024-05-01T10:00:00+00:00",
                        "expires_at": "2024-05-01T21:46:40+00:00",
                    },
                },
            }
        },
        "broker": None,
        "settings": SETTINGS,
        "bytes": size,
        "complete_through": None,
        "lag": 18,
        "expires_at": "2024-05-01T21:46:40+00:00",
        "bad": 0,
    }  # fmt: skip
    name = "data/topic=t/window_date=2024-05-01/part-t"
    first, last = files
    assert first == {
        "uri": store.uri(f"{name}-00000-{0:019d}-{4:019d}-{plan_id}.parquet"),
        "topic": "t", "parts": [{"partition": 0, "first": 0, "last": 4, "rows": 3}], "rows": 3,
        "bytes": first["bytes"],
    }  # fmt: skip
    assert first["bytes"] + last["bytes"] == size


def test_settings_that_the_pipeline_gives(run, store, monkeypatch):
    """Options and settings of Spark, with their origin: pools with an MBean, too."""
    conf = {"spark.kafka.consumer.cache.jmx.enable": True}
    form = {"name": "p", "kind": "ingest", "topics": ["t"], "lake": run.spec.lake}
    spec = parse_spec({**form, "options": {"minPartitions": 2}, "spark": {"conf": conf}})
    _, kept = published(replace(run, spec=spec), store, monkeypatch)
    assert kept["settings"] == {
        **SETTINGS,
        "minPartitions": {"value": "2", "origin": "pipeline"},
        "spark.kafka.consumer.cache.jmx.enable": {"value": "true", "origin": "pipeline"},
    }


def test_the_first_report_stays(run, store, monkeypatch):
    """A run that is cleared and published again tells the same, and rewrites nothing."""
    first = published(run, store, monkeypatch)
    assert published(run, store, monkeypatch, away=True) == first


def test_without_a_broker(run, store, monkeypatch):
    """The commit needs none, and the report says what is missing, and why."""
    _, kept = published(run, store, monkeypatch, away=True)
    assert kept["broker"] == "no broker answered"
    assert kept["topics"]["t"]["partitions"]["1"] == {
        "cursor": 4, "end": None, "high": None, "lag": None, "open_since": None,
        "expires_at": None,
    }  # fmt: skip


def test_nothing_to_tell(run, tmp_path, monkeypatch):
    """A run that had no work, and left nothing out, leaves no report."""
    store = LocalStore(run.store().root)
    staged_attempts.ledger_of(store)
    plans.freeze_plan(store, run.key, staged_attempts.plan_of(), 1, note=NOTE)
    assert published(run, store, monkeypatch)[1] is None


def test_a_report_that_cannot_be_written_fails_no_run(run, store, monkeypatch, caplog):
    """What was committed is committed."""

    def full(*_):
        raise LakeUnavailable("no space left")

    monkeypatch.setattr(report, "describe_commit", full)
    told, kept = published(run, store, monkeypatch)
    assert (told["rows"], kept) == (6, None)
    assert "its report was not written" in caplog.text
