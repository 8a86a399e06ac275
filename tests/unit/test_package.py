"""The wheel: what is in it, and what it does without a checkout and without its extras."""

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import tidegate
from tools import build_wheel

PROJECT = Path(__file__).parents[2]
SITE = Path(sysconfig.get_path("purelib"))
FLIGHTS = (PROJECT / "include/pipelines/flights.yaml").read_text()
_RUN = """\
import sys
sys.path[:0] = sys.argv[1:3]
del sys.argv[1:3]
from tidegate.cli import main
assert main.__file__.startswith(sys.path[0]), main.__file__
main.run()
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel.build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's files as an installation has them."""
    directory = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory)
    return directory


@pytest.fixture(scope="module")
def dependencies(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the installed packages those that `dependencies` needs, and no other."""
    directory = tmp_path_factory.mktemp("dependencies")
    (ours,) = metadata.distributions(path=[str(unpacked)])
    for name in closure(ours.requires or []):
        found = metadata.distribution(name)
        for top in {file.parts[0] for file in found.files or () if file.parts[0] != ".."}:
            if not (directory / top).exists() and (SITE / top).exists():
                (directory / top).symlink_to(SITE / top)
    return directory


def closure(requires: list[str]) -> set[str]:
    """Return the names of all distributions that requirements without an extra lead to."""
    found: set[str] = set()
    waiting = [Requirement(each) for each in requires]
    while waiting:
        each = waiting.pop()
        if each.name not in found and (not each.marker or each.marker.evaluate({"extra": ""})):
            found.add(each.name)
            waiting += map(Requirement, metadata.requires(each.name) or ())
    return found


def python(code: str, *args: object, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a Python with the standard library alone, without this process's environment."""
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, *map(str, args)],
        cwd=cwd, env={"PATH": os.environ["PATH"], "HOME": str(cwd), **env},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_what_it_contains(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        modes = {each.filename: each.external_attr >> 16 for each in archive.infolist()}
    package = PROJECT / "include"
    expected = {
        str(path.relative_to(package))
        for top in ("tidegate", "tidegate_local", "tidegate_check")
        for path in (package / top).rglob("*")
        if path.suffix
        in (".py", ".pyi", ".lock", ".java", ".jar", ".html", ".css", ".js", ".sh", ".typed")
        and path.name != "image.lock"  # read by the Dockerfile alone
    }
    docs = PROJECT / "docs"
    pages = [*docs.glob("*.md"), *docs.glob("how-to/*.md")]
    expected |= {f"tidegate/pages/{path.relative_to(docs)}" for path in pages}
    others = {name for name in names if ".dist-info/" not in name}
    assert others == expected
    assert {
        "tidegate/spark/jobs/ingest.py",
        "tidegate/launch/jars/spark-kafka.lock",
        "tidegate/ui/overview.html",
        "tidegate/ui/page.css",
        "tidegate/airflow/dag_files/tidegate_dags.py",
        "tidegate/py.typed",
    } <= others
    scripts = [name for name in names if name.endswith(".sh")]
    assert len(scripts) == 2
    assert all(modes[name] & 0o111 == 0o111 for name in scripts)


def test_what_it_says_of_itself(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith("/METADATA"))
        form = message_from_bytes(archive.read(name))
        entry_points = archive.read(name.replace("METADATA", "entry_points.txt")).decode()
    assert form["Version"] == tidegate.__version__
    requires = [Requirement(each) for each in form.get_all("Requires-Dist", [])]
    always = {each.name for each in requires if not each.marker}
    assert {"pydantic", "kafka-python", "pyarrow", "obstore", "typer"} <= always
    assert not always & {"apache-airflow", "pyspark", "botocore", "duckdb", "confluent-kafka"}
    extras = set(form.get_all("Provides-Extra", []))
    assert extras == {
        "airflow",
        "spark",
        "s3",
        "msk",
        "duckdb",
        "kafka-connection",
        "kubernetes",
        "local",
    }
    assert "tidegate = tidegate.cli.main:run" in entry_points
    assert "[airflow.plugins]\ntidegate = tidegate.ui.plugin:TidegatePlugin" in entry_points


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A directory of pipeline files."""
    (tmp_path / "flights.yaml").write_text(FLIGHTS)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("--version", f"tidegate {tidegate.__version__}\n"),
        ("--help", "--install-completion"),
        ("demo --help", "Usage: "),
        ("local up --help", "Usage: "),
        ("jars --help", "Usage: "),
        ("run --help", "Usage: "),
        ("validate", "flights"),
        ("settings fetch.min.bytes", "fetch.min.bytes"),
        ("schema", '"$schema"'),
        ("docs own-kafka", "# Your own Kafka in ten minutes"),
    ],
)
def test_a_command_without_any_extra(
    unpacked: Path, dependencies: Path, directory: Path, command: str, says: str
) -> None:
    given = {"TIDEGATE_PIPELINES": str(directory), "TIDEGATE_LAKE": str(directory / "lake")}
    done = python(_RUN, unpacked, dependencies, *command.split(), cwd=directory, **given)
    assert done.returncode == 0, done.stderr
    assert says in done.stdout


@pytest.mark.parametrize(
    ("command", "says", "code"),
    [
        ("demo", "the local stack is not installed: pip install 'tidegate[local]'", 2),
        ("local up", "the local stack is not installed: pip install 'tidegate[local]'", 2),
        ("local status", "the local stack is not installed: pip install 'tidegate[local]'", 2),
        ("jars", "PySpark, which has Ivy, is not installed: pip install 'tidegate[spark]'", 2),
        ("files bucket", "S3 needs botocore: pip install 'tidegate[s3]'", 2),
    ],
)
def test_what_needs_an_extra_says_so_in_one_line(
    unpacked: Path, dependencies: Path, directory: Path, command: str, says: str, code: int
) -> None:
    bucket = FLIGHTS.replace("name: flights", "name: bucket").replace("${TIDEGATE_LAKE}", "s3://b")
    (directory / "bucket.yaml").write_text(bucket)
    given = {"TIDEGATE_PIPELINES": str(directory), "TIDEGATE_LAKE": "s3://bucket/lake"}
    given["TIDEGATE_CACHE"] = str(directory / "cache")
    done = python(_RUN, unpacked, dependencies, *command.split(), cwd=directory, **given)
    assert (done.returncode, len(done.stderr.splitlines())) == (code, 1), done.stderr
    assert says in done.stderr


@pytest.mark.parametrize(
    ("typed", "completed"), [("tidegate ver", ["verify"]), ("tidegate offsets a", ["adopt"])]
)
def test_a_shell_completes_commands(
    unpacked: Path, dependencies: Path, tmp_path: Path, typed: str, completed: list[str]
) -> None:
    """What the script that `--install-completion` writes for bash asks at each Tab."""
    asked = {
        "_TIDEGATE_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(typed.count(" ")),
    }
    code = _RUN.replace("main.run()", "sys.argv[0] = 'tidegate'; main.run()")
    done = python(code, unpacked, dependencies, cwd=tmp_path, **asked)
    assert (done.returncode, done.stdout.split()) == (0, completed), done.stderr


def test_without_a_directory_of_pipelines(
    unpacked: Path, dependencies: Path, tmp_path: Path
) -> None:
    """A package has none beside it, and an empty answer would hide that."""
    for given, says in (
        ({}, "no directory of pipeline files is known; set TIDEGATE_PIPELINES"),
        ({"TIDEGATE_PIPELINES": "/nowhere"}, "there is no directory /nowhere; set TIDEGATE_PIPEL"),
    ):
        done = python(_RUN, unpacked, dependencies, "status", cwd=tmp_path, **given)
        assert (done.returncode, done.stdout) == (2, "")
        assert says in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_the_jobs_are_beside_the_package(unpacked: Path, dependencies: Path) -> None:
    code = (
        "import sys; sys.path[:0] = sys.argv[1:3]; from tidegate.launch import submission;"
        "print(submission._JOBS / 'ingest.py')"
    )
    done = python(code, unpacked, dependencies, cwd=unpacked)
    assert done.stdout == f"{unpacked}/tidegate/spark/jobs/ingest.py\n", done.stderr
    assert Path(done.stdout.strip()).is_file()


def test_an_own_airflow_has_dags_and_page(unpacked: Path, directory: Path) -> None:
    """By the line for a DAG file, by the bundle and by the entry point; no checkout on the path."""
    code = """\
import json, os, sys
sys.path[:0] = sys.argv[1:3]
from importlib.metadata import entry_points
from tidegate.airflow import dags
from tidegate.airflow.bundle import TidegateDagBundle
globals().update(dags())
(plugin,) = entry_points(group="airflow.plugins", name="tidegate")
found = {
    "dags": sorted(dags()),
    "bundle": os.listdir(TidegateDagBundle(name="tidegate").path),
    "plugin": plugin.load().name,
    "files": sorted({m.__file__ for n, m in sys.modules.items()
                     if n.partition(".")[0] == "tidegate" and m.__file__}),
}
print(json.dumps(found))
"""
    done = python(
        code, unpacked, SITE, cwd=directory,
        TIDEGATE_PIPELINES=str(directory), TIDEGATE_LAKE="/lake",
        AIRFLOW_HOME=str(directory / "airflow"), AIRFLOW__CORE__LOAD_EXAMPLES="False",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    own = ["tidegate_backfill", "tidegate_maintenance", "tidegate_replay"]
    assert found["dags"] == ["tidegate__flights", *own]
    assert "tidegate_dags.py" in found["bundle"]
    assert found["plugin"] == "tidegate"
    assert all(file.startswith(str(unpacked)) for file in found["files"])
