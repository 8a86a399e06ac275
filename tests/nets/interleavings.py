"""The real steps of many processes at once, one request at a time, in an order by a seed.

Each process is a thread that waits before every request until it is its turn: a seed gives one
order, always the same. Two readers poll beside them; at the end the checker and the rows are asked.
"""

import posixpath
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from nets.crashes import CHANGES, at_the_end
from nets.objects import Crash, Gate, Handle, Request
from nets.world import BACKFILL, DAY, ORIGIN, RETYPED, Now, World, rows_of
from support.toy_engine import Do
from tidegate.core import layout
from tidegate.core.entries import Gap
from tidegate.errors import AttemptWrong, ConfigurationError, StageFailed, TidegateError
from tidegate.ingest.planning import plan
from tidegate.ingest.publish import publish
from tidegate.ingest.sealing import Outcomes, _give_up
from tidegate.ingest.stage import stage
from tidegate.lake import attempts
from tidegate.lake.committed_files import locate_files
from tidegate.lake.ledger import Ledger
from tidegate.runs.run import OpenRun, Run, open_run
from tidegate.spark.egress_job import EgressJob
from tidegate.spark.ingest_job import IngestJob
from tidegate_check.lake import Difference

LONGEST = 20000  # requests of all processes: one that never ends is a difference


class Turn(Gate):
    """One process: `work` goes on by a request, each time `step` is called.

    Before a request that changes something it may fall asleep, and sleeps until no other process
    is awake. It may also be killed, before the request of number `dies_at`.
    """

    def __init__(self, world: World, work: Callable[[World], None], chosen: random.Random) -> None:
        super().__init__()
        self.done = self.asleep = False
        self.error: BaseException | None = None
        self._world, self._work, self._chosen = world, work, chosen
        self._sleepy = chosen.choice((0.05, 0.3))
        self._dies_at = chosen.randrange(150) if chosen.random() < 0.1 else None
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        threading.Thread(target=self._live, daemon=True).start()

    def step(self) -> None:
        self.asleep = False
        self._go.release()
        self._back.acquire()

    def passes(self, kind: str, path: str, request: Request) -> object:  # noqa: ARG002
        self.asleep = kind in CHANGES and self._chosen.random() < self._sleepy
        self._back.release()
        self._go.acquire()
        if len(self.requests) == self._dies_at:
            self.ended = True
            raise Crash
        return request()

    def _live(self) -> None:
        self._world.objects.own.gate = self
        self._go.acquire()
        try:
            self._work(self._world)
        except (Crash, TidegateError):
            pass  # the next run finds what is left
        except BaseException as error:
            self.error = error
        self.done = True
        self._back.release()


def die(world: World) -> None:
    """End the process that asks."""
    world.objects.own.gate.ended = True
    raise Crash


# What a process may do.


def opened(run_id: str, do: Do | None = None) -> OpenRun[Run]:
    return open_run(Now.world.ingest_run(run_id, do))


def live(world: World) -> None:
    world.live("a")


def retry(world: World) -> None:
    """A second process of the same run: a zombie, or the retry beside one."""
    world.live("a")


def other(world: World) -> None:
    """A run of its own, whose chunks have other edges."""
    world.grow(2)
    world.run("b", max_records=50)


def sleeper(world: World) -> None:
    """The publish task alone, again and again: of what is sealed by then."""
    for _ in range(3):
        with suppress(TidegateError):
            publish(opened("a"))


def staging_only(world: World) -> None:
    """The plan and stage tasks alone: nothing is published by this process."""
    run = opened("a")
    plan(run)
    stage(run)


def dies_unsealed(world: World) -> None:
    """The process ends when Spark has, before it seals anything."""

    def do(job: IngestJob, directory: Path) -> None:
        world.stage(job, directory)
        die(world)

    run = opened("a", do)
    plan(run)
    stage(run)


def publishes(world: World) -> None:
    with suppress(TidegateError):
        publish(opened("a"))


def replacer(world: World) -> None:
    world.replay()


def second_replacer(world: World) -> None:
    world.replay("once-more")


def sweeper(world: World) -> None:
    """Three sweeps, each a day after whatever was written last."""
    for _ in range(3):
        world.objects.ask("a day", "", lambda: world.objects.age(DAY))
        world.sweep()


def repairer(world: World) -> None:
    for _ in range(2):
        world.repair()


def checkpointer(world: World) -> None:
    for _ in range(2):
        world.checkpoint()


