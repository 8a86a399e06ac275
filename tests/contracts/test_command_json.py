"""What the keeper's commands print with --json, exactly (docs/json.md)."""

import json
import os
from pathlib import Path

import pytest

from support import staged_attempts
from support.kafka_answers import answer
from support.made_up_broker import broker_has
from tidegate.cli import main, maintenance_commands
from tidegate.core import canonical
from tidegate.core.entries import Claim, Commit, Receipt, Reference
from tidegate.core.offsets import OffsetRange
from tidegate.core.plan import SourceFile
from tidegate.doctor import check, machine, pipeline_checks
from tidegate.errors import BrokerUnreachable
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import LocalStore


@pytest.fixture
def tidegate(store, monkeypatch, capsys):
    """Run a command; return its exit code and the one document on its stdout."""

    def run(*args):
        monkeypatch.setattr("sys.argv", ["tidegate", *args, "--json"])
        with pytest.raises(SystemExit) as ended:
            main.run()
        return ended.value.code or 0, json.loads(capsys.readouterr().out)

    return run


def test_offsets_show(tidegate):
    assert tidegate("offsets", "show", "p") == (
        0,
        {
            "format": 1,
            "pipeline": "p",
            "entry": 3,
            "offsets": {"t": {"0": 10, "1": 0}, "u": {"0": 0, "1": 0}},
            "topics": {
                "t": {"topic_id": "id-t", "origins": {"0": 0, "1": 0}, "earlier": []},
                "u": {"topic_id": "id-u", "origins": {"0": 0, "1": 0}, "earlier": []},
            },
            "gaps": [],
        },
    )


def test_offsets_set(tidegate, monkeypatch):
    broker_has(monkeypatch, "id-t")
    assert tidegate("offsets", "set", "p", "t", "0", "25", "--reason", "poison") == (
        0,
        {
            "format": 1, "pipeline": "p", "topic": "t", "partition": 0,
            "was": 10, "cursor": 25, "entries": [4],
        },
    )  # fmt: skip
    _, shown = tidegate("offsets", "show", "p")
    assert shown["gaps"] == [
        {
            "topic": "t", "topic_id": "id-t", "partition": 0,
            "start": 10, "end": 25, "reason": "poison", "by": "cli:ann",
        }
    ]  # fmt: skip
    code, refused = tidegate("offsets", "set", "p", "t", "0", "9", "--reason", "again")
    assert (code, refused["error"]["name"]) == (3, "CursorBackward")
    assert refused["error"]["numbers"] == {"cursor": 25, "offset": 9}


def test_offsets_adopt(tidegate, monkeypatch, store):
    """And the entry, byte for byte what the format says."""
    broker_has(monkeypatch, "new")
    adopted = {
        "format": 1, "pipeline": "p", "topic": "t", "was": "id-t", "topic_id": "new",
        "origins": {"0": 0, "1": 2}, "entry": 4,
    }  # fmt: skip
    assert tidegate("offsets", "adopt", "p", "t", "--reason", "moved") == (0, adopted)
    entry = json.loads(store.get("_tidegate/log/00000000000000000004.json"))
    for name in ("at", "previous", "writer"):
        entry.pop(name)
    assert entry == {
        "format": 2, "n": 4, "kind": "origin", "pipeline": "p", "run": "cli:ann",
        "topic": "t", "topic_id": "new", "partitions": {"0": 0, "1": 2},
        "adopts": {"topic_id": "id-t", "reason": "moved", "by": "cli:ann"},
    }  # fmt: skip
    again = tidegate("offsets", "adopt", "p", "t", "--reason", "moved")
    assert again == (0, {**adopted, "was": "new", "entry": None})


def test_reconcile(tidegate, monkeypatch):
    """Behind is mended; ahead is left alone and exit 3; without Airflow it says so."""
    code, refused = tidegate("reconcile", "p")
    assert (code, refused["error"]["name"]) == (2, "NeedsAirflow")
    variables = {"tidegate__p__t": '{"t":{"0":4,"1":0}}'}

    class Shown:
        read = staticmethod(variables.get)
        write = staticmethod(variables.__setitem__)

    monkeypatch.setattr(maintenance_commands, "variables", Shown)
    drift = {
        "name": "tidegate__p__t", "topic": "t", "state": "behind",
        "partitions": {"0": {"shown": 4, "ledger": 10}}, "mended": True,
    }  # fmt: skip
    whole = {"format": 1, "pipeline": "p", "entry": 3, "group": None}
    assert tidegate("reconcile", "p") == (0, {**whole, "variables": [drift]})
    assert tidegate("reconcile", "p") == (0, {**whole, "variables": []})
    variables["tidegate__p__t"] = '{"t":{"0":40}}'
    ahead = {
        **drift, "state": "ahead", "mended": False,
        "partitions": {"0": {"shown": 40, "ledger": 10}, "1": {"shown": None, "ledger": 0}},
    }  # fmt: skip
    all_of_them = {"format": 1, "pipelines": [{**whole, "variables": [ahead]}]}
    assert tidegate("reconcile") == (3, all_of_them)


