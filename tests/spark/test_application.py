"""The whole application through spark-submit, as the CLI and Airflow start it."""

import json
from pathlib import Path

import pytest

from support.calls import staging
from support.process_list import CommandLines
from support.topic_records import numbers
from tidegate.core.offsets import OffsetRange
from tidegate.core.parquet_settings import ParquetSettings
from tidegate.errors import StageFailed
from tidegate.launch import jars
from tidegate.launch.masters import for_places
from tidegate.launch.spark_submit import ensure_archive, submit
from tidegate.spark.ingest_job import Chunk, IngestJob
from tidegate_local.kafka import Broker

CANARY = "hunter2-never-to-be-seen"
JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required"
    f' username="alice" password="{CANARY}";'
)


def test_chunks_are_staged_in_order_and_no_secret_is_seen(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    """The secret is in no command line, output at INFO, event log or file."""
    numbers(broker.bootstrap, topic, 100, partitions=1)
    directories = [tmp_path / "lake" / str(number) for number in range(3)]
    chunks = [
        Chunk(number, (OffsetRange(topic, 0, 30 * number, 30 * number + 30),), str(directory))
        for number, directory in enumerate(directories)
    ]
    events = tmp_path / "events"
    events.mkdir()
    conf = {
        "spark.log.level": "INFO",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",  # to be searched
        "spark.eventLog.dir": events.as_uri(),
    }
    with CommandLines() as seen:
        output = _run(tmp_path, broker, chunks, conf)
    done = [json.loads((directory / "_done.json").read_text()) for directory in directories]
    assert [(d["chunk"], d["rows"]) for d in done] == [(0, 30), (1, 30), (2, 30)]
    assert [line for line in output if f"plan f00d chunk {2}: 30 rows" in line]
    assert str(tmp_path / "job.json") in seen.text, "the driver's command line was looked at"
    assert CANARY not in seen.text
    assert "Submitted application: tests" in "\n".join(output), "INFO was on"
    assert CANARY not in "\n".join(output)
    logged = b"".join(file.read_bytes() for file in events.rglob("*") if file.is_file())
    assert b"SparkListenerSQLExecutionStart" in logged
    assert CANARY.encode() not in logged


def test_a_failure_is_one_clear_line(broker: Broker, topic: str, tmp_path: Path) -> None:
    """Earlier chunks stay done, later ones are not started."""
    numbers(broker.bootstrap, topic, 10, partitions=1)
    chunks = [
        Chunk(0, (OffsetRange(topic, 0, 0, 10),), str(tmp_path / "0")),
        Chunk(1, (OffsetRange(f"{topic}-none", 0, 0, 10),), str(tmp_path / "1")),
        Chunk(2, (OffsetRange(topic, 0, 0, 10),), str(tmp_path / "2")),
    ]
    with pytest.raises(StageFailed) as failed:
        _run(tmp_path, broker, chunks, {})
    assert f"plan f00d chunk 1 ({topic}-none): UnknownTopic" in str(failed.value)
    assert len(str(failed.value).splitlines()) == 1
    assert failed.value.numbers == {"exit_code": 1}
    assert (tmp_path / "0" / "_done.json").exists()
    assert not (tmp_path / "1" / "_done.json").exists()
    assert not (tmp_path / "2").exists()


@pytest.mark.slow
def test_a_cds_archive_is_created_and_used(
    broker: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is created once, without a broker; later drivers load thousands of classes from it, also
    with the jars for S3 on the class path.
    """
    numbers(broker.bootstrap, topic, 10, partitions=1)
    (tmp_path / "jars").symlink_to(jars.cache_dir() / "jars")
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path))
    said: list[str] = []
    archive = ensure_archive(said.append)
    assert archive is not None, said
    assert ensure_archive(said.append) == archive
    chunks = [Chunk(0, (OffsetRange(topic, 0, 0, 10),), str(tmp_path / "0"))]
    verbose = {"spark.driver.extraJavaOptions": "-Xlog:class+load"}
    output = _run(tmp_path, broker, chunks, verbose)
    assert sum("source: shared objects file" in line for line in output) > 10_000
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    chunks = [Chunk(1, (OffsetRange(topic, 0, 0, 10),), str(tmp_path / "1"))]
    output = _run(tmp_path, broker, chunks, verbose, also="s3a://bucket/lake")
    assert sum("source: shared objects file" in line for line in output) > 10_000


def _run(
    tmp_path: Path, broker: Broker, chunks: list[Chunk], conf: dict[str, str], *, also: str = ""
) -> list[str]:
    options = {
        "kafka.bootstrap.servers": broker.bootstrap,
        "kafka.isolation.level": "read_committed",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": JAAS,  # not used over PLAINTEXT, but carried everywhere
        "kafka.request.timeout.ms": "4000",
        "kafka.default.api.timeout.ms": "5000",
    }
    path = tmp_path / "job.json"
    parquet = ParquetSettings("zstd", 1, 1_000_000)
    IngestJob("f00d", tuple(chunks), parquet, app_name="tests", options=options, records=90).write(
        path
    )
    output: list[str] = []
    application = for_places(staging(path, conf, 90, name="tests"), also)
    submit(application, master="local[2]", log=output.append)
    return output
