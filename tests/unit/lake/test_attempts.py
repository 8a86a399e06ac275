"""The check of an attempt, over real Parquet files in the job's layout, and its manifest."""

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support import staged_attempts
from support.kafka_answers import answer
from support.staged_attempts import check, plan_of, stage, write_file
from tidegate.broker.cluster import Watermarks
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core import canonical
from tidegate.core.cluster_answers import Survey, TopicIdentity
from tidegate.core.entries import Abandon, Account
from tidegate.core.fold import Fold
from tidegate.core.offsets import OffsetRange
from tidegate.errors import AttemptWrong, LakeDamaged, LakeUnavailable, RowsMissing
from tidegate.ingest import sealing
from tidegate.lake import attempts
from tidegate.lake.attempts import HoleProof
from tidegate.lake.plan_work import gather_work
from tidegate.lake.store import LocalStore
from tidegate.runs.run import OpenRun

HEADER = [("key", pa.string()), ("value", pa.binary())]
PLAN = plan_of((OffsetRange("t", 0, 10, 20), OffsetRange("t", 1, 0, 5)))


@pytest.fixture
def store(tmp_path):
    return LocalStore(tmp_path / "p")


def all_empty(holes):
    return dict.fromkeys(holes, "empty")


def test_files_are_durable_before_they_are_sealed(store, monkeypatch):
    """Each file and its directories are fsynced, then the manifest gets its name: after a power
    loss there is no manifest without its rows.
    """
    proven = check(store, PLAN, stage(store, PLAN))
    done, fsync, link = [], os.fsync, os.link

    def name(descriptor):
        return Path(f"/proc/self/fd/{descriptor}").readlink().name

    monkeypatch.setattr(os, "fsync", lambda fd: (done.append(name(fd)), fsync(fd))[1])
    monkeypatch.setattr(
        os, "link", lambda a, b, **how: (done.append(f"link {Path(b).name}"), link(a, b, **how))[1]
    )
    attempts.create_manifest(store, proven)
    name_of_it = Path(proven.attempt.manifest_path).name
    before = done[: done.index(f"link {name_of_it}")]
    files = {Path(f.path).name for f in proven.files}
    assert files | {"topic=t", "attempt", "0", PLAN.id, "staging", "_tidegate", "p"} <= set(before)
    assert done[-2:] == [f"link {name_of_it}", "manifests"]


def test_a_whole_attempt_gets_a_manifest(store):
    """Rows and offsets per partition; the manifest is created once and reads back."""
    attempt = stage(
        store, PLAN, files={("t", 0): [range(10, 14), range(14, 20)], ("t", 1): [range(5)]}
    )
    proven = check(store, PLAN, attempt)
    assert proven.accounts == {"t": {0: Account(10, 20, 10, 0), 1: Account(0, 5, 5, 0)}}
    assert [(f.topic, f.parts, f.ascending) for f in proven.files] == [
        ("t", ((0, 10, 13, 4),), True),
        ("t", ((0, 14, 19, 6),), True),
        ("t", ((1, 0, 4, 5),), True),
    ]
    assert proven.largest == 9
    assert not gather_work(store, PLAN, Fold()).sealed
    assert attempts.create_manifest(store, proven)
    read_back = gather_work(store, PLAN, Fold()).sealed[0]
    assert (read_back.files, read_back.accounts) == (proven.files, proven.accounts)
    assert canonical.digest(store.get(attempt.manifest_path)) == proven.sha256


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        # What spark.sql.parquet.writeLegacyFormat makes of headers.
        ({"headers": pa.list_(pa.field("array", pa.struct(HEADER)))}, "headers.list.array.key"),
        ({"timestamp": pa.timestamp("ms", tz="UTC")}, "column timestamp is timestamp[ms, tz=UTC]"),
        ({"timestamp": pa.timestamp("us")}, "column timestamp is timestamp[us]"),
        ({"value": pa.string()}, "column value is string"),
        ({"topic": pa.string()}, "columns topic"),
        ({"key": None}, "columns key"),
    ],
)
def test_other_columns_than_the_contracts_are_refused(store, wrong, named):
    """Whatever setting of Spark has changed them: a reader of the lake may not find two kinds."""
    attempt = stage(store, PLAN)
    file = min(Path(store.native(attempt.directory)).rglob("*.parquet"))
    fields = {field.name: field.type for field in staged_attempts.SCHEMA} | wrong
    schema = pa.schema([(name, kind) for name, kind in fields.items() if kind is not None])
    rows = pq.read_table(file).to_pylist()
    for row in rows:
        row["value"] = "text" if "value" in wrong else row["value"]
    table = pa.Table.from_pylist(rows, schema)
    pq.write_table(
        table, file, compression="zstd", use_compliant_nested_type="headers" not in wrong
    )
    with pytest.raises(AttemptWrong, match=re.escape(named)) as refused:
        check(store, PLAN, attempt)
    assert "spark.conf" in str(refused.value)


