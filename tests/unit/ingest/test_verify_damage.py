"""`verify` of a damaged lake, and of one that changes meanwhile."""

import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest

from support import ingest_world
from support.ingest_steps import ingest
from support.ingest_world import World
from support.kafka_answers import answer
from tidegate import flows
from tidegate.core.cursor import Watermarks
from tidegate.core.offsets import OffsetRange
from tidegate.core.requests import Replay
from tidegate.errors import LedgerCorrupt
from tidegate.ingest import verify as module
from tidegate.ingest.verify import verify
from tidegate.lake import attempts


class Log:
    """Kafka's records: what the lake had before something happened to it."""

    def __init__(self, world: World) -> None:
        self.world, self.records = world, {}
        store, fold = world.run("any").store(), world.ledger.fold
        for commit in fold.live.values():
            files = [*attempts.committed_manifest(store, commit).files]
            for _, r in commit.ranges:
                for record in module._rows(store, files, r):
                    self.records[r.partition, record.offset] = record
        self.before_read = lambda: None

    def read(self, r: OffsetRange, _: str):
        self.before_read()
        marks = self.world.marks[r.partition]
        for offset in range(max(r.start, marks.start), r.end):
            yield self.records[r.partition, offset]


@pytest.fixture
def world(tmp_path, monkeypatch):
    """Two commits of two partitions; each has a file of its own."""
    marks = {p: Watermarks(0, 30, 30) for p in (0, 1)}
    world = ingest_world.make(tmp_path, monkeypatch, marks, max_records=10_000)
    ingest(world.run("one"), world.submit())
    world.marks = {p: Watermarks(0, 60, 60) for p in (0, 1)}
    ingest(world.run("two"), world.submit())
    world.log = Log(world)
    answer(monkeypatch, survey=world.survey)
    answer(monkeypatch, reading=lambda _: nullcontext(world.log.read))
    return world


def found(world):
    run = world.run("any")
    return verify(run.spec, flows.store(run.spec), run.kafka, lambda _: None).to_json()


def data_files(world) -> list[Path]:
    return sorted((world.root / "p/data").rglob("*.parquet"))


def delete(path):
    path.unlink()


def truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


def flip(path):
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)


def empty(path):
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [delete, truncate, flip, empty])
def test_each_damaged_file_is_a_finding(world, damage):
    """The rows of the others are compared all the same, and what is lost is not told row by row."""
    assert found(world)["differences"] == 0
    first, second, *_ = data_files(world)
    damage(first)
    damage(second)
    verified = found(world)
    assert {each["uri"] for each in verified["first"] if "uri" in each} == {
        f"file://{first}", f"file://{second}",
    }  # fmt: skip
    assert verified["against_kafka"] == {"rows": 60, "expired": 0}
    # Of each also that its commit has fewer rows than its account.
    assert verified["differences"] == 4


def test_a_lost_ledger_is_no_new_lake(world):
    """Who started a run would read everything again beside it."""
    for lost in ("log", "placed"):
        shutil.rmtree(world.root / "p/_tidegate" / lost)
    with pytest.raises(LedgerCorrupt, match="committed files, and no ledger: it was lost"):
        found(world)


def test_a_replay_while_the_ledger_is_read_is_no_difference(world, monkeypatch):
    """Its old files were listed before, and are gone."""
    read = module.audit.read_ledger

    def replay_first(*given):
        monkeypatch.setattr(module.audit, "read_ledger", read)
        asked = Replay(topic="t", id="again", start="0", end="30")
        ingest(world.run("replay", asked=asked), world.submit())
        return read(*given)

    monkeypatch.setattr(module.audit, "read_ledger", replay_first)
    assert found(world)["first"] == []


def test_what_expires_meanwhile_is_no_difference(world):
    """The log start is asked for again."""

    def expire():
        world.marks[0] = Watermarks(20, 60, 60)

    world.log.before_read = expire
    verified = found(world)
    assert verified["differences"] == 0
    assert verified["against_kafka"] == {"rows": 100, "expired": 20}


def test_a_replay_that_commits_meanwhile_is_no_difference(world):
    """It deletes the files that it replaces."""
    pending = [Replay(topic="t", id="again", start="0", end="30")]

    def replay():
        if pending:
            ingest(world.run("replay", asked=pending.pop()), world.submit())

    def say(text):
        if "#1" in text or "commit #2" in text:
            replay()

    run = world.run("any")
    verified = verify(run.spec, flows.store(run.spec), run.kafka, say).to_json()
    assert not pending
    assert verified["first"] == []
    assert verified["commits"] == 1


def test_a_difference_that_stays_is_one(world):
    """Whatever else has changed meanwhile."""
    del world.log.records[0, 40]
    world.log.records[0, 40] = world.log.records[0, 41]
    world.log.before_read = lambda: world.marks.update({1: Watermarks(10, 60, 60)})
    verified = found(world)
    assert {each["partition"] for each in verified["first"]} == {0}
