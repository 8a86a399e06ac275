"""Whole ingest runs, with made-up watermarks and attempts: what is proven is never given up."""

import pytest

from support import ingest_world, staged_attempts, store_requests
from support.ingest_steps import ingest, plan, publish, stage, verdict
from support.ingest_world import ranges
from support.kafka_answers import answer
from tidegate.core import layout
from tidegate.core.cluster_answers import Survey, TopicIdentity
from tidegate.core.cursor import Watermarks
from tidegate.core.requests import Backfill, Replay
from tidegate.errors import (
    BrokerError,
    BrokerUnreachable,
    ChunksMissing,
    ConfigurationError,
    IdentityChanged,
    LakeUnsafe,
    LedgerCorrupt,
    NotAuthenticated,
    NotAuthorised,
    NotSealed,
    RowsMissing,
    StageFailed,
)
from tidegate.ingest import drafting, status
from tidegate.lake import plans
from tidegate.lake.ledger import Ledger
from tidegate.runs.pipeline_state import State
from tidegate.spark.answers import LocalAnswers
from tidegate.spark.job_files import write_refusal


@pytest.fixture
def world(tmp_path, monkeypatch):
    return ingest_world.make(tmp_path, monkeypatch, {0: Watermarks(0, 300, 300)})


def fail_staging(run, submit):
    """Plan a run and stage it up to a failure that no retry cures."""
    planned = plan(run).plan
    with pytest.raises(StageFailed):
        stage(run, submit)
    return planned


def test_sealed_chunks_are_published_when_a_later_one_fails(world):
    """Three chunks, the last of which cannot be staged: two are in the lake after the run, which
    fails with the cause; the next run plans the third alone.
    """
    with pytest.raises(StageFailed, match="chunk 2: a record that Spark cannot read"):
        ingest(world.run("one"), world.submit(fail=[2]))
    assert world.rows == {0: ranges((0, 200))}
    ((third,),) = plan(world.run("two")).plan.chunks
    assert (third.start, third.end) == (200, 300)


def test_the_steps_of_a_dag_run_whose_stage_has_failed(world):
    """`publish` commits what is sealed and says what is missing; `verdict` fails, naming the
    offsets; after `stage` was cleared, the same run is whole and its report is kept.
    """
    run = world.run("one")
    fail_staging(run, world.submit(fail=[1]))
    published = publish(run)
    assert (published.report.rows, published.report.missing) == (100, (1, 2))
    assert published.report.covered_by == {}
    assert published.complete_through == {}
    assert published.asset_event("t")["ranges"] == {"0": [0, 100]}
    with pytest.raises(ChunksMissing, match=r"t-0 \[100, 300\)") as failed:
        verdict(run)
    assert failed.value.numbers["chunks"] == [1, 2]
    assert "the log of the task that runs Spark. Clear that task, repeat" in str(failed.value)
    assert not (world.root / "p/_tidegate/reports").exists()
    stage(run, world.submit())
    assert publish(run).report.missing == ()
    verdict(run)
    assert world.rows == {0: ranges((0, 300))}
    (report,) = (world.root / "p/_tidegate/reports").rglob("*.json")
    assert '"rows":300' in report.read_text()


def test_publish_refuses_when_nothing_of_a_plan_is_sealed(world):
    """No asset event may tell of rows that are not there."""
    run = world.run("one")
    fail_staging(run, world.submit(fail=[0]))
    with pytest.raises(NotSealed):
        publish(run)


def test_what_is_accepted_with_a_notice_is_logged_once(world, caplog):
    """When a plan is frozen: not by the steps that find it."""
    world.settings["start"] = "smallest"
    for _ in range(2):
        ingest(world.run("one"), world.submit())
    assert [each.getMessage() for each in caplog.records if "older" in each.getMessage()] == [
        "p: start: read as earliest: smallest is an older word for it"
    ]


