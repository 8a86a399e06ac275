"""The JSON that commands print, key by key (contracts, format 1), written by hand."""

import json
import sys
from dataclasses import replace
from datetime import UTC, date, datetime
from urllib.parse import unquote

import pytest

from support.default_settings import SETTINGS
from support.example_documents import CLUSTER, COMMIT, FLIGHTS_ID, MANIFEST, PLAN
from support.handed_in import HERE
from support.kafka_answers import answer
from tidegate import flows, statuses
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.connections import Connection, parse_spark_connection
from tidegate.core.cluster_answers import Survey, TopicIdentity
from tidegate.core.cursor import Watermarks
from tidegate.core.entries import (
    Commit,
    Gap,
    Origin,
    Reference,
)
from tidegate.core.offsets import OffsetRange
from tidegate.errors import BrokerUnreachable, PlanDead
from tidegate.ingest import drafting, explain, status, topic_coverage
from tidegate.lake import plans
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import STORES, LocalStore
from tidegate.pipelines.spec import parse_spec
from tidegate.runs.run import Run, open_run


@pytest.fixture
def store(tmp_path):
    return LocalStore(tmp_path / "flights")


@pytest.fixture
def spec(tmp_path, store):
    """A pipeline with one commit of two partitions, a gap, and nothing placed yet."""
    path = "_tidegate/manifests/x.json"
    store.create(path, MANIFEST.encoded)
    book = Ledger(store, "flights")
    book.append(Origin("flights", FLIGHTS_ID, {0: 0, 11: 3}), run="a")
    book.append(Gap("flights", FLIGHTS_ID, 0, 10, 12, "expired", "a"), run="a")
    reference = Reference(path, MANIFEST.sha256)
    book.append(Commit(**{**vars(COMMIT), "manifest": reference}), run="a")
    form = {"name": "flights", "kind": "ingest", "topics": ["flights"], "lake": str(tmp_path)}
    return parse_spec(form)


@pytest.mark.parametrize("placed", [False, True])
def test_files_json(spec, store, tmp_path, placed):
    """Absolute URIs, the staged ones until all is placed; first and last inclusive."""
    data = f"file://{tmp_path}/flights/data"
    uris = [
        f"file://{tmp_path}/flights/_tidegate/staging/s/1.parquet",
        f"file://{tmp_path}/flights/_tidegate/staging/s/2.parquet",
    ]
    if placed:
        store.create("_tidegate/placed/00000000000000000003", b"")
        uris = [
            f"{data}/0.parquet",
            f"{data}/1.parquet",
        ]
    assert status.lake_files(spec, flows.store(spec)) == [
        {
            "uri": uris[0],
            "path": unquote(uris[0].removeprefix("file://")),
            "topic": "flights",
            "topic_id": FLIGHTS_ID,
            "cluster_id": CLUSTER,
            "parts": [{"partition": 0, "first": 0, "last": 9, "rows": 8}],
            "rows": 8,
            "bytes": 900,
            "plan_id": "0123456789abcdef",
            "commit": 3,
        },
        {
            "uri": uris[1],
            "path": unquote(uris[1].removeprefix("file://")),
            "topic": "flights",
            "topic_id": FLIGHTS_ID,
            "cluster_id": CLUSTER,
            "parts": [{"partition": 11, "first": 3, "last": 4, "rows": 2}],
            "rows": 2,
            "bytes": 700,
            "plan_id": "0123456789abcdef",
            "commit": 3,
        },
    ]


GAP_JSON = {
    "topic": "flights", "topic_id": FLIGHTS_ID, "partition": 0,
    "start": 10, "end": 12, "reason": "expired", "by": "a",
}  # fmt: skip
KAFKA = KafkaCluster("kafka_default", {"bootstrap.servers": "localhost:9092"})


UNFINISHED_JSON = {
    "plan_id": PLAN.id, "lane": "live", "run": "r", "at": "2024-05-01T10:00:00+00:00",
    "chunks": 2, "committed": 0, "sealed": 1, "refused": [],
}  # fmt: skip


