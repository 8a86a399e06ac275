"""The nets with all kits and client libraries blocked: `python tests/nets/without_kits.py`.

A run that needs one of them ends with ModuleNotFoundError.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

KITS = (
    "broker", "launch", "pipelines", "connections", "flows", "samples", "doctor", "orchestration",
    "cli", "terminal", "ui", "airflow", "api", "lake.store", "lake.local_store",
    "lake.store_errors", "lake.source_names", "lake.conditional_put", "lake.buckets",
    "lake.bucket_kinds", "lake.s3_buckets", "lake.multipart_uploads", "lake.dataset",
    "spark.formats",
)  # fmt: skip
"""Modules and packages of Tidegate that vary, or that put variants together."""
LIBRARIES = (
    "airflow", "botocore", "cryptography", "httpx", "kafka", "obstore", "pydantic", "pyspark",
    "rich", "tenacity", "typer", "yaml",
)  # fmt: skip
BLOCKED = {*(f"tidegate.{kit}" for kit in KITS), *LIBRARIES}


class _Blocker(MetaPathFinder):
    """Finds no module that is blocked, nor those below it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        del path, target
        parts = name.split(".")
        if any(".".join(parts[:n]) in BLOCKED for n in (1, 2, 3)):
            raise ModuleNotFoundError(f"{name} is blocked: the rules of a run know no kit")


if __name__ == "__main__":
    sys.meta_path.insert(0, _Blocker())
    from nets.__main__ import main

    sys.exit(main())
