"""The formats that others depend on, byte for byte (contracts, format 1), written by hand."""

import json
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path

import pytest

from support.example_documents import CLUSTER, COMMIT, FILES, FLIGHTS_ID, MANIFEST, PLAN, PLAN_SHA
from support.handed_in import HERE
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core import canonical, layout
from tidegate.core.boundaries import Boundary, clamp_boundary
from tidegate.core.entries import (
    Abandon,
    Claim,
    Commit,
    Gap,
    Origin,
    Receipt,
    Release,
)
from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import LeftOutFile, Plan, SourceFile, TargetTopic
from tidegate.core.replacement import Replaced
from tidegate.core.requests import Backfill, Replay
from tidegate.lake import (
    attempts,
    boundary_files,
    create_check,
    deliveries,
    ledger,
    plans,
)
from tidegate.lake.attempts import Manifest
from tidegate.lake.deliveries import Delivery, SentFile
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import LocalStore
from tidegate.pipelines.spec import parse_spec
from tidegate.runs.run import Run, replay_key

PLAN_BYTES = (
    b'{"bytes":{"compression":"zstd","level":1,"max_records_per_file":1000},'
    b'"chunks":[{"a.b":{"0":[0,5],"10":[1,3]},"flights":{"2":[7,9]}},{"flights":{"2":[9,12]}}],'
    b'"cluster_id":"MkU3OEVBNTcwNTJENDM2Qg","destination":"file:///lake/flights","format":2,'
    b'"isolation":"read_committed","kind":"ingest","lane":"live",'
    b'"left_out":[{"end":40,"partition":3,"reason":"expired","start":10,"topic":"flights"},'
    b'{"partition":null,"reason":"no such topic","topic":"gone"}],'
    b'"pipeline":"flights","replay":null,'
    b'"topics":{"a.b":"6f1c2f6e-0000-4000-8000-000000000001",'
    b'"flights":"6f1c2f6e-0000-4000-8000-000000000002"},"window_date":"2024-05-01"}'
)


@pytest.fixture
def store(tmp_path):
    return LocalStore(tmp_path / "flights")


def test_plan():
    """Its bytes, and the id that is the beginning of their SHA-256 (here: by sha256sum)."""
    assert PLAN.encoded == PLAN_BYTES
    assert PLAN.sha256 == PLAN_SHA
    assert PLAN.id == PLAN_SHA[:16]
    assert Plan.from_json(json.loads(PLAN_BYTES)) == PLAN


def test_egress_plan():
    """Files in the place of a window, and a target; and it reads back."""
    plan = Plan(
        pipeline="out",
        kind="egress",
        lane="live",
        window_date="2024-05-01",
        cluster_id=CLUSTER,
        isolation="read_uncommitted",
        topics={},
        chunks=(),
        destination="kafka",
        byte_settings={"columns": {"value": "value"}},
        left_out=(LeftOutFile("b.parquet", "not a whole Parquet file"),),
        files=(SourceFile("a.parquet", 12, "e1", 3), SourceFile("c.csv.gz", 5, "e2")),
        target={"copy": TargetTopic(FLIGHTS_ID, 4)},
    )
    assert plan.encoded == (
        b'{"bytes":{"columns":{"value":"value"}},"chunks":[{"files":['
        b'{"etag":"e1","name":"a.parquet","rows":3,"size":12},'
        b'{"etag":"e2","name":"c.csv.gz","rows":null,"size":5}]}],'
        b'"cluster_id":"MkU3OEVBNTcwNTJENDM2Qg","destination":"kafka","format":2,'
        b'"isolation":"read_uncommitted","kind":"egress","lane":"live",'
        b'"left_out":[{"file":"b.parquet","reason":"not a whole Parquet file"}],'
        b'"pipeline":"out","replay":null,'
        b'"target":{"copy":{"partitions":4,'
        b'"topic_id":"6f1c2f6e-0000-4000-8000-000000000002"}},'
        b'"topics":{},"window_date":"2024-05-01"}'
    )
    assert Plan.from_json(json.loads(plan.encoded)) == plan


@pytest.mark.parametrize(
    ("where", "told"), [(None, b""), ("key is null", b',"where":"key is null"')]
)
def test_replay(where, told):
    """What was asked for, with a filter only if there is one: older plans keep their bytes."""
    asked = Replay("flights", "x", (0, 3), "10", '{"flights": {"0": 20, "3": 30}}', where)
    replay = {"id": asked.id, "asked": asked.to_json(), "replaces": []}
    plan = replace(PLAN, kind="egress", lane="replay", chunks=PLAN.chunks[1:], replay=replay)
    assert (
        b'"replay":{"asked":{"end":"{\\"flights\\": {\\"0\\": 20, \\"3\\": 30}}",'
        b'"partitions":[0,3],"start":"10","topic":"flights"' + told + b'},"id":"x","replaces":[]}'
    ) in plan.encoded
    assert Plan.from_json(json.loads(plan.encoded)) == plan
    assert plan.where == where


