"""Documents of a newer release: an egress is refused by their names, and nothing changes."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from support.egress_world import World, dies_while_sending
from support.handed_in import TOY
from tidegate import flows
from tidegate.core import canonical, layout
from tidegate.egress.publish import publish
from tidegate.egress.release import release_claim
from tidegate.egress.status import read_egress_status
from tidegate.egress.verify import verify
from tidegate.errors import OtherFormat, SendFailed
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import STORES, open_store
from tidegate.maintenance.sweep import sweep_pipeline
from tidegate.pipelines import pipeline_files

READERS: dict[str, Callable[[World], object]] = {
    "plan": lambda world: world.plan("open"),
    "send": lambda world: world.send("open"),
    "publish": lambda world: publish(world.open("open")),
    "release": lambda world: release_claim(
        world.spec, flows.store(world.spec), None, "resend", "a test", engine=TOY, run="me"
    ),
    "status": lambda world: read_egress_status(world.spec, STORES, pipeline_files).to_json(),
    "verify": lambda world: verify(world.spec, flows.store(world.spec), None, lambda _: None),
    "sweep": lambda world: sweep_pipeline(world.spec, flows.store(world.spec), run="sweep"),
}
RUN = ("plan", "send", "publish")


@pytest.fixture
def home(world: World) -> Path:
    """The lake of a pipeline with a run that is published, and one whose sender died."""
    world.put(a="one\n")
    world.plan("done")
    world.send_and_publish("done")
    world.put(b="two\n")
    world.plan("open")
    with pytest.raises(SendFailed):
        world.send("open", dies_while_sending)
    return world.home / "lake/out"


def edit(file: Path, **keys: object) -> None:
    file.write_bytes(canonical.encode(json.loads(file.read_bytes()) | keys))


def refused(world: World, reader: str, file: Path) -> None:
    before = {path: path.read_bytes() for path in world.home.rglob("*") if path.is_file()}
    with pytest.raises(OtherFormat, match=rf"^{file.as_uri()} was .* \(format 3; this .* reads 2"):
        READERS[reader](world)
    assert before == {path: path.read_bytes() for path in world.home.rglob("*") if path.is_file()}


@pytest.mark.parametrize("reader", READERS)
def test_an_entry_of_a_later_format(world: World, home: Path, reader: str) -> None:
    file = home / layout.entry(world.fold.n)
    edit(file, format=3)
    refused(world, reader, file)


def test_a_lake_of_an_older_form(world: World, home: Path) -> None:
    """There was no release that wrote one: it is named, and left as it is."""
    file = home / layout.entry(1)
    edit(file, format=1)
    with pytest.raises(OtherFormat, match=r"was written by an older Tidegate .*: begin a new lake"):
        world.plan("next")


@pytest.mark.parametrize("reader", [*RUN, "status"])
def test_a_plan_of_a_later_format(world: World, home: Path, reader: str) -> None:
    (claim,) = world.fold.egress.claims.values()
    file = home / layout.plan(claim.plan_id)
    edit(file, format=3)
    refused(world, reader, file)


@pytest.mark.parametrize("reader", RUN)
def test_a_pointer_of_a_later_format(world: World, home: Path, reader: str) -> None:
    file = home / layout.generation(world.run("open").key, 1)
    edit(file, format=3)
    refused(world, reader, file)


@pytest.mark.parametrize("reader", ["send", "publish"])
def test_a_manifest_of_an_attempt_of_a_later_format(world: World, home: Path, reader: str) -> None:
    """All is sent and read back, and not committed yet."""
    world.send("open")
    (claim,) = world.fold.egress.claims.values()
    file = home / layout.manifest(claim.plan_id, 0, claim.attempt)
    edit(file, format=3)
    refused(world, reader, file)


def test_a_manifest_of_a_later_format(world: World, home: Path) -> None:
    """`verify` reads it, and `status` for what is in quarantine."""
    world.send_and_publish("open")
    store = open_store(world.spec.lake, "out")
    fold = Ledger(store, "out").fold
    commit = fold.live[fold.n]
    file = home / commit.manifest.path
    edit(file, format=3)
    changed = {"path": commit.manifest.path, "sha256": canonical.digest(file.read_bytes())}
    edit(home / layout.entry(fold.n), manifest=changed)
    bad_rows = home / layout.quarantine(commit.plan_id, commit.attempt) / "part.parquet"
    bad_rows.parent.mkdir(parents=True)
    bad_rows.touch()
    for reader in ("verify", "status"):
        refused(world, reader, file)
