"""Ingest runs without a broker or Spark: watermarks that the test sets, attempts that it stages."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from support import staged_attempts
from support.handed_in import HERE
from support.kafka_answers import answer
from support.toy_engine import Do
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core.cluster_answers import Probe, Survey, TopicIdentity
from tidegate.core.cursor import Watermarks
from tidegate.core.offsets import OffsetRange
from tidegate.errors import BrokerError, StageFailed, TidegateError
from tidegate.lake.ledger import Ledger
from tidegate.pipelines.spec import parse_spec
from tidegate.runs.run import Run
from tidegate.spark.ingest_job import IngestJob

TOPIC_ID = "id-t"


@dataclass
class World:
    """One topic `t`. `away`, if set, is raised by every question to the broker."""

    root: Path
    marks: dict[int, Watermarks]
    away: TidegateError | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    holes: list[OffsetRange] = field(default_factory=list)
    unanswered: bool = False
    """Whether nobody can look into holes."""
    visible: int | None = None
    """The offset of a record that is in the log, whatever the attempt holds."""
    topic_id: str | None = TOPIC_ID
    """None: there is no such topic."""
    leaderless: set[int] = field(default_factory=set)
    readable: bool = True
    epoch: int = 0
    """The leader epoch of all partitions now."""
    began: dict[int, int] = field(default_factory=dict)
    """The offset at which a leader epoch began."""
    started: int = 0
    """How many Spark applications were started."""

    def run(self, run_id: str, **given: Any) -> Run:
        form = {"name": "p", "kind": "ingest", "topics": ["t"], "lake": str(self.root)}
        kafka = KafkaCluster("kafka_default", {"bootstrap.servers": "nowhere:1"})
        spec = parse_spec(form | {"max_records": 100} | self.settings)
        return Run(spec, kafka, "dag", run_id, date(2024, 5, 1), **{**HERE, **given})

    def survey(self, *_: object) -> Survey:
        if self.away:
            raise self.away
        if self.topic_id is None:
            return Survey("cluster", {}, {})
        marks = {p: m for p, m in self.marks.items() if p not in self.leaderless}
        epochs = dict.fromkeys(marks, self.epoch)
        identity = TopicIdentity(self.topic_id, epochs, frozenset(self.leaderless), self.readable)
        return Survey("cluster", {"t": identity}, {"t": marks})

    def epoch_ends(self, _: object, epochs: Mapping[tuple[str, int], int]) -> dict[Any, int]:
        """Answer by `began`: an epoch ends where the next one began."""
        ends = {}
        for (topic, p), epoch in epochs.items():
            later = [at for number, at in self.began.items() if number > epoch]
            ends[topic, p] = min(later, default=self.marks[p].high)
        return ends

    def probe(self, _: object, holes: Iterable[OffsetRange], *__: object) -> list[Probe]:
        if self.away:
            raise self.away
        if self.unanswered:
            raise BrokerError("no answer")
        found = [
            Probe(hole, "visible", self.visible)
            if self.visible is not None and hole.start <= self.visible < hole.end
            else Probe(hole, "empty")
            for hole in holes
        ]
        self.holes += [each.hole for each in found]
        return found

    def submit(
        self,
        fail: Collection[int] = (),
        then: Callable[[], None] = lambda: None,
        missing: Collection[int] = (),
    ) -> Do:
        """Return what stages chunk after chunk, up to one of `fail`; `missing` offsets no row."""

        def submit(job: IngestJob, _: Path) -> None:
            self.started += 1
            store = self.run("any").store()
            plan = staging_plan(store, job)
            for chunk in job.chunks:
                if chunk.number in fail:
                    then()
                    raise StageFailed(f"chunk {chunk.number}: a record that Spark cannot read")
                files = {
                    (r.topic, r.partition): [[o for o in range(r.start, r.end) if o not in missing]]
                    for r in chunk.window
                }
                staged_attempts.stage(
                    store, plan, Path(chunk.directory).name, chunk=chunk.number, files=files
                )
            then()

        return submit

    @property
    def rows(self) -> dict[int, list[int]]:
        """The lake's committed offsets by partition, by the names of the files under `data/`."""
        found: dict[int, list[int]] = {}
        for path in sorted((self.root / "p/data").rglob("*.parquet")):
            partition, first, last = (int(part) for part in path.name.rsplit("-", 4)[1:4])
            found.setdefault(partition, []).extend(range(first, last + 1))
        return {p: sorted(offsets) for p, offsets in found.items()}

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.run("any").store(), "p")


def staging_plan(store: Any, job: IngestJob) -> Any:
    from tidegate.lake import plans

    return plans.load_plan(store, job.plan_id)


def ranges(*numbers: tuple[int, int]) -> list[int]:
    """Return the offsets of half-open ranges."""
    return [offset for start, end in numbers for offset in range(start, end)]


def make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, marks: dict[int, Watermarks], **settings: Any
) -> World:
    """Return a world of its own, in the place of the broker."""
    world = World(tmp_path / "lake", marks, settings=settings)
    answer(monkeypatch, survey=world.survey)
    answer(monkeypatch, epoch_ends=world.epoch_ends)
    answer(monkeypatch, probe=world.probe)
    answer(monkeypatch, expiries=lambda *_: {})
    return world
