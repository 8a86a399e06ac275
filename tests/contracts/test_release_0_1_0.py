"""A lake of release 0.1.0, read and continued by this version, and by both beside each other."""

import json
import os
import time
from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

import tidegate
from support import release_lake, release_steps, staged_attempts
from support.release_lake import RELEASE, UNFINISHED, ReleaseLake
from tidegate import flows
from tidegate.broker.client_settings import KafkaSettings
from tidegate.broker.target import TargetState, TargetSurvey
from tidegate.core import layout
from tidegate.core.entries import Abandon, Claim, Gap, Origin, Release
from tidegate.egress import plan as egress_plan
from tidegate.egress.status import status
from tidegate.ingest import coverage
from tidegate.ingest import status as ingest_status
from tidegate.lake import plans
from tidegate.lake.ledger import Appended, Ledger
from tidegate.pipelines import files
from tidegate.pipelines.spec import Egress, Ingest
from tidegate.runs.run import EgressRun, open_run

HERE = tidegate.__version__
BOTH = (RELEASE, HERE)
PIPELINES = ("orders", "returned", "lines")
OFFSETS, FILES = (
    ("command", "offsets", "show", "orders", "--json"),
    ("command", "files", "orders", "--json"),
)
VERIFY = [("command", "verify", name, "--json") for name in PIPELINES]


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    return release_lake.unpack(tmp_path_factory.mktemp("release"))


@pytest.fixture
def lake(
    tmp_path: Path, packages: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch
) -> ReleaseLake:
    """A copy of the lake, whose pipelines this process knows too."""
    monkeypatch.setenv("TIDEGATE_PIPELINES", str(tmp_path / "pipelines"))
    return ReleaseLake.copied(tmp_path, packages)


def holds(document: Any, expected: Any) -> bool:
    """Return whether a document has what an older one has; objects may have more keys."""
    if isinstance(expected, dict):
        return isinstance(document, dict) and all(
            key in document and holds(document[key], each) for key, each in expected.items()
        )
    if isinstance(expected, list):
        return len(document) == len(expected) and all(map(holds, document, expected))
    return bool(document == expected)


def is_sound(lake: ReleaseLake, *, covered_to: int) -> None:
    """Assert what is covered, once each, and that neither version finds a difference."""
    fold = lake.ledger.fold
    spans = {p: fold.covered[release_steps.TOPIC_ID, p].spans for p in (0, 1)}
    assert spans == {0: ((0, 35), (40, covered_to)), 1: ((0, covered_to),)}
    ranges = [r for n in fold.live for _, r in fold.live_ranges(n)]
    assert sum(map(len, ranges)) == 2 * covered_to - 5
    by_release = lake.run(RELEASE, *VERIFY)
    specs = map(files.load_named, PIPELINES)
    verified = [flows.of(spec).verify(spec, None, lambda _: None) for spec in specs]
    assert holds(verified, by_release)
    assert [each["differences"] for each in verified] == [0, 0, 0]
    assert verified[0]["rows"] == 2 * covered_to - 5


@pytest.mark.parametrize("version", BOTH)
def test_it_prints_what_the_release_printed(lake: ReleaseLake, version: str) -> None:
    """The release too: nothing that was put in place of the machine's names has changed a lake."""
    expected = lake.expected()
    names = ["offsets", "files", *(f"verify {name}" for name in PIPELINES)]
    printed = lake.run(version, OFFSETS, FILES, *VERIFY)
    for name, document in zip(names, printed, strict=True):
        assert holds(document, expected[name]), name


def test_coverage(lake: ReleaseLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest_status, "survey", lambda *_: release_steps.survey_of(60))
    expected = lake.expected()["coverage"]
    times = {
        ("orders", int(p)): int(datetime.fromisoformat(each["expires_at"]).timestamp() * 1000)
        for p, each in expected["topics"]["orders"]["partitions"].items()
    }
    monkeypatch.setattr(coverage, "expiries", lambda *_: times)
    spec = files.load_named("orders")
    assert isinstance(spec, Ingest)
    kafka = KafkaSettings("k", {"bootstrap.servers": "nowhere:1"})
    assert holds(coverage.coverage(spec, kafka), expected)


def test_the_planner_resumes_an_open_plan(lake: ReleaseLake) -> None:
    """The run's own retry: nothing is planned or read again, and its manifest is as it was."""
    planned, published = lake.run(HERE, ("plan", "unfinished", 60), ("publish", "unfinished", 60))
    assert planned == {"plan_id": UNFINISHED, "known": True}
    assert published == {"commits": {"0": 8}, "new": [8]}
    is_sound(lake, covered_to=60)


def test_the_planner_of_the_next_run_publishes_what_is_sealed(lake: ReleaseLake) -> None:
    """And plans what comes after it."""
    ((planned),) = lake.run(HERE, ("plan", "next", 70))
    plan = plans.load(lake.store, planned["plan_id"])
    assert {(r.partition, r.start, r.end) for (window) in plan.chunks for r in window} == {
        (0, 60, 70),
        (1, 60, 70),
    }
    assert plans.unfinished(lake.store) == [plan.id]
    is_sound(lake, covered_to=60)


