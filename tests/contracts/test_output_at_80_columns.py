"""What commands print for people, exactly: the same on a terminal of 80 columns and in a pipe."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from support import printed
from tidegate.cli import maintenance_commands, window_commands
from tidegate.core.entries import Account
from tidegate.doctor.check import Diagnosis, Line
from tidegate.errors import LakeUnavailable
from tidegate.ingest.explain import IngestExplained
from tidegate.ingest.report import CommitReport, IngestReport
from tidegate.ingest.status import IngestStatus
from tidegate.ingest.topic_coverage import Coverage
from tidegate.maintenance.reconcile import Reconciled, ReconciledVariable
from tidegate.runs.findings import Verified
from tidegate.terminal import render

TOPIC_ID = "0b2f7c5e-8d1c-4f6e-9a3b-5c7d9e1f2a4b"
EXPIRES = "2026-03-21T11:30:00+00:00"
LONG = "prod.eu-central-1.payments.transactions.captured.v2-with-a-long-name-of-80-columns"


pytestmark = pytest.mark.usefixtures("place")

RED = {
    "run": "demo-7", "dag": "tidegate__flights",
    "began": "2026-03-14T10:10:01+00:00", "ended": "2026-03-14T10:10:21+00:00",
    "error": {"name": "StageFailed", "message": "Spark ended with exit code 1", "kind": "terminal"},
    "lane": "live", "planned": None, "published": None, "rows": 0, "bytes": None, "lag": None,
    "expires_at": None, "left_out": 0, "bad": 0, "duplicates": 0, "report": None,
    "complete_through": None, "in_airflow": True,
}  # fmt: skip
STATUS = {
    "state": "failing",
    "reason": f"run {RED['run']} has failed: StageFailed",
    "fix": "`tidegate offsets set flights flights 11 90 --reason …` gives these up; "
    "`on_expired: skip` gives up all that expire, also later",
    "complete_through": None, "last_run": RED,
    "format": 1,
    "pipeline": "flights",
    "topics": {
        "flights": {
            "topic_id": TOPIC_ID,
            "partitions": {
                "0": {
                    "origin": 0, "cursor": 3_999_000_000, "log_start": 3_990_000_000,
                    "end": 4_000_204_551, "high": 4_000_204_556, "lag": 1_204_556,
                    "open_since": "2026-03-14T10:58:00+00:00",
                },
                "11": {
                    "origin": 0, "cursor": 40, "log_start": 90, "end": 120, "high": 120,
                    "lag": 80, "open_since": None,
                },
            },
        },
        "refunds": {"topic_id": None, "partitions": {}},
    },
    "problems": [
        {
            "topic": "flights", "partition": 11, "reason": "expired", "start": 40, "end": 90,
            "offsets": 50,
            "fix": "`tidegate offsets set flights flights 11 90 --reason …` gives "
            "these up; `on_expired: skip` gives up all that expire, also later",
        },
        {
            "topic": "refunds", "partition": None, "reason": "the topic was recreated",
            "was": "a", "is": "b", "fix": "`tidegate offsets adopt flights refunds --reason …`",
        },
    ],
    "commits": 1,
    "last_commit": 2,
    "last_entry": {
        "n": 2, "kind": "commit", "run": "scheduled__2026-03-14T10:00:00+00:00",
        "at": "2026-03-14T10:04:11+00:00",
    },
    "gaps": [
        {
            "topic": "flights", "topic_id": TOPIC_ID, "partition": 0, "start": 0, "end": 1,
            "reason": "expired", "by": "r",
        }
    ],
    "undecodable": {"flights": {"value: a: no INT": 2_000, "value: no UTF-8": 1}},
    "open_claims": [],
    "unfinished": [
        {
            "plan_id": "9c9c939ba08dd0cc", "lane": "backfill", "run": "old-days", "at": "…",
            "chunks": 1, "committed": 0, "sealed": 1, "refused": ["t: column a INT is gone"],
        }
    ],
    "broker": None,
}  # fmt: skip


def test_status(shown, golden):
    """Numbers of thousands of millions fit; each problem has its fix."""
    text = shown(render.print_status, IngestStatus.from_json(STATUS))
    golden("status", text)
    assert max(map(len, text.splitlines())) <= printed.WIDTH


def test_status_without_a_broker(shown, golden):
    partition = {"origin": 0, "cursor": 5} | dict.fromkeys(
        ("log_start", "end", "high", "lag", "open_since")
    )
    state = STATUS | {
        "topics": {LONG: {"topic_id": TOPIC_ID, "partitions": {"0": partition}}},
        "problems": [], "gaps": [], "undecodable": {}, "unfinished": [], "commits": 0,
        "last_entry": None,
        "broker": "Kafka at b:9092 (kafka_default): no broker answered",
        "state": "unknown", "reason": "Kafka at b:9092 (kafka_default): no broker answered",
        "fix": "", "complete_through": None, "last_run": None,
    }  # fmt: skip
    golden("status", shown(render.print_status, IngestStatus.from_json(state)))
    late = {"state": "late", "reason": "no run has ended well for 3h", "fix": "look; or run it"}
    golden("status", shown(render.print_status, IngestStatus.from_json(state | late)))


COVERAGE = {
    "format": 1,
    "pipeline": "flights",
    "topics": {
        "flights": {
            "topic_id": TOPIC_ID,
            "partitions": {
                "0": {
                    "intervals": [
                        {"start": 0, "end": 3, "state": "before"},
                        {"start": 3, "end": 1_000_000, "state": "covered", "lane": "live"},
                        {
                            "start": 1_000_000, "end": 1_000_012, "state": "skipped",
                            "reason": "expired", "by": "manual__2026-03-01T00:00:00__1a2b3c",
                        },
                        {"start": 1_000_012, "end": 1_204_551, "state": "unseen"},
                        {"start": 1_204_551, "end": 1_204_600, "state": "covered",
                         "lane": "backfill"},
                        {"start": 1_204_600, "end": 1_300_000, "state": "unseen"},
                    ],
                    "expires_at": EXPIRES,
                },
                "1": {"intervals": [], "expires_at": None},
            },
        }
    },
    "broker": None,
}  # fmt: skip


def test_coverage(shown, golden):
    """A line for each partition, its intervals below; the first unseen one expires first."""
    golden("coverage", shown(window_commands._print_coverage, Coverage.from_json(COVERAGE)))


def test_coverage_without_a_broker(shown, golden):
    """What the ledger knows; and what a replay, an operator and an expiry have left."""
    intervals = [
        {"start": 0, "end": 1, "state": "covered", "lane": "replay"},
        {"start": 1, "end": 2, "state": "skipped", "reason": "[b]poison[/b]", "by": "cli:ann"},
        {"start": 2, "end": 4, "state": "expired"},
    ]
    partitions = {"0": {"intervals": intervals, "expires_at": None}}
    away = "Kafka at b:9092 (kafka_default): no broker answered"
    document = COVERAGE | {
        "broker": away,
        "topics": {LONG: {"topic_id": None, "partitions": partitions}},
    }
    golden("coverage", shown(window_commands._print_coverage, Coverage.from_json(document)))


EXPLAINED = {
    "format": 1, "pipeline": "flights", "lane": "live", "plan_id": "9c9c939ba08dd0cc",
    "kafka": {
        "connection": "kafka_default", "bootstrap_servers": "localhost:9092",
        "protocol": "PLAINTEXT", "login": None,
    },
    "window_date": "2026-03-14", "records": 1_204_551, "bytes": 190_318_000, "splits": 2,
    "files": 1, "chunks": [{"records": 1_204_551, "splits": 2, "files": 1}], "done": None,
    "later": 1,
    "topics": {
        "flights": {
            "topic_id": TOPIC_ID,
            "partitions": {
                "0": {
                    "ranges": [[3_999_000_000, 4_000_204_551]], "records": 1_204_551,
                    "covered": [], "origin": 0, "cursor": 3_999_000_000,
                    "cursor_after": 4_000_204_551, "log_start": 3_990_000_000,
                    "end": 4_000_204_551, "expires_at": EXPIRES,
                },
                "2": {
                    "ranges": [], "records": 0, "covered": [], "origin": 40, "cursor": 40,
                    "cursor_after": 40, "log_start": 90, "end": 120, "expires_at": None,
                },
            },
        }
    },
    "gaps": [
        {
            "topic": "flights", "topic_id": TOPIC_ID, "partition": 3, "start": 5, "end": 9,
            "reason": "expired", "by": "r",
        }
    ],
    "left_out": [
        {
            "topic": "flights", "partition": 2, "reason": "expired", "start": 40, "end": 90,
            "offsets": 50,
            "fix": "`tidegate offsets set flights flights 2 90 --reason …` gives "
            "these up; `on_expired: skip` gives up all that expire, also later",
        }
    ],
    "settings": {
        "kafka.fetch.min.bytes": {"value": "1000", "origin": "pipeline"},
        "kafka.isolation.level": {"value": "read_committed", "origin": "tidegate"},
    },
    "notices": ["options: includeHeaders: it has no effect: headers are always kept"],
}  # fmt: skip


def test_explain(shown, golden):
    """Two tables for each topic: nine columns would not fit."""
    text = shown(render.PRINTERS["ingest"].explained, IngestExplained.from_json(EXPLAINED))
    golden("explain", text)


def test_files(shown, golden):
    """One line for each URI, however long it is."""
    uri = f"file:///lake/data/topic={LONG}/window_date=2026-03-14/{LONG}-00000.parquet"
    files = [
        {"uri": uri, "commit": 3, "rows": 1, "bytes": 900},
        {"uri": "s3://b/x.parquet", "commit": 12, "rows": 1204, "bytes": 70_000},
    ]
    golden("files", shown(render.print_lake_files, files))


def test_verify(shown, golden):
    findings = {
        "format": 1, "pipeline": "p", "commits": 1, "files": 1, "rows": 2,
        "against_kafka": {"rows": 2, "expired": 0}, "differences": 3,
        "first": [{"what": "no page", "uri": f"file:///{LONG}", "commit": 7}, {"what": "odd"}],
    }  # fmt: skip
    golden("verify", shown(render.print_findings, Verified.from_json(findings)))


def test_doctor(shown, golden):
    """The machine, then each pipeline; of a failure and a warning also the fix."""
    checks = (
        Line("java", "ok", "Java 17"), Line("disk", "warning", LONG, f"rm {LONG}", "p"),
        Line("lake", "ok", "[b]", pipeline="p"),
        Line("file", "failure", "wrong", "correct it", "q"),
    )  # fmt: skip
    found = Diagnosis(checks=checks, warnings=1, failures=1)
    golden("doctor", shown(maintenance_commands._print_doctor, found))


def test_a_variable_that_is_ahead(shown, golden):
    variable = ReconciledVariable(f"tidegate__p__{LONG}", "t", "ahead", {}, mended=False)
    found = Reconciled(pipeline="p", entry=1, variables=(variable,), group=None)
    golden("reconcile", shown(maintenance_commands._print_reconciled, found))


def test_errors_of_several_pipelines(capsys):
    """Each in one line on stderr; the others are shown."""
    results = [("a", LakeUnavailable(f"{LONG} is away")), ("b", {"pipeline": "b"})]
    code = render.print_each(results, lambda found: print(found["pipeline"]), as_json=False)
    assert (code, *capsys.readouterr()) == (4, "b\n", f"a: {LONG} is away\n")


def test_a_run_of_many_topics_and_commits(capsys, golden):
    """Twenty of each are listed; what was not staged, or is there by others, is said."""
    commits = [
        CommitReport(
            chunk=n, commit=n, rows=1, topics={f"t{n:02}": {0: Account(0, 1, 1, 0)}}, undecodable={}
        )
        for n in range(2, 24)
    ]
    report = IngestReport(
        pipeline="p", run="r", run_key="k", generation=1, plan_id="i", lane="live", rows=22,
        commits=tuple(commits), missing=(7,), covered_by={3: (8, 9)}, left_out=(),
    )  # fmt: skip
    how = {"lake": "file:///lake/p", "seconds": "12 s"}
    render.PRINTERS["ingest"].published(
        SimpleNamespace(report=report, new=True, earlier=0, gaps=()), **how
    )
    golden("run", capsys.readouterr())
    report = replace(report, missing=())
    render.PRINTERS["ingest"].published(
        SimpleNamespace(report=report, new=False, earlier=22, gaps=()), **how
    )
    golden("run", capsys.readouterr())