def test_the_first_manifest_stands(store):
    """Created once: what comes later cannot say otherwise of the same files."""
    attempt = stage(store, PLAN)
    assert attempts.create_manifest(store, check(store, PLAN, attempt))
    other = check(store, PLAN, attempt, versions={"tidegate": "another"})
    assert not attempts.create_manifest(store, other)
    assert gather_work(store, PLAN, Fold()).sealed[0].versions == {"tidegate": "test"}


class Unsure(LocalStore):
    """The put of a manifest lands, and its answer is lost."""

    def create(self, path, data):
        created = super().create(path, data)
        if created and path.startswith("_tidegate/manifests/"):
            raise LakeUnavailable("timed out")
        return created


def test_a_manifest_that_landed_unnoticed_is_kept(tmp_path, monkeypatch):
    """Log starts may have moved until the next look: its bytes differ, and its files stay."""
    store = Unsure(tmp_path / "p")
    attempt = stage(store, PLAN)
    starts = itertools.count()

    def seen(*_):
        watermarks = {"t": {p: Watermarks(next(starts), 99, 99) for p in (0, 1)}}
        return Survey("cluster", {"t": TopicIdentity("id-t", {})}, watermarks)

    answer(monkeypatch, survey=seen)
    outcomes = sealing.Outcomes()
    kafka = KafkaCluster("k", {"bootstrap.servers": "nowhere:1"})
    opened = OpenRun(SimpleNamespace(kafka=kafka), store, None)
    sealing.seal(opened, PLAN, [attempt], {}, outcomes)
    assert isinstance(outcomes.unknown[attempt], LakeUnavailable)
    sealing.delete_unfinished_attempt(opened, attempt)
    assert list(gather_work(store, PLAN, Fold()).sealed) == [0]
    sealing.seal(opened, PLAN, [attempt], {}, outcomes)
    assert outcomes == sealing.Outcomes(sealed=[0])


def test_what_is_not_finished_is_not_staged(store):
    """Files without `_done.json`, as a killed driver leaves them, are no attempt."""
    attempt = stage(store, PLAN)
    store.delete(attempt.directory + "_done.json")
    assert attempts.read_done(store, attempt) is None


@pytest.mark.parametrize("left", [0, 4, 11, 200])
def test_a_truncated_file_is_no_file(store, left):
    """At any length, cut in the footer or before."""
    attempt = stage(store, PLAN)
    path = next(Path(store.native(attempt.directory)).glob("topic=t/*-0.*"))
    os.truncate(path, left)
    with pytest.raises(AttemptWrong, match="not a whole Parquet file"):
        check(store, PLAN, attempt)


def test_a_missing_file_is_missed(store):
    """Spark counted 15 rows: the 10 that are listed are not all."""
    attempt = stage(store, PLAN)
    next(Path(store.native(attempt.directory)).glob("topic=t/part-00001-*")).unlink()
    with pytest.raises(AttemptWrong, match="Spark counted 15 rows, the files hold 10"):
        check(store, PLAN, attempt, probe=all_empty)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({("t", 0): [range(10, 21)]}, r"offsets 10 to 20 are outside t-0 \[10, 20\)"),
        ({("t", 0): [range(9, 20)]}, r"offsets 9 to 19 are outside t-0 \[10, 20\)"),
        ({("t", 0): [range(10, 16), range(15, 20)]}, "offset 15 of t-0 is in another file, too"),
        ({("t", 0): [[*range(10, 20), 12]]}, "offset 12 of partition 0 occurs twice"),
        ({("t", 0): [[10, 11, 11, 15]]}, "offset 11 of partition 0 occurs twice"),
        ({("t", 7): [range(3)]}, "t-7 is not in the plan"),
        ({("u", 0): [range(10, 20)]}, "u-0 is not in the plan"),
    ],
)
def test_rows_that_are_not_the_plans_are_refused(store, files, message):
    """Outside the window, doubled within a file or between two, of a strange partition or topic."""
    attempt = stage(store, PLAN, files=files)
    with pytest.raises(AttemptWrong, match=message):
        check(store, PLAN, attempt, probe=all_empty)


