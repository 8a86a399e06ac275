"""A crash at every request: each step of a pipeline's life fails at each of its requests.

Each step begins in the state that the steps before it have left, meets one fault, and is recovered
from: by the same run again, or only by what the schedule starts next. Then the checker and the rows
are asked. A second fault, by a seed, is one in the recovery.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

from nets.objects import Crash, Fault, Gate
from nets.world import (
    BACKFILL,
    DAY,
    ORIGIN,
    RETYPED,
    Difference,
    Now,
    World,
    parquet,
    unless_refused,
)
from tidegate.egress import planning as egress_plan
from tidegate.errors import LakeDamaged, PartitionsLeftOut, TidegateError
from tidegate.ingest.planning import plan
from tidegate.runs.run import open_run

ISLANDS = 4  # most commits ahead of the cursor that two plans can leave
CHANGES = ("create", "write", "copy", "delete", "send")
Step = Callable[[World], None]


def expires(world: World) -> None:
    """Records expire before any run has read them: a gap, and the rest is read."""
    world.grow(30)
    world.expire(1, world.log[1][1] - 10)
    world.live("gap")


def loses_a_row(world: World) -> None:
    """Spark loses a record: the attempt is refused, and the run is started again."""
    world.grow(10)
    world.loses = world.log[0][1] - 5
    unless_refused(lambda: world.live("loses"))
    world.loses = None
    world.live("loses")


def is_away(world: World) -> None:
    """The broker is away when Spark has ended, and the records expire until it is back."""
    stage, world.stage = world.stage, lambda *given: (stage(*given), setattr(world, "away", True))
    world.grow(10)
    try:
        unless_refused(lambda: world.live("away"))
    finally:
        world.stage, world.away = stage, False
    world.expire(0, world.log[0][1])
    sweeps(world)
    world.live("back")


def repairs(world: World) -> None:
    """A file of the newest commit is lost under `data/`, and one that no commit has is there."""
    data = sorted(world.objects.below("p/data/"), key=lambda path: path[-60:])
    world.objects.content["p/data/topic=t/part-0.parquet"] = parquet(((0, ORIGIN),))
    world.objects.content.pop(f"p/data/{data[-1]}")
    world.repair()


def sweeps(world: World) -> None:
    world.objects.age(DAY)
    world.sweep()


def grows(world: World) -> None:
    world.grow(20)
    world.live("next")


def two_send(world: World) -> None:
    """Another run is started while the sender of this one is at work."""
    world.meanwhile = lambda: unless_refused(lambda: world.egress("other"))
    world.egress("send")


def replays_at_once(world: World) -> None:
    """Another process of the same replay is started while this one sends; then all is swept."""
    world.meanwhile = lambda: unless_refused(lambda: world.send_again("y", "other"))
    world.send_again("y")
    world.objects.age(DAY)
    world.sweep_egress()


def dies(world: World) -> None:
    """The sender ends right before its first record: nothing is sent, and its claim stays open."""

    def end() -> None:
        world.objects.gate.ended = True
        raise Crash

    world.meanwhile = end
    with suppress(Crash):
        world.egress("dies")


def finds_a_bad_file(world: World) -> None:
    """Its plan is released, and the same run sends the other file by another one."""
    world.bad = frozenset({"b"})
    unless_refused(lambda: world.egress("bad"))


def edits(world: World) -> None:
    """The pipeline's settings change, by which the bad file can be sent."""
    world.is_edited = True
    world.egress("edited")


# A premise of a plan moves while it is unfinished: rows of both could not stand side by side.


def leaves_unfinished(world: World) -> None:
    """A backfill is planned, and its process ends."""
    plan(open_run(world.ingest_run("backfill", asked=BACKFILL)))


def corrects_the_schema(world: World) -> None:
    world.spec = RETYPED
    world.grow(10)
    world.live("corrected")


def leads_elsewhere(world: World) -> None:
    """To another cluster, by which rows are committed; then it is set back."""
    world.cluster = "other"
    world.grow(10)
    world.live("elsewhere")
    world.cluster = "cluster"


def finishes(world: World) -> None:
    """The unfinished run is repeated: what the ledger has decides whether its rows are taken."""
    unless_refused(world.backfill)


def plans_to_send(world: World) -> None:
    """The process ends before its claim."""
    egress_plan.plan(open_run(world.egress_run("first")))


def sends_from_above(world: World) -> None:
    """The path is another one, by which the same files have other names; then it is set back."""
    world.is_above = True
    world.egress("above")
    world.is_above = False


def sends_what_was_planned(world: World) -> None:
    unless_refused(lambda: world.egress("first"))


SCHEMA: dict[str, Step] = {
    "unfinished": leaves_unfinished, "schema": corrects_the_schema, "old schema": finishes,
}  # fmt: skip
CLUSTER: dict[str, Step] = {
    "waits": leaves_unfinished, "cluster": leads_elsewhere, "old cluster": finishes,
}  # fmt: skip
ROOT: dict[str, Step] = {
    "planned": plans_to_send, "path": sends_from_above, "old path": sends_what_was_planned,
}  # fmt: skip
INGEST: dict[str, Step] = {
    "live": World.live,
    "backfill": World.backfill,
    "replay": World.replay,
    "gap": expires,
    "repair": repairs,
    "checkpoint": World.checkpoint,
    "loses a row": loses_a_row,
    "away": is_away,
    "sweep": sweeps,
    "next": grows,
}
SEND: dict[str, Step] = {"two senders": two_send}
RELEASE: dict[str, Step] = {"claim": dies, "release": lambda world: unless_refused(world.release)}
BAD: dict[str, Step] = {"bad file": finds_a_bad_file, "edited": edits}
AGAIN: dict[str, Step] = {
    "first": World.egress, "files again": World.send_again, "two replays": replays_at_once,
}  # fmt: skip
LIVES = (INGEST, SCHEMA, CLUSTER, SEND, RELEASE, BAD, AGAIN, ROOT)
STEPS = INGEST | SCHEMA | CLUSTER | SEND | RELEASE | BAD | AGAIN | ROOT
OF_INGEST = INGEST | SCHEMA | CLUSTER


