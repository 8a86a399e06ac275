"""File locks: what only one process of this machine may do at a time."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def hold_lock(path: Path, waiting: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Hold a lock file. The kernel releases it when this process ends.

    If another process holds it, `waiting` is called once, before this one waits.
    """
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
