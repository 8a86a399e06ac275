"""What commands print of an egress: the same on a terminal of 80 columns and in a pipe."""

from types import SimpleNamespace

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.core.entries import Receipt
from tidegate.egress.explain import EgressExplained
from tidegate.egress.report import EgressReport
from tidegate.egress.status import EgressStatus
from tidegate.terminal import render, render_egress

pytestmark = pytest.mark.usefixtures("place")
PARTITIONER = "org.apache.kafka.clients.producer.RoundRobinPartitioner"
KAFKA_B = {
    "connection": "kafka_b", "bootstrap_servers": "b:9093", "protocol": "SASL_SSL",
    "login": "SCRAM-SHA-512 as alice",
}  # fmt: skip
KAFKA_A = {
    "connection": "kafka_a", "bootstrap_servers": "a-1:9092,a-2:9092", "protocol": "PLAINTEXT",
    "login": None,
}  # fmt: skip
EGRESS = {
    "state": "blocked", "reason": "b.json: row 1: no value", "fix": "",
    "complete_through": None, "last_run": None,
    "format": 1, "pipeline": "out", "kind": "egress", "source": "/in/orders",
    "source_problem": None,
    "waiting": {
        "files": 1, "bytes": 5120, "young": 3, "offsets": 0, "ahead": 0, "unselected": 0,
        "settles_in": 41,
    },
    "left_out": [{"file": "b.json", "reason": "row 1: no value, and tombstones are not on"}],
    "sent": {"files": 3, "rows": 3000, "duplicates": 1},
    "target": {"orders": {"0": 1056}},
    "quarantine": {"rows": 1, "uri": "file:///lake/out/_tidegate/quarantine"},
    "commits": 1, "last_commit": 2,
    "last_entry": {"n": 3, "kind": "claim", "run": "r", "at": "2026-03-14T11:59:30+00:00"},
    "broken_order": [{"commit": 2, "where": ["orders-0"]}],
    "open_claims": [
        {
            "plan_id": "5b8a2f0e9d1c7364", "replay": None, "attempt": "0a1b2c3d4e5f6071",
            "sender": {"host": "worker-1", "pid": 4711}, "sender_dead": True, "files": ["c.json"],
            "offsets": 0,
        }
    ],
}  # fmt: skip


def test_status_of_an_egress(shown, golden):
    golden("status", shown(render.print_status, EgressStatus.from_json(EGRESS)))


def test_the_query_of_a_quarantine(tmp_path):
    """It finds the rows of all plans and attempts, also below a name with a space."""
    directory = tmp_path / "a b/_tidegate/quarantine/plan/attempt"
    directory.mkdir(parents=True)
    row = {"file": ["a"], "row": [1], "reason": ["null"], "text": [None], "key": [b"k"]}
    pq.write_table(pa.table(row), directory / "part-0.parquet")
    for each in (directory, directory.parents[1]):
        query = render_egress.quarantine_query(each.as_uri())
        assert duckdb.sql(query).fetchall() == [("a", 1, "null", None)]


def test_status_when_all_is_sent(shown, golden):
    """And the claim of a replay whose sender may be alive."""
    claim = EGRESS["open_claims"][0] | {"replay": "x", "sender_dead": False}
    waiting = dict.fromkeys(EGRESS["waiting"], 0) | {"settles_in": None}
    state = EGRESS | {
        "waiting": waiting, "left_out": [], "sent": {"files": 1, "rows": 1, "duplicates": 0},
        "quarantine": None, "broken_order": [], "last_entry": None, "open_claims": [claim],
        "state": "ok", "reason": "plan 5b8a2f0e9d1c7364 is being sent",
    }  # fmt: skip
    golden("status", shown(render.print_status, EgressStatus.from_json(state)))
    excluded = {"file": "a.json", "reason": "empty"}
    with_one = EgressStatus.from_json(state | {"left_out": [excluded]})
    text = shown(render.print_status, with_one)
    assert "  /in/orders: all is sent but what is excluded\n" in text
    state |= {
        "waiting": waiting | {"offsets": 1_200, "ahead": 1, "unselected": 7},
        "open_claims": [claim | {"sender_dead": True}],
    }
    golden("status", shown(render.print_status, EgressStatus.from_json(state)))


def test_status_without_a_source(shown, golden):
    state = EGRESS | {
        "source_problem": "/in/orders: no such directory: mount it", "waiting": None,
        "left_out": [], "quarantine": None, "broken_order": [], "last_entry": None,
        "open_claims": [],
        "state": "unknown", "reason": "/in/orders: no such directory: mount it",
    }  # fmt: skip
    golden("status", shown(render.print_status, EgressStatus.from_json(state)))


