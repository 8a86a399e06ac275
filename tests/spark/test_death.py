"""After a kill -9, the driver ends with its JVM, and both with the process that started them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from support.process_list import command_line, descendants, is_job, is_running, spark_jvm
from support.topic_records import numbers
from tidegate.core.offsets import OffsetRange
from tidegate.core.parquet_settings import ParquetSettings
from tidegate.spark.ingest_job import Chunk, IngestJob
from tidegate_local.kafka import Broker

RECORDS = 200_000
_PARENT = """
import sys
from pathlib import Path
from tidegate.launch.spark_submit import submit
from support.calls import staging

submit(
    staging(Path(sys.argv[1]), {}, 1, name="death"),
    master="local[1]",
    log=lambda line: print(line, flush=True),
)
"""


@dataclass(frozen=True)
class Family:
    """A process that waits for its spark-submit, which has staged a part of the rows."""

    parent: subprocess.Popen[bytes]
    jvm: int
    driver: int
    staging: Path


@pytest.fixture
def family(broker: Broker, topic: str, tmp_path: Path) -> Iterator[Family]:
    """Start a parent process; yield when some rows are staged, but not all.

    The job has many small tasks, so that finished files can be counted, and polls one record at a
    time, to be slow.
    """
    numbers(broker.bootstrap, topic, RECORDS, partitions=1)
    staging = tmp_path / "attempt"
    options = {
        "kafka.bootstrap.servers": broker.bootstrap,
        "kafka.isolation.level": "read_committed",
        "kafka.max.poll.records": "1",
        "maxRecordsPerPartition": "1000",
    }
    chunk = Chunk(0, (OffsetRange(topic, 0, 0, RECORDS),), str(staging))
    job = tmp_path / "job.json"
    parquet = ParquetSettings("zstd", 1, 1_000_000)
    IngestJob("f00d", (chunk,), parquet, app_name="death", options=options, records=1).write(job)
    with (tmp_path / "log").open("wb") as log:
        parent = subprocess.Popen(
            [sys.executable, "-c", _PARENT, str(job)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    driver = None
    try:
        _wait_for(lambda: len(list(staging.glob("topic=*/*.parquet"))) >= 2, 120)
        jvm = spark_jvm(parent.pid)
        (driver,) = [p for p in descendants(jvm) if is_job(command_line(p), "ingest")]
        yield Family(parent, jvm, driver, staging)
    finally:
        parent.kill()
        parent.wait()
        if driver and is_running(driver):  # a mutant's
            os.kill(driver, signal.SIGKILL)
        print((tmp_path / "log").read_text())


def test_the_driver_dies_with_its_jvm(family: Family) -> None:
    """Even a stopped driver, which cannot notice that its connection to the JVM is closed (req
    4.23).
    """
    os.kill(family.driver, signal.SIGSTOP)
    os.kill(family.jvm, signal.SIGKILL)
    _wait_for(lambda: not (is_running(family.jvm) or is_running(family.driver)), 5)
    assert family.parent.wait(10) == 1, "the parent only sees a failure"
    _assert_half_staged(family.staging)


@pytest.mark.faults  # as in tests/integration/test_whole_runs.py, where a run is killed
def test_jvm_and_driver_die_with_the_process_that_started_them(family: Family) -> None:
    family.parent.kill()
    family.parent.wait()
    _wait_for(lambda: not (is_running(family.jvm) or is_running(family.driver)), 5)
    _assert_half_staged(family.staging)


def _assert_half_staged(staging: Path) -> None:
    """Assert that some rows are staged, not all, and that there is no `_done.json`."""
    staged = sum(pq.ParquetFile(f).metadata.num_rows for f in staging.glob("topic=*/*.parquet"))
    assert 0 < staged < RECORDS
    assert not (staging / "_done.json").exists()


def _wait_for(condition, seconds: float) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