def test_status_json(spec, store, monkeypatch):
    """Partition 12 is new: it has no origin yet, lags by all that it holds, and will begin at 0,
    which has expired. A transaction that has been open for years hides the last five offsets of
    partition 0, of which two have expired unread.
    """
    since = {("flights", 0): 1_714_557_600_000}
    answer(monkeypatch, open_since=lambda *_: since)
    marks = {0: Watermarks(14, 20, 25), 11: Watermarks(0, 5, 5), 12: Watermarks(1, 4, 4)}
    identities = {"flights": TopicIdentity(FLIGHTS_ID, dict.fromkeys(marks, 0))}
    seen = Survey(CLUSTER, identities, {"flights": marks})
    answer(monkeypatch, survey=lambda *_: seen)
    note = {"run": "r", "at": "2024-05-01T10:00:00+00:00"}
    plans.freeze_plan(store, "key", PLAN, 1, note=note)
    store.create(f"_tidegate/staging/{PLAN.id}/0/a/_done.json", b"")
    store.create(f"_tidegate/manifests/{PLAN.id}-0-a.json", b"{}")
    store.create(f"_tidegate/staging/{PLAN.id}/1/b/topic=flights/x.parquet", b"")
    form = statuses.status_of(spec, lambda _: KAFKA).to_json()
    assert form["last_entry"].pop("at") <= datetime.now(UTC).isoformat()
    assert json.loads(json.dumps(form)) == {
        "state": "losing",
        "reason": "flights-0: expired: [12, 14), 2 offsets, and 1 other",
        "fix": "`tidegate offsets set flights flights 0 14 --reason …` gives these up; "
        "`on_expired: skip` gives up all that expire, also later",
        "complete_through": None,
        "last_run": None,
        "format": 1,
        "pipeline": "flights",
        "topics": {
            "flights": {
                "topic_id": FLIGHTS_ID,
                "partitions": {
                    "0": {
                        "origin": 0,
                        "cursor": 12,
                        "log_start": 14,
                        "end": 20,
                        "high": 25,
                        "lag": 13,
                        "open_since": "2024-05-01T10:00:00+00:00",
                    },
                    "11": {
                        "origin": 3,
                        "cursor": 5,
                        "log_start": 0,
                        "end": 5,
                        "high": 5,
                        "lag": 0,
                        "open_since": None,
                    },
                    "12": {
                        "origin": None,
                        "cursor": None,
                        "log_start": 1,
                        "end": 4,
                        "high": 4,
                        "lag": 3,
                        "open_since": None,
                    },
                },
            }
        },
        "problems": [
            {
                "topic": "flights", "partition": 0, "reason": "expired", "start": 12, "end": 14,
                "offsets": 2,
                "fix": "`tidegate offsets set flights flights 0 14 --reason …` gives "
                "these up; `on_expired: skip` gives up all that expire, also later",
            },
            {
                "topic": "flights", "partition": 12, "reason": "expired", "start": 0, "end": 1,
                "offsets": 1,
                "fix": "`tidegate offsets set flights flights 12 1 --reason …` gives "
                "these up; `on_expired: skip` gives up all that expire, also later",
            },
            {
                "topic": "flights", "partition": 0, "reason": "open transaction", "offsets": 5,
                "fix": "no record behind it is read until it ends: `kafka-transactions.sh "
                "find-hanging`, then `abort`",
            },
        ],
        "commits": 1,
        "last_commit": 3,
        "last_entry": {"n": 3, "kind": "commit", "run": "a"},
        "gaps": [GAP_JSON],
        "undecodable": {},
        "open_claims": [],
        "unfinished": [UNFINISHED_JSON],
        "broker": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("now", "problem"),
    [
        (
            "another",
            {
                "reason": "the topic was recreated", "was": FLIGHTS_ID, "is": "another",
                "fix": "`tidegate offsets adopt flights flights --reason …`, or give the topic a "
                "new pipeline",
            },
        ),
        (
            None,
            {
                "reason": "no such topic", "was": FLIGHTS_ID,
                "fix": "if it exists, grant this user READ on it (its right to DESCRIBE it is "
                "gone); else create it again (`kafka-topics.sh --create --topic flights …`), or, "
                "if it is gone for good, take it out of `topics` or `assign`, or add it to "
                "`exclude`; its rows stay in the lake",
            },
        ),
    ],
)  # fmt: skip
def test_status_json_of_a_topic_that_is_not_what_it_was(spec, monkeypatch, now, problem):
    """The problem and its fix, with the topic's name; there are no watermarks of it."""
    identities = {"flights": TopicIdentity(now, {0: 0})} if now else {}
    seen = Survey(CLUSTER, identities, {topic: {0: Watermarks(0, 9, 9)} for topic in identities})
    answer(monkeypatch, survey=lambda *_: seen)
    form = status.read_ingest_status(spec, flows.store(spec), KAFKA).to_json()
    assert form["problems"] == [{"topic": "flights", "partition": None, **problem}]
    assert form["topics"]["flights"]["partitions"]["0"]["end"] is None


