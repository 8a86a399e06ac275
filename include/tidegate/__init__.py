"""Move planned, bounded amounts of data between Kafka and a Parquet lake, provably once.

The names of the Python API (docs/python-api.md) are those of `tidegate.api`, which is imported when
one of them is asked for; then the lake and the connections of the local stack are set where the
environment has none, as the command line does. This file is also in processes that have nothing of
it but `tidegate.core` and `tidegate.spark`. `__init__.pyi` has their types.
"""

from contextlib import suppress
from importlib import import_module
from typing import Any

__version__ = "0.1.0"

__all__ = ["OffsetRange", "files", "open_lake", "plan", "run", "status"]


def __getattr__(name: str) -> Any:
    # No module directly in this package may have one of these names: its import would take the
    # place of the function.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    api = import_module("tidegate.api")
    with suppress(ImportError):  # in a production installation
        import_module("tidegate_local.environment").use()
    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
