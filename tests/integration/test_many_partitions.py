"""Time and bytes of planning, freezing, committing and folding 10,000 partitions."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from unittest import mock

import pytest

from support.handed_in import HERE
from support.ingest_steps import plan
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core import layout
from tidegate.core.cluster_answers import Survey, TopicIdentity
from tidegate.core.cursor import Watermarks
from tidegate.core.entries import Account
from tidegate.core.files import LakeFile, Part, final_name
from tidegate.lake import attempts, checkpoints, committing, placing
from tidegate.lake.attempts import Attempt, Manifest
from tidegate.lake.ledger import Appended, Ledger
from tidegate.lake.store import LocalStore
from tidegate.pipelines.spec import parse_spec
from tidegate.runs.run import Run

TOPICS, PARTITIONS, RECORDS = 100, 100, 1_000


@contextmanager
def timed(what: str, limit: float) -> Iterator[None]:
    started = time.monotonic()
    yield
    seconds = time.monotonic() - started
    print(f"{what:28} {seconds:6.2f} s")
    assert seconds < limit, what


@pytest.mark.slow
@pytest.mark.leaves("file", "offsets")
def test_what_10_000_partitions_cost(tmp_path: Path) -> None:
    """100 topics of 100 partitions, through plan, seal, commit, placing and folding, with a fake
    survey and small real files.
    """
    names = [f"t{i:02d}" for i in range(TOPICS)]
    form = {"name": "p", "kind": "ingest", "topics": names, "lake": str(tmp_path)}
    kafka = KafkaCluster("kafka_default", {"bootstrap.servers": "nowhere:1"})
    run = Run(parse_spec(form), kafka, "dag", "run", date(2024, 5, 1), **HERE)
    marks = dict.fromkeys(range(PARTITIONS), Watermarks(0, RECORDS, RECORDS))
    identities = {t: TopicIdentity(f"id-{t}", dict.fromkeys(marks, 0)) for t in names}
    seen = Survey("cluster", identities, dict.fromkeys(names, marks))
    with (
        mock.patch.object(KafkaCluster, "survey", autospec=True, return_value=seen),
        mock.patch.object(KafkaCluster, "expiries", autospec=True, return_value={}),
        mock.patch.object(KafkaCluster, "mean_size", autospec=True, return_value=100.0),
        timed("plan and freeze", 20),
    ):
        planned = plan(run).plan
    assert (len(planned.chunks[0]), len(planned.chunks)) == (10_000, 2)
    store = LocalStore(run.store().root)
    attempt = Attempt(planned.id, 0, "attempt")
    files = []
    for r in planned.chunks[0]:
        path = f"{attempt.directory}topic={r.topic}/{r.partition}.parquet"
        target = Path(store.native(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(b"x")
        parts = (Part(r.partition, r.start, r.end - 1, len(r)),)
        directories = planned.parquet.directories(planned.window_date, [])
        final = final_name(r.topic, directories, parts, planned.id)
        files.append(LakeFile(r.topic, parts, True, 1, "d" * 64, path, final))
    accounts: dict[str, dict[int, Account]] = {}
    for r in planned.chunks[0]:
        accounts.setdefault(r.topic, {})[r.partition] = Account(r.start, r.end, len(r), 0)
    seal = Manifest(attempt, tuple(files), 100, accounts, {}, {}, {})
    with timed("seal", 60):
        attempts.create_manifest(store, seal)
    with timed("open the ledger", 1):
        ledger = Ledger(store, "p")
    with timed("commit", 10):
        outcome = committing.commit(store, ledger, planned, seal, run="run")
    assert isinstance(outcome, Appended)
    with timed("place 10,000 files", 60):
        placing.finalise(store, ledger, outcome.n)
    with timed("fold all entries", 5):
        whole = Ledger(store, "p", whole=True).fold
    with timed("checkpoint", 5):
        size = checkpoints.write_checkpoint(store, "p", whole, unsettled=[])
    with timed("open from the checkpoint", 2):
        assert Ledger(store, "p").fold == whole
    assert sum(len(whole.cursors(t)) for t in names) == 10_000
    for what, path in {
        "plan": layout.plan(planned.id),
        "note": layout.note(planned.id),
        "entry": layout.entry(outcome.n),
        "manifest": layout.manifest(planned.id, 0, "attempt"),
    }.items():
        print(f"{what:28} {(store.size(path) or 0) / 1e6:6.2f} MB")
    print(f"{'checkpoint':28} {size / 1e6:6.2f} MB")