def test_coverage_json(spec, monkeypatch):
    """Every offset that anyone knows, once; why it was skipped, and when what is left expires."""
    marks = {0: Watermarks(0, 20, 25), 11: Watermarks(0, 5, 5)}
    identities = {"flights": TopicIdentity(FLIGHTS_ID, dict.fromkeys(marks, 0))}
    seen = Survey(CLUSTER, identities, {"flights": marks})
    answer(monkeypatch, survey=lambda *_: seen)
    asked = []

    def expiries(_, ranges, isolation):
        asked.extend(ranges)
        return {("flights", 0): 1_714_557_600_000}

    answer(monkeypatch, expiries=expiries)
    form = topic_coverage.read_coverage(spec, flows.store(spec), KAFKA).to_json()
    assert asked == [OffsetRange("flights", 0, 12, 20)]
    assert json.loads(json.dumps(form)) == {
        "format": 1,
        "pipeline": "flights",
        "topics": {
            "flights": {
                "topic_id": FLIGHTS_ID,
                "partitions": {
                    "0": {
                        "intervals": [
                            {"start": 0, "end": 10, "state": "covered", "lane": "live"},
                            {
                                "start": 10, "end": 12, "state": "skipped",
                                "reason": "expired", "by": "a",
                            },
                            {"start": 12, "end": 20, "state": "unseen"},
                        ],
                        "expires_at": "2024-05-01T10:00:00+00:00",
                    },
                    "11": {
                        "intervals": [
                            {"start": 0, "end": 3, "state": "before"},
                            {"start": 3, "end": 5, "state": "covered", "lane": "live"},
                        ],
                        "expires_at": None,
                    },
                },
            }
        },
        "broker": None,
    }  # fmt: skip


