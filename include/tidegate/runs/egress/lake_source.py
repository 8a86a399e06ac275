"""A lake as a source: what it holds of a plan's window, and in which files."""

from __future__ import annotations

from tidegate.core.ledger import Fold
from tidegate.core.offsets import Window
from tidegate.core.plan import Plan
from tidegate.errors import SourceChanged
from tidegate.lake import publishing
from tidegate.lake.ledger import Ledger
from tidegate.lake.publishing import LakeFile
from tidegate.lake.store import Store, open_store
from tidegate.pipelines import files
from tidegate.pipelines.spec import Ingest
from tidegate.runs.subscription import known


def lake_of(name: str) -> tuple[Ingest, Store, Fold]:
    """Return an ingest pipeline whose lake is a source, with its store and its ledger."""
    source = files.load_ingest(name)
    store = open_store(source.lake, source.name)
    fold = Ledger(store, source.name).fold
    return known(source, fold), store, fold


def lake_files(plan: Plan) -> list[tuple[LakeFile, str]]:
    """Return the files of the lake with any offset of the plan's window, and Spark's name of each.

    They are looked for where they were planned, whatever the pipeline says now.
    """
    store, lake, window = held_window(plan)
    found = publishing.files_over(store, lake, window, plan.topics)
    return [(file, store.native(path)) for file, path in found]


def held_window(plan: Plan) -> tuple[Store, Fold, Window]:
    """Return the lake that a plan's window is of; SourceChanged if it does not hold all of it."""
    name = plan.byte_settings["source"]["lake"]
    _, store, lake = lake_of(name)
    window = tuple(r for chunk in plan.chunks for r in chunk)
    if not lake.covers(window, plan.topics):  # what is not there would count as sent
        raise SourceChanged(
            f"plan {plan.id}: the lake of {name!r} at {store.url} does not hold "
            f"{', '.join(map(str, window[:3]))}, which it did when this was planned: mount or "
            "restore what it was",
            files=[],
        )
    return store, lake, window
