"""The real steps of runs in a world of memory: broker, Spark, target and lake are played.

Whatever a process asks of the store, and whatever its Spark writes or sends, goes through its gate.
"""

import io
import itertools
import json
import logging
import secrets
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nets.objects import Gate, Handle, Objects, Whole
from support.staged_attempts import lake_table
from support.toy_engine import Do, ToyEngine
from support.toy_kafka import ToyKafka
from support.toy_sources import ToySourceFiles
from support.toy_specs import (
    NoPipelines,
    ToyEgress,
    ToyFormat,
    ToyIngest,
    ToySource,
    ToyStart,
    ToyTarget,
)
from tidegate.core.cluster_answers import Probe, Survey, TargetState, TargetSurvey, TopicIdentity
from tidegate.core.cursor import Watermarks
from tidegate.core.decoding import Decoder, Decoding
from tidegate.core.requests import Backfill, FileReplay, Replay
from tidegate.core.source_root import Root
from tidegate.egress.egress_run import egress
from tidegate.egress.release import release_claim
from tidegate.egress.sender import sender_identity
from tidegate.errors import BrokerError, StageFailed, TidegateError
from tidegate.ingest.ingest_run import ingest
from tidegate.lake import sweeping
from tidegate.lake.committed_files import locate_files
from tidegate.lake.ledger import Ledger
from tidegate.maintenance.checkpoint_step import checkpoint_pipeline
from tidegate.maintenance.repair import repair_lake
from tidegate.runs.run import EgressRun, Run
from tidegate.spark.egress_job import DONE, REFUSED, SENDING, EgressJob
from tidegate.spark.ingest_job import IngestJob
from tidegate_check.lake import Checker, Difference

DAY = 25 * 3600.0
ORIGIN = 20  # of partition 0: what is below it is backfilled


class Cluster(ToyKafka):
    """The cluster of the world that is played."""

    def survey(self, *_: object) -> Survey:
        return Now.world.survey()

    def probe(self, holes: Iterable[Any], _: str) -> list[Probe]:
        return Now.world.probe(holes)

    def survey_target(self, *_: object, **__: object) -> TargetSurvey:
        return Now.world.survey_target()


KAFKA = Cluster()
INGEST = ToyIngest(
    "p", ("t",), "/lake", ToyStart({"t": {0: ORIGIN, 1: 0}}), max_records=60, on_expired="skip",
    decoding={"*": Decoding(Decoder("string", "text STRING"))},
)  # fmt: skip
BACKFILL = Backfill("t", (0,), "0", str(ORIGIN), chunk_size=10)
RETYPED = replace(INGEST, decoding={"*": Decoding(Decoder("json", "text INT"))})
"""Beside the rows of INGEST its rows could not be read."""
PARTITIONED = replace(INGEST, partition_by=("topic", "day(timestamp)", "window_date"))


