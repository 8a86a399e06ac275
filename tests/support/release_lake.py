"""The lake of release 0.1.0 (`tests/tools/lake_of_release.py`), and both versions beside it."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tidegate
from support import release_steps
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import LocalStore

RELEASE = "0.1.0"
FIXTURE = Path(__file__).parents[1] / "fixtures" / f"release-{RELEASE}"
UNFINISHED = "c0f3814783464fee"
"""The plan of the run `unfinished`, whose only chunk is sealed: [50, 60) of both partitions."""


def unpack(into: Path) -> dict[str, Path]:
    """Unpack the release; return the directories for PYTHONPATH by version."""
    with tarfile.open(FIXTURE / "package.tar.xz") as package:
        package.extractall(into, filter="data")
    return {RELEASE: into, tidegate.__version__: Path(tidegate.__file__).parents[1]}


@dataclass
class ReleaseLake:
    """A copy of the lake in a home of its own; `packages` are directories by version."""

    home: Path
    packages: Mapping[str, Path]

    @classmethod
    def copied(cls, home: Path, packages: Mapping[str, Path]) -> "ReleaseLake":
        shutil.copytree(FIXTURE / "lake", home / "lake")
        (home / "pipelines").mkdir()
        for path in (FIXTURE / "pipelines").iterdir():
            (home / "pipelines" / path.name).write_text(_filled(path, home))
        return cls(home, packages)

    @property
    def store(self) -> LocalStore:
        return LocalStore(self.home / "lake/orders")

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.store, "orders")

    def expected(self) -> dict[str, Any]:
        """Return what the release printed of the lake."""
        return dict(json.loads(_filled(FIXTURE / "expected.json", self.home)))

    def start(self, version: str, *steps: tuple[Any, ...], **env: str) -> subprocess.Popen[str]:
        """Start the steps of a version in a process."""
        foreign = ("TIDEGATE_", "AIRFLOW", "AWS_", "PYTHON")
        clean = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
        own = {
            "PYTHONPATH": str(self.packages[version]),
            "TIDEGATE_PIPELINES": str(self.home / "pipelines"),
            "TIDEGATE_HOME": str(self.home / "stack"),
        }
        return subprocess.Popen(
            [sys.executable, release_steps.__file__, json.dumps(steps)],
            env={**clean, **own, **env}, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, version: str, *steps: tuple[Any, ...]) -> list[Any]:
        """Return the results of steps of a version."""
        with self.start(version, *steps) as process:
            out, err = process.communicate(timeout=120)
        assert process.returncode == 0, f"{version}: {steps}\n{err}"
        document = json.loads(out)
        assert document["version"] == version
        assert Path(document["file"]).is_relative_to(self.packages[version])
        return list(document["results"])


def _filled(path: Path, home: Path) -> str:
    return path.read_text().replace("{home}", str(home))
