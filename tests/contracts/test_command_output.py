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
from tidegate.cli import main, maintenance
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

    monkeypatch.setattr(maintenance, "variables", Shown)
    return shown


def test_reconcile(tidegate, variables):
    """Mended, nothing to mend, and one that is ahead: named, left alone, with both ways out."""
    mended = "p\n  Variable tidegate__p__t: {}: mended\n"
    assert tidegate("reconcile", "p") == (0, mended.format("missing"), "")
    assert tidegate("reconcile", "p") == (0, "p: no drift\n", "")
    variables["tidegate__p__t"] = '{"t":{"0":4,"1":0}}'
    assert tidegate("reconcile") == (0, mended.format("behind"), "")
    variables["tidegate__p__t"] = "{"
    assert tidegate("reconcile") == (
        0, mended.format("unreadable"), "the Variable of t is not offsets: '{'\n"
    )  # fmt: skip
    variables["tidegate__p__t"] = '{"t":{"0":40}}'
    assert tidegate("reconcile", "p") == (
        3,
        "p\n  Variable tidegate__p__t: ahead: left alone\n",
        "ahead of the ledger: tidegate__p__t. Either the lake is not the one it was, or they were "
        "edited: delete them, or `tidegate offsets set`\n",
    )


def test_reconcile_a_group(tidegate, variables, monkeypatch, tmp_path):
    """Each drift with both numbers; and a broker that does not answer leaves it as it is."""
    form = json.loads((tmp_path / "p.yaml").read_text())
    (tmp_path / "p.yaml").write_text(json.dumps({**form, "progress_group": "lag"}))
    answer(monkeypatch, committed=lambda *_: {})
    answer(monkeypatch, commit=lambda *_: None)
    tidegate("reconcile", "p")

    def refuses(*_):
        raise BrokerUnreachable("no broker answered")

    answer(monkeypatch, committed=lambda *_: {"t": {0: 4, 1: 0}})
    drift = "p\n  group lag, t-0: 4, ledger 10:"
    assert tidegate("reconcile", "p") == (0, f"{drift} mended\n", "")
    answer(monkeypatch, commit=refuses)
    code, out, err = tidegate("reconcile", "p")
    assert (code, out) == (0, f"{drift} not mended\n")
    assert err.endswith("p: no broker answered\n")


def test_reconcile_without_airflow(tidegate, monkeypatch, tmp_path):
    """Refused by name; a group is compared with the ledger all the same."""
    none = (
        "there is no Airflow in this environment, so no Variables: run this where AIRFLOW_HOME or "
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN is set as for Airflow's own processes\n"
    )
    assert tidegate("reconcile", "p") == (2, "", f"NeedsAirflow: {none}")
    form = json.loads((tmp_path / "p.yaml").read_text())
    (tmp_path / "p.yaml").write_text(json.dumps({**form, "progress_group": "lag"}))
    answer(monkeypatch, committed=lambda *_: {"t": {0: 10, 1: 0}})
    assert tidegate("reconcile", "p") == (
        0, "p: no drift\n", f"Variables were not looked at: {none}"
    )  # fmt: skip


def test_repair(tidegate, store, monkeypatch):
    """Nothing; a commit that a crash left; an unknown file; and a file that is lost for good."""
    assert tidegate("repair", "p") == (0, "p: placed nothing\n", "")
    plan = staged_attempts.plan_of((OffsetRange("t", 1, 0, 5),))
    staged_attempts.seal(store, plan)
    monkeypatch.setenv(faults.VARIABLE, "publish.committed:raise")
    with pytest.raises(faults.FaultInjected):
        committing.publish_sealed(store, staged_attempts.ledger_of(store), plan, run="run")
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
    assert tidegate("repair") == (
        3,
        "",
        f"p: {printed.without_chance(store.uri(final))} is not the file that commit #3 lists, and "
        "its staged copy is gone: restore it from a copy\n",
    )


def test_sweep(tidegate, store):
    """Nothing yet, a commit that is in place; and one whose file is damaged: kept, and exit 3."""
    nothing = "p: removed 0 attempts, 0 files, 0 bytes\n"
    assert tidegate("sweep", "p") == (0, nothing, "")
    for each in store.objects(layout.PLACED):
        os.utime(store.native(each.path), (0, 0))
    (final,) = (each.path for each in store.objects(layout.DATA))
    whole = store.get(final)
    Path(store.native(final)).unlink()
    gone = printed.without_chance(store.uri(final))
    kept = f"  kept commit #3: {gone} is missing or has another size\n"
    assert tidegate("sweep", "p") == (3, nothing, kept)
    Path(store.native(final)).write_bytes(whole)
    assert tidegate("sweep", "p") == (
        0,
        "p: removed 1 attempt, 2 files, N bytes\n",
        "_tidegate/staging/PLAN/0/attempt/: removed 2 files (placed)\n",
    )


def test_checkpoint(tidegate):
    assert tidegate("checkpoint", "p") == (
        0, "p: at entry 3; read 3 entries, wrote N bytes\n", ""
    )  # fmt: skip
    assert tidegate("checkpoint") == (0, "p: at entry 3; read 0 entries, wrote 0 bytes\n", "")


def test_offsets(tidegate, monkeypatch):
    """Moved, nothing to move, refused backward and beyond the end; adopted, and again; shown."""
    broker_has(monkeypatch, "id-t")
    moving = ("offsets", "set", "p", "t", "0")
    why = ("--reason", "[b]poison[/b]")
    assert tidegate(*moving, "25", *why) == (
        0, "t-0: cursor 10 → 25 (#4)\n", "p: ledger entry 4: gap\n"
    )  # fmt: skip
    assert tidegate(*moving, "25", *why) == (0, "t-0: cursor 25 → 25 (nothing to skip)\n", "")
    assert tidegate(*moving, "9", *why) == (
        3,
        "",
        "CursorBackward: pipeline 'p': the cursor of t-0 is 25; 9 is behind it, and the offsets "
        "between are in the lake or skipped. To read them again, use `tidegate replay p`, or the "
        "DAG tidegate_replay\n",
    )
    assert tidegate(*moving, "41", *why) == (
        3,
        "",
        "BeyondEnd: pipeline 'p': t-0 ends at 40; 41 is beyond it. Only offsets that exist can be "
        "skipped: give at most the end\n",
    )
    broker_has(monkeypatch, "new")
    assert tidegate(*moving, "30", *why) == (
        3,
        "",
        "IdentityChanged: pipeline 'p': t: the topic was recreated (was id-t, is new): `tidegate "
        "offsets adopt p t --reason …`, or give the topic a new pipeline\n",
    )
    adopting = ("offsets", "adopt", "p", "t", *why)
    assert tidegate(*adopting) == (
        0, 't: id-t → new (#5), from {"0": 0, "1": 2}\n', "p: ledger entry 5: origin\n"
    )  # fmt: skip
    assert tidegate(*adopting) == (0, "t: new is followed already\n", "")
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


def test_release_of_an_ingest(tidegate):
    assert tidegate("release", "p", "--how", "resend", "--reason", "looked") == (
        2, "", "ConfigurationError: pipeline 'p': only egress pipelines have claims\n"
    )  # fmt: skip


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