@dataclass
class World:
    """Two partitions of the topic `t`, their lake, and a directory that is sent to a topic.

    `log` has start and end by partition; `expired` the records that were deleted before any
    application had read them; `sent` the records of the target: plan, file, row. `alive` are the
    attempts whose senders run. `loses` is the offset of a record that Spark does not write; `away`:
    no question to the broker is answered. `meanwhile` happens once, before the next record is sent.
    `bad` are the files that cannot be sent until the pipeline's settings change: `is_edited`.
    `spec` is that of the ingest: `PARTITIONED` has odd offsets in other files than even ones.
    `cluster` is where the connection leads; `is_above`: the path of the egress names the directory
    above. `stated` are records that an operator has let be sent again. `finished` are the records
    that Spark has read in whole chunks: a gap does not lose them.
    """

    home: Path
    objects: Objects = field(default_factory=Objects)
    log: dict[int, tuple[int, int]] = field(default_factory=lambda: {0: (0, 100), 1: (0, 40)})
    expired: set[tuple[int, int]] = field(default_factory=set)
    finished: set[tuple[int, int]] = field(default_factory=set)
    stated: set[tuple[str, int]] = field(default_factory=set)
    sent: list[tuple[str, str, int]] = field(default_factory=list)
    alive: set[str] = field(default_factory=set)
    loses: int | None = None
    away: bool = False
    meanwhile: Callable[[], None] = lambda: None
    is_backfilled: bool = False
    bad: frozenset[str] = frozenset()
    is_edited: bool = False
    spec: Any = INGEST
    cluster: str = "cluster"
    is_above: bool = False
    open_store: Callable[[Objects, str], Any] = Handle

    def copy(self) -> "World":
        """Return another world in the same state."""
        return replace(
            self, objects=Objects(self.objects), log=dict(self.log), sent=list(self.sent),
            expired=set(self.expired), finished=set(self.finished), stated=set(self.stated),
            alive=set(self.alive),
        )  # fmt: skip

    def restart(self, gate: Gate) -> None:
        """Begin a new process in this world: nothing else runs, and nothing is broken."""
        self.objects.gate, self.alive, self.loses, self.away = gate, set(), None, False
        self.meanwhile = lambda: None

    def grow(self, offsets: int) -> None:
        self.log = {p: (start, end + offsets) for p, (start, end) in self.log.items()}

    def expire(self, partition: int, start: int) -> None:
        """Delete the records below an offset; finished attempts still have those that they read."""
        old, end = self.log[partition]
        staged = self.objects.below("p/_tidegate/staging/")
        finished = {path.removesuffix("_done.json") for path in staged if "_done" in path}
        files = [data for path, data in staged.items() for each in finished if each in path]
        kept = {row for data in files if data[:4] == b"PAR1" for row in rows_of(data)}
        self.expired |= {(partition, offset) for offset in range(old, start)} - kept
        self.log[partition] = start, end

    def has(self, partition: int, offset: int) -> bool:
        """Whether an offset is a record, or was one before it expired; 33 is a control record."""
        return offset < self.log[partition][1] and (partition, offset) != (0, 33)

    # What the steps ask a broker.

    def survey(self) -> Survey:
        if self.away:
            raise BrokerError("away")
        marks = {p: Watermarks(start, end, end) for p, (start, end) in self.log.items()}
        identity = TopicIdentity("id-t", dict.fromkeys(marks, 0), frozenset(), True)
        return Survey(self.cluster, {"t": identity}, {"t": marks})

    def probe(self, holes: Iterable[Any]) -> list[Probe]:
        found = []
        for hole in holes:
            seen = [o for o in range(hole.start, hole.end) if self.has(hole.partition, o)]
            found.append(Probe(hole, "visible", seen[0]) if seen else Probe(hole, "empty"))
        return found

    def survey_target(self) -> TargetSurvey:
        state = TargetState("id-target", {0: len(self.sent)}, 1_000_000, compacted=False)
        return TargetSurvey("cluster", {"t": state})

    # Spark.

    def stage(self, job: IngestJob, _: Path) -> None:
        """Read the job's chunks into files of at most 40 rows, each chunk with `_done.json`.

        What remains of each partition is in a file of all.
        """
        store = self.open_store(self.objects, "p")
        columns = {field.name: str(field.type) for field in job.decode["t"].columns}
        kind = pa.int32() if columns["text"] == "INT" else pa.string()
        for chunk in job.chunks:
            directory, rows = chunk.directory.removeprefix(f"{store.url}/").rstrip("/") + "/", 0
            shared: list[tuple[int, int]] = []
            whole: set[tuple[int, int]] = set()
            for r in chunk.window:
                here = [(r.partition, o) for o in range(r.start, r.end) if self.has(r.partition, o)]
                whole |= set() if self.loses in range(r.start, r.end) else set(here)
                here = [row for row in here if row[1] != self.loses]
                for at in range(0, len(here), 40):
                    file = here[at : at + 40]
                    if len(file) < 40:
                        shared += file
                    else:
                        self._write(store, directory, f"part-{r.partition}-{at}", file, kind)
                rows += len(here)
            self._write(store, directory, "part-all", shared, kind)
            done = {"format": 2, "plan_id": job.plan_id, "chunk": chunk.number, "rows": rows}
            done |= {"largest": None, "files": [], "versions": {}}
            store.write(f"{directory}_done.json", json.dumps(done).encode())
            self.finished |= whole

    def _write(
        self, store: Any, directory: str, name: str, rows: list[tuple[int, int]], kind: pa.DataType
    ) -> None:
        """Write rows into a file, or into one for each day."""
        for odd in (0, 1) if self.spec is PARTITIONED else (None,):
            day = "" if odd is None else f"timestamp_day=1970-01-0{1 + odd}/"
            if here := tuple(row for row in rows if odd in (None, row[1] % 2)):
                store.write(f"{directory}topic=t/{day}{name}.parquet", parquet(here, kind))

    def send(self, job: EgressJob, directory: Path) -> None:
        """Send the rows of the plan that the target does not hold, and read them back."""
        bad = {name: "row 1 is bad" for name, _ in job.source.files if name in self.bad}
        if bad and not job.tombstones:
            form = {"message": "1 file cannot be sent", "files": bad}
            (directory / REFUSED).write_text(json.dumps(form))
            raise StageFailed("refused")
        self.mark(job)
        since = job.target["t"].since[0]
        before = set(self.sent[since:]) if job.resumed else set()
        for name, source in job.source.files:
            for row in range(len(Path(source).read_text().splitlines())):
                record = job.plan_id, name, row
                meanwhile, self.meanwhile = self.meanwhile, lambda: None
                meanwhile()
                if record not in before:
                    put = lambda record=record: self.sent.append(record)  # noqa: E731
                    self.objects.ask("send", f"{name} {row}", put)
        there = Counter((name, row) for plan, name, row in self.sent[since:] if plan == job.plan_id)
        rows, twice = Counter(name for name, _ in there), there.total() - len(there)
        done = {
            "files": [{"file": name, "rows": rows[name], "bad": 0, "digest": "0" * 16}
                      for name, _ in job.source.files],
            "receipts": [{"topic": "t", "partition": 0, "before": since, "after": len(self.sent),
                          "sent": rows.total(), "duplicates": twice}],
            "broken_order": [], "proof": "full", "versions": {},
        }  # fmt: skip
        (directory / DONE).write_text(json.dumps(done))

    def mark(self, job: EgressJob) -> None:
        """Leave the mark of an attempt that begins to send."""
        store = self.open_store(self.objects, "out")
        store.write(f"{str(job.mark).removeprefix(f'{store.url}/').rstrip('/')}/{SENDING}", b"")

    def send_one(self, job: EgressJob, _: Path) -> None:
        """Send the first record of a plan that nothing was sent of, and no other."""
        self.mark(job)
        record = job.plan_id, job.source.files[0][0], 0
        if not job.resumed:
            self.objects.ask("send", f"{record[1]} 0", lambda: self.sent.append(record))

    # Steps: each is a process of its own.

    def run(self, run_id: str, **asked: Any) -> None:
        ingest(self.ingest_run(run_id, **asked))

    def ingest_run(self, run_id: str, do: Do | None = None, **asked: Any) -> Run:
        return Run(
            self.spec, KAFKA, "dag", run_id, date(2024, 5, 1), stores=LAKES,
            engine=ToyEngine(do or self.stage), **asked,
        )  # fmt: skip

    def live(self, run_id: str = "live") -> None:
        self.run(run_id)

    def backfill(self) -> None:
        self.run("backfill", asked=BACKFILL)
        self.is_backfilled = True

    def replay(self, name: str = "again") -> None:
        start, end = ({"t": {"0": p0, "1": p1}} for p0, p1 in ((ORIGIN, 0), (100, 40)))
        self.run(name, asked=Replay("t", name, start=json.dumps(start), end=json.dumps(end)))

    def sweep(self) -> None:
        store = self.open_store(self.objects, "p")
        sweeping.sweep(store, Ledger(store, "p"), run="sweep")

    def repair(self) -> None:
        repair_lake(self.spec, LAKES.open("", "p"))

    def checkpoint(self) -> None:
        checkpoint_pipeline(self.spec, LAKES.open("", "p"))

    def egress(
        self,
        run_id: str = "send",
        asked: FileReplay | None = None,
        do: Do | None = None,
    ) -> None:
        egress(self.egress_run(run_id, asked, do))

    def egress_run(
        self, run_id: str, asked: FileReplay | None = None, do: Do | None = None
    ) -> EgressRun:
        spec = egress_spec(self.home, tombstones=self.is_edited, is_above=self.is_above)
        return EgressRun(
            spec, KAFKA, "dag", run_id, date(2024, 5, 1), asked=asked, stores=LAKES,
            senders=Senders(), engine=ToyEngine(do or self.send), pipelines=NoPipelines(),
        )  # fmt: skip

    def send_again(self, replay_id: str = "x", run_id: str = "again") -> None:
        self.egress(run_id, asked=FileReplay(replay_id, ("*",)))

    def sweep_egress(self) -> None:
        store = self.open_store(self.objects, "out")
        sweeping.sweep_egress(store, Ledger(store, "out"))

    def release(self) -> None:
        already = {(Path(name).name, row) for _, name, row in self.sent}
        release_claim(
            egress_spec(self.home),
            LAKES.open("", "out"),
            None,
            "resend",
            "by hand",
            engine=ToyEngine(),
            run="operator",
        )
        self.stated |= already

    def follow_the_ledger(self) -> None:
        """Set the premises to those of what is committed, where something is."""
        store = self.open_store(self.objects, "p")
        fold = Ledger(store, "p").fold
        found = (store.get(path) for _, _, path in locate_files(store, fold))
        data = next(filter(None, found), None)
        if data and self.spec is not PARTITIONED:
            kind = pq.read_schema(io.BytesIO(data)).field("text").type
            self.spec = RETYPED if kind == pa.int32() else INGEST
        self.cluster = fold.cluster_id or self.cluster
        if self.sent:
            self.is_above = "/" in self.sent[0][1]

    # The judges.

    def differences(self, *, egress: bool) -> list[Difference]:
        """Return what the checker finds in a pipeline, and which of its rows are wrong."""
        found = Checker(Whole(self.objects, "out" if egress else "p")).run()
        judged = self._wrong_records() if egress else self._wrong_rows()
        return found + [Difference(k, "rows", f"{sorted(v)[:9]}") for k, v in judged.items() if v]

    def _wrong_rows(self) -> dict[str, set[Any]]:
        data = self.objects.below("p/data/").values()
        rows = Counter(row for each in data for row in rows_of(each))
        log = {(p, o) for p, (_, end) in self.log.items() for o in range(end) if self.has(p, o)}
        wanted = {(p, o) for p, o in log - self.expired if p or self.is_backfilled or o >= ORIGIN}
        skipped = Ledger(self.open_store(self.objects, "p"), "p").fold.skipped
        given_up = {(p, o) for p, o in wanted if skipped["id-t", p].within(o, o + 1)}
        wanted -= given_up - self.finished
        repeated = {row for row, n in rows.items() if n > 1}
        return {"lost": wanted - rows.keys(), "repeated": repeated, "unknown": rows.keys() - log}

    def _wrong_records(self) -> dict[str, set[Any]]:
        """Return what is missing and what is twice, of the pipeline's own runs and each replay.

        A replay may be unfinished: then nothing of it is missing.
        """
        of = {
            path.removesuffix(".json"): form
            for path, data in self.objects.below("out/_tidegate/plans/").items()
            if "lane" in (form := json.loads(data))
        }
        sent: dict[str, Counter[tuple[str, int]]] = {"": Counter()}
        for plan, name, row in self.sent:
            form = of[plan]
            replay = form["replay"]["id"] if form["lane"] == "replay" else ""
            sent.setdefault(replay, Counter())[Path(name).name, row] += 1
        log = [json.loads(data) for data in self.objects.below("out/_tidegate/log/").values()]
        done = {of[each["plan"]["id"]]["replay"]["id"] for each in log
                if each["kind"] == "commit" and each["lane"] == "replay"}  # fmt: skip
        wanted = {(name, row) for name in ("a", "b") for row in (0, 1)}
        missing = {(of, *row) for of in {"", *done} for row in wanted - sent[of].keys()}
        again = {
            (of, *row)
            for of, rows in sent.items()
            for row, n in rows.items()
            if n > 1 + (not of and row in self.stated)
        }
        return {"not sent": missing, "sent again": again}


