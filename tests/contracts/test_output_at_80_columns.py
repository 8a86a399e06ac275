"""What commands print for people, exactly: the same on a terminal of 80 columns and in a pipe."""

from types import SimpleNamespace

import pytest

from support import printed
from tidegate.cli import maintenance, render, windows
from tidegate.errors import LakeUnavailable

TOPIC_ID = "0b2f7c5e-8d1c-4f6e-9a3b-5c7d9e1f2a4b"
EXPIRES = "2026-03-21T11:30:00+00:00"
LONG = "prod.eu-central-1.payments.transactions.captured.v2-with-a-long-name-of-80-columns"


pytestmark = pytest.mark.usefixtures("place")

STATUS = {
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
            "offsets": 50, "fix": "set `on_expired: skip` to record the gap and go on",
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
    "gaps": [{"topic": "flights", "partition": 0, "start": 0, "end": 1}],
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


def test_status(shown):
    """Numbers of thousands of millions fit; each problem has its fix."""
    text = shown(render.print_status, STATUS)
    assert (
        text
        == f"""\
flights: 1 live commit, the newest is #2
  last change: commit #2, 1h 55m ago, by scheduled__2026-03-14T10:00:00+00:00
  unfinished: backfill plan 9c9c939ba08dd0cc of run old-days
    of 1 chunk, 0 committed and 1 sealed
    not committed: t: column a INT is gone
  1 gap of 1 offset: tidegate offsets show flights
flights  {TOPIC_ID}
  partition  origin         cursor      log start            end        lag
          0       0  3,999,000,000  3,990,000,000  4,000,204,551  1,204,556
         11       0             40             90            120         80
refunds  not read yet
flights: 2,001 rows do not fit the schema: see _undecodable
  2,000  value: a: no INT
  1  value: no UTF-8
flights-0: 5 offsets behind a transaction that is open for 1h 2m
flights-11: expired: [40, 90), 50 offsets
  → set `on_expired: skip` to record the gap and go on
refunds: the topic was recreated (was a, is b)
  → `tidegate offsets adopt flights refunds --reason …`
"""
    )
    assert max(map(len, text.splitlines())) <= printed.WIDTH


def test_status_without_a_broker(shown):
    partition = {"origin": 0, "cursor": 5} | dict.fromkeys(
        ("log_start", "end", "high", "lag", "open_since")
    )
    state = STATUS | {
        "topics": {LONG: {"topic_id": TOPIC_ID, "partitions": {"0": partition}}},
        "problems": [], "gaps": [], "undecodable": {}, "unfinished": [], "commits": 0,
        "last_entry": None,
        "broker": "Kafka at b:9092 (kafka_default): no broker answered",
    }  # fmt: skip
    assert (
        shown(render.print_status, state)
        == f"""\
flights: 0 live commits
Kafka at b:9092 (kafka_default): no broker answered
{LONG}  {TOPIC_ID}
  partition  origin  cursor  log start  end  lag
          0       0       5          -    -    -
"""
    )


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


def test_coverage(shown):
    """A line for each partition, its intervals below; the first unseen one expires first."""
    assert (
        shown(windows._print_coverage, COVERAGE)
        == """\
flights
flights-0  _█████████████████████████████··········
  [0, 3)                  before the origin
  [3, 1,000,000)          covered by live
  [1,000,000, 1,000,012)  skipped: expired, by manual__2026-03-01T00:00:00__1a2b3c
  [1,000,012, 1,204,551)  unseen, expires in 6d 23h
  [1,204,551, 1,204,600)  covered by backfill
  [1,204,600, 1,300,000)  unseen
flights-1  empty
█ live  ▓ backfill  ▒ replay  x skipped  ! expired  · unseen  _ before
"""
    )


def test_coverage_without_a_broker(shown):
    """What the ledger knows; and what a replay, an operator and an expiry have left."""
    intervals = [
        {"start": 0, "end": 1, "state": "covered", "lane": "replay"},
        {"start": 1, "end": 2, "state": "skipped", "reason": "[b]poison[/b]", "by": "cli:ann"},
        {"start": 2, "end": 4, "state": "expired"},
    ]
    partitions = {"0": {"intervals": intervals, "expires_at": None}}
    away = "Kafka at b:9092 (kafka_default): no broker answered"
    document = COVERAGE | {"broker": away, "topics": {LONG: {"partitions": partitions}}}
    assert (
        shown(windows._print_coverage, document)
        == f"""\
flights
{away}
{LONG}-0  ▒▒▒▒▒▒▒▒▒▒xxxxxxxxxx!!!!!!!!!!!!!!!!!!!!
  [0, 1)  covered by replay
  [1, 2)  skipped: [b]poison[/b], by cli:ann
  [2, 4)  expired unread
█ live  ▓ backfill  ▒ replay  x skipped  ! expired  · unseen  _ before
"""
    )


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
    "gaps": [{"topic": "flights", "partition": 3, "start": 5, "end": 9, "reason": "expired"}],
    "left_out": [
        {
            "topic": "flights", "partition": 2, "reason": "expired", "start": 40, "end": 90,
            "offsets": 50, "fix": "set `on_expired: skip` to record the gap and go on",
        }
    ],
    "settings": {
        "kafka.fetch.min.bytes": {"value": "1000", "origin": "pipeline"},
        "kafka.isolation.level": {"value": "read_committed", "origin": "tidegate"},
    },
    "notices": ["options: includeHeaders: it has no effect: headers are always kept"],
}  # fmt: skip


