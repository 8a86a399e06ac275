"""Egress runs without a broker or Spark: the test sets the target and plays the application."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

from support import staged_attempts
from support.handed_in import OUTGOING
from support.toy_engine import ToyEngine
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core import canonical, layout
from tidegate.core.cluster_answers import TargetState, TargetSurvey
from tidegate.core.entries import Account, Commit, Gap, Reference
from tidegate.core.offsets import OffsetRange
from tidegate.core.requests import Replay
from tidegate.egress import planning as planning
from tidegate.egress.publish import publish
from tidegate.egress.send import send
from tidegate.errors import StageFailed
from tidegate.lake import committing
from tidegate.lake.deliveries import Delivery
from tidegate.lake.ledger import Appended, Ledger
from tidegate.lake.store import LocalStore, Store, open_store
from tidegate.pipelines.spec import Egress, parse_spec
from tidegate.runs.run import EgressRun, OpenRun, open_run
from tidegate.spark.egress_job import DONE, REFUSED, SENDING, EgressJob

Application = Callable[[EgressJob, Path], None]
"""Plays the Spark application: is given its job and the directory for its answer."""
SETTINGS = {
    name: {"value": value, "origin": "tidegate"}
    for name, value in {
        "kafka.batch.size": "524288",
        "kafka.compression.type": "lz4",
        "kafka.fetch.max.wait.ms": "1",
        "kafka.linger.ms": "20",
        "kafka.max.block.ms": "20000",
        "kafka.max.partition.fetch.bytes": "2097152",
        "kafka.max.poll.records": "10000",
        "kafkaConsumer.pollTimeoutMs": "30000",
        "spark.kafka.consumer.cache.evictorThreadRunInterval": "100ms",
        "spark.kafka.consumer.cache.timeout": "500ms",
        "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "100ms",
        "spark.kafka.consumer.fetchedData.cache.timeout": "0",
    }.items()
}
"""The settings in effect of a pipeline that gives none."""
DIGEST = "0" * 16
FILE_SIZE = 1000  # bytes of each file in the lake


@dataclass
class World:
    """A source, a ledger and a target of one pipeline, `out`.

    `alive` are the attempts whose senders run; `ran` the jobs that the application was given.
    """

    home: Path
    target: TargetSurvey
    alive: set[str] = field(default_factory=set)
    ran: list[EgressJob] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def spec(self) -> Egress:
        form = {
            "name": "out", "kind": "egress", "lake": str(self.home / "lake"), "settle": 0,
            "source": {"path": str(self.home / "in"), "format": "text"}, "target": {"topic": "t"},
        }  # fmt: skip
        spec = parse_spec({**form, **self.settings})
        assert isinstance(spec, Egress)
        return spec

    @property
    def kafka(self) -> KafkaCluster:
        return KafkaCluster("k", {"bootstrap.servers": "nowhere:1"})

    def put(self, **texts: str) -> None:
        for name, text in texts.items():
            (self.home / "in" / name).write_text(text)

    def run(self, run_id: str = "r", **others: Any) -> EgressRun:
        day = date(2026, 1, 1)
        return EgressRun(self.spec, self.kafka, "dag", run_id, day, **{**OUTGOING, **others})

    def open(self, run_id: str = "r", **others: Any) -> OpenRun[EgressRun]:
        return open_run(self.run(run_id, **others))

    def plan(self, run_id: str = "r", **others: Any) -> planning.Planned:
        return planning.plan(self.open(run_id, **others))

    def send(
        self,
        run_id: str = "r",
        application: Application | None = None,
        *,
        line: str = "4.0",
        **others: Any,
    ) -> Delivery | None:
        """Run `send`; the application sends all rows unless another one is given."""
        engine = self.engine(application or sends_all, line)
        return send(self.open(run_id, engine=engine, **others))

    def send_and_publish(
        self, run_id: str = "r", application: Application | None = None, **others: Any
    ) -> dict[str, Any]:
        """Run all steps; return the report."""
        line = others.pop("line", "4.0")
        self.send(run_id, application, line=line, **others)
        return publish(self.open(run_id, **others)).report.to_json()

    def engine(self, application: Application, line: str = "4.0") -> ToyEngine:
        return ToyEngine(self.app(application), self.kafka, line=line)

    def app(self, application: Application) -> Application:
        """Return an application that is remembered in `ran` when it starts."""

        def do(job: EgressJob, directory: Path) -> None:
            self.ran.append(job)
            application(job, directory)

        return do

    @property
    def fold(self) -> Any:
        return self.open().ledger.fold


def sends_all(job: EgressJob, directory: Path) -> None:
    """Answer that each file had one row, and each target partition took one."""
    begins(job, directory)
    done = {
        "files": [
            {"file": name, "rows": 1, "bad": 0, "digest": DIGEST} for name, _ in job.source.files
        ],
        "receipts": [
            {"topic": t, "partition": p, "before": since, "after": since + 1, "sent": 1,
             "duplicates": 0}
            for t, each in job.target.items() for p, since in each.since.items()
        ],
        "broken_order": [],
        "proof": "full",
        "versions": {},
    }  # fmt: skip
    (directory / DONE).write_text(json.dumps(done))


def dies_before_sending(_: EgressJob, __: Path) -> None:
    raise StageFailed("no JVM")


def begins(job: EgressJob, _: Path) -> None:
    """Leave the mark of an attempt that begins to send."""
    mark = Path(job.mark)
    mark.mkdir(parents=True, exist_ok=True)
    (mark / SENDING).touch()


def is_killed(_: EgressJob, __: Path) -> None:
    """End the submitter, too, before anything was sent."""
    raise KeyboardInterrupt


def dies_while_sending(job: EgressJob, directory: Path) -> None:
    begins(job, directory)
    raise StageFailed("killed")


def refuses(*names: str) -> Application:
    """Return an application that refuses these files, and sends plans without them; without names,
    it refuses any plan.
    """

    def answers(job: EgressJob, directory: Path) -> None:
        bad = {name: "row 7 is bad" for name, _ in job.source.files if name in names}
        if names and not bad:
            sends_all(job, directory)
            return
        form = {"message": "row 7 is bad", "files": bad}
        (directory / REFUSED).write_text(json.dumps(form))
        raise StageFailed("refused")

    return answers


def target_of(**others: Any) -> TargetSurvey:
    """Return a survey of the topic `t`, one partition that ends at 5."""
    state = TargetState("id-t", {0: 5}, 1_000_000, compacted=False)
    return TargetSurvey("cluster", {"t": replace(state, **others)})


def commit_spans(world: World, *spans: tuple[int, int]) -> None:
    """Commit these spans of u-0 to the lake of "in"; what lies between them is skipped."""
    store = LocalStore(world.home / "lakes/in")
    ledger = staged_attempts.ledger_of(store, "in")
    for (_, end), (start, _) in pairwise(spans):
        ledger.append(Gap("u", "id-u", 0, end, start, "expired", "r"), run="r")
    for start, end in spans:
        plan = staged_attempts.plan_of((OffsetRange("u", 0, start, end),), pipeline="in")
        staged_attempts.seal(store, plan)
        committing.commit_sealed_chunks(
            store, staged_attempts.ledger_of(store, "in"), plan, run="r"
        )


def make_lake(world: World, *ranges: OffsetRange, **subscribed: Any) -> LocalStore:
    """Make an ingest pipeline "in" of the topics "t" and "u", whose lake holds these ranges."""
    form = {"name": "in", "kind": "ingest", "lake": str(world.home / "lakes"), **subscribed}
    (world.home / "pipelines/in.yaml").write_text(json.dumps(form))
    store = LocalStore(world.home / "lakes/in")
    plan = staged_attempts.plan_of(tuple(ranges), pipeline="in")
    staged_attempts.seal(store, plan)
    committing.commit_sealed_chunks(store, staged_attempts.ledger_of(store, "in"), plan, run="r")
    world.settings = {
        "source": {"lake": "in", "topics": ["t"]}, "target": {"topic": "t"}, "columns": {},
    }  # fmt: skip
    return store


def lake_ledger(world: World) -> tuple[Store, Ledger]:
    """Return store and ledger of the ingest pipeline `lake`."""
    store = open_store(str(world.home / "of"), "lake")
    return store, Ledger(store, "lake")


def commit_range(world: World, topic_id: str, partition: int, start: int, end: int) -> None:
    """Commit a range of the topic `src` to the lake of `lake`, in files of 20 offsets."""
    store, ledger = lake_ledger(world)
    plan = f"{topic_id}-{partition}-{start}"
    files = [
        {"path": f"staged/{plan}/{first}", "size": FILE_SIZE, "digest": "", "topic": "src",
         "parts": [[partition, first, min(first + 20, end) - 1, 20]], "ascending": True,
         "final": f"data/{plan}/{first}"}
        for first in range(start, end, 20)
    ]  # fmt: skip
    data = staged_attempts.manifest_of(plan, files)
    store.create(layout.manifest(plan, 0, "a"), data)
    for file in files:
        store.create(str(file["path"]), bytes(FILE_SIZE))
    account = Account(start, end, end - start, 0)
    manifest = Reference(layout.manifest(plan, 0, "a"), canonical.digest(data))
    entry = Commit(
        "live", plan, "", 0, "a", "cluster", {"src": topic_id}, {"src": {partition: account}},
        manifest,
    )  # fmt: skip
    assert isinstance(ledger.append(entry, run="r"), Appended)


def replay_of(start: str | None = "20", end: str | None = "40", **others: Any) -> dict[str, Any]:
    """Return what makes a run a replay."""
    return {"asked": Replay(**{"topic": "src", "id": "x", **others}, start=start, end=end)}


def sends_window(job: EgressJob, directory: Path) -> None:
    """Send a row of each partition in the window."""
    sends_all(job, directory)
    done = json.loads((directory / DONE).read_text())
    done["files"] = [
        {
            "file": f"{job.source.topic_ids[r.topic]}/{r.partition}",
            "rows": 1,
            "bad": 0,
            "digest": DIGEST,
        }
        for r in job.source.window
    ]
    (directory / DONE).write_text(json.dumps(done))


def send_next(world: World, run_id: str, **others: Any) -> list[str]:
    """Run all steps; return the ranges that were sent."""
    world.send(run_id, sends_window, **others)
    publish(world.open(run_id, **others))
    return [str(r) for window in world.plan(run_id).plan.chunks for r in window]
