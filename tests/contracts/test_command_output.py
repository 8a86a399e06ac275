"""What maintenance commands print for people: on a terminal of 80 columns, and in a pipe."""

import json
import os
import re
from pathlib import Path

import pytest

from support import printed, staged_attempts
from support.kafka_answers import answer
from support.made_up_broker import broker_has
from tidegate import faults
from tidegate.cli import main, maintenance_commands
from tidegate.core import layout
from tidegate.core.offsets import OffsetRange
from tidegate.errors import BrokerUnreachable, LakeUnavailable
from tidegate.lake import committing
from tidegate.lake.store import LocalStore


@pytest.fixture(params=["terminal", "pipe"])
def tidegate(store, request, monkeypatch, capsys):
    """Run a command; return its exit code, and exactly what it prints on stdout and stderr."""
    printed.on(request.param, monkeypatch)

    def run(*args):
        monkeypatch.setattr("sys.argv", ["tidegate", *args])
        with pytest.raises(SystemExit) as ended:
            main.run()
        out, err = map(printed.without_chance, capsys.readouterr())
        return ended.value.code or 0, out, err

    with printed.with_log():
        yield run


once = pytest.mark.parametrize("tidegate", ["pipe"], indirect=True)


@pytest.fixture
def variables(monkeypatch):
    """Airflow's Variables, in a dict."""
    shown = {}

    class Shown:
        read = staticmethod(shown.get)
        write = staticmethod(shown.__setitem__)

    monkeypatch.setattr(maintenance_commands, "variables", Shown)
    return shown


def test_reconcile(tidegate, variables, golden):
    """Mended, nothing to mend, and one that is ahead: named, left alone, with both ways out."""
    golden("reconcile", tidegate("reconcile", "p"))
    golden("reconcile", tidegate("reconcile", "p"))
    variables["tidegate__p__t"] = '{"t":{"0":4,"1":0}}'
    golden("reconcile", tidegate("reconcile"))
    variables["tidegate__p__t"] = "{"
    golden("reconcile", tidegate("reconcile"))
    variables["tidegate__p__t"] = '{"t":{"0":40}}'
    golden("reconcile", tidegate("reconcile", "p"))


def test_reconcile_a_group(tidegate, variables, monkeypatch, tmp_path, golden):
    """Each drift with both numbers; and a broker that does not answer leaves it as it is."""
    form = json.loads((tmp_path / "p.yaml").read_text())
    (tmp_path / "p.yaml").write_text(json.dumps({**form, "progress_group": "lag"}))
    answer(monkeypatch, committed=lambda *_: {})
    answer(monkeypatch, commit=lambda *_: None)
    tidegate("reconcile", "p")

    def refuses(*_):
        raise BrokerUnreachable("no broker answered")

    answer(monkeypatch, committed=lambda *_: {"t": {0: 4, 1: 0}})
    golden("reconcile", tidegate("reconcile", "p"))
    answer(monkeypatch, commit=refuses)
    code, out, err = tidegate("reconcile", "p")
    golden("reconcile", (code, out, err.splitlines()[-1]))


def test_reconcile_without_airflow(tidegate, monkeypatch, tmp_path, golden):
    """Refused by name; a group is compared with the ledger all the same."""
    golden("reconcile", tidegate("reconcile", "p"))
    form = json.loads((tmp_path / "p.yaml").read_text())
    (tmp_path / "p.yaml").write_text(json.dumps({**form, "progress_group": "lag"}))
    answer(monkeypatch, committed=lambda *_: {"t": {0: 10, 1: 0}})
    golden("reconcile", tidegate("reconcile", "p"))


def test_repair(tidegate, store, monkeypatch, golden):
    """Nothing; a commit that a crash left; an unknown file; and a file that is lost for good."""
    golden("repair", tidegate("repair", "p"))
    plan = staged_attempts.plan_of((OffsetRange("t", 1, 0, 5),))
    staged_attempts.seal(store, plan)
    monkeypatch.setenv(faults.VARIABLE, "publish.committed:raise")
    with pytest.raises(faults.FaultInjected):
        committing.commit_sealed_chunks(store, staged_attempts.ledger_of(store), plan, run="run")
    monkeypatch.delenv(faults.VARIABLE)
    moved = f"{store.uri('data/x.parquet')} → {store.uri(layout.QUARANTINE)}"
    Path(store.native("data/x.parquet")).write_bytes(b"abc")
    code, out, err = tidegate("repair", "p")
    assert code == 0
    assert re.fullmatch(rf"p: placed #4\n  {moved}/\w+-\w+/data/x\.parquet\n", out)
    assert err == (
        "p: ledger entry 4: commit\n"  # of the publisher that crashed
        "commit #4 was not in place; placing its files now\n"
        f"{store.uri('data/x.parquet')}: no live commit lists it; moved to quarantine\n"
    )
    (final,) = (each.path for each in store.objects(layout.DATA) if "-00000-" in each.path)
    for each in store.objects(layout.STAGING):
        store.delete(each.path)
    store.delete(final)
    code, out, err = tidegate("repair")
    assert (code, out) == (3, "")
    assert err.startswith(f"p: {printed.without_chance(store.uri(final))} ")
    assert "commit #3" in err


def test_sweep(tidegate, store, golden):
    """Nothing yet, a commit that is in place; and one whose file is damaged: kept, and exit 3."""
    golden("sweep", tidegate("sweep", "p"))
    for each in store.objects(layout.PLACED):
        os.utime(store.native(each.path), (0, 0))
    (final,) = (each.path for each in store.objects(layout.DATA))
    whole = store.get(final)
    Path(store.native(final)).unlink()
    gone = printed.without_chance(store.uri(final))
    code, out, err = tidegate("sweep", "p")
    golden("sweep", (code, out, err.replace(gone, "FILE")))
    Path(store.native(final)).write_bytes(whole)
    golden("sweep", tidegate("sweep", "p"))


def test_checkpoint(tidegate, golden):
    golden("checkpoint", tidegate("checkpoint", "p"))
    golden("checkpoint", tidegate("checkpoint"))


def test_offsets(tidegate, monkeypatch, golden):
    """Moved, nothing to move, refused backward and beyond the end; adopted, and again; shown."""
    broker_has(monkeypatch, "id-t")
    moving = ("offsets", "set", "p", "t", "0")
    why = ("--reason", "[b]poison[/b]")
    golden("offsets", tidegate(*moving, "25", *why))
    golden("offsets", tidegate(*moving, "25", *why))
    golden("offsets", tidegate(*moving, "9", *why))
    golden("offsets", tidegate(*moving, "41", *why))
    broker_has(monkeypatch, "new")
    golden("offsets", tidegate(*moving, "30", *why))
    adopting = ("offsets", "adopt", "p", "t", *why)
    golden("offsets", tidegate(*adopting))
    golden("offsets", tidegate(*adopting))
    shown = """\
p, after entry 5
t new
  origins  {"0": 0, "1": 2}
  earlier  id-t
u id-u
  origins  {"0": 0, "1": 0}
gap t-0 [10, 25): [b]poison[/b] (cli:ann)
{"t": {"0": 0, "1": 2}, "u": {"0": 0, "1": 0}}
"""
    assert tidegate("offsets", "show", "p") == (0, shown, "")


def test_release_of_an_ingest(tidegate, golden):
    golden("release", tidegate("release", "p", "--how", "resend", "--reason", "looked"))


@once
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
