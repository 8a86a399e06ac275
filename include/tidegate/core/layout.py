"""Paths in a pipeline's directory of the lake (docs/internals/storage.md).

All are relative to `<lake>/<pipeline>/`, with forward slashes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tidegate.core import canonical

LOG = "_tidegate/log/"
UNSAFE_STORE = f"{LOG}unsafe-store"
"""Created when the doctor has found the store unsafe. Opening the ledger lists it."""
PROBES = "_tidegate/probes/"
STAGING = "_tidegate/staging/"
PLACED = "_tidegate/placed/"
CHECKPOINTS = "_tidegate/checkpoints/"
UNFINISHED = "_tidegate/unfinished/"
QUARANTINE = "_tidegate/quarantine/"
PLACING = "_tidegate/placing/"
HISTORY = "_tidegate/history/"
DATA = "data/"

_LONGEST_TOPIC_IN_A_NAME = 160  # a file name has 255 bytes. A topic may have 249
_TOPIC = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}")  # Kafka's own rule
_PREFIX = "part-"
"""Readers pass over files whose names begin with "_" or ".", as a topic's name may."""


def entry(n: int) -> str:
    return f"{LOG}{n:020d}.json"


def plan(plan_id: str) -> str:
    return f"_tidegate/plans/{plan_id}.json"


def note(plan_id: str) -> str:
    """Return the path of what was seen when a plan was frozen: watermarks, time, run."""
    return f"_tidegate/plans/{plan_id}.note.json"


def unfinished(plan_id: str) -> str:
    """Return the marker of a plan with chunks to commit. It is deleted when there are none."""
    return f"{UNFINISHED}{plan_id}"


def run_key(dag_id: str, run_id: str, work: str = "") -> str:
    """Return the key of a run's frozen plans. `work` distinguishes the plans of one run."""
    return canonical.digest(canonical.encode([dag_id, run_id, work]))


def generations(key: str) -> str:
    return f"_tidegate/runs/{key}/"


def generation(key: str, number: int) -> str:
    return f"{generations(key)}{number}.json"


def boundaries(topic_id: str) -> str:
    return f"_tidegate/boundaries/{topic_id}/"


def boundary(topic_id: str, moment: int) -> str:
    """Return the path of a frozen boundary. `moment` is in ms since the epoch."""
    return f"{boundaries(topic_id)}{moment:015d}.json"


def chunk(plan_id: str, number: int) -> str:
    return f"{STAGING}{plan_id}/{number}/"


def attempt(plan_id: str, number: int, name: str) -> str:
    return f"{chunk(plan_id, number)}{name}/"


def manifest(plan_id: str, number: int, name: str) -> str:
    return f"_tidegate/manifests/{plan_id}-{number}-{name}.json"


def quarantine(plan_id: str, attempt_name: str) -> str:
    """Return where an egress attempt writes the rows that it could not send."""
    return f"{QUARANTINE}{plan_id}/{attempt_name}"


def checkpoint(n: int) -> str:
    return f"{CHECKPOINTS}{n:020d}.json"


def checkpoint_commits(n: int) -> str:
    """Return the path of a checkpoint's live commits, one a line."""
    return f"{CHECKPOINTS}{n:020d}.commits"


def report(key: str, generation: int) -> str:
    return f"_tidegate/reports/{key}/{generation}.json"


def history(n: int) -> str:
    """Return the path of the history of runs, as the n-th run that ended left it."""
    return f"{HISTORY}{n:020d}.json"


def placed(n: int) -> str:
    return f"{PLACED}{n:020d}"


def cleared(n: int) -> str:
    """Return the marker of a commit whose replaced files are deleted, and cannot come back."""
    return f"{PLACED}{n:020d}.cleared"


def window_date(data_file: str) -> str | None:
    """Return the date in the path of a data file. None if its directories have none."""
    return data_file.partition("/window_date=")[2].partition("/")[0] or None


def data_file(topic: str, directories: Iterable[str], name: str) -> str:
    """Return the path of a data file whose name ends so; ValueError for what is no topic.

    `directories` are those below the topic's. Kafka allows no "~" in a topic, so a shortened name
    cannot equal another topic.
    """
    if not _TOPIC.fullmatch(topic):
        raise ValueError(f"not a topic: {topic!r}")
    short = topic
    if len(short) > _LONGEST_TOPIC_IN_A_NAME:
        tail = canonical.digest(topic.encode())[:16]
        short = f"{topic[: _LONGEST_TOPIC_IN_A_NAME - 17]}~{tail}"
    within = "".join(f"{each}/" for each in (f"topic={topic}", *directories))
    return f"{DATA}{within}{_PREFIX}{short}-{name}.parquet"
