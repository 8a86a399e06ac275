"""What `tidegate run` prints of an egress run: what was sent or waits, and how it goes on."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from support import printed
from support.egress_world import World, dies_before_sending, dies_while_sending, sends_all
from support.toy_engine import submitting
from tidegate.cli import main, runs
from tidegate.egress.release import LateRange, Released
from tidegate.launch import spark_submit
from tidegate.spark.egress_job import DONE, EgressJob
from tidegate.terminal import render_egress


@pytest.fixture
def command(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Any:
    """Run a command of the pipeline `out`, with an application in Spark's place."""
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": "nowhere:1"}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(kafka))
    monkeypatch.setenv("TIDEGATE_HOME", str(world.home / "home"))
    for name in ("AIRFLOW_HOME", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(runs, "duration", lambda _: "12 s")

    def run(*args: str, application: Any = sends_all, **settings: Any) -> tuple[int, str, str]:
        form = {
            "name": "out", "kind": "egress", "lake": str(world.home / "lake"), "settle": 0,
            "source": {"path": str(world.home / "in"), "format": "text"}, "target": {"topic": "t"},
        }  # fmt: skip
        (world.home / "pipelines/out.yaml").write_text(json.dumps({**form, **settings}))
        monkeypatch.setattr(spark_submit, "submit", submitting(world.app(application)))
        monkeypatch.setattr("sys.argv", ["tidegate", *args])
        with pytest.raises(SystemExit) as ended:
            main.run()
        out, err = map(printed.without_chance, capsys.readouterr())
        return int(ended.value.code or 0), out, err

    return run


@pytest.mark.parametrize("place", ["terminal", "pipe"])
def test_a_run(command: Any, world: World, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """Rows by topic, and where to look; then the same again, and what waits."""
    printed.on(place, monkeypatch)
    world.put(a="1\n")
    os.utime(world.home / "in/a", (0, 0))
    code, out, err = command("run", "out", "--run-id", "r1")
    assert (code, out) == (
        0, "commit #2: 1 row sent in 12 s (t 1); next: tidegate status out\n"
    )  # fmt: skip
    lines = f"""\
run id: r1
planning: Kafka at nowhere:1 (kafka_default), lake {world.home}/lake
plan PLAN: 1 file, 2 bytes
a new run: none of this id, r1, has this work
starting Spark (local[*])
"""
    assert err == lines if place == "pipe" else printed.has_lines(err, lines)
    code, out, _ = command("run", "out", "--run-id", "r1")
    assert (code, out) == (0, "already done as #2: 1 row sent (t 1); next: tidegate status out\n")
    world.put(b="1\n", c="1\n", d="1\n")
    code, out, _ = command("run", "out", settle=41)
    assert (code, out) == (
        0,
        "nothing to send in 12 s; 3 files settle in 41 s; next: tidegate status out\n",
    )


def test_a_run_that_leaves_files_says_so(command: Any, world: World) -> None:
    """They wait for the next run, which is named."""
    world.put(a="1\n", b="1\n", c="1\n")
    code, out, _ = command("run", "out", "--run-id", "r1", max_files=1)
    last = "commit #2: 1 row sent in 12 s (t 1); waiting: 2 files; next: tidegate run out\n"
    assert (code, out) == (0, last)


def test_a_resumed_claim_is_told_once(
    command: Any, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """By the run that takes it over."""
    caplog.set_level("INFO", "tidegate")
    world.put(a="1\n")
    command("run", "out", "--run-id", "r1", application=dies_while_sending)
    world.put(b="1\n")
    code, out, _ = command("run", "out", "--run-id", "r2")
    assert (code, out.count("waiting: 1 file; next: tidegate run out")) == (0, 1)
    told = [message for message in caplog.messages if "has an open claim" in message]
    assert len(told) == 1
    assert told[0].endswith("this run resumes it, the next one sends the remaining files")


def test_rows_in_quarantine(command: Any, world: World) -> None:
    """Their path, and the query that shows them; `status` tells of them later."""

    def refuses_two(job: EgressJob, directory: Path) -> None:
        sends_all(job, directory)
        done = json.loads((directory / DONE).read_text())
        done["files"][0]["bad"] = 2
        (directory / DONE).write_text(json.dumps(done))
        assert job.quarantine
        Path(job.quarantine).mkdir(parents=True)
        Path(job.quarantine, "part-0.parquet").touch()

    world.put(a="1\n")
    _, out, _ = command("run", "out", application=refuses_two, on_bad_row="quarantine")
    directory = f"{world.home}/lake/out/_tidegate/quarantine"
    lines = f"""\
2 rows in quarantine: file://{directory}/PLAN/PLAN
  SELECT file, row, reason, text FROM read_parquet('{directory}/PLAN/PLAN/**/*.parquet')
commit #2: 1 row sent in 12 s (t 1); next: tidegate status out
"""
    assert out == lines
    _, out, _ = command("status", "out")
    assert f"  2 rows in quarantine: file://{directory}\n" in out
    _, out, _ = command("status", "out", "--json")
    assert json.loads(out)["quarantine"] == {"rows": 2, "uri": f"file://{directory}"}


def test_a_run_that_fails(command: Any, world: World) -> None:
    """Whether anything may be sent, and the command that sends the rest."""
    goes_on = "continue with: tidegate run out --run-id r1\n"
    world.put(a="1\n")
    code, out, err = command("run", "out", "--run-id", "r1", application=dies_before_sending)
    assert (code, out) == (4, "")
    assert err.endswith(
        f"SendFailed: plan PLAN: no JVM\nkept: nothing of plan PLAN was sent\n{goes_on}"
    )
    code, _, err = command("run", "out", "--run-id", "r1", application=dies_while_sending)
    assert code == 4
    assert err.endswith(
        "kept: the claim of plan PLAN: some of its rows may be sent, and only the others will be\n"
        + goes_on
    )
    code, out, _ = command("run", "out", "--run-id", "r1")
    assert (code, out.partition(" (")[0]) == (0, "commit #5: 1 row sent in 12 s")


@pytest.mark.parametrize("place", ["terminal", "pipe"])
def test_a_release(command: Any, world: World, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """Refused while the sender is alive; released once to be sent again, once as sent."""
    printed.on(place, monkeypatch)
    world.put(a="1\n")
    command("run", "out", "--run-id", "r1", application=dies_while_sending)
    (claim,) = world.fold.egress.claims.values()
    release = ("release", "out", "--reason", "looked", "--how")
    world.alive.add(claim.attempt)
    alive = (
        f"SenderAlive: plan PLAN: its sender, process {os.getpid()} of this machine, or its Spark "
        "driver, is alive: what it sends from now on would be sent again, or never be committed. "
        "Wait until it has ended, or end it first; then release\n"
    )
    assert command(*release, "resend") == (4, "", alive)
    world.alive.clear()
    assert command(*release, "resend") == (
        0, "plan PLAN: released; a later run sends all of it\n", ""
    )  # fmt: skip
    command("run", "out", "--run-id", "r1", application=dies_while_sending)
    assert command(*release, "declare-sent") == (
        0, "plan PLAN: released; it counts as sent\n", ""
    )  # fmt: skip
    assert command(*release, "declare-sent") == (
        3, "", "NotClaimed: pipeline 'out' has no open claim to choose; open: none\n"
    )  # fmt: skip
    assert command(*release, "declare-sent", "--late") == (
        3, "", "NotClaimed: pipeline 'out': nothing in its source lies below what was sent\n"
    )  # fmt: skip
    assert command(*release, "resend", "--late") == (
        2,
        "",
        "ConfigurationError: --late goes with --how declare-sent, and without --plan: to send such "
        "offsets all the same, use `tidegate replay`\n",
    )


@pytest.mark.parametrize("place", ["terminal", "pipe"])
def test_late_offsets(monkeypatch: pytest.MonkeyPatch, capsys: Any, place: str) -> None:
    printed.on(place, monkeypatch)
    late = LateRange("t", "id", 3, 1_000, 2_000)
    render_egress.print_late(Released(pipeline="p", plan_id=None, how="declare sent", late=(late,)))
    assert capsys.readouterr().out == "t-3 [1,000, 2,000): counted as sent\n"