def test_reconcile_a_group(tidegate, monkeypatch, tmp_path):
    """Without Airflow the group is still held against the ledger, and nothing said of Variables."""
    form = json.loads((tmp_path / "p.yaml").read_text())
    (tmp_path / "p.yaml").write_text(json.dumps({**form, "progress_group": "lag"}))
    kept = {"t": {0: 4}}
    answer(monkeypatch, committed=lambda *_: kept)
    answer(monkeypatch, commit=lambda _, __, offsets: kept.update(offsets))
    drifts = [
        {"topic": "t", "partition": 0, "shown": 4, "ledger": 10},
        {"topic": "t", "partition": 1, "shown": None, "ledger": 0},
    ]
    whole = {"format": 1, "pipeline": "p", "entry": 3, "variables": None}
    group = {"name": "lag", "drifts": drifts, "error": None}
    assert tidegate("reconcile", "p") == (0, {**whole, "group": group})
    assert tidegate("reconcile", "p") == (0, {**whole, "group": {**group, "drifts": []}})

    def away(*_):
        raise BrokerUnreachable("no broker answered")

    answer(monkeypatch, committed=away)
    told = {**group, "drifts": [], "error": "no broker answered"}
    assert tidegate("reconcile", "p") == (0, {**whole, "group": told})


def test_an_egress(tidegate, monkeypatch, tmp_path):
    """Its Variables, the target's ends, are held against its ledger too, and it has checkpoints;
    the rest is for ingest pipelines.
    """
    form = {"name": "back", "kind": "egress", "lake": str(tmp_path)}
    source, target = {"path": str(tmp_path / "in/*.csv"), "format": "text"}, {"topic": "out"}
    (tmp_path / "back.yaml").write_text(json.dumps({**form, "source": source, "target": target}))
    ledger = Ledger(LocalStore(tmp_path / "back"), "back")
    claim = Claim("live", "c", "a", {"pid": 7}, (SourceFile("a.csv", 1, "e"),), {}, (), {}, "4.0")
    receipts = (Receipt("out", "id-out", 0, 1, 4, 3, 0), Receipt("out", "id-out", 1, 0, 2, 2, 0))
    commit = Commit(
        "live", "c", "sha", 0, "a", "cluster", {}, {}, Reference("manifest", "sha"), receipts
    )
    for entry in (claim, commit):
        ledger.append(entry, run="run")
    variables = {}

    class Shown:
        read = staticmethod(variables.get)
        write = staticmethod(variables.__setitem__)

    monkeypatch.setattr(maintenance_commands, "variables", Shown)
    drift = {
        "name": "tidegate__back__out", "topic": "out", "state": "missing", "mended": True,
        "partitions": {"0": {"shown": None, "ledger": 4}, "1": {"shown": None, "ledger": 2}},
    }  # fmt: skip
    whole = {"format": 1, "pipeline": "back", "entry": 2, "group": None}
    _, all_of_them = tidegate("reconcile")
    back, ingest = all_of_them["pipelines"]
    assert back == {**whole, "variables": [drift]}
    assert [each["name"] for each in ingest["variables"]] == ["tidegate__p__t"]
    assert variables["tidegate__back__out"] == '{"out":{"0":4,"1":2}}'
    assert tidegate("reconcile", "back") == (0, {**whole, "variables": []})
    variables["tidegate__back__out"] = '{"out":{"0":9}}'
    assert tidegate("reconcile", "back")[0] == 3
    code, found = tidegate("checkpoint", "back")
    assert (code, found["entry"], found["read"]) == (0, 2, 2)
    code, refused = tidegate("repair", "back")
    assert (code, refused["error"]["name"]) == (2, "ConfigurationError")


def test_repair(tidegate, store, tmp_path):
    """And a pipeline whose file is wrong stops no other."""
    assert tidegate("repair", "p") == (
        0,
        {"format": 1, "pipeline": "p", "placed": [], "quarantined": []},
    )
    Path(store.native("data/x.parquet")).write_bytes(b"abc")
    (tmp_path / "bad.yaml").write_text("name: bad\n")
    code, found = tidegate("repair")
    bad, good = found["pipelines"]
    assert (code, bad["pipeline"], bad["error"]["name"]) == (2, "bad", "ConfigurationError")
    (moved,) = good["quarantined"]
    assert moved == {"from": store.uri("data/x.parquet"), "to": moved["to"], "bytes": 3}
    assert moved["to"].endswith("/data/x.parquet")
    assert (good["format"], good["pipeline"], good["placed"]) == (1, "p", [])