def test_plan_publishes_what_other_runs_have_sealed(world):
    """Nobody came back to a run whose `publish` never ran, and retention has passed its offsets:
    the next run commits them, and with `on_expired: skip` the gap is only what is not sealed.
    """
    fail_staging(world.run("one"), world.submit(fail=[2]))
    world.marks = {0: Watermarks(250, 300, 300)}
    world.settings = {"on_expired": "skip"}
    planned = plan(world.run("two")).plan
    assert world.rows == {0: ranges((0, 200))}
    assert [(gap.start, gap.end) for gap in world.ledger.fold.gaps] == [(200, 250)]
    assert [(r.start, r.end) for window in planned.chunks for r in window] == [(250, 300)]


def test_a_forced_plan_publishes_first(world):
    """A new plan by force is made of what is left after the old plan's seals."""
    fail_staging(world.run("one"), world.submit(fail=[1]))
    planned = plan(world.run("one"), replan=True).plan
    assert world.rows == {0: ranges((0, 100))}
    assert planned.records == 200


def test_a_living_plan_of_another_run_goes_on(world):
    """Another run plans while this one is in the middle: it seals and commits what Spark has
    finished so far, and the first one ends with the rest, each row once.
    """
    run = world.run("one")

    def meanwhile() -> None:
        plan(world.run("two"))

    fail_staging(run, world.submit(fail=[2]))
    stage(run, world.submit(then=meanwhile))
    assert world.rows == {0: ranges((0, 300))}
    assert publish(run).report.rows == 300
    assert world.rows == {0: ranges((0, 300))}
    verdict(run)


def test_a_replay_is_finished_by_its_own_id(world):
    """What a replay has sealed replaces committed files: only the replay itself may do that."""
    ingest(world.run("one"), world.submit())
    asked = Replay(topic="t", id="again", start="0", end="300")
    fail_staging(world.run("r", asked=asked), world.submit(fail=[1]))
    before = world.ledger.fold.n
    plan(world.run("two"))
    assert world.ledger.fold.n == before
    published = ingest(world.run("r", asked=asked), world.submit())
    assert (published.report.rows, len(published.commits)) == (300, 3)
    assert world.rows == {0: ranges((0, 300))}


def test_a_backfill_that_nobody_finished_is_published(world):
    """A window ahead of the cursor is in the lake before the live run plans up to it."""
    asked = Backfill(topic="t", start="100", end="300")
    fail_staging(world.run("b", asked=asked), world.submit(fail=[1]))
    ingest(world.run("one"), world.submit())
    assert world.rows == {0: ranges((0, 200))}
    ingest(world.run("two"), world.submit())
    assert world.rows == {0: ranges((0, 300))}
    lanes = sorted(commit.lane for commit in world.ledger.fold.live.values())
    assert lanes == ["backfill", "live", "live"]


def test_plans_that_are_over_are_looked_at_no_more(world):
    """A lake with many finished runs costs the next plan one listing of what is open."""
    store = world.run("any").store()
    for number in range(3):
        world.marks = {0: Watermarks(0, 100 * (number + 1), 100 * (number + 1))}
        ingest(world.run(f"run-{number}"), world.submit())
        assert plans.unfinished_ids(store) == []
    world.marks = {0: Watermarks(0, 400, 400)}
    bad = fail_staging(world.run("bad"), world.submit(fail=[0]))
    assert plans.unfinished_ids(store) == [bad.id]
    ingest(world.run("good"), world.submit())
    plan(world.run("last"))
    assert plans.unfinished_ids(store) == []


def test_a_broker_that_is_away_costs_no_finished_attempt(world):
    """It goes away when Spark has ended: the files stay, and the retry seals them without Spark."""
    run = world.run("one")

    def away() -> None:
        world.away = BrokerUnreachable("away")

    plan(run)
    with pytest.raises(BrokerUnreachable):
        stage(run, world.submit(then=away))
    staged = sorted((world.root / "p/_tidegate/staging").rglob("*.parquet"))
    assert len(staged) == 3
    world.away = None
    assert stage(run, world.submit()).chunks == (0, 1, 2)
    assert world.started == 1
    assert sorted((world.root / "p/_tidegate/staging").rglob("*.parquet")) == staged
    assert publish(run).report.rows == 300