@cache
def egress_spec(home: Path, *, tombstones: bool = False, is_above: bool = False) -> Any:
    path = f"{home.parent}/i*/*" if is_above else str(home)
    source, target = ToySource(path, ToyFormat()), ToyTarget("t")
    return ToyEgress("out", source, target, "/lake", sends_tombstones=tombstones)


@cache
def parquet(
    records: tuple[tuple[int, int], ...],
    kind: pa.DataType = pa.string(),
) -> bytes:
    n = len(records)
    rows = {
        "key": [None] * n, "value": [b"%d-%d" % record for record in records],
        "partition": [p for p, _ in records], "offset": [o for _, o in records],
        "timestamp": [o % 2 * 86_400_000_000 for _, o in records],
        "timestampType": [0] * n,
    }  # fmt: skip
    unfit = [o % 7 == 0 for _, o in records]  # what Spark could not decode
    fits = "text" if kind == pa.string() else 1
    texts = [None if bad else fits for bad in unfit]
    reasons = ["value: no UTF-8" if bad else None for bad in unfit]
    table = lake_table(rows)
    table = table.append_column("text", pa.array(texts, kind))
    table = table.append_column("_undecodable", pa.array(reasons, pa.string()))
    buffer = io.BytesIO()
    pq.write_table(table, buffer, write_page_checksum=True)
    return buffer.getvalue()