def test_what_a_committer_left_is_no_data(store):
    """A killed magic job leaves a tree of its own below the topic: neither rows nor broken."""
    attempt = staged_attempts.stage(store, PLAN)
    below = "topic=t/__magic_job-1/tasks/attempt_1/__base"
    staged_attempts.write_file(
        store, attempt.directory, f"{below}/part-00000-0.parquet", 0, range(10)
    )
    Path(store.native(attempt.directory), below, "part-00001-0.parquet").touch()
    manifest = staged_attempts.check(store, PLAN, attempt)
    assert not any("__magic" in f.path for f in manifest.files)


def test_a_file_without_rows_is_no_part_of_the_attempt(store):
    """Spark writes one if its first task has no rows."""
    attempt = staged_attempts.stage(store, PLAN)
    empty = write_file(store, attempt.directory, "topic=t/part-00000-0.parquet", 0, [])
    manifest = staged_attempts.check(store, PLAN, attempt)
    names = [f.path.rsplit("/", 1)[1] for f in manifest.files]
    assert names
    assert empty.name not in names


def test_a_file_of_several_partitions_has_several_parts(store):
    """Short ranges share a file; whether it is in order is known."""
    attempt = stage(store, PLAN, files={}, rows=15)
    directory = attempt.directory + "topic=t/"
    write_file(store, directory, "one.parquet", [1] * 3 + [0] * 4, [0, 1, 2, *range(10, 14)])
    write_file(store, directory, "two.parquet", [0] * 6 + [1] * 2, [*range(19, 13, -1), 3, 4])
    proven = check(store, PLAN, attempt)
    assert [(f.parts, f.ascending) for f in proven.files] == [
        (((0, 10, 13, 4), (1, 0, 2, 3)), True),
        (((0, 14, 19, 6), (1, 3, 4, 2)), False),
    ]
    names = [f.final.rsplit("/", 1)[1] for f in proven.files]
    assert names == [
        f"part-t-shared-00000-{first:019d}-{PLAN.id}.parquet" for first in (10, 14)
    ]  # fmt: skip
    assert proven.accounts == {"t": {0: Account(10, 20, 10, 0), 1: Account(0, 5, 5, 0)}}


def test_a_row_in_two_shared_files_is_refused(store):
    attempt = stage(store, PLAN)
    write_file(store, attempt.directory, "topic=t/part-x.parquet", [0, 1], [18, 4])
    with pytest.raises(AttemptWrong, match=r"offset 18 of t-0 is in another.*offset 4 of t-1"):
        check(store, PLAN, attempt)


def test_a_symbolic_link_in_staging_is_refused(store, tmp_path):
    """What it points to is not what was staged here."""
    attempt = stage(store, PLAN, rows=25)
    secret = write_file(store, "elsewhere/", "secret.parquet", 0, range(10))
    Path(store.native(attempt.directory), "topic=t/link.parquet").symlink_to(secret)
    with pytest.raises(AttemptWrong, match=r"link\.parquet"):
        check(store, PLAN, attempt)


def test_holes_that_are_empty_are_invisible_records(store):
    """Control records, aborted and compacted ones; a range of nothing else is right, too."""
    attempt = stage(store, PLAN, files={("t", 0): [[11, 12, 15]]})
    looked_at = []

    def probe(holes):
        looked_at.extend(holes)
        return all_empty(holes)

    proven = check(store, PLAN, attempt, probe=probe)
    assert proven.accounts == {"t": {0: Account(10, 20, 3, 7), 1: Account(0, 5, 0, 5)}}
    assert proven.proofs == {"t": {0: HoleProof(3, 3, 0), 1: HoleProof(1, 1, 0)}}
    assert sorted(looked_at) == [
        OffsetRange("t", 0, 10, 11),
        OffsetRange("t", 0, 13, 15),
        OffsetRange("t", 0, 16, 20),
        OffsetRange("t", 1, 0, 5),
    ]


