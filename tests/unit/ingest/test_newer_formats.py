"""Documents of a newer release: each is refused by its name, and nothing in the lake changes."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from support import ingest_world, staged_attempts
from support.ingest_steps import ingest, plan, publish, stage
from support.ingest_world import World
from tidegate import flows
from tidegate.core import canonical, layout
from tidegate.core.boundaries import Boundary
from tidegate.core.cursor import Watermarks
from tidegate.errors import OtherFormat
from tidegate.ingest.status import lake_files, read_ingest_status, read_state
from tidegate.ingest.verify import verify
from tidegate.lake import boundary_files, plans
from tidegate.lake.attempts import Attempt
from tidegate.maintenance.checkpoint_step import checkpoint_pipeline
from tidegate.maintenance.repair import repair_lake
from tidegate.maintenance.sweep import sweep_pipeline

LAST = layout.entry(4)
SEALED, STAGED = (Attempt("{plan}", chunk, "attempt") for chunk in (0, 1))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A published run of three chunks, and a run `open`: a chunk is sealed, the other staged."""
    world = ingest_world.make(tmp_path, monkeypatch, {0: Watermarks(0, 300, 300)})
    ingest(world.run("published"), world.submit())
    world.marks = {0: Watermarks(0, 500, 500)}
    planned = plan(world.run("open")).plan
    staged_attempts.seal(world.run("open").store(), planned)
    staged_attempts.stage(world.run("open").store(), planned, chunk=1)
    return world


def path_of(world: World, path: str) -> Path:
    """Return a file of the lake; `{plan}` stands for the plan of the run `open`."""
    (plan_id,) = plans.unfinished_ids(world.run("open").store())
    return world.root / "p" / path.format(plan=plan_id)


def edit(file: Path, **keys: object) -> str:
    """Write a document with other keys, as a newer release might; return its digest."""
    data = canonical.encode(json.loads(file.read_bytes()) | keys)
    file.write_bytes(data)
    return canonical.digest(data)


def state(world: World) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in world.root.rglob("*") if path.is_file()}


def show_status(world: World) -> None:
    run = world.run("any")
    store = flows.store(run.spec)
    state = read_state(run.spec, store, run.kafka, down="the broker does not answer")
    read_ingest_status(run.spec, store, run.kafka, state).to_json()


READERS: dict[str, Callable[[World], object]] = {
    "plan": lambda world: plan(world.run("open")),
    "plan of the next run": lambda world: plan(world.run("next")),
    "stage": lambda world: stage(world.run("open"), world.submit()),
    "publish": lambda world: publish(world.run("open")),
    "status": show_status,
    "files": lambda world: lake_files(world.run("any").spec, flows.store(world.run("any").spec)),
    "verify": lambda world: verify(
        world.run("any").spec, flows.store(world.run("any").spec), None, lambda _: None
    ),
    "repair": lambda world: repair_lake(world.run("any").spec, flows.store(world.run("any").spec)),
    "sweep": lambda world: sweep_pipeline(
        world.run("any").spec, flows.store(world.run("any").spec), run="sweep"
    ),
    "checkpoint": lambda world: checkpoint_pipeline(
        world.run("any").spec, flows.store(world.run("any").spec)
    ),
}
RUN = ("plan", "stage", "publish")
PLANNERS = ("plan", "plan of the next run", "stage")
DOCUMENTS = {
    LAST: tuple(READERS),
    layout.checkpoint(4): tuple(READERS),
    layout.plan("{plan}"): (*RUN, "plan of the next run", "status", "sweep"),
    # `publish` reads the note for its report, when the chunks are committed.
    layout.note("{plan}"): (*PLANNERS, "status"),
    layout.generation(layout.run_key("dag", "open", ""), 1): RUN,
    SEALED.manifest_path: (*PLANNERS, "publish"),
    STAGED.done_path: PLANNERS,
    layout.manifest("{commit}", 2, "{attempt}"): ("verify", "files", "repair"),
}