def test_run_key():
    """SHA-256 of the canonical [dag_id, run_id, work] (here: by sha256sum)."""
    key = "701f9912e183129a69efb2e9f31ab49eb5806651e63dad98314fb26c76e8ab42"
    assert layout.run_key("tidegate__flights", "manual__1") == key
    # A replay's, whoever asks, and of either kind of pipeline.
    assert replay_key(Replay("any", "x")) == (
        "4e809666e25662db3dc2ad986d6016248edf676a52b50251a93a2da040df9c3c"
    )
    assert layout.run_key("tidegate__flights", "manual__1", "replay 7") == (
        "4eb7f0fb26825dae1f8ceebed267aff2ca35f6019d6e058b47f5f68b76674e48"
    )
    run = Run(
        parse_spec({"name": "flights", "kind": "ingest", "topics": ["flights"], "lake": "/lake"}),
        KafkaCluster("kafka_default", {"bootstrap.servers": "localhost:9092"}),
        "tidegate__flights",
        "manual__1",
        date(2024, 5, 1),
        **HERE,
    )
    assert run.key == key


def test_frozen_run(store):
    """Plan, pointer, note and marker, under their names."""
    plans.freeze_plan(store, "key", PLAN, 1, note={"format": 2, "at": "2024-05-01T10:00:00+00:00"})
    found = {each.path: store.get(each.path) for each in store.objects("")}
    assert found == {
        f"_tidegate/plans/{PLAN_SHA[:16]}.json": PLAN_BYTES,
        f"_tidegate/plans/{PLAN_SHA[:16]}.note.json": (
            b'{"at":"2024-05-01T10:00:00+00:00","format":2}'
        ),
        "_tidegate/runs/key/1.json": b'{"format":2,"plan_id":"%s"}' % PLAN_SHA[:16].encode(),
        f"_tidegate/unfinished/{PLAN_SHA[:16]}": b"",
    }


def test_boundary(store):
    """Where a moment cuts a topic, under the topic's id and the moment."""
    made = Boundary("flights", FLIGHTS_ID, 1_773_446_400_000, {0: 120, 11: 95})
    assert boundary_files.freeze_boundary(store, made)
    name = f"_tidegate/boundaries/{FLIGHTS_ID}/001773446400000.json"
    assert store.get(name) == (
        b'{"format":2,"partitions":{"0":120,"11":95},"timestamp":1773446400000,'
        b'"topic":"flights","topic_id":"6f1c2f6e-0000-4000-8000-000000000002"}'
    )
    assert boundary_files.neighbouring_boundaries(store, FLIGHTS_ID, made.moment).frozen == made
    earlier = boundary_files.neighbouring_boundaries(store, FLIGHTS_ID, made.moment - 1)
    assert (earlier.frozen, earlier.below, earlier.above) == (None, None, made)
    assert clamp_boundary({0: 121, 12: 4}, earlier.below, earlier.above) == {0: 120, 12: 0}
    assert not boundary_files.freeze_boundary(store, replace(made, offsets={0: 1}))