@cache
def rows_of(data: bytes) -> list[tuple[int, int]]:
    table = pq.read_table(io.BytesIO(data), columns=["partition", "offset"])
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


class Now:
    """The world that is played."""

    world: World


class Lakes:
    """The stores of the world that is played."""

    def open(self, lake: str, pipeline: str) -> Any:  # noqa: ARG002
        return Now.world.open_store(Now.world.objects, pipeline)

    def source(self, root: Root) -> ToySourceFiles:
        return ToySourceFiles(root)


LAKES = Lakes()


class Senders:
    """The senders of the world that is played: those that are alive."""

    @contextmanager
    def holding(self) -> Iterator[str]:
        attempt = secrets.token_hex(8)
        Now.world.alive.add(attempt)
        try:
            yield attempt
        finally:
            Now.world.alive.discard(attempt)

    def identity(self, _: object) -> dict[str, Any]:
        return sender_identity(None)

    def doubt(self, claim: Any, *_: object) -> str | None:
        return "it runs" if claim.attempt in Now.world.alive else None


REPLACED: dict[str, Any] = {
    "is_alive": lambda _, attempt: attempt in Now.world.alive,
    "LOOKS_FOR_CHUNKS_APART": 1e6,
}
"""Names of modules below tidegate that lead outside, and what stands in their place."""


@contextmanager
def playing(home: Path) -> Iterator[World]:
    """Yield a world in which nothing has happened; `Now.world` may be exchanged."""
    home.mkdir()
    for name in ("a", "b"):
        (home / name).write_text("one\ntwo\n")
    (home.parent / "pipelines").mkdir()
    Now.world = World(home)
    numbers = itertools.count(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGATE_PIPELINES", str(home.parent / "pipelines"))
        patch.setattr(secrets, "token_hex", lambda n: f"{next(numbers):0{2 * n}x}")
        for name, module in list(sys.modules.items()):
            if name.startswith("tidegate."):
                for each in REPLACED.keys() & vars(module).keys():
                    patch.setattr(module, each, REPLACED[each])
        logging.disable(logging.CRITICAL)
        try:
            yield Now.world
        finally:
            logging.disable(logging.NOTSET)


def unless_refused(step: Callable[[], None]) -> None:
    """Do a step that Tidegate may refuse."""
    with suppress(TidegateError):
        step()
