"""End together with the parent process: an orphan would go on writing, unseen. Linux only."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def end_with_parent(number: signal.Signals = signal.SIGTERM) -> None:
    """Ask the kernel for a signal when the parent dies; to be called before anything else."""
    parent = os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    # No signal comes for a parent that died just before the call. (A driver whose JVM died before
    # this function cannot connect to it, and ends by itself.)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)