def test_an_outage_ends_the_stage_by_name(world):
    """Finished chunks are kept and the others deleted; the retry stages only these."""
    run = world.run("one")

    def out() -> None:
        world.away = BrokerUnreachable("away")
        raise BrokerUnreachable("no broker has answered for 20 s, and Spark was stopped")

    plan(run)
    with pytest.raises(BrokerUnreachable, match="20 s, and Spark was stopped"):
        stage(run, world.submit(fail=[2], then=out))
    staging = world.root / "p/_tidegate/staging"
    assert len(list(staging.rglob("*.parquet"))) == 2
    world.away = None
    assert stage(run, world.submit()).chunks == (0, 1, 2)
    assert publish(run).report.rows == 300


def test_what_cannot_be_sealed_yet_keeps_no_other_chunk_from_being_staged(world):
    """A hole into which nobody can look: its chunk waits, the others are staged and sealed."""
    run = world.run("one")
    plan(run)
    world.unanswered = True
    with pytest.raises(StageFailed):
        stage(run, world.submit(fail=[1], missing=[50]))
    with pytest.raises(BrokerError, match="no answer"):
        stage(run, world.submit())
    assert publish(run).missing == (0,)
    world.unanswered = False
    assert stage(run, world.submit()).chunks == (0,)
    assert world.started == 2
    assert publish(run).report.rows == 299


def test_a_finished_attempt_that_is_wrong_is_abandoned_and_staged_again(world):
    """The entry comes before the files go: another process may be about to seal them."""
    run = world.run("one")
    plan(run)
    world.visible = 50
    with pytest.raises(RowsMissing):
        stage(run, world.submit(missing=[50]))
    (abandoned,) = world.ledger.fold.barred
    assert abandoned[1] == 0
    assert len(list((world.root / "p/_tidegate/staging").rglob("*.parquet"))) == 2
    assert stage(run, world.submit()).chunks == (0,)
    assert publish(run).report.rows == 300


def test_what_a_dead_process_has_left_unproven_is_proven_or_staged_again(world):
    """Spark ended, and nobody looked: a whole attempt is sealed, a wrong one is given up."""
    run = world.run("one")
    planned = plan(run).plan
    store = run.store()
    staged_attempts.stage(store, planned, "whole", chunk=0)
    staged_attempts.stage(store, planned, "wrong", chunk=1, rows=7)
    assert stage(run, world.submit()).chunks == (0, 1, 2)
    assert {attempt for _, _, attempt in world.ledger.fold.barred} == {"wrong"}
    assert publish(run).report.rows == 300
    (first, *_) = (world.ledger.commit(n) for n in sorted(world.ledger.fold.live))
    assert first.attempt == "whole"


@pytest.mark.parametrize("refusal", [ConfigurationError, NotAuthenticated, NotAuthorised])
def test_a_job_that_is_refused_for_good_is_not_retried(world, refusal):
    """The application leaves word beside its job file, and ends with 1, as always; what it has
    finished is kept.
    """
    finish = world.submit()

    def submit(job, directory):
        finish(job, directory)
        write_refusal(LocalAnswers(directory), refusal("refused for good"))
        raise StageFailed("spark-submit failed; its output is above")

    with pytest.raises(refusal, match="refused for good") as failed:
        stage(world.run("one"), submit)
    assert failed.value.kind == "terminal"
    assert publish(world.run("one")).report.rows == 300


def kept(world, run_id="one"):
    """Carry a run out up to its seals: Spark has finished, and the broker is away."""

    def away() -> None:
        world.away = BrokerUnreachable("away")

    with pytest.raises(BrokerUnreachable):
        ingest(world.run(run_id), world.submit(then=away))
    world.away = None


@pytest.mark.parametrize("run_id", ["one", "two"])
@pytest.mark.parametrize("on_expired", ["skip", "fail"])
def test_no_gap_is_recorded_over_what_spark_has_finished(world, run_id, on_expired):
    """Retention passes its offsets before it could be sealed: whichever run is next seals it."""
    world.settings["on_expired"] = on_expired
    kept(world)
    world.marks = {0: Watermarks(300, 380, 380)}
    ingest(world.run(run_id), world.submit())
    ingest(world.run("three"), world.submit())
    assert world.rows == {0: ranges((0, 380))}
    assert world.ledger.fold.gaps == []
    assert world.started == 2