def test_explain_json(spec, monkeypatch):
    """Partition 0 goes on at its cursor, 11 has expired, 12 is new; nothing is written."""
    marks = {0: Watermarks(2, 20, 25), 11: Watermarks(9, 9, 9), 12: Watermarks(0, 4, 4)}
    identities = {"flights": TopicIdentity(FLIGHTS_ID, dict.fromkeys(marks, 0))}
    seen = Survey(CLUSTER, identities, {"flights": marks})
    answer(monkeypatch, survey=lambda *_: seen)
    expires = {("flights", 0): 1_714_557_600_000}
    answer(monkeypatch, expiries=lambda *_: expires)
    run = Run(
        spec,
        KAFKA,
        "tidegate__flights",
        "r",
        date(2024, 5, 1),
        max_records=8,
        **HERE,
    )
    before = run.store().objects("")
    form = explain.explain(open_run(run)).to_json()
    assert run.store().objects("") == before
    planned = drafting.plan_of(
        run, run.store(), run.ledger(run.store()).fold, seen,
        drafting.draft(run, run.store(), run.ledger(run.store()).fold, seen), "2024-05-01",
    )  # fmt: skip
    assert json.loads(json.dumps(form)) == {
        "format": 1,
        "pipeline": "flights",
        "kafka": {
            "connection": "kafka_default", "bootstrap_servers": "localhost:9092",
            "protocol": "PLAINTEXT", "login": None,
        },
        "lane": "live",
        "plan_id": planned.id,
        "window_date": "2024-05-01",
        "records": 12,
        "bytes": 1_920,  # 12 records of 160 bytes: the newest commit has 10 in 1,600
        "splits": 2,
        "files": 2,
        "chunks": [  # partition 0 expires, as far as is known, and goes first
            {"records": 8, "splits": 1, "files": 1},
            {"records": 4, "splits": 1, "files": 1},
        ],
        "done": None,
        "later": 0,
        "topics": {
            "flights": {
                "topic_id": FLIGHTS_ID,
                "partitions": {
                    "0": {
                        "ranges": [[12, 20]], "records": 8, "covered": [], "origin": 0,
                        "cursor": 12, "cursor_after": 20, "log_start": 2, "end": 20,
                        "expires_at": "2024-05-01T10:00:00+00:00",
                    },
                    "11": {
                        "ranges": [], "records": 0, "covered": [], "origin": 3, "cursor": 5,
                        "cursor_after": 5, "log_start": 9, "end": 9, "expires_at": None,
                    },
                    "12": {
                        "ranges": [[0, 4]], "records": 4, "covered": [], "origin": 0, "cursor": 0,
                        "cursor_after": 4, "log_start": 0, "end": 4, "expires_at": None,
                    },
                },
            }
        },
        "gaps": [],
        "left_out": [
            {
                "topic": "flights", "partition": 11, "reason": "expired", "start": 5, "end": 9,
                "offsets": 4,
                "fix": "`tidegate offsets set flights flights 11 9 --reason …` gives "
                "these up; `on_expired: skip` gives up all that expire, also later",
            }
        ],
        "settings": SETTINGS,
        "notices": [],
    }  # fmt: skip


def test_explain_shows_settings_with_their_origins(spec, store, monkeypatch):
    """Pipeline > connection > Tidegate > Spark and Kafka; the tasks are those of the options."""
    seen = Survey(CLUSTER, {}, {"flights": {0: Watermarks(2, 20, 25)}})
    answer(
        monkeypatch,
        survey=lambda *_: replace(seen, identities={"flights": TopicIdentity(FLIGHTS_ID, {0: 0})}),
    )
    answer(monkeypatch, expiries=lambda *_: {})
    options = {
        "KAFKA.max.poll.records": 5, "kafka.isolation.level": "read_committed",
        "includeHeaders": False, "minPartitions": 4, "fetch.message.max.bytes": 7,
        "kafka.group.id": "g",
    }  # fmt: skip
    form = json.loads(spec.model_dump_json(include={"name", "kind", "topics", "lake"}))
    conf = {"spark.executorEnv.APP_PIN": "hunter2"}
    given = parse_spec({**form, "options": options, "spark": {"conf": conf}})
    extra = {**KAFKA.extra, "request.timeout.ms": "9000", "group.id": "ignored"}
    kafka = KafkaCluster("kafka_default", extra)
    run = Run(given, kafka, "tidegate__flights", "r", date(2024, 5, 1), **HERE)
    form = explain.explain(open_run(run)).to_json()
    assert form["splits"] == 4
    assert form["settings"] == {
        **{name: each for name, each in SETTINGS.items() if name != "groupIdPrefix"},  # no effect
        "includeHeaders": {"value": "false", "origin": "pipeline"},
        "kafka.group.id": {"value": "g", "origin": "pipeline"},
        "kafka.isolation.level": {"value": "read_committed", "origin": "pipeline"},
        "kafka.max.partition.fetch.bytes": {"value": "7", "origin": "pipeline"},
        "kafka.max.poll.records": {"value": "5", "origin": "pipeline"},
        "kafka.request.timeout.ms": {"value": "9000", "origin": "connection"},
        "minPartitions": {"value": "4", "origin": "pipeline"},
        "spark.executorEnv.APP_PIN": {"value": None, "origin": "pipeline"},
    }
    assert [notice.split(": ")[1] for notice in form["notices"]] == [
        "kafka.isolation.level", "includeHeaders", "fetch.message.max.bytes", "kafka.group.id",
    ]  # fmt: skip


