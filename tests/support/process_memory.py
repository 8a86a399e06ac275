"""How much memory trees of processes take, as a limit of a container would count it."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.process_list import descendants

_COUNTED = re.compile(r"^Pss_(?:Anon|Shmem): +(\d+) kB$", re.MULTILINE)


class Peaks:
    """The highest sum of each tree, sampled once a second; pages of files are not counted: under a
    limit the kernel drops them.
    """

    def __init__(self) -> None:
        self.megabytes: dict[str, float] = {}
        self._roots: dict[str, int] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def watch(self, name: str, pid: int) -> None:
        """Count a process and its descendants from now on."""
        self._roots[name] = pid

    def _sample(self) -> None:
        while not self._over.wait(1.0):
            for name, root in list(self._roots.items()):
                taken = sum(_taken(pid) for pid in (root, *descendants(root))) / 1024
                self.megabytes[name] = max(taken, self.megabytes.get(name, 0.0))


@contextmanager
def sampled() -> Iterator[Peaks]:
    """Sample while the block runs."""
    peaks = Peaks()
    peaks._thread.start()
    try:
        yield peaks
    finally:
        peaks._over.set()
        peaks._thread.join()


def _taken(pid: int) -> int:
    """Return a process's memory in KiB, its part of what it shares; 0 of one that has ended."""
    try:
        return sum(map(int, _COUNTED.findall(Path(f"/proc/{pid}/smaps_rollup").read_text())))
    except OSError:
        return 0
