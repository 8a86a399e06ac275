"""A run on a real terminal of 80 columns: its line of progress, and what remains of it."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from support import oracle_client, topic_records
from support.cli_user import TIDEGATE, Terminal
from support.printed import WIDTH
from support.process_list import command_line, descendants, have_ended, is_job
from tidegate_local.kafka import Broker

ROWS, CHUNKS = 12_000, 6
Reaction = Callable[[subprocess.Popen[bytes], int], object]


@pytest.fixture
def terminal(broker: Broker, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path, broker.bootstrap)


class OnTerminal:
    """A command on a terminal of its own; `received` is all that it wrote there.

    `react` is called once, when Spark has finished a chunk, with the process and the terminal.
    """

    def __init__(self, terminal: Terminal, *args: str, react: Reaction | None = None) -> None:
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, WIDTH, 0, 0))
        env = {k: v for k, v in terminal.env(TERM="xterm").items() if k != "COLUMNS"}
        process = subprocess.Popen(
            [str(TIDEGATE), *args],
            env=env,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # else no Ctrl-C arrives
        )
        os.close(slave)
        received, self.spark = b"", []
        try:
            while data := _read(master):
                received += data
                if react and b" rows in " in received:
                    below = descendants(process.pid)
                    self.spark = [p for p in below if is_job(command_line(p))]
                    react(process, master)
                    react = None
            self.code = process.wait(60)
        finally:
            process.kill()
            process.wait()
            os.close(master)
        self.received = received.decode()

    @property
    def lines(self) -> list[str]:
        """The lines that are to be seen at the end."""
        return screen(self.received)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # nobody has the terminal open any more
        return b""


def screen(received: str) -> list[str]:
    """Return what a terminal shows of a text; a line that it had to wrap is one line."""
    rows, wrapped, row, column = [""], set(), 0, 0
    for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|.", received, re.DOTALL):
        if part == "\r":
            column = 0
        elif part == "\n":
            row += 1
        elif part == "\x1b[2K":
            rows[row] = ""
        elif up := re.fullmatch(r"\x1b\[(\d+)A", part):
            row -= int(up[1])
        elif not part.startswith("\x1b"):
            if column == WIDTH:
                wrapped.add(row)
                row, column = row + 1, 0
            rows += [""] * (row + 1 - len(rows))
            rows[row] = f"{rows[row]:{column}}"[:column] + part + rows[row][column + 1 :]
            column += 1
        rows += [""] * (row + 1 - len(rows))
    text = "".join(line + ("" if n in wrapped else "\n") for n, line in enumerate(rows))
    return [line.rstrip() for line in text.rstrip().splitlines()]


@pytest.mark.blackbox
@pytest.mark.slow
def test_a_run_is_ended_twice_and_goes_on(
    terminal: Terminal, broker: Broker, topic: Callable[..., str]
) -> None:
    """By SIGTERM, then by Ctrl-C, which Spark gets as well: each time the run says what it keeps,
    no process of Spark is left, and the command that it prints does the rest. The line of progress
    fits, and none of it remains.
    """
    name = topic(partitions=2)
    topic_records.numbers(broker.bootstrap, name, ROWS)
    terminal.pipeline("orders", [name], max_records=ROWS // CHUNKS)
    command = ["run", "orders", "--run-id", "r1"]
    endings: tuple[tuple[Reaction, int, str], ...] = (
        (lambda process, _: process.send_signal(signal.SIGTERM), 143, "ended by SIGTERM"),
        (lambda _, tty: os.write(tty, b"\x03"), 130, "interrupted"),
    )
    for n, (react, code, says) in enumerate(endings):
        ended = OnTerminal(terminal, *command, react=react)
        lines = ended.lines
        print(*lines, sep="\n")
        assert ended.code == code
        assert lines[-3] == says
        staged = re.fullmatch(
            rf"kept: plan \w+: of {CHUNKS} chunks, 0 in the lake and (\d) staged", lines[-2]
        )
        assert staged
        assert n < int(staged[1]) < CHUNKS
        assert lines[-1] == "continue with: tidegate run orders --run-id r1"
        assert len(ended.spark) == 2, "the JVM and its driver"
        assert have_ended(ended.spark)
        _check_progress(ended, size="(, .+ kB)?")
        command = lines[-1].split()[3:]
    whole = OnTerminal(terminal, *command)
    print(*whole.lines, sep="\n")
    assert whole.code == 0
    assert re.fullmatch(
        rf"12,000 rows in \d+ s, [\d,]+ of them staged before \({name} 12,000\); lake: \S+; "
        "next: tidegate status orders",
        whole.lines[-1],
    )
    _check_progress(whole, size=", .+ kB")
    oracle_client.agree(broker.bootstrap, terminal.lake, "orders", [name])


def _check_progress(command: OnTerminal, size: str) -> None:
    """Assert that the line of progress was shown within one line, and is gone; Spark has none."""
    plain = re.sub(r"\x1b\[[\d;]*m", "", command.received)  # without colours
    frames = [
        each for each in re.split(r"\x1b\[[\d?]+[A-Zhl]|[\r\n]", plain) if " staging: " in each
    ]
    words = re.compile(rf"staging: \d of \d chunks, [\d,]+ of [\d,]+ records{size} \d:\d\d:\d\d ")
    assert any(words.search(text) for text in frames), frames
    assert max(map(len, frames)) <= WIDTH
    assert not any(" staging: " in line or "[Stage" in line for line in command.lines)
    assert command.received.rindex("\x1b[?25h") > command.received.rindex("\x1b[?25l"), "cursor"
