"""A run of a pipeline, and the opened run that is passed through all of its steps."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import Any, Generic, Protocol, TypeVar

from tidegate.core import layout
from tidegate.core.entries import Claim
from tidegate.core.fold import REPLAY, RESEND
from tidegate.core.plan import Plan
from tidegate.core.requests import Asked, Backfill, Dates, FileReplay, Live, Replay
from tidegate.errors import NotSealed
from tidegate.lake import plans
from tidegate.lake.attempts import Attempt, Manifest
from tidegate.lake.ledger import Ledger
from tidegate.lake.plans import Frozen
from tidegate.lake.store_protocol import Store, Stores
from tidegate.runs.engine_protocol import Engine
from tidegate.runs.kafka_protocol import Kafka
from tidegate.runs.spec_protocol import EgressSpec, IngestSpec, Pipelines, Spec
from tidegate.runs.steps import OnProgress

logger = logging.getLogger(__name__)


class Mirror(Protocol):
    """A copy of the offsets for users (Airflow's Variables). The ledger alone is authoritative."""

    def read(self, name: str) -> str | None: ...

    def write(self, name: str, text: str) -> None: ...


class NoMirror:
    """The mirror of a run outside Airflow, where there are no Variables."""

    def read(self, name: str) -> str | None:  # noqa: ARG002
        return None

    def write(self, name: str, text: str) -> None:
        pass


class Senders(Protocol):
    """The processes that send rows: this one, and those that hold the claims of others."""

    def holding(self) -> AbstractContextManager[str]:
        """Give the name of a new attempt: this process is its sender while the block lasts."""

    def identity(self, application: Mapping[str, str] | None) -> dict[str, Any]:
        """Return who this process is, for a claim. `application` may outlive it."""

    def doubt(self, claim: Claim, engine: Engine, store: Store) -> str | None:
        """Return why the sender of an open claim is not proven dead. None is the proof.

        An application that may outlive its submitter is ended by `engine`, which waits for its end.
        """


NO_MIRROR = NoMirror()
LIVE = Live()
WindowRequest = Backfill | Replay


def replay_key(asked: Replay | FileReplay) -> str:
    """Return the run key of a replay: by its id, so that any run with this id resumes it."""
    return layout.run_key("tidegate_replay", asked.id)


@dataclass(frozen=True)
class AnyRun:
    """One run of a pipeline. Its frozen plan is found by its key.

    `window_date` is the date in the paths of the lake. `max_records` is per chunk. `stores` opens
    its lake, and those of other pipelines. `engine` runs Spark. `began` is for its history.
    """

    spec: Spec
    kafka: Kafka
    dag_id: str
    run_id: str
    window_date: date
    max_records: int | None = None
    mirror: Mirror = NO_MIRROR
    stores: Stores = field(kw_only=True)
    engine: Engine = field(kw_only=True)
    began: datetime = field(default_factory=lambda: datetime.now(UTC), kw_only=True, compare=False)

    @property
    def key(self) -> str:
        return layout.run_key(self.dag_id, self.run_id)

    @property
    def spark_conf(self) -> dict[str, str]:
        return self.spec.spark.settings

    def store(self) -> Store:
        return self.stores.open(self.spec.lake, self.spec.name)

    def ledger(self, store: Store) -> Ledger:
        ledger = Ledger(store, self.spec.name)
        ledger.refuse_unsafe_store()  # before Spark reads for hours and cannot commit
        return ledger


@dataclass(frozen=True)
class Run(AnyRun):
    """A run of an ingest pipeline. `asked` is the request.

    It plans at most `max_chunks` chunks. The rest is left to later runs.
    """

    spec: IngestSpec
    asked: Asked = LIVE
    max_chunks: int | None = None

    @property
    def key(self) -> str:
        if isinstance(self.asked, Replay):
            return replay_key(self.asked)
        return layout.run_key(self.dag_id, self.run_id, self.asked.work)

    @property
    def lane(self) -> str:
        """The lane of the plans that the run freezes."""
        return self.asked.lane

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of the request."""
        return self.asked.topics if isinstance(self.asked, WindowRequest) else self.spec.topics

    def in_lane(self, lane: str) -> Run:
        """Return the run with the lane of its frozen plan: Airflow may change a run's type."""
        if isinstance(self.asked, WindowRequest) or self.asked.lane == lane:
            return self
        if lane == Live.lane:
            return replace(self, asked=Live(self.asked.interval))
        return replace(self, asked=Dates(self.asked.interval)) if self.asked.interval else self

    @property
    def chunk_size(self) -> int:
        """The most offsets in a chunk."""
        asked = self.asked.chunk_size if isinstance(self.asked, Backfill) else self.max_records
        return asked or self.spec.max_records


@dataclass(frozen=True)
class EgressRun(AnyRun):
    """A run of an egress pipeline. `kafka` is the target's.

    `senders` knows which processes send. `pipelines` has the pipeline whose lake is the source.
    `resend` also sends changed files whose names were sent. `asked` is what is to be sent again:
    files, or a window of the source's lake, and `source_kafka` the Kafka from which this lake was
    ingested.
    """

    spec: EgressSpec
    senders: Senders = field(kw_only=True)
    pipelines: Pipelines = field(kw_only=True)
    resend: bool = False
    asked: Replay | FileReplay | None = None
    source_kafka: Kafka | None = None

    @property
    def lane(self) -> str:
        """The lane of the plans that the run freezes."""
        return REPLAY if self.asked else RESEND if self.resend else Live.lane

    @property
    def key(self) -> str:
        return replay_key(self.asked) if self.asked else super().key


AnyKind = TypeVar("AnyKind", bound=AnyRun)


@dataclass
class OpenRun(Generic[AnyKind]):
    """A run with its store and its ledger, which are opened once for all of its steps.

    A step that decides by the ledger refreshes it first.
    """

    run: AnyKind
    store: Store
    ledger: Ledger
    manifests: dict[Attempt, Manifest] = field(default_factory=dict)
    """Manifests that this process has created or read: they are never changed."""
    staged: set[Attempt] = field(default_factory=set)
    """Attempts whose manifests this process has created."""
    on_progress: OnProgress = lambda _: None
    """Called by the steps, also from other threads."""
    _latest: Frozen | None = None
    _is_new: bool = False

    def latest_plan(self) -> Frozen | None:
        """Return the run's plan of the highest generation, if it has any.

        Only later generations than the last known one are looked up: pointers never change. The
        first call after `freeze` looks up nothing, because the next step follows at once.
        """
        if not self._is_new:
            self._latest = plans.latest_plan(self.store, self.run.key, after=self._latest)
        self._is_new = False
        return self._latest

    def known_plan(self) -> Frozen | None:
        """Return the run's newest plan that this process has seen, without a look at the lake."""
        return self._latest

    def note(self, plan: Plan) -> Mapping[str, Any]:
        """Return the note of a plan. Empty if it has none. What this process wrote is not read."""
        latest = self._latest
        if latest is not None and latest.plan.id == plan.id and latest.note is not None:
            return latest.note
        return plans.read_note(self.store, plan.id) or {}

    def frozen_plan(self) -> Frozen:
        """Return the run's plan of the highest generation. NotSealed if it never had one."""
        frozen = self.latest_plan()
        if frozen is None:
            raise NotSealed(
                f"run {self.run.run_id} of {self.run.spec.name!r} has no plan: its plan step never "
                f"ran, or the lake at {self.run.spec.lake} is not the one it ran on"
            )
        return frozen

    def freeze(self, plan: Plan, note: Mapping[str, Any]) -> Frozen:
        """Make `plan` the run's next generation. Return another process's plan if it was first.

        JavaMissing if its application could not start on this machine.
        """
        if plan.has_work:
            self.run.engine.refuse(self.run.spark_conf, starting=True)
        for notice in self.run.spec.notices:
            logger.warning("%s: %s", self.run.spec.name, notice)
        generation = self._latest.generation + 1 if self._latest else 1
        self._latest = plans.freeze_plan(self.store, self.run.key, plan, generation, note=note)
        self._is_new = True
        return self._latest


def open_run(run: AnyKind) -> OpenRun[AnyKind]:
    """Open a run's store and read its ledger.

    Raises LakeUnsafe on a store without atomic create-if-absent, LedgerCorrupt for a damaged
    ledger, ConfigurationError if its engine cannot be used as it is configured.
    """
    run.engine.refuse(run.spark_conf)
    store = run.store()
    return OpenRun(run, store, run.ledger(store))
