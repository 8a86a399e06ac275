"""A copy of the product without a kit's folder: what does not need the kit still does its work."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from support import topic_records
from tidegate.core.offsets import OffsetRange
from tidegate.core.parquet_settings import ParquetSettings
from tidegate.spark.ingest_job import Chunk, IngestJob
from tidegate_local.kafka import Broker
from tools import build_wheel

PROJECT = Path(__file__).parents[2]
KITS = ("broker", "launch", "pipelines", "spark/formats")
HELP = "from tidegate.cli.main import run; run()"
ZIP = "from tidegate.launch import job_zip; print(job_zip.build_zip())"
STAGE = """
import sys
from pathlib import Path
from support import spark_session
from tidegate.spark import ingest_driver
from tidegate.spark.ingest_job import IngestJob
job = IngestJob.read(Path(sys.argv[1]))
print(ingest_driver.stage_chunk(spark_session.shared(), job, *job.chunks).rows)
spark_session.stop()
"""
pytestmark = pytest.mark.slow


@pytest.fixture(params=KITS)
def removed(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, Path]:
    """The kit, and the copy without it."""
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in build_wheel.SOURCES:
        source = PROJECT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / name)
    shutil.rmtree(copy / "include/tidegate" / request.param)
    monkeypatch.setattr(build_wheel, "PROJECT", copy)
    monkeypatch.setenv("PYTHONPATH", f"{copy / 'include'}:{PROJECT / 'tests'}")
    return request.param, copy


def python(*args: object, **env: str) -> str:
    """Run Python with the copy; return what it prints on stdout."""
    done = subprocess.run(
        [sys.executable, *map(str, args)],
        env={**os.environ, **env},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_folder_is_gone(removed: tuple[str, Path], tmp_path: Path) -> None:
    """It is packed, it shows its help, and runs lose and repeat nothing."""
    kit, copy = removed
    with zipfile.ZipFile(build_wheel.build(tmp_path)) as wheel:
        names = wheel.namelist()
    assert "tidegate/core/plan.py" in names
    assert not any(name.startswith(f"tidegate/{kit}/") for name in names)
    assert "Usage: " in python("-c", HELP, "--help")
    nets = python(PROJECT / "tests/nets/without_kits.py", MINUTES="0.05", TMPDIR=str(tmp_path))
    assert "nothing is lost or repeated" in nets
    if kit != "launch":
        zipped = python("-c", ZIP, TIDEGATE_CACHE=str(tmp_path / "cache")).strip()
        with zipfile.ZipFile(zipped) as job_zip:
            assert "tidegate/spark/jobs/ingest.py" in job_zip.namelist()
    assert (copy / "include/tidegate/core").is_dir()


@pytest.mark.parametrize("removed", ["spark/formats"], indirect=True)
def test_bytes_are_read_without_formats(
    removed: tuple[str, Path], broker: Broker, tmp_path: Path
) -> None:
    """A driver asks for a format only where a plan names one."""
    topic_records.create(broker.bootstrap, "bytes", partitions=1)
    topic_records.numbers(broker.bootstrap, "bytes", 100, partitions=1)
    chunk = Chunk(0, (OffsetRange("bytes", 0, 0, 100),), str(tmp_path / "staged"))
    job = IngestJob(
        "f00d", (chunk,), ParquetSettings("zstd", 1, 1_000), app_name="tests", records=100,
        options={
            "kafka.bootstrap.servers": broker.bootstrap, "kafka.isolation.level": "read_committed",
        },
    )  # fmt: skip
    job.write(tmp_path / "job.json")
    said = python("-c", STAGE, tmp_path / "job.json")
    assert said.split()[-1] == "100"
