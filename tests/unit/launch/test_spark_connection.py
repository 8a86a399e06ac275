"""What the extra of a Spark connection may say, what it becomes, and what is refused."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.calls import sending, staging
from tidegate.errors import ConfigurationError
from tidegate.launch import cds_archive, jars, job_zip, spark_home
from tidegate.launch.masters import for_places
from tidegate.launch.spark_connection import LOCAL, SparkConnection, parse_connection
from tidegate.launch.submission import Submission
from tidegate.settings.setting import Place

CONNECTOR = "spark-sql-kafka-0-10_2.13-4.0.4.jar"
SECRET = "hunter2"


def read(
    extra: Any, master: str = "spark://host:7077", place: Place = Place.SPARK
) -> SparkConnection:
    return parse_connection("spark_x", master, extra, place)


def complaints(extra: Any, master: str = "spark://host:7077", **how: Any) -> list[str]:
    """Return the complaints, without the line that names the connection."""
    with pytest.raises(ConfigurationError) as refused:
        read(extra, master, **how)
    first, *others = str(refused.value).splitlines()
    assert first == "Spark connection 'spark_x':"
    return [each.removeprefix("  - ") for each in others]


@pytest.fixture
def pinned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Jars that are not looked at, and no archive of classes."""
    monkeypatch.setattr(jars, "lock_paths", lambda name: [Path(f"/jars/{name}.jar")])
    monkeypatch.setattr(cds_archive, "find_archive", lambda: Path("/cache/x.jsa"))
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "cache"))


def spark(directory: Path, version: str = "4.0.3", scala: str = "2.13", *more: str) -> Path:
    """Make what looks like a Spark."""
    for name in (f"spark-core_{scala}-{version}.jar", *more):
        (directory / "jars").mkdir(parents=True, exist_ok=True)
        (directory / "jars" / name).touch()
    (directory / "bin").mkdir(exist_ok=True)
    (directory / "bin/spark-submit").touch()
    return directory


def staged(connection: SparkConnection, conf: Mapping[str, str] | None = None) -> Submission:
    return staging(Path("/private/job.json"), conf or {}, 400, name="p r", spark=connection)


def test_an_empty_extra_is_none(pinned: None) -> None:
    """Nor does a form's empty field count, and what only other operators use is not named."""
    empty = {"queue": "", "namespace": None, "conf": {}, "deploy-mode": "client",
             "spark-binary": "spark-submit", "rest-port": "6066"}  # fmt: skip
    for extra in ({}, empty):
        assert read(extra) == SparkConnection("spark_x", "spark://host:7077")
    assert staged(read({})) == staged(LOCAL)
    assert "/cache/x.jsa" in staged(LOCAL).conf["spark.driver.defaultJavaOptions"]


def test_settings_are_below_those_of_the_pipeline_and_above_tidegates(pinned: None) -> None:
    given = read(
        {"conf": {"spark.cores.max": 4, "spark.ui.enabled": True, "spark.executor.memory": "2g",
                  "spark.sql.codegen.wholeStage": "true", "spark.driver.host": "10.0.0.7"}}
    )  # fmt: skip
    for conf in (
        staged(given, {"spark.executor.memory": "3g"}).conf,
        sending(
            Path("job.json"), {"spark.executor.memory": "3g"}, name="p", rows=1, spark=given
        ).conf,
    ):
        assert conf["spark.cores.max"] == "4"
        assert conf["spark.ui.enabled"] == "true"
        assert conf["spark.executor.memory"] == "3g"
        assert conf["spark.driver.host"] == "10.0.0.7"
        assert conf["spark.submit.deployMode"] == "client"
    assert staged(given).conf["spark.sql.codegen.wholeStage"] == "true"


def test_settings_are_judged_as_those_of_a_pipeline() -> None:
    """Translated, with notices, or refused; of an egress more are."""
    given = read(
        {"conf": {"spark.sql.kafkaConsumerCache.capacity": 9, "spark.plugins": "a.B"}}
    )  # fmt: skip
    assert given.conf == {"spark.kafka.consumer.cache.capacity": "9", "spark.plugins": "a.B"}
    assert [each.partition(": it names")[0] for each in given.notices] == [
        "Spark connection 'spark_x': conf: spark.sql.kafkaConsumerCache.capacity: read as "
        "spark.kafka.consumer.cache.capacity: the name until Spark 3.0",
        "Spark connection 'spark_x': conf: spark.plugins",
    ]
    (master,) = complaints({"conf": {"spark.master": "local"}})
    assert master.startswith("conf: spark.master: refused: Tidegate sets it")
    twice = {"conf": {"spark.task.maxFailures": 4}}
    assert read(twice).conf == {"spark.task.maxFailures": "4"}
    (refused,) = complaints(twice, place=Place.SENDING)
    assert "Spark retries nothing" in refused