def test_sweep(tidegate, store):
    """A killed attempt is given up; the commit's copies wait for their hour."""
    plan = staged_attempts.plan_of((OffsetRange("t", 1, 0, 5),))
    staged_attempts.unfinished(store, staged_attempts.stage(store, plan, "feed"))
    listed = store.objects(f"_tidegate/staging/{plan.id}/")
    code, found = tidegate("sweep", "p", "--abandon-after", "0")
    assert (code, found) == (
        0,
        {
            "format": 1,
            "pipeline": "p",
            "swept": [
                {
                    "plan_id": plan.id, "chunk": 0, "attempt": "feed", "why": "abandoned",
                    "files": 1, "bytes": sum(each.size for each in listed),
                }
            ],
            "left": [],
            "files": 1,
            "bytes": sum(each.size for each in listed),
            "uploads": 0,
        },
    )  # fmt: skip
    entry = json.loads(store.get("_tidegate/log/00000000000000000004.json"))
    assert (entry["kind"], entry["attempt"], entry["run"]) == ("abandon", "feed", "cli:ann")


def test_sweep_that_keeps_copies(tidegate, store):
    """A final file is gone: the copies that were due stay, which one and why is told, exit 3."""
    for each in store.objects("_tidegate/placed/"):
        os.utime(store.native(each.path), (0, 0))
    (final,) = store.objects("data/")
    store.delete(final.path)
    plan = staged_attempts.plan_of((OffsetRange("t", 0, 0, 10),))
    assert tidegate("sweep", "p") == (
        3,
        {
            "format": 1,
            "pipeline": "p",
            "swept": [],
            "left": [
                {
                    "plan_id": plan.id, "chunk": 0, "attempt": "attempt", "commit": 3,
                    "why": f"{store.uri(final.path)} is missing or has another size",
                }
            ],
            "files": 0,
            "bytes": 0,
            "uploads": 0,
        },
    )  # fmt: skip


def test_sweep_of_an_egress(tidegate, tmp_path):
    """By name, and with all: nothing is left behind here."""
    form = {
        "name": "out", "kind": "egress", "lake": str(tmp_path), "source": {"lake": "p"},
        "target": {"topic": "u"},
    }  # fmt: skip
    (tmp_path / "out.yaml").write_text(json.dumps(form))
    nothing = {"format": 1, "pipeline": "out", "swept": [], "left": [], "files": 0, "bytes": 0,
               "uploads": 0}  # fmt: skip
    assert tidegate("sweep", "out") == (0, nothing)
    code, found = tidegate("sweep")
    assert (code, [each["pipeline"] for each in found["pipelines"]]) == (0, ["out", "p"])


def test_checkpoint(tidegate, store):
    """Its size is that of its two files; the second time there is nothing to write."""
    code, found = tidegate("checkpoint", "p")
    head, commits = (
        store.get(f"_tidegate/checkpoints/00000000000000000003.{end}")
        for end in ("json", "commits")
    )
    size = len(head) + len(commits)
    whole = {"format": 1, "pipeline": "p", "entry": 3}
    assert (code, found) == (0, {**whole, "read": 3, "bytes": size})
    assert tidegate("checkpoint", "p") == (0, {**whole, "read": 0, "bytes": 0})
    form = json.loads(head)
    assert (form["format"], form["pipeline"], form["fold"]["n"]) == (2, "p", 3)
    assert form["commits"]["sha256"] == canonical.digest(commits)
    entry = json.loads(store.get("_tidegate/log/00000000000000000003.json"))
    assert json.loads(commits).items() <= entry.items()


def test_doctor(tidegate, monkeypatch):
    """One line of each state, and exit 3 for the failure."""
    lines = [
        check.ok("java", "17"),
        check.warning("disk", "low", "free some"),
        check.failure("clock", "off", "set it"),
    ]
    monkeypatch.setattr(
        machine, "machine_checks", lambda: [check.Check("all", lambda: iter(lines))]
    )
    monkeypatch.setattr(
        pipeline_checks,
        "checks",
        lambda *_: [check.Check("spark", lambda: iter([check.ok("spark", "local[*]")]), "p")],
    )
    assert tidegate("doctor") == (
        3,
        {
            "format": 1,
            "checks": [
                {"pipeline": None, "check": "java", "state": "ok", "says": "17", "fix": None},
                {
                    "pipeline": None, "check": "disk", "state": "warning",
                    "says": "low", "fix": "free some",
                },
                {
                    "pipeline": None, "check": "clock", "state": "failure",
                    "says": "off", "fix": "set it",
                },
                {"pipeline": "p", "check": "spark", "state": "ok", "says": "local[*]", "fix": None},
            ],
            "warnings": 1,
            "failures": 1,
        },
    )  # fmt: skip
    assert tidegate("doctor", "p")[0] == 3


def test_options_that_are_the_other_kinds(store, tidegate, tmp_path):
    """They are refused before anything is begun, not passed over."""
    form = {
        "name": "out", "kind": "egress", "lake": str(tmp_path),
        "source": {"path": str(tmp_path), "format": "text"}, "target": {"topic": "t"},
    }  # fmt: skip
    (tmp_path / "out.yaml").write_text(json.dumps(form))
    for args, kind in (
        (("run", "out", "--max-chunks", "1"), "ingest"),
        (("explain", "out", "--max-chunks", "1"), "ingest"),
        (("run", "p", "--resend"), "egress"),
    ):
        code, told = tidegate(*args)
        assert (code, told["error"]["name"]) == (2, "ConfigurationError")
        assert told["error"]["message"].endswith(f" is for {kind} pipelines")
