"""The zip that a driver without Tidegate gets: what is in it, and that it is enough."""

import subprocess
import sys
import zipfile
from pathlib import Path
from unittest import mock

import pytest

import tidegate
from tidegate.errors import ConfigurationError
from tidegate.launch import job_zip

PACKAGE = Path(tidegate.__file__).parent
# In a Python without third-party packages: stands for PySpark, whatever is imported of it.
_ALONE = """\
import importlib, pkgutil, sys
from unittest.mock import MagicMock

class Stub(MagicMock):
    __path__ = []

class Finder:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in ("pyspark", "py4j"):
            return importlib.machinery.ModuleSpec(name, self)
    def create_module(self, spec):
        return Stub(name=spec.name)
    def exec_module(self, module):
        pass

sys.meta_path.insert(0, Finder())
sys.path.insert(0, sys.argv[1])
import tidegate
found = [each.name for each in pkgutil.walk_packages(tidegate.__path__, "tidegate.")]
for name in found:
    assert importlib.import_module(name).__file__.startswith(sys.argv[1]), name
print(*found)
"""


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "cache"))


def test_a_cache_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One that another user has filled is enough, as in an image."""
    built = job_zip.build_zip()
    monkeypatch.setattr(
        job_zip, "write_whole", mock.Mock(side_effect=PermissionError(13, "denied"))
    )
    assert job_zip.build_zip() == built
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "other"))
    with pytest.raises(ConfigurationError, match="cannot be written: denied: run `tidegate jars`"):
        job_zip.build_zip()


def test_it_has_what_the_contract_allows_and_nothing_else() -> None:
    with zipfile.ZipFile(job_zip.build_zip()) as archive:
        names = archive.namelist()
        assert archive.read("tidegate/errors.py") == (PACKAGE / "errors.py").read_bytes()
    tops = {name.split("/")[1] for name in names}
    assert tops == {"__init__.py", "errors.py", "faults.py", "core", "settings", "spark"}
    expected = {
        str(path.relative_to(PACKAGE.parent))
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] in tops
    }
    assert set(names) == expected
    assert "tidegate/spark/jobs/ingest.py" in names


def test_the_same_modules_make_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On any machine, whenever the sources were written; nothing else is left in the cache."""
    first = job_zip.build_zip()
    again = job_zip.build_zip()
    assert again == first
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "other"))
    other = job_zip.build_zip()
    assert (other.name, other.read_bytes()) == (first.name, first.read_bytes())
    assert list(first.parent.iterdir()) == [first]


def test_another_content_is_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = job_zip.build_zip()
    copy = tmp_path / "tidegate"
    for name in ("__init__.py", "errors.py", "faults.py"):
        copy.mkdir(exist_ok=True)
        (copy / name).write_bytes((PACKAGE / name).read_bytes() + b"# changed\n")
    monkeypatch.setattr(job_zip, "PACKAGE", copy)
    assert job_zip.build_zip() != first


def test_every_module_of_it_can_be_imported_from_it(tmp_path: Path) -> None:
    """By a Python that has the standard library, and a stand-in for PySpark."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _ALONE, job_zip.build_zip()],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {"tidegate.spark.jobs.egress", "tidegate.core.plan"} <= set(done.stdout.split())
