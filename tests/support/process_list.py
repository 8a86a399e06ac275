"""What any user of the machine can see."""

import contextlib
import threading
from pathlib import Path
from typing import Self


class CommandLines:
    """Collect what a `ps` of any user would show while the block runs."""

    def __enter__(self) -> Self:
        self._lines: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._collect)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    @property
    def text(self) -> str:
        return "\n".join(self._lines)

    def _collect(self) -> None:
        while not self._over.wait(0.05):
            for file in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):  # gone
                    self._lines.add(file.read_text(errors="replace"))
