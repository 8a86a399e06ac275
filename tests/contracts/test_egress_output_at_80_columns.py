"""What commands print of an egress: the same on a terminal of 80 columns and in a pipe."""

from types import SimpleNamespace

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.cli import render, render_egress

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


def test_status_of_an_egress(shown):
    assert (
        shown(render.print_status, EGRESS)
        == """\
out: 1 live commit, 3,000 rows sent, 1 duplicated
  last change: claim #3, 30 s ago, by r
  /in/orders: waiting: 1 file; 3 files settle in 41 s
  1 row in quarantine: file:///lake/out/_tidegate/quarantine
    SELECT file, row, reason, text FROM \
read_parquet('/lake/out/_tidegate/quarantine/**/*.parquet')
  excluded: b.json: row 1: no value, and tombstones are not on
  commit #2: the order is broken in orders-0
  open claim of plan 5b8a2f0e9d1c7364
    by process 4711 on worker-1, which is dead
    → tidegate run out
"""
    )


def test_the_query_of_a_quarantine(tmp_path):
    """It finds the rows of all plans and attempts, also below a name with a space."""
    directory = tmp_path / "a b/_tidegate/quarantine/plan/attempt"
    directory.mkdir(parents=True)
    row = {"file": ["a"], "row": [1], "reason": ["null"], "text": [None], "key": [b"k"]}
    pq.write_table(pa.table(row), directory / "part-0.parquet")
    for each in (directory, directory.parents[1]):
        query = render_egress.quarantine_query(each.as_uri())
        assert duckdb.sql(query).fetchall() == [("a", 1, "null", None)]


def test_status_when_all_is_sent(shown):
    """And the claim of a replay whose sender may be alive."""
    claim = EGRESS["open_claims"][0] | {"replay": "x", "sender_dead": False}
    waiting = dict.fromkeys(EGRESS["waiting"], 0) | {"settles_in": None}
    state = EGRESS | {
        "waiting": waiting, "left_out": [], "sent": {"files": 1, "rows": 1, "duplicates": 0},
        "quarantine": None, "broken_order": [], "last_entry": None, "open_claims": [claim],
    }  # fmt: skip
    assert (
        shown(render.print_status, state)
        == """\
out: 1 live commit, 1 row sent
  /in/orders: all is sent
  open claim of plan 5b8a2f0e9d1c7364 (replay x)
    by process 4711 on worker-1; not proven dead
    → wait, or: tidegate release out --how … --reason …
"""
    )
    excluded = {"file": "a.json", "reason": "empty"}
    text = shown(render.print_status, state | {"left_out": [excluded]})
    assert "  /in/orders: all is sent but what is excluded\n" in text
    state |= {
        "waiting": waiting | {"offsets": 1_200, "ahead": 1, "unselected": 7},
        "open_claims": [claim | {"sender_dead": True}],
    }
    assert (
        shown(render.print_status, state)
        == """\
out: 1 live commit, 1 row sent
  /in/orders: waiting: 1,200 offsets; 1 offset behind an unseen one; \
7 offsets of topics not in source.topics
  open claim of plan 5b8a2f0e9d1c7364 (replay x)
    by process 4711 on worker-1, which is dead
    → tidegate replay out --replay-id x …
"""
    )


def test_status_without_a_source(shown):
    state = EGRESS | {
        "source_problem": "/in/orders: no such directory: mount it", "waiting": None,
        "left_out": [], "quarantine": None, "broken_order": [], "last_entry": None,
        "open_claims": [],
    }  # fmt: skip
    assert (
        shown(render.print_status, state)
        == """\
out: 1 live commit, 3,000 rows sent, 1 duplicated
/in/orders: no such directory: mount it
"""
    )


