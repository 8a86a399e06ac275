"""PySpark in a driver that starts and ends often: without what costs time and serves no job."""

from __future__ import annotations

import functools
import socketserver
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

_POLL = 0.02  # seconds


def prepare_import() -> None:
    """Import PySpark so that it starts and ends soon; to be called before any other import of it.

    Its statistics then use `max` in place of numpy's (0.1 to 0.2 s of a start). With the first
    number for Java, PySpark 4 imports its own tests' helpers, and with them pandas, to know numpy's
    numbers (0.7 s). At its end it waits for a server that looks twice a second whether to end.
    """
    with _hidden("numpy"):
        import pyspark.statcounter  # noqa: F401
    helpers: Any = ModuleType("pyspark.testing.utils")
    helpers.have_numpy = False
    sys.modules.setdefault(helpers.__name__, helpers)

    from pyspark import accumulators

    for server in vars(accumulators).values():  # Spark 4.2 has two, by other names
        if isinstance(server, type) and issubclass(server, socketserver.BaseServer):
            serve = functools.partialmethod(server.serve_forever, poll_interval=_POLL)
            setattr(server, "serve_forever", serve)  # noqa: B010


@contextmanager
def _hidden(module: str) -> Iterator[None]:
    """Let an import of a module fail in the block, unless it was imported before."""
    missing: Any = None
    if sys.modules.setdefault(module, missing) is not None:
        yield
        return
    try:
        yield
    finally:
        del sys.modules[module]