def test_an_egress_plan_that_was_not_claimed_is_kept(
    lake: ReleaseLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = TargetState("2f85b45e-ddaa-428d-a21c-c5728ea200cb", {0: 35, 1: 50}, 1_000_000, False)
    seen = TargetSurvey(release_steps.CLUSTER_ID, {"returned": state})
    monkeypatch.setattr("tidegate.egress.plan.survey_target", lambda *_, **__: seen)
    spec = files.load_named("returned")
    assert isinstance(spec, Egress)
    kafka = KafkaSettings("k", {"bootstrap.servers": "nowhere:1"})
    run = EgressRun(spec, kafka, "tidegate__returned", "unfinished", date(2026, 11, 24))
    planned = egress_plan.plan(open_run(run), lambda _: False)
    assert (planned.plan.id, planned.known) == ("7bb79b1c398be939", True)
    assert status(spec)["waiting"]["offsets"] == 10


def test_maintenance_leaves_it_sound(lake: ReleaseLake) -> None:
    """What was placed two hours ago is swept; a checkpoint of this version is read by the release,
    and one of the release by this version.
    """
    before = time.time() - 7200
    for path in (lake.home / "lake").rglob("*"):
        os.utime(path, (before, before))
    swept, repaired, *made = lake.run(
        HERE,
        ("command", "sweep", "orders", "--json"),
        ("command", "repair", "orders", "--json"),
        *(("command", "checkpoint", name, "--json") for name in PIPELINES),
    )
    assert {each["why"] for each in swept["swept"]} == {"placed"}
    assert swept["left"] == repaired["placed"] == repaired["quarantined"] == []
    assert [each["entry"] for each in made] == [7, 2, 2]
    is_sound(lake, covered_to=50)
    (folded,) = lake.run(RELEASE, ("fold",))
    assert folded == {"n": 7, "digest": lake.ledger.fold.digest}
    lake.run(RELEASE, ("publish", "unfinished", 60), ("command", "checkpoint", "orders", "--json"))
    assert lake.ledger.checkpoint == 8
    is_sound(lake, covered_to=60)


def test_the_release_reads_new_entries(lake: ReleaseLake) -> None:
    """One of each kind but commits, which the races make."""
    ledger = lake.ledger
    claim = Claim(
        "live", "p", "a", {"pid": 1}, (), {}, (), {"out": {0: 1}}, root="file:///in", spark="3.5"
    )
    for entry in (
        Gap("orders", release_steps.TOPIC_ID, 0, 60, 65, "a reason", "me"),
        Origin("orders", release_steps.TOPIC_ID, {2: 5}),
        Abandon("0" * 16, 0, "1" * 16),
        claim,
        Release("p", "a", "resend", "a reason", ("a.csv",), "fail"),
    ):
        assert isinstance(ledger.append(entry, run="new"), Appended)
    fold = Ledger(lake.store, "orders", whole=True).fold
    assert lake.run(RELEASE, ("fold",)) == [{"n": 12, "digest": fold.digest}]
    assert lake.run(RELEASE, OFFSETS) == lake.run(HERE, OFFSETS)


@pytest.mark.parametrize(("planner", "publisher"), [BOTH, BOTH[::-1]])
def test_one_version_publishes_what_the_other_has_planned(
    lake: ReleaseLake, planner: str, publisher: str
) -> None:
    lake.run(publisher, ("publish", "unfinished", 60))
    (planned,) = lake.run(planner, ("plan", "next", 70))
    staged_attempts.seal(lake.store, plans.load(lake.store, planned["plan_id"]))
    (published,) = lake.run(publisher, ("publish", "next", 70))
    assert published == {"commits": {"0": 9}, "new": [9]}
    is_sound(lake, covered_to=70)


RACES = {
    "two publishers": ("publish", "unfinished", 60),
    "a publisher and a planner, who publishes what is sealed": ("plan", "next", 60),
}


@pytest.mark.slow
@pytest.mark.parametrize("first", [None, *BOTH])
@pytest.mark.parametrize("other", RACES.values(), ids=RACES)
def test_both_versions_race_for_one_chunk(
    lake: ReleaseLake, other: tuple[Any, ...], first: str | None
) -> None:
    """Both are held when they have judged that they may commit it: together, or one behind the
    other. One entry is made, and who has lost adopts it.
    """
    gates = {version: lake.home / f"go-{version}" for version in BOTH}
    steps = {RELEASE: RACES["two publishers"], HERE: other}
    racers = {
        version: lake.start(version, steps[version], TIDEGATE_FAULT=f"ledger.judged:wait={gate}")
        for version, gate in gates.items()
    }
    try:
        until = time.monotonic() + 60
        while not all(list(lake.home.glob(f"{gate.name}.reached.*")) for gate in gates.values()):
            assert time.monotonic() < until, [racer.poll() for racer in racers.values()]
            time.sleep(0.01)
        assert lake.store.get(layout.entry(8)) is None
        if first:
            gates[first].touch()
            racers[first].wait(60)
        entry = lake.store.get(layout.entry(8))
        assert (entry is not None) == (first is not None)
        for gate in gates.values():
            gate.touch()
        ended = [racer.communicate(timeout=60) for racer in racers.values()]
    finally:
        for racer in racers.values():
            racer.kill()
    assert [racer.returncode for racer in racers.values()] == [0, 0], ended
    if first:
        assert lake.store.get(layout.entry(8)) == entry
    assert lake.store.get(layout.entry(9)) is None
    for (step, *_), (out, _) in zip((RACES["two publishers"], other), ended, strict=True):
        (result,) = json.loads(out)["results"]
        assert result.get("commits") == ({"0": 8} if step == "publish" else None)
    is_sound(lake, covered_to=60)
