"""The progress of a run on a terminal. In a pipe or a log, the lines of the log tell it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.filesize import decimal
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import TimeRemainingColumn as TimeLeft

from tidegate.core.wording import counted
from tidegate.runs.steps import OnProgress, StepProgress
from tidegate.terminal.console import err


@contextmanager
def show_progress(doing: str) -> Iterator[OnProgress]:
    """Show what is being done, its share, the time since its beginning and an estimate of the rest.

    Yields the function that is given each change. The display is removed at the end.
    """
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), TimeLeft())
    with Progress(
        *columns,
        console=err,
        transient=True,
        disable=not err.is_terminal,
        redirect_stdout=False,  # it may be a file
        redirect_stderr=False,
    ) as display:
        task = display.add_task(doing, total=None)

        def show(progress: StepProgress) -> None:
            nonlocal doing, task
            if progress.doing != doing:  # its time begins anew
                display.remove_task(task)
                task, doing = display.add_task("", total=None), progress.doing
            total = progress.all_records if progress.all_chunks else None
            display.update(
                task, description=progress_text(progress), completed=progress.records, total=total
            )

        yield show


def progress_text(progress: StepProgress) -> str:
    """Return a progress in words: `staging: 1 of 2 chunks, 500 of 800 records, 12.3 kB`."""
    parts = []
    if progress.all_chunks:
        parts.append(f"{progress.chunks:,} of {counted(progress.all_chunks, 'chunk')}")
    if progress.all_records:
        done = f"{progress.records:,} of " if progress.all_chunks else ""
        parts.append(done + counted(progress.all_records, "record"))
    if progress.size:
        parts.append(decimal(progress.size))
    return progress.doing + (f": {', '.join(parts)}" if parts else "")
