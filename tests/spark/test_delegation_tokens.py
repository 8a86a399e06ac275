"""Delegation tokens of real clusters: obtained, used in the place of the login, and cancelled."""

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from support import scram_broker, spark_cluster, topic_reader, topic_records
from support.calls import staging
from support.cli_user import Terminal
from support.process_list import CommandLines
from support.scram_broker import PASSWORD, ScramBroker
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.errors import NotAuthenticated
from tidegate.launch import token_settings as before
from tidegate.launch.spark_submit import submit
from tidegate.spark import delegation_tokens
from tidegate.spark.delegation_tokens import NoToken
from tidegate.spark.job_files import Login

SHORT = {
    "delegation.token.expiry.time.ms": "6000",
    "delegation.token.max.lifetime.ms": "40000",
    "delegation.token.expiry.check.interval.ms": "500",
}
BOTH = """
import json, sys
from pathlib import Path
from tidegate.spark import delegation_tokens, session, sink
from tidegate.spark.job_files import Login

job = json.loads(Path(sys.argv[1]).read_text())
logins = [Login(**each) for each in job["logins"]]
with delegation_tokens.obtain_tokens(logins, 500) as tokens:
    spark = session.start("both")
    with tokens.used_by(spark):
        source, target = job["options"]
        rows = spark.read.format("kafka").options(**source, subscribe=job["topic"]).load()
        sink.save_records(rows.select("key", "value"), {**target, "topic": job["topic"]})
    spark.stop()
"""


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ScramBroker, ScramBroker]]:
    """Two clusters with a user each; only the first one encrypts."""
    home = tmp_path_factory.mktemp("clusters")
    with (
        scram_broker.running(home / "a", mechanism="SCRAM-SHA-512", tls=True) as a,
        scram_broker.running(home / "b", mechanism="SCRAM-SHA-256", tls=False) as b,
    ):
        yield a, b


@pytest.fixture
def terminal(clusters: tuple[ScramBroker, ScramBroker], topic: str, tmp_path: Path) -> Terminal:
    """A user with a connection to each cluster, and pipelines from one to the other."""
    topic_records.numbers(clusters[0].bootstrap, topic, 500)
    events = tmp_path / "events"
    events.mkdir()
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
    }
    environ = {
        f"AIRFLOW_CONN_KAFKA_{name}": json.dumps({"conn_type": "kafka", "extra": with_token(each)})
        for name, each in zip("AB", clusters, strict=True)
    }
    user = Terminal(tmp_path, "127.0.0.1:9", environ=environ)
    user.pipeline("in", [topic], kafka="kafka_a", max_records=300, spark={"conf": conf})
    target = {"kafka": "kafka_b", "topic": topic, "partitions": 4}
    user.egress("out", source={"lake": "in"}, target=target, spark={"conf": conf})
    return user


def with_token(cluster: ScramBroker) -> dict[str, Any]:
    return {**cluster.extra, "tidegate.delegation_token": True}


@contextlib.contextmanager
def admin(spark: SparkSession, cluster: ScramBroker) -> Iterator[Any]:
    """Yield a client of Kafka's own that is logged in with the password."""
    jvm = spark.sparkContext._jvm
    _, (login,) = before.split_logins(KafkaCluster("k", with_token(cluster)), Path("/private"))
    properties = jvm.java.util.Properties()
    properties.put("bootstrap.servers", cluster.extra["bootstrap.servers"])
    for name, value in login.settings.items():
        properties.put(name, value)
    client = jvm.org.apache.kafka.clients.admin.Admin.create(properties)
    yield client
    client.close()


def tokens_at(spark: SparkSession, cluster: ScramBroker) -> list[Any]:
    """Return the valid tokens of the user, as the broker knows them."""
    with admin(spark, cluster) as client:
        found = client.describeDelegationToken().delegationTokens().get()
    return [each for each in found if each.tokenInfo().expiryTimestamp() > time.time() * 1000]


