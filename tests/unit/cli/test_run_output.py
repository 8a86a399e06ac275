"""What `tidegate run` prints of an ingest run: its progress, its last line, and how it goes on."""

import json
import os
import signal
import time
from dataclasses import dataclass

import pytest
from obstore.exceptions import BaseError

from support import ingest_world, printed
from support.toy_engine import submitting
from tidegate.broker import client_errors
from tidegate.cli import main, runs
from tidegate.core.cursor import Watermarks
from tidegate.core.requests import Backfill
from tidegate.errors import BrokerUnreachable, LakeUnavailable
from tidegate.ingest import stage
from tidegate.lake import committing
from tidegate.launch import spark_submit

NOTHING_BUT = "kept: nothing: no plan was frozen\n"


@dataclass
class Command:
    """Runs a command of the pipeline `p`; `application` plays Spark."""

    world: ingest_world.World
    application: object
    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch

    def run(self, *args: str) -> tuple[int, str, str]:
        """Return the exit code, stdout, and stderr, without what differs by chance."""
        self.monkeypatch.setattr("sys.argv", ["tidegate", *args])
        with pytest.raises(SystemExit) as ended:
            main.run()
        out, err = map(printed.without_chance, self.capsys.readouterr())
        return ended.value.code or 0, out, err


