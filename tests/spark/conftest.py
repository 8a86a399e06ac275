"""One Spark session for all of the directory's tests, and a topic of its own for each."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support import egress_pipeline, spark_session, topic_records
from tidegate.egress import release, takeover
from tidegate.spark.session import configure_session
from tidegate_local.kafka import Broker


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """Return the Spark session of this process; tests in other directories share it."""
    return spark_session.shared()


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """Return a session without code generation."""
    mine = spark.newSession()
    mine.conf.set("spark.sql.codegen.wholeStage", "false")
    mine.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    mine.conf.set("spark.sql.shuffle.partitions", "1")
    configure_session(mine)
    return mine


@pytest.fixture
def elsewhere(spark: SparkSession) -> Iterator[None]:
    """Let Hadoop's default file system be HDFS, and write Parquet without page checksums."""
    settings = {
        "fs.defaultFS": "hdfs://127.0.0.1:9",
        "parquet.page.write-checksum.enabled": "false",
    }
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    before = {name: hadoop.get(name) for name in settings}
    for name, value in settings.items():
        hadoop.set(name, value)
    yield
    for name, value in before.items():
        if value is None:
            hadoop.unset(name)
        else:
            hadoop.set(name, value)


@pytest.fixture
def topic() -> str:
    """Return a unique topic name."""
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def pipeline(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> egress_pipeline.EgressPipeline:
    """Return an egress pipeline without files, and create its target with three partitions.

    It has its own settings in the shared session, without code generation, which is slower for a
    few rows. A sender in this process counts as dead after it has failed.
    """
    session = spark.newSession()
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    monkeypatch.setattr(takeover, "is_dead", lambda *_, **__: True)
    monkeypatch.setattr(release, "is_alive", lambda *_: False)
    monkeypatch.setenv("TIDEGATE_PIPELINES", str(tmp_path / "pipelines"))
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "in").mkdir()
    topic_records.create(broker.bootstrap, topic, partitions=3)
    return egress_pipeline.EgressPipeline(tmp_path, broker.bootstrap, session, topic)