def test_explain_shows_what_the_spark_connection_has(spec, monkeypatch):
    """Below the pipeline's; a value that may be secret is null. Its notices are shown, too."""
    seen = Survey(CLUSTER, {"flights": TopicIdentity(FLIGHTS_ID, {0: 0})},
                  {"flights": {0: Watermarks(2, 20, 25)}})  # fmt: skip
    answer(monkeypatch, survey=lambda *_: seen)
    answer(monkeypatch, expiries=lambda *_: {})
    least = json.loads(spec.model_dump_json(include={"name", "kind", "topics", "lake"}))
    given = parse_spec({**least, "spark": {"conf": {"spark.executor.memory": "3g"}}})
    extra = {
        "queue": "root.etl",
        "conf": {"spark.cores.max": 4, "spark.executor.memory": "2g",
                 "spark.kafka.consumer.cache.timeout": "9s", "spark.log.level": "INFO"},
    }  # fmt: skip
    spark = parse_spark_connection(
        "spark_x", Connection("spark", "local[2]", extra=extra), given.spark.place
    )
    run = Run(
        given,
        KAFKA,
        "tidegate__flights",
        "r",
        date(2024, 5, 1),
        stores=STORES,
        engine=flows.engine(KAFKA),
    )
    form = flows.flow_of(given).explain(run, spark, lambda _: KAFKA).to_json()
    assert form["splits"] == 1  # known by the master
    assert form["settings"] == {
        **SETTINGS,
        "spark.cores.max": {"value": None, "origin": "connection"},
        "spark.executor.memory": {"value": "3g", "origin": "pipeline"},
        "spark.kafka.consumer.cache.timeout": {"value": "9s", "origin": "connection"},
        "spark.log.level": {"value": "INFO", "origin": "connection"},
    }
    (notice,) = form["notices"]
    assert notice.startswith("Spark connection 'spark_x': queue: it has no effect")


def test_status_json_without_a_broker(spec, monkeypatch):
    """What the ledger knows is told all the same, and why the rest is missing."""

    def unreachable(*_):
        raise BrokerUnreachable("no broker answered")

    answer(monkeypatch, survey=unreachable)
    form = status.read_ingest_status(spec, flows.store(spec), KAFKA).to_json()
    assert form["broker"] == "no broker answered"
    assert form["topics"]["flights"]["partitions"]["0"] == {
        "origin": 0, "cursor": 12, "log_start": None, "end": None, "high": None, "lag": None,
        "open_since": None,
    }  # fmt: skip


def test_error_json():
    """Name, kind, message and numbers; the kind decides the exit code."""
    dead = PlanDead("gone", chunk=3)
    assert dead.to_json() == {
        "name": "PlanDead", "kind": "terminal", "message": "gone", "numbers": {"chunk": 3},
    }  # fmt: skip
    assert (dead.exit_code, BrokerUnreachable("").exit_code) == (3, 4)
    assert BrokerUnreachable("").to_json()["kind"] == "transient"


def test_a_failing_command_prints_its_error(tmp_path, monkeypatch, capsys):
    """With --json, stdout is one document and nothing else; a wrong pipeline name exits with 2."""
    from tidegate.cli.main import run

    monkeypatch.setenv("TIDEGATE_PIPELINES", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["tidegate", "files", "nowhere", "--json"])
    with pytest.raises(SystemExit) as stopped:
        run()
    assert stopped.value.code == 2
    assert json.loads(capsys.readouterr().out) == {
        "format": 1,
        "error": {
            "name": "ConfigurationError",
            "kind": "terminal",
            "message": f"there is no pipeline 'nowhere' in {tmp_path}; there are: none",
            "numbers": {},
        },
    }