def accuser(world: World) -> None:
    """A process to which a finished attempt seems wrong, as after a topic was recreated."""
    run = opened("c")
    for attempt, files in attempts.staged_files(run.store).items():
        if attempt[:2] not in run.ledger.fold.committed and attempt.done_path in dict(files):
            _give_up(run, attempt, AttemptWrong("it seems so"), Outcomes())


def backfiller(world: World) -> None:
    world.backfill()


def corrector(world: World) -> None:
    """Somebody corrects the schema while processes are at work, and starts a run."""
    world.objects.ask("edits", "", lambda: setattr(world, "spec", RETYPED))
    world.grow(10)
    world.run("corrected")


def mover(world: World) -> None:
    """The connection leads to another cluster for the time of a run."""
    world.objects.ask("edits", "", lambda: setattr(world, "cluster", "other"))
    world.grow(10)
    with suppress(TidegateError):
        world.run("elsewhere")
    world.objects.ask("edits", "", lambda: setattr(world, "cluster", "cluster"))


def gives_up(world: World) -> None:
    """An operator counts all records as lost, while another process may be reading them."""
    run = opened("given up")
    plan(run)
    for p, (start, end) in {0: (ORIGIN, 100), 1: (0, 40)}.items():
        run.ledger.skip(Gap("t", "id-t", p, start, end, "operator", "me"), run="me")


def backfills_less(world: World) -> None:
    """A window that is a part of a chunk of the other backfill."""
    world.run("less", asked=replace(BACKFILL, end="7"))


EDITS = (
    (backfiller, backfills_less),
    (live, gives_up, sleeper),
    (staging_only, gives_up, publishes),
    (staging_only, gives_up, live),
    (dies_unsealed, gives_up, publishes),
    (backfiller, corrector),
    (backfiller, corrector, backfiller, live),
    (live, corrector, sleeper),
    (staging_only, sleeper, corrector, sweeper),
    (backfiller, mover, backfiller),
    (live, mover, sleeper, backfiller),
)
"""In a world in which nothing is committed: a premise moves between plans and their entries, or
what a plan has read is committed in part, or counted as lost.
"""
THEMES = (
    (live, other),
    (live, retry, sleeper),
    (live, sweeper),
    (staging_only, sleeper, sweeper),
    (staging_only, sleeper, accuser),
    (replacer, second_replacer),
    (replacer, live, repairer),
)
"""What surely happens side by side; others are added."""
WORK = (live, other, sleeper, replacer, sweeper, repairer, checkpointer, accuser)


# Readers: what they see at any moment is right.


def by_glob(world: World) -> None:
    """No row that was not committed; none twice, unless a replay replaces it now."""
    for _ in range(12):
        seen: Counter[tuple[int, int]] = Counter()
        placed = set(Handle(world.objects, "p").names(layout.PLACED))
        data = world.objects.ask("glob", "", lambda: world.objects.below("p/data/").values())
        seen.update(row for each in data for row in rows_of(each))
        store = Handle(world.objects, "p")
        fold = Ledger(store, "p").fold
        for row in seen:
            assert fold.covered["id-t", row[0]].within(row[1], row[1] + 1), f"{row} uncommitted"
        twice = [row for row, n in seen.items() if n > 1]
        replacing = [n for n, commit in fold.live.items() if commit.replaces]
        unplaced = {posixpath.basename(layout.placed(n)) for n in replacing} - placed
        assert not twice or unplaced, f"{twice[:5]} twice"


def by_ledger(world: World) -> None:
    """Every committed row exactly once, and none that was there is missing later."""
    known: set[tuple[int, int]] = set()
    for _ in range(6):
        store = Handle(world.objects, "p")
        fold = Ledger(store, "p").fold
        files = [store.get(path) for _, _, path in locate_files(store, fold)]
        if None in files:
            continue  # swept since it was listed: time has passed, and the URI lives for an hour
        rows = Counter(row for data in files if data for row in rows_of(data))
        covered = {
            (p, o)
            for (_, p), spans in fold.covered.items()
            for start, end in spans
            for o in range(start, end)
            if world.has(p, o)
        }
        assert rows == Counter(covered), f"{(rows.keys() ^ covered)} by the ledger"
        assert not known - rows.keys(), "rows are gone"
        known = set(rows)


def start(world: World) -> None:
    """The state in which all processes begin: a commit, and records that wait."""
    world.live("first")
    world.grow(60)


# What senders may do.


def sends(world: World) -> None:
    world.egress("a")


def sends_too(world: World) -> None:
    world.egress("b")


