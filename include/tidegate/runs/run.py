"""A run and where it works: what every step of it is given."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Protocol

from tidegate.broker.settings import KafkaSettings
from tidegate.core import layout
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import Store, open_store
from tidegate.pipelines.spec import Ingest


class Mirror(Protocol):
    """Where offsets are shown to people (Airflow's Variables): a copy, never the truth."""

    def read(self, name: str) -> str | None: ...

    def write(self, name: str, text: str) -> None: ...


class NoMirror:
    """Without Airflow there is nothing to show offsets in."""

    def read(self, name: str) -> str | None:  # noqa: ARG002
        return None

    def write(self, name: str, text: str) -> None:
        pass


NO_MIRROR = NoMirror()


@dataclass(frozen=True)
class Run:
    """One run of a pipeline: its key finds its frozen plan again, whatever else is lost.

    `window_date` is the day that goes into the paths of the lake; `max_records` is per chunk.
    """

    spec: Ingest
    kafka: KafkaSettings
    dag_id: str
    run_id: str
    window_date: date
    max_records: int | None = None
    mirror: Mirror = NO_MIRROR

    @property
    def key(self) -> str:
        return layout.run_key(self.dag_id, self.run_id)

    def store(self) -> Store:
        return open_store(self.spec.lake, self.spec.name)

    def ledger(self, store: Store) -> Ledger:
        return Ledger(store, self.spec.name)