def numbers(topic: str, cluster: ScramBroker) -> list[bytes | None]:
    return sorted(each.key or b"" for each in topic_reader.read(cluster.bootstrap, topic))


def refuse_secrets(home: Path, seen: CommandLines, *outputs: str) -> None:
    """Assert that neither the password nor a login is anywhere."""
    logged = b"".join(file.read_bytes() for file in (home / "events").rglob("*") if file.is_file())
    assert b"spark.kafka.clusters.kafka_" in logged
    for text in (logged.decode(errors="replace"), seen.text, *outputs):
        assert PASSWORD not in text
        assert "ScramLoginModule" not in text


def goes_through(
    terminal: Terminal, clusters: tuple[ScramBroker, ScramBroker], topic: str, **env: str
) -> None:
    """Assert that the records of one cluster reach the other one."""
    with CommandLines() as seen:
        done = [terminal.run("run", name, **env) for name in ("in", "out")]
    assert numbers(topic, clusters[1]) == numbers(topic, clusters[0])
    assert len(numbers(topic, clusters[1])) == 500
    told = [each.stdout + each.stderr for each in done]
    assert all("delegation token obtained" in text for text in told), told
    assert not any("AdminClientConfig" in text for text in told), "pages of settings"
    refuse_secrets(terminal.home, seen, *told)


@pytest.mark.slow
def test_a_topic_of_one_cluster_reaches_the_other(
    terminal: Terminal,
    clusters: tuple[ScramBroker, ScramBroker],
    topic: str,
    spark: SparkSession,
) -> None:
    """Each application has the token of its own cluster, and cancels it."""
    goes_through(terminal, clusters, topic)
    assert [tokens_at(spark, each) for each in clusters] == [[], []]


@pytest.mark.slow
def test_executors_of_a_cluster_get_the_token_from_the_driver(
    terminal: Terminal,
    clusters: tuple[ScramBroker, ScramBroker],
    topic: str,
    tmp_path: Path,
    spark: SparkSession,
) -> None:
    """The same on a standalone master, whose executors are other processes."""
    with spark_cluster.running(tmp_path) as cluster:
        master = json.dumps({"conn_type": "spark", "host": cluster.master})
        goes_through(
            terminal, clusters, topic,
            AIRFLOW_CONN_SPARK_DEFAULT=master, SPARK_LOCAL_IP="127.0.0.1",
        )  # fmt: skip
        files = [file for file in (tmp_path / "work").rglob("*") if file.is_file()]
        assert not [f for f in files if PASSWORD.encode() in f.read_bytes()]
    assert [tokens_at(spark, each) for each in clusters] == [[], []]


def test_one_application_has_tokens_of_two_clusters(
    clusters: tuple[ScramBroker, ScramBroker], topic: str, tmp_path: Path, spark: SparkSession
) -> None:
    """It reads from one and writes to the other, and neither side's options hold a login."""
    a, b = clusters
    topic_records.numbers(a.bootstrap, topic, 500)
    topic_records.create(b.bootstrap, topic, partitions=4)
    kafkas = [
        KafkaCluster(f"kafka_{n}", with_token(each)) for n, each in zip("ab", clusters, strict=True)
    ]
    parts = [before.split_logins(each, tmp_path) for each in kafkas]
    options = [each for each, _ in parts]
    assert PASSWORD not in str(options)
    assert not [name for each in options for name in each if "sasl" in name]
    logins = [vars(login) for _, logins in parts for login in logins]
    script, job = tmp_path / "both.py", tmp_path / "job.json"
    script.write_text(BOTH)
    job.write_text(json.dumps({"topic": topic, "logins": logins, "options": options}))
    (tmp_path / "events").mkdir()
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (tmp_path / "events").as_uri(),
        "spark.log.level": "INFO",
    }
    given = staging(job, conf, 500, name="both")
    conf = {**given.conf, **before.token_conf(kafkas, conf)}
    output: list[str] = []
    with CommandLines() as seen:
        submit(
            replace(given, application=str(script), conf=conf),
            master="local[2]",
            log=output.append,
        )
    assert numbers(topic, b) == numbers(topic, a)
    refuse_secrets(tmp_path, seen, *output)
    assert [tokens_at(spark, each) for each in clusters] == [[], []]