def refused(world: World, reader: str, file: Path, what: str) -> None:
    """Assert that a reader refuses a document by its name, for good, and has changed nothing."""
    before = state(world)
    with pytest.raises(OtherFormat) as error:
        READERS[reader](world)
    assert str(error.value) == (
        f"{file.as_uri()} was written by a newer Tidegate ({what}): update this installation"
    )
    assert (error.value.kind, error.value.exit_code) == ("terminal", 3)
    assert state(world) == before


@pytest.mark.parametrize(
    ("document", "reader"),
    [(name, each) for name, readers in DOCUMENTS.items() for each in readers],
)
def test_a_document_of_a_later_format(world: World, document: str, reader: str) -> None:
    if document == layout.checkpoint(4):
        checkpoint_pipeline(world.run("any").spec, flows.store(world.run("any").spec))
    commit = world.ledger.commit(4)
    if "{commit}" in document:  # the entry has the digest of its manifest
        file = path_of(world, commit.manifest.path)
        changed = {"path": commit.manifest.path, "sha256": edit(file, format=3)}
        edit(path_of(world, LAST), manifest=changed)
    else:
        file = path_of(world, document)
        edit(file, format=3)
    refused(world, reader, file, "format 3; this version reads 2")


def test_a_manifest_of_another_run(world: World) -> None:
    """The only staged chunk: what it has is not planned a second time."""
    path_of(world, STAGED.done_path).unlink()
    file = path_of(world, SEALED.manifest_path)
    edit(file, format=3)
    refused(world, "plan of the next run", file, "format 3; this version reads 2")


def test_a_manifest_of_a_commit_that_is_not_in_place(world: World) -> None:
    """A planner would place its files: it ends, and plans nothing over what it cannot read."""
    path_of(world, layout.placed(4)).unlink()
    file = path_of(world, world.ledger.commit(4).manifest.path)
    digest = edit(file, format=3)
    path = str(file.relative_to(world.root / "p"))
    edit(path_of(world, LAST), manifest={"path": path, "sha256": digest})
    refused(world, "plan of the next run", file, "format 3; this version reads 2")


@pytest.mark.parametrize("reader", READERS)
def test_an_unknown_kind_of_entry(world: World, reader: str) -> None:
    """It follows from the entry before it, so it is no damage."""
    file = path_of(world, LAST)
    edit(file, kind="lease")
    refused(world, reader, file, "a ledger entry of kind 'lease'")


@pytest.mark.parametrize("reader", [*RUN, "plan of the next run", "status"])
def test_a_plan_with_an_unknown_key(world: World, reader: str) -> None:
    """Its name is the digest of its bytes, so they are right; this version would drop the key."""
    store, key = world.run("open").store(), world.run("open").key
    old = path_of(world, layout.plan("{plan}"))
    data = canonical.encode(json.loads(old.read_bytes()) | {"added": True})
    new = old.with_name(f"{canonical.digest(data)[:16]}.json")
    new.write_bytes(data)
    edit(path_of(world, layout.generation(key, 1)), plan_id=new.stem)
    staging = world.root / "p" / layout.STAGING
    (staging / old.stem).rename(staging / new.stem)
    plans.finish_plan(store, old.stem)
    store.create(layout.unfinished(new.stem), b"")
    refused(world, reader, new, "a plan with keys that this version does not know")


def test_a_boundary_of_a_later_format(world: World) -> None:
    """Frozen at a time, or next to it: no other boundary is made beside it."""
    store = world.run("any").store()
    boundary_files.freeze_boundary(store, Boundary("t", "id-t", 1000, {0: 5}))
    file = world.root / "p" / layout.boundary("id-t", 1000)
    edit(file, format=3)
    for timestamp in (999, 1000, 1001):
        with pytest.raises(OtherFormat, match=rf"^{file.as_uri()} was written by a newer"):
            boundary_files.neighbouring_boundaries(store, "id-t", timestamp)


def test_an_unknown_key_within_a_format_is_ignored(world: World) -> None:
    """What a format promises to older readers: entries, pointers and notes may get keys."""
    for document in (
        LAST,
        layout.note("{plan}"),
        layout.generation(world.run("open").key, 1),
        STAGED.done_path,
    ):
        edit(path_of(world, document), added="later")
    ingest(world.run("open"), world.submit())
    assert world.rows == {0: list(range(500))}
    assert not READERS["verify"](world).differences
