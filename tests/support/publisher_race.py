"""Two publishers of the same staged chunk, held where both have judged that they may commit it."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from support.cli_user import Terminal

Entries = Callable[[], Mapping[str, bytes]]


def of_publishers(terminal: Terminal, home: Path, entries: Entries, *, rounds: int) -> None:
    """Let two runs of what is staged race for each chunk, by turns together and one behind the
    other: one entry is made and stays as it is, and the one that lost adopts it.

    `entries` reads the ledger: name → content.
    """
    for n in range(rounds):
        before = entries()
        gates = [home / f"go{n}-{name}" for name in "ab"]
        racers = [
            terminal.start(
                "run", "race", "--run-id", "r",
                TIDEGATE_FAULT=f"ledger.judged:wait={gate};publish.committed:exit",
            )
            for gate in gates
        ]  # fmt: skip
        until = time.monotonic() + 60
        while not all(list(home.glob(f"{gate.name}.reached.*")) for gate in gates):
            assert time.monotonic() < until, [racer.poll() for racer in racers]
            time.sleep(0.01)
        assert entries() == before
        gates[0].touch()
        if n % 2:
            assert racers[0].wait(60) == 86
            first = entries()
        gates[1].touch()
        assert [racer.wait(60) for racer in racers] == [86, 86]
        after = entries()
        assert len(after) == len(before) + 1
        assert after.items() > before.items()
        if n % 2:
            assert after == first
        for racer in racers:
            racer.communicate()
