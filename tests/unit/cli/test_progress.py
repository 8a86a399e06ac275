"""The progress of a run: a line on a terminal of 80 columns, nothing in a pipe."""

import io
import re

import pytest
from rich.console import Console

from tidegate.cli import progress
from tidegate.runs.steps import StepProgress


@pytest.fixture
def shown(monkeypatch):
    """Return what is displayed of these changes, without control sequences, line by line."""

    def show(*changes, terminal=True):
        file = io.StringIO()
        screen = Console(file=file, force_terminal=terminal, width=80, color_system=None)
        monkeypatch.setattr(progress, "err", screen)
        with progress.show_progress("planning") as on_progress:
            for change in changes:
                on_progress(change)
            screen.print("a line of the log")
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue()).replace("\r", "\n")

    return show


STAGING = StepProgress("staging", 602_000, 1_204_551, 1, 2, 95_200_000)


def test_on_a_terminal(shown):
    """Records, chunks and bytes, the time since the step began, and an estimate of the rest."""
    text = shown(STAGING._replace(records=0, chunks=0, size=0), STAGING)
    last = [line for line in text.splitlines() if "staging" in line][-1]
    assert "staging: 1 of 2 chunks, 602,000 of 1,204,551 records, 95.2 MB 0:00:0" in last
    assert len(last) <= 80
    assert "a line of the log\n" in text


def test_in_a_pipe(shown):
    assert shown(STAGING, terminal=False) == "a line of the log\n"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (StepProgress("planning"), "planning"),
        (StepProgress("sending", all_records=1), "sending: 1 record"),
        (StepProgress("staging", 0, 800, 0, 1), "staging: 0 of 1 chunk, 0 of 800 records"),
    ],
)
def test_in_words(change, expected):
    assert progress.progress_text(change) == expected