def test_unsafe_store(store, monkeypatch):
    """What the doctor writes down where rivals have both won."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2024, 5, 1, 10, tzinfo=tz)

    monkeypatch.setattr(create_check, "datetime", Clock)
    create_check.record_unsafe_store(store, create_check.Outcome(rounds=3, winners=2))
    assert store.get("_tidegate/log/unsafe-store") == (
        b'{"at":"2024-05-01T10:00:00+00:00","format":2,"rivals":8,"round":3,"winners":2}'
    )


def test_the_work_of_a_backfill():
    """Another window under the same run id is other work."""
    asked = Backfill("flights", (0, 3), "5", "9", chunk_size=10)
    assert asked.work == (
        '{"backfill":{"chunk_size":10,"end":"9","fill_gaps":false,'
        '"partitions":[0,3],"start":"5","topic":"flights"}}'
    )


@pytest.mark.parametrize(
    ("entry", "data"),
    [
        (
            Origin("flights", FLIGHTS_ID, {0: 0, 11: 3}),
            '{"at":"2024-05-01T10:00:00+00:00","format":2,"kind":"origin","n":1,'
            '"partitions":{"0":0,"11":3},"pipeline":"flights","previous":"","run":"manual__1",'
            '"topic":"flights","topic_id":"6f1c2f6e-0000-4000-8000-000000000002",'
            '"writer":"0011223344556677"}',
        ),
        (
            COMMIT,
            '{"at":"2024-05-01T10:00:00+00:00","attempt":"feedfeedfeedfeed","chunk":1,'
            '"cluster_id":"MkU3OEVBNTcwNTJENDM2Qg","format":2,"kind":"commit","lane":"live",'
            '"manifest":{"path":"_tidegate/manifests/x.json","sha256":"' + "ab" * 32 + '"},"n":1,'
            '"pipeline":"flights",'
            '"plan":{"id":"0123456789abcdef","sha256":"' + "0123456789abcdef" * 4 + '"},'
            '"previous":"","receipts":[],"replaces":[],"run":"manual__1",'
            '"topics":{"flights":{"ranges":{"0":[0,10,8,2],"11":[3,5,2,0]},'
            '"topic_id":"6f1c2f6e-0000-4000-8000-000000000002"}},"writer":"0011223344556677"}',
        ),
        (
            Gap("flights", FLIGHTS_ID, 2, 5, 9, "expired", "manual__1"),
            '{"at":"2024-05-01T10:00:00+00:00","by":"manual__1","end":9,"format":2,"kind":"gap",'
            '"n":1,"partition":2,"pipeline":"flights","previous":"","reason":"expired",'
            '"run":"manual__1","start":5,"topic":"flights",'
            '"topic_id":"6f1c2f6e-0000-4000-8000-000000000002","writer":"0011223344556677"}',
        ),
        (
            Abandon("0123456789abcdef", 1, "feedfeedfeedfeed"),
            '{"at":"2024-05-01T10:00:00+00:00","attempt":"feedfeedfeedfeed","chunk":1,"format":2,'
            '"kind":"abandon","n":1,"pipeline":"flights","plan":"0123456789abcdef",'
            '"previous":"","run":"manual__1","writer":"0011223344556677"}',
        ),
        (
            Claim(
                lane="live",
                plan_id="0123456789abcdef",
                attempt="feedfeedfeedfeed",
                sender={"host": "a", "pid": 7},
                files=(SourceFile("a.csv", 5, "e1"),),
                topic_ids={"flights": FLIGHTS_ID},
                window=(OffsetRange("flights", 2, 7, 9),),
                target={"copy": {0: 4, 11: 0}},
                spark="4.0",
                root="file:///in",
            ),
            '{"at":"2024-05-01T10:00:00+00:00","attempt":"feedfeedfeedfeed",'
            '"files":[{"etag":"e1","name":"a.csv","rows":null,"size":5}],'
            '"format":2,"kind":"claim","lane":"live","n":1,"pipeline":"flights",'
            '"plan":"0123456789abcdef","previous":"","root":"file:///in","run":"manual__1",'
            '"sender":{"host":"a","pid":7},"spark":"4.0","supersedes":null,'
            '"target":{"copy":{"0":4,"11":0}},'
            '"topics":{"flights":{"ranges":{"2":[7,9]},'
            '"topic_id":"6f1c2f6e-0000-4000-8000-000000000002"}},"writer":"0011223344556677"}',
        ),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_ledger_entry(store, monkeypatch, entry, data):
    """Each kind's bytes, under its number; and they read back as the same entry."""

    class Clock:
        @staticmethod
        def now(zone):
            return datetime(2024, 5, 1, 10, 0, 0, 123456, tzinfo=zone)

    monkeypatch.setattr(ledger, "datetime", Clock)
    monkeypatch.setattr(ledger.secrets, "token_hex", lambda _: "0011223344556677")
    Ledger(store, "flights").append(entry, run="manual__1")
    assert store.get("_tidegate/log/00000000000000000001.json") == data.encode()
    assert type(entry).from_json(json.loads(data)) == entry


def test_release_and_receipts():
    """A release, and what a commit of egress has beside that of an ingest."""
    release = Release("0123456789abcdef", "feedfeedfeedfeed", "resend", "asked for")
    form = {
        "plan": "0123456789abcdef", "attempt": "feedfeedfeedfeed", "how": "resend",
        "reason": "asked for", "refused": [],
    }  # fmt: skip
    assert release.to_json() == form
    assert Release.from_json(form) == release
    with pytest.raises(ValueError):
        Release.from_json({**form, "how": "somehow"})
    bad = (LeftOutFile("a.csv", "row 1: no value"),)
    form |= {"refused": [{"file": "a.csv", "reason": "row 1: no value"}], "judged_by": "feed"}
    assert replace(release, refused=bad, judged_by="feed").to_json() == form
    assert Release.from_json(form).refused == bad
    receipt = Receipt("copy", FLIGHTS_ID, 3, before=10, after=15, sent=4, duplicates=1)
    columns = (("id", "int64"), ("name", "string"))
    commit = Commit(**{**vars(COMMIT), "receipts": (receipt,), "columns": columns})
    assert commit.to_json()["columns"] == [["id", "int64"], ["name", "string"]]
    assert commit.to_json()["receipts"] == [
        {
            "topic": "copy", "topic_id": FLIGHTS_ID, "partition": 3,
            "before": 10, "after": 15, "sent": 4, "duplicates": 1,
        }
    ]  # fmt: skip
    assert Commit.from_json(commit.to_json()) == commit