def sends_again(world: World) -> None:
    world.send_again("x", "again")


def sends_another(world: World) -> None:
    world.send_again("y", "another")


def dies_sending(world: World) -> None:
    """The sender ends after its first record, without a word."""

    def do(job: EgressJob, directory: Path) -> None:
        world.send_one(job, directory)
        die(world)

    world.egress("a", do=do)


def dies_before(world: World) -> None:
    """The sender ends before its first record."""
    world.egress("a", do=lambda *_: die(world))


def fails_before(world: World) -> None:
    """The application does not start: the claim is released if nothing was sent by any attempt."""

    def do(*_: object) -> None:
        raise StageFailed("no JVM")

    world.egress("b", do=do)


def releases(world: World) -> None:
    """An operator releases a claim of which nothing was sent, so that all is sent again."""
    world.release()


def sweeps_egress(world: World) -> None:
    for _ in range(3):
        world.objects.ask("a day", "", lambda: world.objects.age(DAY))
        world.sweep_egress()


FIRST_SENDS = (
    (sends, sends),
    (sends, sends_too, sends),
    (sends, sends_too, sends, sweeps_egress),
    (dies_sending, fails_before, sweeps_egress),
    (dies_sending, fails_before, sweeps_egress, fails_before, sends),
    (dies_before, releases, fails_before),
    (dies_before, releases, sends, sends_too),
)
"""In a world in which nothing was sent."""
SENDS_AGAIN = (
    (sends_again, sends_again),
    (sends_again, sends_again, sends_again),
    (sends_again, sends_another, sends_again, sends),
    (sends_again, sends_again, sweeps_egress),
)
"""In a world in which all files were sent."""


def judged_senders(state: World, seed: int) -> list[Difference]:
    """Let senders work side by side, in an order by the seed; return what is wrong at the end."""
    chosen = random.Random(seed)
    world = Now.world = state.copy()
    work = chosen.choice(SENDS_AGAIN if world.sent else FIRST_SENDS)
    if found := _side_by_side(world, work, chosen):
        return found
    try:
        for n in range(3):
            world.egress(f"last {n}")
        for replay_id in ("x", "y") if state.sent else ():
            world.send_again(replay_id, "the end")
        return world.differences(egress=True)
    except TidegateError as error:
        return [Difference("error", "at the end", repr(error))]


def judged(state: World, seed: int) -> list[Difference]:
    """Let processes work side by side, in an order by the seed; return what is wrong."""
    chosen = random.Random(seed)
    world = Now.world = state.copy()
    others = chosen.sample(WORK, chosen.randint(0, 3))
    work = [*chosen.choice(THEMES), *others, by_glob, by_ledger]
    if found := _side_by_side(world, work, chosen):
        return found
    try:
        world.live("last")
        return at_the_end(world, egress=False)
    except TidegateError as error:
        return [Difference("error", "at the end", repr(error))]


def judged_edits(state: World, seed: int) -> list[Difference]:
    """Let processes work while the pipeline is edited, in an order by a seed.

    In the end all rows can be read by one schema, and runs go on.
    """
    chosen = random.Random(seed)
    world = Now.world = state.copy()
    if found := _side_by_side(world, [*chosen.choice(EDITS), by_glob], chosen):
        return found
    try:
        world.follow_the_ledger()
        # What earlier plans have staged is committed first, and may have another schema.
        with suppress(ConfigurationError):
            world.live("earlier")
        world.follow_the_ledger()
        world.live("last")
        return at_the_end(world, egress=False)
    except TidegateError as error:
        return [Difference("error", "at the end", repr(error))]


def _side_by_side(
    world: World, work: Sequence[Callable[[World], None]], chosen: random.Random
) -> list[Difference]:
    """Let processes work until all are done, and end them; return what has gone wrong in them."""
    world.restart(Gate())
    turns = [Turn(world, each, chosen) for each in work]
    steps = 0
    while (waiting := [turn for turn in turns if not turn.done]) and steps < LONGEST:
        turn = chosen.choice([turn for turn in waiting if not turn.asleep] or waiting)
        for _ in range(chosen.choice((1, 1, 2, 5, 20))):
            turn.step()
            steps += 1
            if turn.done or turn.asleep:
                break
    found = [Difference("no end", str(turn.requests[-1]), "") for turn in waiting]
    found += [Difference("error", each.__name__, repr(turn.error))
              for each, turn in zip(work, turns, strict=True) if turn.error]  # fmt: skip
    world.restart(Gate())
    return found