def test_explain(shown):
    """Two tables for each topic: nine columns would not fit."""
    text = shown(render.PRINTERS["ingest"].explained, EXPLAINED)
    assert (
        text
        == """\
flights (live): 1,204,551 records in 1 chunk, about 190,318,000 bytes, 2 tasks, 1 file
from Kafka at localhost:9092 (kafka_default): PLAINTEXT, no login
left to later runs: 1 record
flights
  partition    records           from             to  first expires
          0  1,204,551  3,999,000,000  4,000,204,551  in 6d 23h
  partition         cursor           then      log start            end
          0  3,999,000,000  4,000,204,551  3,990,000,000  4,000,204,551
          2             40             40             90            120
settings of the pipeline
  kafka.fetch.min.bytes: 1000
Tidegate's own settings
  kafka.isolation.level: read_committed
note: options: includeHeaders: it has no effect: headers are always kept
gap: flights-3 [5, 9): expired
excluded: flights-2: expired: [40, 90), 50 offsets
  → set `on_expired: skip` to record the gap and go on
"""
    )


def test_files(shown):
    """One line for each URI, however long it is."""
    uri = f"file:///lake/data/topic={LONG}/window_date=2026-03-14/{LONG}-00000.parquet"
    files = [
        {"uri": uri, "commit": 3, "rows": 1, "bytes": 900},
        {"uri": "s3://b/x.parquet", "commit": 12, "rows": 1204, "bytes": 70_000},
    ]
    assert (
        shown(render.print_lake_files, files)
        == f"""\
  commit   rows   bytes  uri
      #3      1     900  {uri}
     #12  1,204  70,000  s3://b/x.parquet
"""
    )


def test_verify(shown):
    findings = {
        "commits": 1, "files": 1, "rows": 2, "against_kafka": {"rows": 2, "expired": 0},
        "differences": 3,
        "first": [{"what": "no page", "uri": f"file:///{LONG}", "commit": 7}, {"what": "odd"}],
    }  # fmt: skip
    assert (
        shown(render.print_findings, findings)
        == f"""\
1 live commit, 1 file, 2 rows; 2 compared with Kafka; 3 differences
  - no page: uri file:///{LONG}, commit 7
  - odd
  and 1 more difference
"""
    )


def test_doctor(shown):
    """The machine, then each pipeline; of a failure and a warning also the fix."""
    lines = [
        (None, "java", "ok", "Java 17", None), ("p", "disk", "warning", LONG, f"rm {LONG}"),
        ("p", "lake", "ok", "[b]", None), ("q", "file", "failure", "wrong", "correct it"),
    ]  # fmt: skip
    names = ("pipeline", "check", "state", "says", "fix")
    checks = [dict(zip(names, line, strict=True)) for line in lines]
    found = {"checks": checks, "warnings": 1, "failures": 1}
    assert (
        shown(maintenance._print_doctor, found)
        == f"""\
this machine
  ok       java: Java 17
p
  warning  disk: {LONG}
           → rm {LONG}
  ok       lake: [b]
q
  failure  file: wrong
           → correct it
1 failure, 1 warning
"""
    )


def test_reconcile(shown):
    variable = {"name": f"tidegate__p__{LONG}", "state": "ahead", "mended": False}
    found = {"pipeline": "p", "variables": [variable], "group": None}
    assert (
        shown(maintenance._print_reconciled, found)
        == f"""\
p
  Variable tidegate__p__{LONG}: ahead: left alone
"""
    )


def test_errors_of_several_pipelines(capsys):
    """Each in one line on stderr; the others are shown."""
    results = [("a", LakeUnavailable(f"{LONG} is away")), ("b", {"pipeline": "b"})]
    code = render.print_each(results, lambda found: print(found["pipeline"]), as_json=False)
    assert (code, *capsys.readouterr()) == (4, "b\n", f"a: {LONG} is away\n")


def test_a_run_of_many_topics_and_commits(capsys):
    """Twenty of each are listed; what was not staged, or is there by others, is said."""
    commits = [
        {"commit": n, "rows": 1, "topics": {f"t{n:02}": {"0": {"rows": 1}}}, "undecodable": {}}
        for n in range(2, 24)
    ]
    report = {
        "pipeline": "p", "rows": 22, "commits": commits, "missing": [7],
        "covered_by": {"3": [8, 9]},
    }  # fmt: skip
    how = {"lake": "file:///lake/p", "seconds": "12 s"}
    topics = ", ".join(f"t{n:02} 1" for n in range(2, 22))
    last = f"({topics} and 2 more topics); lake: file:///lake/p; next: tidegate status p\n"
    by_others = "chunk 3: already in the lake, by #8, #9\n"
    listed = "".join(f"commit #{n}: 1 row\n" for n in range(2, 22))
    render.PRINTERS["ingest"].published(
        SimpleNamespace(report=report, new=True, earlier=0, gaps=()), **how
    )
    assert capsys.readouterr() == (
        f"{listed}and 2 more commits, the last is #23\n{by_others}22 rows in 12 s {last}",
        "not in the lake: 1 chunk\n",
    )
    report["missing"] = []
    render.PRINTERS["ingest"].published(
        SimpleNamespace(report=report, new=False, earlier=22, gaps=()), **how
    )
    assert capsys.readouterr() == (f"{by_others}already done as #2 to #23: 22 rows {last}", "")