def test_a_secret_is_refused_and_not_quoted() -> None:
    """It would be an argument of spark-submit."""
    extra = {"conf": {"spark.hadoop.fs.s3a.secret.key": SECRET}, "keytab": SECRET,
             "queue": [SECRET], "deploy-mode": SECRET, "jars": SECRET}  # fmt: skip
    found = complaints(extra)
    assert len(found) == 5
    assert SECRET not in str(found)


def test_queue_and_namespace(pinned: None) -> None:
    """Each for the master that knows it; elsewhere with a notice."""
    extra = {"queue": "root.etl", "namespace": "jobs"}
    on_yarn, on_k8s, elsewhere = (read(extra, m) for m in ("yarn", "k8s://https://h", "local"))
    assert on_yarn.conf == {"spark.yarn.queue": "root.etl"}
    assert on_k8s.conf == {"spark.kubernetes.namespace": "jobs"}
    assert (elsewhere.conf, len(elsewhere.notices)) == ({}, 2)
    assert on_yarn.notices == (
        "Spark connection 'spark_x': namespace: it has no effect: it is for masters that begin "
        "with k8s",
    )
    assert staged(on_yarn, {"spark.yarn.queue": "mine"}).conf["spark.yarn.queue"] == "mine"


@pytest.mark.parametrize(
    ("master", "why"),
    [
        ("spark://h:1", "Spark's own master runs no Python application in cluster mode"),
        ("local[2]", "it is for the masters yarn and k8s"),
    ],
)
def test_cluster_mode_is_refused(master: str, why: str) -> None:
    found = complaints({"deploy-mode": "cluster"}, master)
    assert found == [f"deploy-mode: cluster: {why}; write client"]


def test_cluster_mode_on_yarn(pinned: None, tmp_path: Path) -> None:
    """Its Python is of the nodes, and is not looked for here; Tidegate travels in the zip."""
    given = read({"deploy-mode": "cluster", "python": "/of/the/nodes/python3"}, "yarn")
    assert given.is_cluster
    assert not read({}, "yarn").is_cluster
    assert not read({"deploy-mode": "client"}, "yarn").is_cluster
    conf = staged(given, {"spark.submit.pyFiles": "/mine.zip"}).conf
    assert conf["spark.submit.pyFiles"] == f"{job_zip.build_zip()},/mine.zip"
    assert "spark.driver.extraClassPath" not in conf
    assert "SharedArchiveFile" not in conf["spark.driver.defaultJavaOptions"]


def test_a_spark_of_ones_own(pinned: None, tmp_path: Path) -> None:
    """Its driver takes PySpark from there and Tidegate from the zip; the archive does not fit."""
    home = spark(tmp_path / "own")
    given = read({"spark-home": str(home)})
    assert given == read({"spark-binary": f"{home}/bin/spark-submit"})
    assert given == read({"spark-home": str(home), "spark-binary": f"{home}/bin/spark-submit"})
    started = staged(given, {"spark.submit.pyFiles": "/mine.zip"})
    assert started.env["SPARK_HOME"] == str(home)
    assert started.env["PYSPARK_PYTHON"] == sys.executable
    assert started.env["PYSPARK_DRIVER_PYTHON"] == sys.executable
    assert started.conf["spark.submit.pyFiles"] == f"{job_zip.build_zip()},/mine.zip"
    assert "SharedArchiveFile" not in started.conf["spark.driver.defaultJavaOptions"]
    assert started.binary == staged(LOCAL).binary
    assert "spark.submit.pyFiles" not in staged(LOCAL).conf