def test_no_gap_is_recorded_over_what_cannot_be_sealed_yet(world):
    """A hole above the log start into which nobody can look: the run waits, the rows are kept."""
    world.settings["on_expired"] = "skip"
    world.unanswered = True
    with pytest.raises(BrokerError):
        ingest(world.run("one"), world.submit(missing=[50]))
    assert world.rows == {0: ranges((100, 300))}
    world.marks = {0: Watermarks(20, 300, 300)}
    with pytest.raises(BrokerError, match=r"t-0 \[0, 20\) has expired, but plan .* chunk 0"):
        ingest(world.run("two"), world.submit())
    assert world.ledger.fold.gaps == []
    world.unanswered = False
    ingest(world.run("two"), world.submit())
    assert world.ledger.fold.gaps == []
    assert world.ledger.fold.cursors("t") == {0: 300}


def test_a_partition_without_a_leader_costs_no_finished_attempt_at_the_retry(world):
    """Its plan lives, Spark is not started again."""
    world.marks = {0: Watermarks(0, 50, 50), 1: Watermarks(0, 40, 40)}
    kept(world)
    world.leaderless = {1}
    with pytest.raises(BrokerError, match="t-1: no leader"):
        ingest(world.run("one"), world.submit())
    world.leaderless = set()
    ingest(world.run("one"), world.submit())
    assert world.rows == {0: ranges((0, 50)), 1: ranges((0, 40))}
    assert world.started == 1


def two_topics(world, monkeypatch):
    """Return the topic ids and the cluster id, to be changed by the test, of two topics."""
    world.settings["topics"] = ["t", "u"]
    now = {"t": "id-t", "u": "id-u", "cluster": "cluster"}

    def survey(*_):
        if world.away:
            raise world.away
        identities = {topic: TopicIdentity(now[topic], {0: 0}) for topic in ("t", "u")}
        marks = {"t": world.marks, "u": {0: Watermarks(0, 100, 100)}}
        return Survey(now["cluster"], identities, marks)

    answer(monkeypatch, survey=survey)
    answer(monkeypatch, epoch_ends=lambda *_: {})
    return now


def test_a_recreated_topic_costs_no_finished_attempt_of_another(world, monkeypatch):
    """Chunks of the other topic are sealed and published, those that hold its rows given up."""
    now = two_topics(world, monkeypatch)

    def recreated() -> None:
        now["u"] = "id-u2"

    with pytest.raises(IdentityChanged, match="'u'"):
        ingest(world.run("one"), world.submit(then=recreated))
    assert world.rows == {0: ranges((100, 300))}
    assert {chunk for _, chunk, _ in world.ledger.fold.barred} == {0, 1}


def test_another_cluster_costs_no_kept_attempt(world, monkeypatch):
    """A connection that names another cluster by mistake: once it is right again, all is sealed."""
    now = two_topics(world, monkeypatch)
    ingest(world.run("zero"), world.submit())
    world.marks = {0: Watermarks(0, 500, 500)}
    kept(world)
    now["cluster"] = "another"
    with pytest.raises(IdentityChanged):
        ingest(world.run("two"), world.submit())
    run = world.run("any")
    state = status.read_ingest_status(run.spec, run.store(), run.kafka)
    assert str(state.broker).startswith("IdentityChanged: pipeline 'p'")
    assert (state.problems, state.refused) == ((), True)
    assert status.judge_ingest(run.spec, state).state is State.BLOCKED
    now["cluster"] = "cluster"
    ingest(world.run("two"), world.submit())
    assert world.ledger.fold.barred == set()
    assert world.ledger.fold.cursors("t") == {0: 500}
    assert world.started == 2


