"""The settings of Kafka's clients as the clients themselves log them at INFO."""

import re
from pathlib import Path
from subprocess import CompletedProcess

_BEGINNING = re.compile(r"\b(\w+Config) values: *$")
_SETTING = re.compile(r"^\s+(\S+) = (.*)$")


def output_of(done: CompletedProcess[str]) -> str:
    """Return what Spark has printed in a run that was a process of its own."""
    path = (done.stdout + done.stderr).rpartition("Spark's output: ")[2].split()[0]
    return Path(path).read_text()


def logged(output: str, client: str) -> list[dict[str, str]]:
    """Return the settings of each client of a kind (`ProducerConfig`) in Spark's output."""
    found: list[dict[str, str]] = []
    open_ = False
    for line in output.splitlines():
        if begins := _BEGINNING.search(line):
            open_ = begins[1] == client
            if open_:
                found.append({})
        elif open_ and (setting := _SETTING.match(line)):
            found[-1][setting[1]] = setting[2].removeprefix("class ")
        else:
            open_ = False
    return found
