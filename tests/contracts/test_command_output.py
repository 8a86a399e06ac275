"""What maintenance commands print for people: findings, actions, and what is left to do."""

import json
import os
from pathlib import Path

import pytest

from support import staged_attempts
from support.made_up_broker import broker_has
from tidegate import faults
from tidegate.broker import consumer_groups
from tidegate.cli import main, maintenance
from tidegate.core import layout
from tidegate.core.offsets import OffsetRange
from tidegate.errors import BrokerUnreachable, LakeUnavailable
from tidegate.lake import committing
from tidegate.lake.store import LocalStore

NOTHING = "p: placed nothing"


@pytest.fixture
def tidegate(store, monkeypatch, capsys):
    """Run a command; return its exit code, and the words on stdout and stderr."""

    def run(*args):
        monkeypatch.setattr("sys.argv", ["tidegate", *args])
        with pytest.raises(SystemExit) as ended:
            main.run()
        out, err = capsys.readouterr()
        return ended.value.code or 0, " ".join(out.split()), " ".join(err.split())

    return run


@pytest.fixture
def variables(monkeypatch):
    """Airflow's Variables, in a dict."""
    shown = {}

    class Shown:
        read = staticmethod(shown.get)
        write = staticmethod(shown.__setitem__)

    monkeypatch.setattr(maintenance, "variables", Shown)
    return shown


def test_reconcile(tidegate, variables):
    """Mended, nothing to mend, and one that is ahead: named, left alone, with both ways out."""
    code, out, _ = tidegate("reconcile", "p")
    assert (code, "Variable tidegate__p__t: missing: mended" in out) == (0, True)
    assert tidegate("reconcile", "p")[:2] == (0, "p: no drift")
    variables["tidegate__p__t"] = '{"t":{"0":4,"1":0}}'
    assert "Variable tidegate__p__t: behind: mended" in tidegate("reconcile")[1]
    variables["tidegate__p__t"] = "{"
    assert "Variable tidegate__p__t: unreadable: mended" in tidegate("reconcile")[1]
    variables["tidegate__p__t"] = '{"t":{"0":40}}'
    code, out, err = tidegate("reconcile", "p")
    assert (code, "Variable tidegate__p__t: ahead: left alone" in out) == (3, True)
    assert "ahead of the ledger: tidegate__p__t. Either the lake is not the one it was" in err
    assert "delete them, or `tidegate offsets set`" in err


def test_reconcile_a_group(tidegate, variables, monkeypatch, tmp_path):
    """Each drift with both numbers; and a broker that does not answer leaves it as it is."""
    form = json.loads((tmp_path / "p.yaml").read_text())
    (tmp_path / "p.yaml").write_text(json.dumps({**form, "progress_group": "lag"}))
    monkeypatch.setattr(consumer_groups, "committed", lambda *_: {})
    monkeypatch.setattr(consumer_groups, "commit", lambda *_: None)
    tidegate("reconcile", "p")

    def refuses(*_):
        raise BrokerUnreachable("no broker answered")

    monkeypatch.setattr(consumer_groups, "committed", lambda *_: {"t": {0: 4, 1: 0}})
    assert "group lag, t-0: 4, ledger 10: mended" in tidegate("reconcile", "p")[1]
    monkeypatch.setattr(consumer_groups, "commit", refuses)
    code, out, err = tidegate("reconcile", "p")
    assert (code, "group lag, t-0: 4, ledger 10: not mended" in out) == (0, True)
    assert "p: no broker answered" in err


def test_reconcile_without_airflow(tidegate, monkeypatch, tmp_path):
    """Refused by name; with a group that is held against the ledger, told."""
    code, _, err = tidegate("reconcile", "p")
    assert (code, "there is no Airflow in this environment" in err) == (2, True)
    form = json.loads((tmp_path / "p.yaml").read_text())
    (tmp_path / "p.yaml").write_text(json.dumps({**form, "progress_group": "lag"}))
    monkeypatch.setattr(consumer_groups, "committed", lambda *_: {"t": {0: 10, 1: 0}})
    code, out, err = tidegate("reconcile", "p")
    assert (code, out) == (0, "p: no drift")
    assert "Variables were not looked at: there is no Airflow" in err


def test_repair(tidegate, store, monkeypatch):
    """Nothing; a commit that a crash left; a stranger; and a file that is lost for good."""
    assert tidegate("repair", "p")[:2] == (0, NOTHING)
    plan = staged_attempts.plan_of((OffsetRange("t", 1, 0, 5),))
    staged_attempts.seal(store, plan)
    monkeypatch.setenv(faults.VARIABLE, "publish.committed:raise")
    with pytest.raises(faults.FaultInjected):
        committing.publish_sealed(store, staged_attempts.ledger_of(store), plan, run="run")
    monkeypatch.delenv(faults.VARIABLE)
    Path(store.native("data/x.parquet")).write_bytes(b"abc")
    code, out, _ = tidegate("repair", "p")
    assert (code, out.startswith("p: placed #4 file://")) == (0, True)
    assert f"{store.uri('data/x.parquet')} → {store.uri(layout.QUARANTINE)}" in out
    (final,) = (each.path for each in store.objects(layout.DATA) if "-00000-" in each.path)
    for each in store.objects(layout.STAGING):
        store.delete(each.path)
    store.delete(final)
    code, _, err = tidegate("repair")
    assert (code, f"{store.uri(final)} is not the file that commit #3 lists" in err) == (3, True)
    assert "restore it from a copy" in err