def test_a_visible_record_in_a_hole_fails_the_attempt(store):
    """Spark lost a row, and its own count agrees with the files: the prober finds it."""

    def probe(holes):
        raise RowsMissing("a record at offset 12")

    attempt = stage(store, PLAN, files={("t", 0): [[10, 11, *range(13, 20)]], ("t", 1): [range(5)]})
    with pytest.raises(RowsMissing):
        check(store, PLAN, attempt, probe=probe)
    assert not gather_work(store, PLAN, Fold()).sealed


def test_holes_below_a_moved_log_start_are_unprovable(store):
    """Neither probed nor called empty: a status of their own. So is what the prober cannot tell."""
    attempt = stage(store, PLAN, files={("t", 0): [[10, 12, 14, 16, *range(17, 20)]]})

    def probe(holes):
        assert sorted(holes) == [OffsetRange("t", 0, 13, 14), OffsetRange("t", 0, 15, 16)]
        return {holes[0]: "empty", holes[1]: "unprovable"}

    log_starts = {"t": {0: 12, 1: 5}}
    proven = check(store, PLAN, attempt, probe=probe, log_starts=log_starts)
    assert proven.proofs == {"t": {0: HoleProof(3, 1, 2), 1: HoleProof(1, 0, 1)}}


def test_very_many_holes_are_probed_within_the_bound(store):
    """A transactional topic: 10,000 holes, 200 looked into, and the manifest says so."""
    plan = plan_of((OffsetRange("t", 0, 0, 100_000),))
    offsets = [offset for offset in range(100_000) if offset % 10]
    attempt = stage(store, plan, files={("t", 0): [offsets]})
    asked = []

    def probe(holes):
        asked.extend(holes)
        return all_empty(holes)

    proven = check(store, plan, attempt, probe=probe)
    assert len(set(asked)) == 200
    assert proven.accounts == {"t": {0: Account(0, 100_000, 90_000, 10_000)}}
    assert proven.proofs == {"t": {0: HoleProof(10_000, 200, 0)}}


def test_an_abandoned_attempt_does_not_count(store):
    """The other attempt of the chunk does."""
    staged_attempts.seal(store, PLAN, "a")
    staged_attempts.seal(store, PLAN, "b")
    fold = Fold()
    assert gather_work(store, PLAN, fold).sealed[0].attempt.name == "a"
    fold.apply(Abandon(PLAN.id, 0, "a"), "digest")
    assert gather_work(store, PLAN, fold).sealed[0].attempt.name == "b"


@pytest.mark.parametrize("how", [os.unlink, lambda path: os.truncate(path, 10)])
def test_a_manifest_whose_files_are_gone_does_not_count(store, how):
    """Else its chunk would neither be staged again nor ever be published."""
    sealed = staged_attempts.seal(store, PLAN, "a")
    staged_attempts.seal(store, PLAN, "b")
    how(store.native(sealed.files[0].path))
    assert gather_work(store, PLAN, Fold()).sealed[0].attempt.name == "b"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2, "files": 3}', "\0"])
def test_a_manifest_that_makes_no_sense_is_named(store, text):
    """Not taken for none, and not for an internal error."""
    attempt = stage(store, PLAN)
    store.create(attempt.manifest_path, text.encode())
    with pytest.raises(LakeDamaged, match=attempt.manifest_path):
        gather_work(store, PLAN, Fold())


def test_the_check_imports_no_pandas(store):
    """PyArrow does, for any value of Python's that it converts: nearly a second of each run."""
    attempt = stage(store, PLAN, files={("t", 0): [[*range(10, 15), *range(16, 20)]]})
    (listed,) = (each for each in store.objects(attempt.directory) if "parquet" in each.path)
    code = (
        "import sys; from pathlib import Path; from tidegate.lake import footers\n"
        "from tidegate.lake.store import Listed, LocalStore\n"
        f"store = LocalStore(Path({str(store.root)!r}))\n"
        f"read = footers.read_data_file(store, Listed(*{tuple(listed)!r}))\n"
        "assert read.contents.rows == 9\n"
        "print('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