def test_a_python_of_ones_own(pinned: None, tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.symlink_to(sys.executable)
    started = staged(read({"python": str(python)}))
    assert started.env["PYSPARK_PYTHON"] == started.env["PYSPARK_DRIVER_PYTHON"] == str(python)
    assert started.env["SPARK_HOME"] == str(spark_home.home())
    assert started.conf["spark.submit.pyFiles"] == str(job_zip.build_zip())


@pytest.mark.parametrize(
    ("script", "says"), [("echo 3 8", "is 3.8"), ("exit 1", "is no Python"), ("echo hi", "is no")]
)
def test_a_python_that_cannot_run_the_jobs(tmp_path: Path, script: str, says: str) -> None:
    python = tmp_path / "python3"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    (complaint,) = complaints({"python": str(python)})
    assert f"{says}" in complaint
    assert complaint.endswith("; Tidegate's jobs need Python 3.11 or later")


def test_jars_of_a_directory(pinned: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connector always, the others only with S3, at the end of the class path."""
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.delenv("SPARK_DIST_CLASSPATH", raising=False)
    kafka = [tmp_path / name for name in ("kafka-clients-3.9.2.jar", CONNECTOR)]
    s3 = [tmp_path / name for name in ("bundle-2.29.jar", "hadoop-aws-3.4.1.jar")]
    for jar in kafka:
        jar.touch()
    given = read({"jars": str(tmp_path)})
    started = staged(given)
    assert started.jars == tuple(map(str, kafka))
    assert started.conf["spark.driver.extraClassPath"] == ":".join(map(str, kafka))
    assert "SharedArchiveFile" not in started.conf["spark.driver.defaultJavaOptions"]
    with pytest.raises(ConfigurationError, match="'spark_x': jars: there is no hadoop-aws in /"):
        for_places(started, "s3a://bucket/lake", spark=given)
    for jar in s3:
        jar.touch()
    assert staged(given) == started
    on_s3 = for_places(started, "s3a://bucket/lake", spark=given)
    assert on_s3.jars == (*started.jars, *map(str, s3))
    assert on_s3.env["SPARK_DIST_CLASSPATH"] == ":".join(map(str, s3))


def test_jars_that_spark_fetches(pinned: None, tmp_path: Path) -> None:
    """In its own version, after those of a pipeline; with a notice."""
    given = read({"jars": "packages", "spark-home": str(spark(tmp_path, "4.1.2"))})
    started = staged(given, {"spark.jars.packages": "a:b:1"})
    fetched = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.2,a:b:1"
    assert (started.jars, started.conf["spark.jars.packages"]) == ((), fetched)
    assert "spark.driver.extraClassPath" not in started.conf
    on_s3 = for_places(started, "s3a://bucket/lake", spark=given).conf["spark.jars.packages"]
    assert on_s3 == f"org.apache.spark:spark-hadoop-cloud_2.13:4.1.2,{fetched}"
    assert "each run needs the network" in given.notices[0]


def test_jars_that_spark_has(pinned: None, tmp_path: Path) -> None:
    home = spark(tmp_path, "4.0.4", "2.13", CONNECTOR)
    given = read({"jars": "image", "spark-home": str(home)})
    started = staged(given)
    assert (started.jars, "spark.jars.packages" in started.conf) == ((), False)
    assert "spark.driver.extraClassPath" not in started.conf
    with pytest.raises(ConfigurationError, match=f"no hadoop-aws in {home}/jars"):
        for_places(started, "s3a://bucket/lake", spark=given)
    (home / "jars/hadoop-aws-3.4.1.jar").touch()
    on_s3 = for_places(started, "s3a://bucket/lake", spark=given)
    assert (on_s3.jars, "SPARK_DIST_CLASSPATH" in on_s3.env) == ((), False)


def test_without_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other jars need none."""
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "empty"))
    (tmp_path / CONNECTOR).touch()
    assert staged(read({"jars": str(tmp_path)})).jars == (str(tmp_path / CONNECTOR),)
    with pytest.raises(jars.JarError, match="tidegate jars"):
        staged(read({}))


def test_a_connector_of_another_spark_is_refused(tmp_path: Path) -> None:
    newer, older = spark(tmp_path / "new", "4.1.0"), spark(tmp_path / "old", "4.0.4", "2.12")
    (found,) = complaints({"spark-home": str(older)})
    assert found == (
        f"jars: Kafka's connector there is of Spark 4.0 (Scala 2.13), and {older} is Spark 4.0.4 "
        "(Scala 2.12); write packages, or a directory with the connector of Spark 4.0"
    )
    (unknown,) = complaints({"spark-home": str(spark(tmp_path / "9", "9.9.1"))})
    assert unknown == (
        "jars: there is no spark-sql-kafka-0-10 for Spark 9.9 in cache; write packages, image or "
        "another directory"
    )
    (too_old,) = complaints({"spark-home": str(spark(tmp_path / "3", "3.4.4")), "jars": "packages"})
    assert too_old == f"{tmp_path}/3 is Spark 3.4.4: 3.5 or later is needed"
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars/spark-sql-kafka-0-10_2.13-4.1.0.jar").touch()
    assert read({"spark-home": str(newer), "jars": f"{tmp_path}/jars"}).home == newer
    assert complaints({"jars": f"{tmp_path}/jars"})[0].startswith("jars: Kafka's connector there")
    (image,) = complaints({"spark-home": str(newer), "jars": "image"})
    assert image.startswith(f"jars: there is no spark-sql-kafka-0-10 in {newer}/jars; write")


@pytest.mark.parametrize(
    ("version", "scala", "name"),
    [("3.5.1", "2.12", "-3.5"), ("4.0.0", "2.13", ""), ("4.1.1", "2.13", "-4.1"),
     ("4.2.0", "2.13", "-4.2")],
)  # fmt: skip
def test_the_cache_has_jars_for_each_line(
    pinned: None, tmp_path: Path, version: str, scala: str, name: str
) -> None:
    given = read({"spark-home": str(spark(tmp_path, version, scala))})
    assert given.line == version[:3]
    assert staged(given).jars == (f"/jars/spark-kafka{name}.jar",)