@pytest.mark.slow
def test_a_token_that_was_cancelled_meanwhile_is_named(
    terminal: Terminal, clusters: tuple[ScramBroker, ScramBroker], topic: str, spark: SparkSession
) -> None:
    """The first chunk is kept, and the retry finishes the run with a new token."""
    gate = terminal.home / "gate"
    process = terminal.start("run", "in", "--run-id", "r", TIDEGATE_FAULT=f"stage.half:wait={gate}")
    while not list(terminal.home.glob("gate.reached.*")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    with admin(spark, clusters[0]) as client:
        jvm = spark.sparkContext._jvm
        options = jvm.org.apache.kafka.clients.admin.ExpireDelegationTokenOptions()
        for each in client.describeDelegationToken().delegationTokens().get():
            expired = client.expireDelegationToken(each.hmac(), options.expiryTimePeriodMs(-1))
            expired.expiryTimestamp().get()
    gate.touch()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 4, err
    assert "is no longer accepted: it was cancelled; a retry obtains a new one" in err
    assert terminal.json("run", "in", "--run-id", "r")["rows"] == 500
    assert tokens_at(spark, clusters[0]) == []


def test_a_wrong_password_is_terminal(
    clusters: tuple[ScramBroker, ScramBroker], spark: SparkSession
) -> None:
    """The driver learns it from Kafka's client, before Spark's context is started."""
    kafka = KafkaCluster("kafka_a", {**with_token(clusters[0]), "sasl.password": "wrong"})
    started = time.monotonic()
    with pytest.raises(NotAuthenticated, match="SaslAuthenticationException"):
        obtain(spark, kafka)
    assert time.monotonic() - started < 10


def test_a_token_that_spark_should_have_obtained_is_missed_at_once(spark: SparkSession) -> None:
    """As on YARN and Kubernetes: without it, tasks would fail for want of a login."""
    tokens = delegation_tokens.Tokens(expected=[Login("k", "Kafka at k:9093 (k)", {})])
    with (
        pytest.raises(NoToken, match=r"k:9093 \(k\): Spark has obtained no delegation"),
        tokens.used_by(spark),
    ):
        pass


@pytest.mark.slow
def test_a_token_is_renewed_until_its_maximum_lifetime(tmp_path: Path, topic: str) -> None:
    """Beyond its first expiry a run goes on; beyond the maximum it fails by name."""
    with scram_broker.running(
        tmp_path / "short", mechanism="SCRAM-SHA-512", tls=False, settings=SHORT
    ) as cluster:
        topic_records.numbers(cluster.bootstrap, topic, 500)
        conn = json.dumps({"conn_type": "kafka", "extra": with_token(cluster)})
        user = Terminal(tmp_path, "127.0.0.1:9", environ={"AIRFLOW_CONN_SHORT": conn})
        for name in ("renewed", "dead"):
            user.pipeline(name, [topic], kafka="short", max_records=300)
        user.run("run", "renewed", TIDEGATE_FAULT="stage.half:sleep=8")
        args = ("run", "dead", "--run-id", "r")
        done = user.run(*args, code=4, TIDEGATE_FAULT="stage.half:sleep=42")
        assert "the end of its maximum lifetime; a retry obtains a new one" in done.stderr
        assert "lives for 40 s there (delegation.token.max.lifetime.ms)" in done.stderr
        assert user.json(*args)["rows"] == 500


def obtain(spark: SparkSession, kafka: KafkaCluster) -> Any:
    """Obtain a token in the JVM of the shared session, without giving it to the session."""
    _, (login,) = before.split_logins(kafka, Path("/private"))
    jvm = spark.sparkContext._jvm
    conf = jvm.org.apache.spark.SparkConf(False)
    for name, value in before.token_conf([kafka], {}).items():
        conf.set(name, value)
    return delegation_tokens._obtain(jvm, conf, login)