def test_what_a_commit_replaces():
    """Parts of earlier commits, by commit, topic and partition; a re-ingest's plan names files."""
    entry = replace(
        COMMIT,
        replaces=(
            Replaced(2, OffsetRange("flights", 0, 4, 6)),
            Replaced(3, OffsetRange("flights", 0, 0, 4)),
            Replaced(3, OffsetRange("flights", 0, 6, 10)),
            Replaced(3, OffsetRange("flights", 11, 3, 5)),
        ),
    )
    form = entry.to_json()
    assert form["replaces"] == [
        {"commit": 2, "ranges": {"flights": {"0": [[4, 6]]}}},
        {"commit": 3, "ranges": {"flights": {"0": [[0, 4], [6, 10]], "11": [[3, 5]]}}},
    ]
    assert Commit.from_json(form) == entry
    replay = {"id": "x", "asked": {}, "replaces": [form["replaces"], []]}
    assert replace(PLAN, replay=replay).replaces(0) == entry.replaces
    assert replace(PLAN, replay=replay).replaces(1) == ()


def test_the_next_entry_names_the_one_before(store):
    """By the SHA-256 of its bytes."""
    first = Ledger(store, "flights")
    first.append(Origin("flights", FLIGHTS_ID, {0: 0}), run="a")
    first.append(Origin("other", "id", {0: 0}), run="a")
    one, two = (store.get(f"_tidegate/log/{n:020d}.json") for n in (1, 2))
    assert json.loads(two)["previous"] == canonical.digest(one)


MANIFEST_JSON = {
    "format": 2,
    "plan_id": "0123456789abcdef",
    "chunk": 1,
    "attempt": "feedfeedfeedfeed",
    "files": [
        {
            "path": "_tidegate/staging/s/1.parquet", "size": 900, "digest": "d1" * 32,
            "topic": "flights", "parts": [[0, 0, 9, 8]], "ascending": True,
            "final": "data/0.parquet",
        },
        {
            "path": "_tidegate/staging/s/2.parquet", "size": 700, "digest": "d2" * 32,
            "topic": "flights", "parts": [[11, 3, 4, 2]], "ascending": False,
            "final": "data/1.parquet",
        },
    ],
    "largest": 1234,
    "partitions": {
        "flights": {
            "0": {
                "start": 0, "end": 10, "rows": 8, "invisible": 2,
                "holes": 2, "probed": 1, "unprovable": 1,
            },
            "11": {
                "start": 3, "end": 5, "rows": 2, "invisible": 0,
                "holes": 0, "probed": 0, "unprovable": 0,
            },
        }
    },
    "seen": {
        "topic_ids": {"flights": FLIGHTS_ID},
        "log_starts": {"flights": {"0": 0, "11": 3}},
        "epochs": {"flights": {"0": 0, "11": 0}},
    },
    "versions": {"spark": "4.1.2", "connector": "4.1.2", "tidegate": "0.2.0"},
}  # fmt: skip


def test_manifest(store):
    """Under its name, once the attempt's files are durable, and it reads back."""
    assert MANIFEST.to_json() == MANIFEST_JSON
    read_back = Manifest.from_json(json.loads(json.dumps(MANIFEST_JSON)))
    assert (read_back.files, read_back.accounts) == (MANIFEST.files, MANIFEST.accounts)
    assert read_back.encoded == canonical.encode(MANIFEST_JSON)
    for f in FILES:
        path = Path(store.native(f.path))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    attempts.create_manifest(store, MANIFEST)
    where = "_tidegate/manifests/0123456789abcdef-1-feedfeedfeedfeed.json"
    assert store.get(where) == canonical.encode(MANIFEST_JSON)


def test_delivery(store):
    """The manifest of an egress; `types` only where there are any."""
    file = SentFile("a", 2, 1, "00ff", 12, "e1", "ab")
    sent = Delivery(PLAN.id, "0a", (file,), (), (), "counts", {"spark": "4"})
    start = (
        b'{"attempt":"0a","broken_order":[],"chunk":0,"files":[{"bad":1,"digest":"00ff",'
        b'"etag":"e1","file":"a","rows":2,"sha256":"ab","size":12}],"format":2,'
        b'"plan_id":"%s","proof":"counts","receipts":[],' % PLAN.id.encode()
    )
    end = b'"versions":{"spark":"4"}}'
    assert sent.encoded == start + end
    assert Delivery.from_json(sent.to_json()) == sent
    deliveries.create_delivery(store, sent)
    assert store.get(f"_tidegate/manifests/{PLAN.id}-0-0a.json") == sent.encoded
