"""Make, carry out or explain a run from a command."""

from __future__ import annotations

import json
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from tidegate import flows
from tidegate.cli import progress
from tidegate.core.requests import Replay
from tidegate.core.wording import duration
from tidegate.errors import LakeUnavailable, PartitionsLeftOut, TidegateError
from tidegate.orchestration.command_connections import kafka
from tidegate.orchestration.command_connections import spark as spark_of
from tidegate.pipelines.spec import Egress, Spec
from tidegate.terminal.console import Stopped, answer, note
from tidegate.terminal.render import PRINTERS

if TYPE_CHECKING:
    from tidegate.egress.status import Waiting
    from tidegate.launch.submission import Submission
    from tidegate.runs.run import EgressRun, Run
    from tidegate.runs.steps import Planned

INTERRUPTED = 130  # the exit code; of another signal, as a shell has it, 128 and its number


class _Terminated(BaseException):
    """The process has got this signal: SIGTERM, or SIGHUP when its terminal is closed."""

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number)


def new_run(
    spec: Spec, run_id: str | None = None, *, dag_id: str | None = None, **settings: Any
) -> Run | EgressRun:
    """Return a run of a pipeline. Without an id it gets a new one."""
    return flows.new_run(spec, kafka(spec), run_id, dag_id=dag_id, **settings)


def carry_out(
    run: Run | EgressRun,
    *,
    run_id: str | None = None,
    replan: bool = False,
    dry_run: bool = False,
    as_json: bool,
) -> None:
    """Carry out all steps of a run; with `dry_run` only explain it.

    `run_id` is the id that was given, to continue a run. A run that ends early ends with what was
    kept, and the command that continues it.
    """
    if dry_run:
        explain(run, as_json=as_json)
        return
    note(f"run id: {run.run_id}")
    try:
        with ended_by_signals():
            _carry_out(run, run_id, replan=replan, as_json=as_json)
    except Exception as error:
        _with_kept(run, error)
        raise


def _carry_out(run: Run | EgressRun, run_id: str | None, *, replan: bool, as_json: bool) -> None:
    began = time.monotonic()
    flow, printers, spark = flows.flow_of(run.spec), PRINTERS[run.spec.kind], spark_of(run.spec)

    def submit(given: Submission) -> None:
        from tidegate.launch import spark_submit

        note(f"starting Spark ({spark.master})")
        spark_submit.submit(given, master=spark.master, log=note)

    def show(published: Any) -> None:
        if as_json:
            return
        how: dict[str, Any] = {"seconds": duration(time.monotonic() - began)}
        if isinstance(run.spec, Egress):
            how["waiting"] = _waiting(run.spec)
        else:
            how["lake"] = run.store().uri("")
        printers.published(published, **how)

    def planned(made: Planned) -> None:
        printers.plan(made.frozen, known=made.known)
        if run_id and not made.known and made.frozen.generation == 1:
            note(f"a new run: none of this id, {run_id}, has this work")

    note(f"planning: {run.kafka.cluster}, lake {run.spec.lake}")
    ended: list[Any] = []  # also of a run that fails
    try:
        with progress.show_progress("planning") as on_progress:
            published = flow.run_all(
                run,
                spark,
                submit,
                replan=replan,
                on_planned=planned,
                on_published=ended.append,
                on_progress=on_progress,
            )
    finally:
        for each in ended:
            show(each)
    if as_json:
        print(json.dumps(published.report.to_json()))


def explain(run: Run | EgressRun, *, as_json: bool) -> None:
    """Print what a run would do, without doing it."""
    explained = flows.flow_of(run.spec).explain(run, spark_of(run.spec), kafka)
    answer(explained, PRINTERS[run.spec.kind].explained, as_json=as_json)


def _waiting(spec: Egress) -> Waiting | None:
    """Return what the source has left. None if that cannot be told."""
    try:
        return flows.EGRESS.status(spec, kafka).waiting
    except TidegateError:
        return None


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raise Stopped on SIGINT, SIGTERM and SIGHUP, so that Spark is ended, its files are removed.

    A signal that is ignored, as SIGHUP is after `nohup`, stays ignored.
    """

    def terminate(number: int, _: FrameType | None) -> None:
        raise _Terminated(number)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    caught = {number: how for number, how in before.items() if how is not signal.SIG_IGN}
    for number in caught:
        signal.signal(number, terminate)
    try:
        yield
    except KeyboardInterrupt:
        raise Stopped("interrupted", INTERRUPTED) from None
    except _Terminated as end:
        raise Stopped(f"ended by {end.signal.name}", 128 + end.signal) from None
    finally:
        for number, how in caught.items():
            signal.signal(number, how)


def _with_kept(run: Run | EgressRun, error: Exception) -> Exception:
    """Add to an error what the run has kept, and the command that goes on."""
    try:
        kept = None if _store_is_away(error) else flows.flow_of(run.spec).early_end(run)
    except Exception:  # whatever it is, it must not hide the cause
        kept = None
    if kept is None:
        error.add_note("kept: what was committed or staged; the lake cannot be read now")
        error.add_note(f"continue with: {_command(run, again=False)}")
        return error
    error.add_note(f"kept: {kept.text}")
    terminal = isinstance(error, TidegateError) and error.kind == "terminal"
    # Another try of what was refused is no way on. A replay is done once.
    if not (terminal and not kept.planned) and not (
        _is_replay(run) and (terminal or kept.finished)
    ):
        # What was excluded stays so until its cause is mended.
        when = "when that is mended" if isinstance(error, PartitionsLeftOut) else "continue with"
        error.add_note(f"{when}: {_command(run, again=kept.finished)}")
    return error


def _store_is_away(error: Exception) -> bool:
    """Return whether an object store has not answered ten tries: it is not asked again."""
    cause = error.__cause__
    return (
        isinstance(error, LakeUnavailable) and cause is not None and not isinstance(cause, OSError)
    )


def _is_replay(run: Run | EgressRun) -> bool:
    return isinstance(getattr(run, "asked", None), Replay)


def _with_value(given: list[str], option: str, value: str) -> list[str]:
    """Return the words of a command with another value of an option that is there."""
    words = list(given)
    for at, word in enumerate(words):
        if word == option and at + 1 < len(words):
            words[at + 1] = value
        elif word.startswith(f"{option}="):
            words[at] = f"{option}={value}"
    return words


def _command(run: Run | EgressRun, *, again: bool) -> str:
    """Return this command for the same run, or, `again`, for a new one."""
    same = [] if again or _is_replay(run) else ["--run-id", run.run_id]
    given = [word for word in sys.argv[1:] if word != "--replan"]
    for at, word in enumerate(given):
        if word == "--run-id" or word.startswith("--run-id="):
            del given[at : at + (2 if word == "--run-id" else 1)]
            break
    for name in ("start", "end"):  # `-1d` would be another time by then
        if edge := getattr(getattr(run, "asked", None), name, None):
            given = _with_value(given, f"--{name}", edge)
    return shlex.join(["tidegate", *given, *same])