def test_what_was_just_read_of_another_cluster_is_wrong(world, monkeypatch):
    """The connection was changed while Spark read: nothing tells from which its rows are."""
    now = two_topics(world, monkeypatch)

    def changed() -> None:
        now["cluster"] = "another"

    with pytest.raises(IdentityChanged):
        ingest(world.run("one"), world.submit(then=changed))
    now["cluster"] = "cluster"
    ingest(world.run("two"), world.submit())
    assert len(world.ledger.fold.barred) == 4
    assert world.started == 2


def test_a_damaged_record_of_an_attempt_stops_no_other_work(world):
    """`_done.json` of one attempt is cut: the other chunks are sealed, and runs go on."""
    kept(world)
    done = sorted((world.root / "p/_tidegate/staging").rglob("_done.json"))
    done[0].write_bytes(done[0].read_bytes()[:-3])
    ingest(world.run("two"), world.submit())
    assert world.rows == {0: ranges((0, 300))}
    assert len(world.ledger.fold.live) == 3
    assert world.started == 2


def test_a_run_opens_its_ledger_once(world, monkeypatch):
    """All steps of a run in one process share it, and stage does not plan again."""
    calls = []

    def counted(function):
        def call(*args, **given):
            calls.append(function.__name__)
            return function(*args, **given)

        return call

    monkeypatch.setattr(Ledger, "__init__", counted(Ledger.__init__))
    monkeypatch.setattr(drafting, "draft", counted(drafting.draft))
    ingest(world.run("one"), world.submit())
    assert calls == ["__init__", "draft"]


@pytest.mark.parametrize("change", ["unsafe", "lost", "changed", "hole"])
def test_the_ledger_is_checked_again_after_spark(world, change):
    """A ledger or a store that fails while Spark reads is refused before the commit."""
    ingest(world.run("one"), world.submit())
    world.marks = {0: Watermarks(0, 400, 400)}
    store = world.run("any").store()
    last = layout.entry(world.ledger.fold.n)

    def meanwhile() -> None:
        if change == "unsafe":
            store.create(layout.UNSAFE_STORE, b"several writers created one name")
        elif change == "hole":
            store.create(layout.entry(world.ledger.fold.n + 2), b"{}")
        else:
            entry = store.get(last)
            store.delete(last)
            if change == "changed":
                store.create(last, entry + b" ")

    error = LakeUnsafe if change == "unsafe" else LedgerCorrupt
    entries = len(store.names(layout.LOG))
    with pytest.raises(error):
        ingest(world.run("two"), world.submit(then=meanwhile))
    assert len(store.names(layout.LOG)) == entries + {"lost": -1, "changed": 0}.get(change, 1)


def test_a_lake_that_was_unmounted_while_a_run_was_planned(world, monkeypatch):
    """Of what this process has appended since, the empty directory has all: that proves nothing."""
    ingest(world.run("one"), world.submit())
    world.marks = {0: Watermarks(0, 400, 400), 1: Watermarks(0, 50, 50)}  # an origin is appended
    lake, away = world.root, world.root.with_name("away")

    def unmounted(*_):
        if not away.exists():
            lake.rename(away)
            lake.mkdir()
        return world.survey()

    answer(monkeypatch, survey=unmounted)
    with pytest.raises(LedgerCorrupt, match="is missing since it was read"):
        ingest(world.run("two"), world.submit())
    assert world.rows == {}


def test_what_a_run_with_nothing_new_asks_of_the_store(world, monkeypatch):
    """The ledger once, the run's plan, the unfinished ones, the newest seal and manifest; it
    freezes an empty plan and looks at nothing that it has written itself. Its end is added to the
    history.
    """
    ingest(world.run("one"), world.submit())
    counted = store_requests.count(monkeypatch)
    ingest(world.run("two"), world.submit())
    entries = world.run("two").ledger(world.run("two").store()).fold.n
    counted.subtract(names=3, get=entries + 1)  # of opening the ledger just now
    history = {"names": 1, "get": 1, "create": 1}
    counted.subtract(history)
    assert +counted == {"names": 4, "get": entries + 1 + 3, "create": 2}