class Case(NamedTuple):
    """A fault at a request of a step; `again`: the run itself recovers, not only the next one.

    `nested` is a fault in the recovery.
    """

    step: str
    at: int
    mode: str
    again: bool
    nested: tuple[int, str] | None = None


class State(NamedTuple):
    """The world before a step, and the requests that the step makes."""

    world: World
    requests: list[tuple[str, str]]


def states() -> dict[str, State]:
    """Live each life without a fault; return the state before each step."""
    found, new = {}, Now.world
    for life in LIVES:
        world = Now.world = new.copy()
        for name, step in life.items():
            before, gate = world.copy(), Gate()
            _play(world, step, gate)
            found[name] = State(before, gate.requests)
            assert life is not INGEST or not world.differences(egress=False), name
        is_egress = not life.keys() <= OF_INGEST.keys()
        _next(world, egress=is_egress)
        assert not at_the_end(world, egress=is_egress)
    return found


def cases(known: dict[str, State]) -> Iterator[Case]:
    """Every request of every step, with every fault that makes a difference there."""
    for step, state in known.items():
        for at, (kind, _) in enumerate(state.requests):
            yield from cases_of(step, at, kind)


def cases_of(step: str, at: int, kind: str) -> Iterator[Case]:
    """Every fault that makes a difference at a request."""
    for mode in modes(kind):
        yield Case(step, at, mode, again=True)
        if mode in ("crash", "late"):
            yield Case(step, at, mode, again=False)


def sampled(known: dict[str, State]) -> Iterator[Case]:
    """Yield a quarter of all cases: each change with one of its faults in turn, and a third of the
    reads.
    """
    for case in cases(known):
        kind, _ = known[case.step].requests[case.at]
        turns = list(cases_of(case.step, case.at, kind))
        if case == turns[case.at % len(turns)] and (kind in CHANGES or case.at % 3 == 0):
            yield case


def modes(kind: str) -> tuple[str, ...]:
    """Return what may become of a request. A record is in the log before the sender is dead."""
    if kind not in CHANGES:
        return ("error before",)
    return ("crash", "error before", "error after", *(("late",) if kind != "send" else ()))


def nested(known: dict[str, State], seed: int) -> Case:
    """Two faults, by a seed."""
    chosen = random.Random(seed)
    step = chosen.choice(list(known))
    requests = known[step].requests
    at = chosen.randrange(len(requests))
    second = chosen.randrange(70), chosen.choice(modes("create"))
    mode = chosen.choice(modes(requests[at][0]))
    return Case(step, at, mode, chosen.random() < 0.5, second)


def judged(state: State, case: Case) -> list[Difference]:
    """Play a case; return what is wrong at its end."""
    egress, step = case.step not in OF_INGEST, STEPS[case.step]
    recovery = step if case.again else lambda world: _next(world, egress=egress)
    faults = [Fault(case.at, case.mode), *([Fault(*case.nested)] if case.nested else ())]
    world = state.world.copy()
    for fault, each in zip(faults, (step, recovery), strict=False):
        _play(world, each, fault)
    if case.again:
        _play(world, step, Gate())
    for fault in faults:
        with suppress(LakeDamaged):  # a copy of what is not there any more
            fault.late()
    try:
        _next(world, egress=egress)
        # A repair makes up for what a step has failed to do.
        first = [] if case.step == "repair" else world.differences(egress=egress)
        return first or at_the_end(world, egress=egress)
    except TidegateError as error:
        return [Difference("error", "at the end", repr(error))]


def _play(world: World, step: Step, gate: Gate) -> None:
    """Do a step in a process of its own, and end it."""
    Now.world = world
    world.restart(gate)
    with suppress(Crash, TidegateError):
        step(world)
    world.restart(Gate())


def _next(world: World, *, egress: bool) -> None:
    """What the schedule starts next, whatever has become of the others.

    The premises are those of what is committed: whoever moves them after that is refused.
    """
    world.follow_the_ledger()
    if egress:
        world.is_edited = bool(world.bad)
        with suppress(PartitionsLeftOut):  # of an earlier plan that it finishes
            world.egress(f"rest at {len(world.objects.content)}")
        world.egress(f"at {len(world.objects.content)}")
    else:
        world.grow(2)
        world.live(f"at {world.log[0][1]}")


def at_the_end(world: World, *, egress: bool) -> list[Difference]:
    """Return what is wrong after a sweep, a repair, and the runs that the rest needs.

    A live plan ends at the next committed offset: of islands ahead of the cursor each takes a run.
    A run that appends nothing has found nothing to read.
    """
    if not egress:
        sweeps(world)
        world.repair()
        _next(world, egress=False)
        for number in range(ISLANDS):
            before = len(world.objects.below("p/_tidegate/log/"))
            world.live(f"the rest {number}")
            if len(world.objects.below("p/_tidegate/log/")) == before:
                break
    return world.differences(egress=egress)