@pytest.fixture(params=["terminal", "pipe"])
def place(request, monkeypatch):
    printed.on(request.param, monkeypatch)
    return request.param


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """150 records wait in t-0, for two chunks. Log lines are printed as in a process of its own."""
    world = ingest_world.make(tmp_path, monkeypatch, {0: Watermarks(0, 150, 150)})
    form = {"name": "p", "kind": "ingest", "topics": ["t"], "lake": str(world.root)}
    (tmp_path / "p.yaml").write_text(json.dumps({**form, "max_records": 100}))
    monkeypatch.setenv("TIDEGATE_PIPELINES", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path / "home"))
    for name in ("AIRFLOW_HOME", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"):
        monkeypatch.delenv(name, raising=False)
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": "nowhere:1"}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(kafka))
    monkeypatch.setattr(runs, "duration", lambda _: "12 s")
    monkeypatch.setattr(client_errors, "FIRST_LINE_AFTER", 600)  # seconds of a busy machine
    command = Command(world, world.submit(), capsys, monkeypatch)
    monkeypatch.setattr(
        spark_submit, "submit", submitting(lambda *given: command.application(*given))
    )
    with printed.with_log():
        yield command


def test_a_run(command, place):
    """The plan once, each silent step, and a last line that says what, where and what next. Then
    the same run again, and one with nothing new.
    """
    root = command.world.root
    where = f"lake: file://{root}/p; next: tidegate status p\n"
    code, out, err = command.run("run", "p", "--run-id", "r1")
    lines = f"""\
run id: r1
planning: Kafka at nowhere:1 (kafka_default), lake {root}
p: ledger entry 1: origin
p: discovered t, partitions [0]
plan PLAN: 150 offsets in 2 chunks
  t-0 [0, 150)
a new run: none of this id, r1, has this work
starting Spark (local[*])
plan PLAN: chunk 0 is sealed: 100 rows, N bytes
plan PLAN: chunk 1 is sealed: 50 rows, N bytes
p: ledger entry 2: commit
p: ledger entry 3: commit
"""
    assert code == 0
    assert err == lines if place == "pipe" else printed.has_lines(err, lines)
    assert out == f"commit #2: 100 rows\ncommit #3: 50 rows\n150 rows in 12 s (t 150); {where}"
    code, out, err = command.run("run", "p", "--run-id", "r1")
    assert (code, out) == (0, f"already done as #2, #3: 150 rows (t 150); {where}")
    assert "known plan PLAN: 150 offsets in 2 chunks\n" in err
    assert command.run("run", "p")[:2] == (0, f"nothing new in 12 s; {where}")
    code, out, _ = command.run("run", "p", "--run-id", "r1", "--json")
    assert json.loads(out)["rows"] == 150


BEGINS = """\
run id: {}
planning: Kafka at nowhere:1 (kafka_default), lake {}
"""
STAGED = """\
plan PLAN: 150 offsets in 2 chunks
  t-0 [0, 150)
starting Spark (local[*])
plan PLAN: chunk 0 is sealed: 100 rows, N bytes
plan PLAN: chunk 1 is sealed: 50 rows, N bytes
p: ledger entry {}: commit
p: ledger entry {}: commit
"""
EXPLAINED = """\
from Kafka at nowhere:1 (kafka_default): PLAINTEXT, no login
t
  partition  records  from   to  first expires
          0      150     0  150  -
  partition  cursor  then  log start  end
"""
SETTINGS = """\
Tidegate's own settings
  groupIdPrefix: tidegate
  kafka.fetch.max.wait.ms: 1
  kafka.isolation.level: read_committed
  kafka.max.partition.fetch.bytes: 2097152
  kafka.max.poll.records: 10000
  kafka.receive.buffer.bytes: -1
  kafkaConsumer.pollTimeoutMs: 30000
"""
WINDOW = ("--start", "0", "--end", "150")


def test_a_backfill(command, place):
    """What it would do, what it does; the same id again, and another with nothing to do."""
    begins, where = BEGINS.format("b", command.world.root), f"lake: file://{command.world.root}/p"
    backfill = ("backfill", "p", *WINDOW, "--run-id", "b")
    explained = (
        f"p (backfill): 150 records in 2 chunks, 2 tasks, 2 files\n{EXPLAINED}"
        f"          0       0   150          0  150\n{SETTINGS}"
    )
    assert command.run(*backfill, "--dry-run") == (0, explained, "")
    code, out, err = command.run(*backfill)
    last = f"150 rows in 12 s (t 150); {where}; next: tidegate status p\n"
    assert (code, out) == (0, f"commit #2: 100 rows\ncommit #3: 50 rows\n{last}")
    lines = (
        f"{begins}p: ledger entry 1: origin\np: discovered t, partitions [0]\n{STAGED.format(2, 3)}"
    ).replace("starting", "a new run: none of this id, b, has this work\nstarting")
    assert err == lines if place == "pipe" else printed.has_lines(err, lines)
    code, out, err = command.run(*backfill)
    last = f"already done as #2, #3: 150 rows (t 150); {where}; next: tidegate status p\n"
    assert (code, out) == (0, last)
    lines = f"{begins}known plan PLAN: 150 offsets in 2 chunks\n  t-0 [0, 150)\n"
    assert err == lines if place == "pipe" else printed.has_lines(err, lines)
    done = "p (backfill): already done as #2, #3\n"
    assert command.run(*backfill, "--dry-run") == (0, done, "")
    code, out, err = command.run("backfill", "p", *WINDOW, "--run-id", "c")
    assert (code, out) == (0, f"nothing new in 12 s; {where}; next: tidegate status p\n")
    assert printed.has_lines(
        err,
        "p: all requested offsets are already committed as #2, #3; use `tidegate replay` to read "
        "them again\nplan PLAN: nothing new\n",
    )


def test_a_replay_of_a_topic_that_was_never_read(command):
    """With an end or without."""
    for window in (WINDOW, WINDOW[:2]):
        code, _, err = command.run("replay", "p", "--replay-id", "x", *window)
        assert (code, "WindowRefused: " in err) == (3, True), err


def test_a_window_before_now_is_continued_as_it_was(command, monkeypatch):
    """`-1d` would be another window by then."""
    asked = Backfill("t", start="2026-03-13T12:00:00+00:00", end="2026-03-14T00:00:00+00:00")
    words = ["tidegate", "backfill", "p", "--start", "-1d", "--end=2026-03-14"]
    monkeypatch.setattr("sys.argv", words)
    assert runs._command(command.world.run("r", asked=asked), again=False) == (
        "tidegate backfill p --start 2026-03-13T12:00:00+00:00 --end=2026-03-14T00:00:00+00:00 "
        "--run-id r"
    )


def test_a_replay(command, place):
    """What it would do, what it does; then the same id again, and refusals with all complaints."""
    begins, where = BEGINS.format("x", command.world.root), f"lake: file://{command.world.root}/p"
    command.run("run", "p")
    replay = ("replay", "p", "--run-id", "x", "--replay-id")
    explained = (
        f"p (replay): 150 records in 2 chunks, about N bytes, 2 tasks, 2 files\n{EXPLAINED}"
        f"          0     150   150          0  150\n{SETTINGS}"
    )
    assert command.run(*replay, "x", *WINDOW, "--dry-run") == (0, explained, "")
    code, out, err = command.run(*replay, "x", *WINDOW)
    last = f"150 rows in 12 s (t 150); {where}; next: tidegate status p\n"
    assert (code, out) == (0, f"commit #4: 100 rows\ncommit #5: 50 rows\n{last}")
    lines = begins + STAGED.format(4, 5)
    assert err == lines if place == "pipe" else printed.has_lines(err, lines)
    last = f"already done as #4, #5: 150 rows (t 150); {where}; next: tidegate status p\n"
    assert command.run(*replay, "x", *WINDOW)[:2] == (0, last)
    done = "p (replay): already done as #4, #5\n"
    assert command.run(*replay, "x", *WINDOW, "--dry-run") == (0, done, "")
    code, _, err = command.run(*replay, "x", "--start", "9", "--end", "10", "--dry-run")
    assert (code, err) == (
        3,
        "ReplayRefused: pipeline 'p': replay id 'x' stands for topic t, start 0, end 150, as plan "
        "PLAN; nothing was done. Another window needs another id\n",
    )
    code, out, err = command.run(*replay, "y", "--start", "9", "--end", "300", "--partitions", "0")
    assert (code, out) == (3, "")
    assert err.endswith(
        "WindowRefused: pipeline 'p', replay of t: nothing was done:\n  - partition 0: [150, 300) "
        "is not in the lake: there is nothing to replace; backfill it\n"
        f"`tidegate coverage p` shows what there is\n{NOTHING_BUT}"
    )
    assert command.run(*replay, "end", "--start", "0", "--dry-run")[0] == 0
    code, _, err = command.run(*replay, "z", *WINDOW, "--partitions", "7,8")
    assert (code, "\n  - no partitions [7, 8]: there is only 0\n" in err) == (3, True)
    assert command.run("explain", "p")[1].splitlines()[0] == "p (live): nothing new"


def interrupt():
    raise KeyboardInterrupt


ENDINGS = {
    "SIGTERM": (lambda: os.kill(os.getpid(), signal.SIGTERM), 143, "ended by SIGTERM"),
    "SIGHUP": (lambda: os.kill(os.getpid(), signal.SIGHUP), 129, "ended by SIGHUP"),
    "Ctrl-C": (interrupt, 130, "interrupted"),
}


@pytest.fixture
def without_nohup():
    """SIGHUP as a terminal has it: these tests may themselves run under nohup.

    A command that does not handle the signal fails the test, instead of ending it.
    """

    def unhandled(number, frame):
        raise AssertionError("SIGHUP is not handled")

    before = signal.signal(signal.SIGHUP, unhandled)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("how", ENDINGS)
@pytest.mark.usefixtures("without_nohup")
def test_a_run_that_is_ended(command, how):
    """It says what it keeps, and the printed command does the rest alone."""
    end, expected, says = ENDINGS[how]
    handler = signal.getsignal(signal.SIGTERM)
    command.application = command.world.submit(fail={1}, then=end)
    code, out, err = command.run("run", "p", "--replan", "--run-id=r1")
    assert (code, out) == (expected, "")
    assert err.endswith(
        f"{says}\nkept: plan PLAN: of 2 chunks, 0 in the lake and 1 staged\n"
        "continue with: tidegate run p --run-id r1\n"
    )
    assert signal.getsignal(signal.SIGTERM) is handler
    command.application = command.world.submit(fail={0})  # it must not be read again
    code, _, err = command.run("run", "p", "--run-id", "r1")
    assert (code, "plan PLAN: left to stage: 1 of 2 chunks\n" in err) == (0, True)
    assert command.world.rows == {0: list(range(150))}


def test_nohup_is_heeded(command):
    """The run goes on when its terminal is closed, and SIGHUP stays ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        end, _, _ = ENDINGS["SIGHUP"]
        command.application = command.world.submit(then=end)
        assert command.run("run", "p", "--run-id=r1")[0] == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_run_that_fails(command):
    """What was staged is published; the error comes before what is kept."""
    command.application = command.world.submit(fail={1})
    code, out, err = command.run("run", "p", "--run-id", "r1", "--max-records", "100")
    assert (code, out.splitlines()[0]) == (4, "commit #2: 100 rows")
    assert "100 rows in 12 s (t 100)" in out
    assert "not in the lake: 1 chunk\n" in err
    assert err.endswith(
        "StageFailed: chunk 1: a record that Spark cannot read\n"
        "kept: plan PLAN: of 2 chunks, 1 in the lake and 0 staged\n"
        "continue with: tidegate run p --max-records 100 --run-id r1\n"
    )


def test_a_run_that_does_not_begin(command):
    """Without a plan, the same command is tried again; a wrong request is not."""
    command.world.away = BrokerUnreachable("no broker answered")
    code, out, err = command.run("run", "p", "--run-id", "r1")
    assert (code, out) == (4, "")
    assert err.endswith(
        f"BrokerUnreachable: no broker answered\n{NOTHING_BUT}"
        "continue with: tidegate run p --run-id r1\n"
    )
    command.world.away = None
    code, _, err = command.run("backfill", "p", "--start", "9", "--end", "3")
    assert code == 3
    assert err.endswith(NOTHING_BUT)


def test_a_topic_that_may_not_be_read(command):
    """Refused before Spark starts, by the right that is missing: a retry would fail as well."""
    command.world.readable = False
    code, out, err = command.run("run", "p")
    assert (code, out, command.world.started) == (3, "", 0)
    assert err.endswith(
        "NotAuthorised: Kafka at nowhere:1 (kafka_default): not permitted: READ on t: grant it to "
        f"the connection's user\n{NOTHING_BUT}"
    )
    command.world.readable = True
    command.application = command.world.submit(fail={1})
    command.run("run", "p", "--run-id", "r1")
    command.world.readable = False
    code, _, err = command.run("run", "p", "--run-id", "r1")
    assert (code, "NotAuthorised: " in err, command.world.started) == (3, True, 1)


def test_a_run_that_excludes_a_partition(command):
    """All of its plan is done: what goes on is a new run."""
    command.run("run", "p")
    command.world.marks = {0: Watermarks(200, 250, 250)}
    code, _, err = command.run("run", "p", "--run-id", "r2")
    assert code == 3
    assert "tidegate offsets set p t 0 200 " in err
    assert err.endswith(
        "kept: all that was planned is in the lake\nwhen that is mended: tidegate run p\n"
    )


def test_a_run_that_skips_offsets_says_so(command):
    """What `on_expired: skip` recorded, before the last line; and again with the same run id."""
    command.run("run", "p")
    command.world.marks = {0: Watermarks(200, 250, 250)}
    file = command.world.root.parent / "p.yaml"
    file.write_text(json.dumps({**json.loads(file.read_text()), "on_expired": "skip"}))
    for _ in range(2):
        code, out, _ = command.run("run", "p", "--run-id", "r2")
        assert code == 0
        assert "gap: t-0 [150, 200), 50 offsets skipped: expired\n" in out


def test_a_run_says_what_earlier_attempts_staged(command, monkeypatch):
    """Rows that it has not staged, committed or not, are not counted as done in its time."""
    commit = committing.append_commit

    def only_the_first(store, ledger, plan, seal, *args):
        if seal.attempt.chunk == 1:
            raise LakeUnavailable("full")
        return commit(store, ledger, plan, seal, *args)

    monkeypatch.setattr(committing, "append_commit", only_the_first)
    assert command.run("run", "p", "--run-id", "r1")[0] == 4
    monkeypatch.setattr(committing, "append_commit", commit)
    code, out, _ = command.run("run", "p", "--run-id", "r1")
    assert code == 0
    assert "150 rows in 12 s, 150 of them staged before (t 150); " in out


def test_an_unforeseen_error_is_not_hidden(command, monkeypatch):
    """Neither by what is kept, nor by a lake that cannot be read for it."""

    def unforeseen(*_):
        raise RuntimeError("unforeseen")

    command.application = unforeseen
    monkeypatch.setattr("tidegate.ingest.ingest_run.early_end", unforeseen)
    monkeypatch.setattr("sys.argv", ["tidegate", "run", "p", "--run-id", "r 1"])
    with pytest.raises(RuntimeError, match="unforeseen") as raised:
        main.run()
    assert raised.value.__notes__ == [
        "kept: what was committed or staged; the lake cannot be read now",
        "continue with: tidegate run p --run-id 'r 1'",
    ]


def test_a_store_that_is_away_is_not_asked_again(command, monkeypatch):
    """It took obstore ten tries, some ten seconds, to give up."""
    asked = []

    def unreachable(*_):
        try:
            raise BaseError("error sending request")
        except BaseError as error:
            raise LakeUnavailable("lake s3://b/p: error sending request") from error

    command.application = unreachable
    monkeypatch.setattr("tidegate.ingest.ingest_run.early_end", asked.append)
    code, _, err = command.run("run", "p", "--run-id", "r1")
    assert (code, asked) == (4, [])
    assert err.endswith(
        "LakeUnavailable: lake s3://b/p: error sending request\n"
        "kept: what was committed or staged; the lake cannot be read now\n"
        "continue with: tidegate run p --run-id r1\n"
    )


def test_the_progress_of_a_run(command, monkeypatch):
    """A chunk that is sealed while Spark reads the next is told, with an estimate of the rest."""
    monkeypatch.setattr(stage, "LOOKS_FOR_CHUNKS_APART", 0.01)
    manifests = command.world.root / "p/_tidegate/manifests"

    def wait():
        while not list(manifests.glob("*-0-*.json")):
            time.sleep(0.01)
        time.sleep(0.05)

    command.application = command.world.submit(fail={1}, then=wait)
    _, _, err = command.run("run", "p")
    assert "plan PLAN: 1 of 2 chunks staged, 100 of 150 offsets (67%); about 0 s left\n" in err