def test_explain_an_egress(shown, golden):
    """Each setting has a line of its own: the longest name fits beside a value."""
    explained = {
        "format": 1, "pipeline": "out", "kind": "egress", "lane": "live", "replay": None,
        "kafka": KAFKA_B, "source_kafka": None, "plan_id": None, "finishes_first": None,
        "files": [{"name": "2026/03/14/a.parquet", "size": 52, "etag": "e", "rows": 2}],
        "offsets": [], "records": 2, "bytes": 52,
        "later": {"files": 0, "offsets": 0, "young": 1, "ahead": 0}, "left_out": [],
        "unchecked": ["columns.key", "order_by"],
        "target": {"flights-copy": {"topic_id": None, "partitions": 1}},
        "settings": {
            "kafka.linger.ms": {"value": "5", "origin": "pipeline"},
            "kafka.request.timeout.ms": {"value": "40000", "origin": "connection"},
            "kafka.partitioner.class": {"value": PARTITIONER, "origin": "pipeline"},
            "spark.executorEnv.APP_PIN": {"value": None, "origin": "pipeline"},
            "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": {
                "value": "500ms", "origin": "pipeline"
            },
            "spark.kafka.consumer.cache.timeout": {"value": "500ms", "origin": "tidegate"},
        },
        "notices": ["target.producer: acks: its value is read as all"],
    }  # fmt: skip
    golden(
        "explain", shown(render.PRINTERS["egress"].explained, EgressExplained.from_json(explained))
    )


def test_explain_a_replay_of_a_lake(shown, golden):
    explained = {
        "format": 1, "pipeline": "out", "kind": "egress", "lane": "replay", "plan_id": "p",
        "finishes_first": None, "files": [], "bytes": 0,
        "kafka": KAFKA_B, "source_kafka": KAFKA_A,
        "replay": {"id": "x", "where": "k = '[b]'", "done": True, "commit": 7},
        "offsets": [{"t": {"0": [0, 1]}}],
        "records": 1, "unchecked": [], "left_out": [{"file": "t-0", "reason": "unseen"}],
        "later": {"files": 0, "offsets": 2, "young": 0, "ahead": 1},
        "target": {"copy": {"topic_id": "x", "partitions": 4}}, "notices": [],
        "settings": {"kafka.linger.ms": {"value": "20", "origin": "tidegate"}},
    }  # fmt: skip
    golden(
        "explain", shown(render.PRINTERS["egress"].explained, EgressExplained.from_json(explained))
    )


def test_explain_more_files_than_are_listed(shown, golden):
    """After an open claim, which the run finishes first."""
    files = [{"name": f"{n:02}", "size": 1, "etag": "e", "rows": None} for n in range(21)]
    explained = {
        "format": 1, "pipeline": "out", "kind": "egress", "lane": "live", "replay": None,
        "plan_id": "p", "files": files, "offsets": [],
        "finishes_first": {
            "plan_id": "5b8a2f0e9d1c7364", "attempt": "a", "sender_dead": False
        },
        "records": 0, "bytes": 21, "unchecked": [], "left_out": [], "target": {},
        "settings": {"kafka.linger.ms": {"value": "20", "origin": "tidegate"}}, "notices": [],
        "kafka": KAFKA_B, "source_kafka": None,
        "later": {"files": 1, "offsets": 0, "young": 0, "ahead": 0},
    }  # fmt: skip
    golden(
        "explain", shown(render.PRINTERS["egress"].explained, EgressExplained.from_json(explained))
    )


def test_a_run_with_broken_order(capsys, golden):
    """And with duplicates, which an earlier attempt has sent."""
    receipts = (Receipt("copy", "c", 0, 0, 1_000, 1_000, 0), Receipt("b", "b", 1, 0, 2, 1, 1))
    report = EgressReport(
        pipeline="out", kind="egress", run="r", run_key="k", generation=1, plan_id="i",
        lane="live", rows=1_001, duplicates=1, quarantined=0, quarantine=None, files=(), commit=7,
        receipts=receipts, proof="full", broken_order=("copy-0", "b-1"), left_out=(),
    )  # fmt: skip
    published = SimpleNamespace(report=report, new=True)
    render.PRINTERS["egress"].published(published, seconds="12 s", waiting=None)
    golden("run", capsys.readouterr())