def test_explain_an_egress(shown):
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
    assert (
        shown(render.PRINTERS["egress"].explained, explained)
        == f"""\
out (live): would send 1 file, 52 bytes, 2 rows known
  target: Kafka at b:9093 (kafka_b): SASL_SSL, SCRAM-SHA-512 as alice
  to flights-copy: 1 partition, made by the run
  not checked here, but by Spark in the run: columns.key, order_by
  2026/03/14/a.parquet  52 bytes
  1 file not settled
settings of the pipeline
  kafka.linger.ms: 5
  kafka.partitioner.class: {PARTITIONER}
  spark.executorEnv.APP_PIN: not shown
  spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval: 500ms
settings of its connections
  kafka.request.timeout.ms: 40000
note: target.producer: acks: its value is read as all
"""
    )


def test_explain_a_replay_of_a_lake(shown):
    explained = {
        "pipeline": "out", "lane": "replay", "finishes_first": None, "files": [],
        "kafka": KAFKA_B, "source_kafka": KAFKA_A,
        "replay": {"where": "k = '[b]'", "done": True, "commit": 7}, "offsets": [["t", 0]],
        "records": 1, "unchecked": [], "left_out": [{"file": "t-0", "reason": "unseen"}],
        "later": {"files": 0, "offsets": 2, "young": 0, "ahead": 1},
        "target": {"copy": {"topic_id": "x", "partitions": 4}}, "notices": [],
        "settings": {"kafka.linger.ms": {"value": "20", "origin": "tidegate"}},
    }  # fmt: skip
    assert (
        shown(render.PRINTERS["egress"].explained, explained)
        == """\
out (replay): would send 1 offset of the lake
  source: the lake of Kafka at a-1:9092,a-2:9092 (kafka_a): PLAINTEXT, no login
  target: Kafka at b:9093 (kafka_b): SASL_SSL, SCRAM-SHA-512 as alice
  to copy: 4 partitions
  where k = '[b]'
  already done as #7
  2 offsets left to later runs; 1 offset behind an unseen one
Tidegate's own settings
  kafka.linger.ms: 20
  excluded: t-0: unseen
"""
    )


def test_explain_more_files_than_are_listed(shown):
    """After an open claim, which the run finishes first."""
    files = [{"name": f"{n:02}", "size": 1} for n in range(21)]
    explained = {
        "pipeline": "out", "lane": "live", "replay": None, "files": files, "offsets": [],
        "finishes_first": {"plan_id": "5b8a2f0e9d1c7364", "sender_dead": False},
        "records": 0, "bytes": 21, "unchecked": [], "left_out": [], "target": {},
        "settings": {"kafka.linger.ms": {"value": "20", "origin": "tidegate"}}, "notices": [],
        "kafka": KAFKA_B, "source_kafka": None,
        "later": {"files": 1, "offsets": 0, "young": 0, "ahead": 0},
    }  # fmt: skip
    listed = "".join(f"  {n:02}  1 byte\n" for n in range(20))
    assert (
        shown(render.PRINTERS["egress"].explained, explained)
        == f"""\
first: the open claim of plan 5b8a2f0e9d1c7364, whose sender is not proven dead
out (live): would send 21 files, 21 bytes
  target: Kafka at b:9093 (kafka_b): SASL_SSL, SCRAM-SHA-512 as alice
{listed}  and 1 more file
  1 file left to later runs
Tidegate's own settings
  kafka.linger.ms: 20
"""
    )


def test_a_run_with_broken_order(capsys):
    """And with duplicates, which an earlier attempt has sent."""
    receipts = [{"topic": "copy", "sent": 1_000}, {"topic": "b", "sent": 1}]
    report = {
        "pipeline": "out", "commit": 7, "rows": 1_001, "receipts": receipts, "quarantined": 0,
        "broken_order": ["copy-0", "b-1"], "duplicates": 1,
    }  # fmt: skip
    published = SimpleNamespace(report=report, new=True)
    render.PRINTERS["egress"].published(published, seconds="12 s", waiting=None)
    assert capsys.readouterr() == (
        "commit #7: 1,001 rows sent in 12 s (copy 1,000, b 1, 1 duplicated); "
        "next: tidegate status out\n",
        "  the order is broken in copy-0, b-1\n",
    )