def test_sweep(tidegate, store):
    """Nothing yet, a commit that is in place; and one whose file is damaged: kept, and exit 3."""
    assert tidegate("sweep", "p")[:2] == (0, "p: removed 0 attempts, 0 files, 0 bytes")
    for each in store.objects(layout.PLACED):
        os.utime(store.native(each.path), (0, 0))
    (final,) = (each.path for each in store.objects(layout.DATA))
    whole = store.get(final)
    Path(store.native(final)).unlink()
    code, out, err = tidegate("sweep", "p")
    assert (code, out) == (3, "p: removed 0 attempts, 0 files, 0 bytes")
    assert f"kept commit #3: {store.uri(final)} is missing or has another size" in err
    Path(store.native(final)).write_bytes(whole)
    code, out, _ = tidegate("sweep", "p")
    assert (code, out.startswith("p: removed 1 attempt, 2 files, ")) == (0, True)


def test_checkpoint(tidegate):
    assert tidegate("checkpoint", "p")[1].startswith("p: at entry 3; read 3 entries, wrote ")
    assert tidegate("checkpoint", "p")[1] == "p: at entry 3; read 0 entries, wrote 0 bytes"


def test_offsets(tidegate, monkeypatch):
    """Moved, nothing to move, refused backward and beyond the end; shown; adopted, and again."""
    broker_has(monkeypatch, "id-t")
    moving = ("offsets", "set", "p", "t", "0")
    why = ("--reason", "[b]poison[/b]")
    assert tidegate(*moving, "25", *why)[:2] == (0, "t-0: cursor 10 → 25 (#4)")
    assert tidegate(*moving, "25", *why)[:2] == (0, "t-0: cursor 25 → 25 (nothing to skip)")
    code, _, err = tidegate(*moving, "9", *why)
    assert (code, "`tidegate replay p`" in err) == (3, True)
    code, _, err = tidegate(*moving, "41", *why)
    assert (code, "t-0 ends at 40; 41 is beyond it" in err) == (3, True)
    broker_has(monkeypatch, "new")
    code, _, err = tidegate(*moving, "30", *why)
    assert (code, "`tidegate offsets adopt p t --reason …`" in err) == (3, True)
    adopting = ("offsets", "adopt", "p", "t", *why)
    assert tidegate(*adopting)[:2] == (0, 't: id-t → new (#5), from {"0": 0, "1": 2}')
    assert tidegate(*adopting)[:2] == (0, "t: new is followed already")
    _, out, _ = tidegate("offsets", "show", "p")
    assert out.startswith('p, after entry 5 t new origins {"0": 0, "1": 2} earlier id-t u id-u')
    assert "gap t-0 [10, 25): [b]poison[/b] (cli:ann)" in out
    assert out.endswith('{"t": {"0": 0, "1": 2}, "u": {"0": 0, "1": 0}}')


@pytest.mark.parametrize("broken", ["a", "z"])
def test_what_needs_action_decides_the_exit_code(
    tidegate,
    store,
    variables,
    monkeypatch,
    tmp_path,
    broken,
):
    """Of several pipelines: 3 beats 4, whichever comes last, and all is said; else a script that
    retries on 4 would wait for ever for what an operator must mend.
    """
    form = json.loads((tmp_path / "p.yaml").read_text())
    for name in (broken, "m"):
        (tmp_path / f"{name}.yaml").write_text(json.dumps({**form, "name": name}))
    log = Path(form["lake"], broken, "_tidegate/log")
    log.mkdir(parents=True)
    (log / f"{1:020d}.json").write_text("{}")
    real = LocalStore.names

    def away(self, directory, *, after=""):
        if self.root.name == "m":
            raise LakeUnavailable("m is away")
        return real(self, directory, after=after)

    monkeypatch.setattr(LocalStore, "names", away)
    for command in ("repair", "sweep", "checkpoint", "reconcile"):
        code, _, err = tidegate(command)
        assert (code, "m is away" in err, "entry 1" in err) == (3, True, True), command
    (log / f"{1:020d}.json").unlink()
    assert tidegate("repair")[0] == 4
    variables["tidegate__p__t"] = '{"t":{"0":40}}'
    code, _, err = tidegate("reconcile")
    assert (code, "ahead of the ledger: tidegate__p__t" in err) == (3, True)