@pytest.mark.parametrize(
    ("version", "scala", "source", "says"),
    [
        ("3.5.7", "2.12", "cache", "Spark 3.5.7: a lake or files in S3 need Spark 4.0 or later"),
        ("3.5.7", "2.12", "packages", "Spark 3.5.7: a lake or files in S3 need Spark 4.0 or later"),
        ("4.2.0", "2.13", "cache", "jars: there is no hadoop-aws for Spark 4.2 in cache"),
    ],
)
def test_a_spark_without_s3(
    pinned: None, tmp_path: Path, version: str, scala: str, source: str, says: str
) -> None:
    given = read({"spark-home": str(spark(tmp_path, version, scala)), "jars": source})
    assert for_places(staged(given), "/lake", spark=given) == staged(given)
    with pytest.raises(ConfigurationError, match=says):
        for_places(staged(given), "s3a://bucket/lake", spark=given)


def test_all_complaints_at_once(tmp_path: Path) -> None:
    """Each has its key, what the value is, and what to write."""
    extra = {
        "deploy_mode": "client",
        "conf": {"spark.yarn.queue": "q", "spark.executor.cores": [1], "executor.memory": "1g"},
        "jars": "jars/of/mine",
        "keytab": "base64",
        "namespace": 7,
        "principal": "alice",
        "python": "/no/such/python",
        "queue": ["a"],
        "spark-binary": "spark3-submit",
        "spark-home": str(tmp_path),
        "mine": "for another program",
    }
    assert complaints(extra) == [
        "conf: executor.memory: Spark's settings begin with `spark.`",
        "conf: spark.executor.cores: a list; write a text, a number, true or false",
        "conf: spark.yarn.queue: refused: the connection has a key for it; write `queue`",
        "deploy_mode: no key of a Spark connection; did you mean 'deploy-mode'?",
        "jars: neither a directory on this machine nor one of the words; write cache, packages, "
        "image, or an absolute path, as /opt/spark-jars",
        "keytab: refused: Airflow's provider would keep it in a file; write "
        "spark.kerberos.keytab, a path, and spark.kerberos.principal in conf",
        "namespace: a number; write a text, as spark-jobs",
        "principal: refused: Airflow's provider would keep it in a file; write "
        "spark.kerberos.keytab, a path, and spark.kerberos.principal in conf",
        "python: no program on this machine, where the driver runs; write a path, as "
        "/usr/bin/python3.12",
        "queue: a list; write a text, as root.default",
        "spark-binary: no path of …/bin/spark-submit; write a path, as /opt/spark/bin/spark-submit",
        "spark-home: there is no Spark, with bin/spark-submit and jars/spark-core_*.jar, on this "
        "machine; write a path, as /opt/spark",
    ]
    assert read({"mine": 1}).notices == ("Spark connection 'spark_x': mine: it is not used",)


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ({"conf": "spark.a=1"}, 'conf: a text; write a mapping, as {"spark.cores.max": "4"}'),
        ({"conf": {"spark.pyspark.python": "/p"}}, "write `python`"),
        ({"conf": {"spark.a": None}}, "conf: spark.a: null; write a text"),
        ({"deploy-mode": "standalone"}, "deploy-mode: a text that is no mode of Spark; write"),
        ({"python": True}, "python: true or false; write a text, as /usr/bin/python3.12"),
        ({"jars": {"a": 1}}, "jars: a mapping; write a text, as /opt/spark-jars"),
        ({"conf": {"spark.cores.max": 4.0}}, "max: a number with a fraction or an exponent; write"),
        ({"conf": {"spark.a": float("nan")}}, "spark.a: a number with a fraction or an exponent;"),
        ({"conf": {"spark.a": "b\0"}}, "conf: spark.a: holds a control character"),
        ({"conf": {"spark.a\0": "b"}}, "conf: spark.a\\x00: holds a control character"),
        ({"queue": "a\0"}, "queue: holds a control character"),
        ({"spark_home": "/opt"}, "did you mean 'spark-home'?"),
    ],
)
def test_one_complaint(extra: dict[str, Any], says: str) -> None:
    (found,) = complaints(extra)
    assert says in found


def test_two_sparks_are_refused(tmp_path: Path) -> None:
    one, two = spark(tmp_path / "one"), spark(tmp_path / "two")
    found = complaints({"spark-home": str(one), "spark-binary": f"{two}/bin/spark-submit"})
    assert found == ["spark-binary: it is not that of spark-home; leave one of them out"]


@pytest.mark.parametrize("extra", [[], "text", None])
def test_an_extra_that_is_no_mapping(extra: Any) -> None:
    with pytest.raises(ConfigurationError, match="'spark_x': its extra is not a mapping"):
        read(extra)
