"""What a submission becomes in YARN's cluster mode, and where its job is."""

import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from support.certificates import Authority
from tidegate.broker.client_settings import KafkaSettings
from tidegate.errors import ConfigurationError, StageFailed
from tidegate.lake.attempts import Attempt
from tidegate.lake.store import LocalStore
from tidegate.launch import spark_home, yarn_client
from tidegate.launch.job_in_lake import withdraw_job
from tidegate.launch.spark_connection import LOCAL, SparkConnection
from tidegate.launch.spark_engine import SparkEngine
from tidegate.launch.spark_submit import killed_on_error, submit
from tidegate.launch.submission import Submission
from tidegate.launch.yarn_cluster import (
    ClusterApplication,
    cluster_notices,
    identify_application,
    left_behind,
    refuse_cluster_mode,
)
from tidegate.spark.answers import DRIVER, FAILURE, JOB, WITHDRAWN
from tidegate.spark.job_files import JobFile

CREDENTIALS = "HADOOP_TOKEN_FILE_LOCATION"
YARN = SparkConnection("spark_yarn", "yarn", deploy_mode="cluster")
OWN = Attempt("f00d", 0, "a_1-f00d")
KAFKA = {"bootstrap.servers": "nowhere:1"}


@dataclass(frozen=True)
class Job(JobFile):
    password: str


@pytest.fixture(autouse=True)
def _yarn_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    for name in ("YARN_CONF_DIR", CREDENTIALS):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def given(tmp_path: Path) -> Submission:
    (tmp_path / "private").mkdir()
    return Submission(
        binary="/package/spark-submit.sh",
        application="/package/ingest.py",
        args=(str(tmp_path / "private/job.json"),),
        name="flights r1",
        conf={"spark.submit.deployMode": "client", "spark.driver.extraClassPath": "/opt/own.jar"},
        jars=("/cache/connector.jar",),
        env={
            "AIRFLOW_CONN_KAFKA": "",
            "SPARK_HOME": "/spark",
            "PYSPARK_PYTHON": "/venv/bin/python",
            "PYSPARK_DRIVER_PYTHON": "/package/driver-python.sh",
            "TIDEGATE_PYTHONPATH": "include",
            "SPARK_DIST_CLASSPATH": "/cache/s3.jar",
        },
    )


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "lake/p")


def application(
    given: Submission,
    store: LocalStore,
    submit: Callable[[Submission], None],
    spark: SparkConnection = YARN,
) -> ClusterApplication:
    return ClusterApplication(Job("pä55-word"), given, OWN, store, spark, submit)


def sent(given: Submission, store: LocalStore, spark: SparkConnection = YARN) -> Submission:
    """Return the call that is submitted."""
    Path(given.args[0]).with_name("credentials").unlink(missing_ok=True)
    calls: list[Submission] = []
    application(given, store, calls.append, spark).run()
    return calls[0]


def test_in_cluster_mode_the_call_names_a_directory_of_the_lake(
    given: Submission, store: LocalStore
) -> None:
    done = sent(given, store)
    assert done.args == ("--in-lake", f"{store.root}/_tidegate/staging/f00d/0/a_1-f00d")
    assert done.conf["spark.submit.deployMode"] == "cluster"
    assert done.conf["spark.pyspark.python"] == "python3"
    named = sent(given, store, replace(YARN, python="/usr/bin/python3.11"))
    assert named.conf["spark.pyspark.python"] == "/usr/bin/python3.11"
    assert named.conf["spark.pyspark.driver.python"] == "/usr/bin/python3.11"
    assert (done.application, done.jars) == (given.application, given.jars)


def test_the_job_is_encrypted_and_the_key_is_in_a_private_file(
    given: Submission, store: LocalStore
) -> None:
    """The job ends with the call; neither alone has the secret."""

    def submit(call: Submission) -> None:
        content = store.get(OWN.directory + JOB)
        assert content is not None
        assert b"55-word" not in content
        credentials = Path(call.env[CREDENTIALS])
        assert credentials.parent == Path(given.args[0]).parent
        assert credentials.stat().st_mode & 0o777 == 0o600
        key = credentials.read_bytes()[-32:]
        opened = json.loads(AESGCM(key).decrypt(content[:12], content[12:], None))
        assert opened == {"password": "pä55-word"}
        assert "55-word" not in repr(call)
        assert key.hex() not in repr(call)
        assert not Path(given.args[0]).exists()
        raise StageFailed("seen")

    with pytest.raises(StageFailed, match="seen"):
        application(given, store, submit).run()
    assert store.objects("") == []


def test_a_job_that_another_process_has_withdrawn_is_not_submitted(
    given: Submission, store: LocalStore
) -> None:
    withdraw_job(OWN, store)
    with pytest.raises(StageFailed, match="withdrawn"):
        sent(given, store)
    assert store.get(OWN.directory + JOB) == WITHDRAWN


def test_each_job_has_a_key_of_its_own(given: Submission, store: LocalStore) -> None:
    keys = {Path(sent(given, store).env[CREDENTIALS]).read_bytes() for _ in range(2)}
    assert len(keys) == 2


def test_answers_are_read_from_the_lake(given: Submission, store: LocalStore) -> None:
    ran = application(given, store, lambda _: None)
    assert ran.read("done.json") is None
    store.create(OWN.directory + "done.json", b"{}")
    assert ran.read("done.json") == "{}"


def test_a_failure_has_the_drivers_own_words(given: Submission, store: LocalStore) -> None:
    """Its output is in its container."""

    def submit(_: Submission) -> None:
        store.create(OWN.directory + FAILURE, b"the topic is gone")
        raise StageFailed("exit 1", exit_code=1)

    with pytest.raises(StageFailed, match=r"^the topic is gone \(exit 1\)$") as failed:
        application(given, store, submit).run()
    assert failed.value.numbers == {"exit_code": 1}
    assert not store.get(OWN.directory + JOB)


def test_the_application_is_tagged_and_never_tried_again(
    given: Submission, store: LocalStore
) -> None:
    own = {
        "spark.yarn.tags": "team-a",
        "spark.yarn.maxAppAttempts": "4",
        "spark.yarn.submit.waitAppCompletion": "false",
    }
    done = sent(replace(given, conf={**given.conf, **own}), store)
    assert done.kill is not None
    assert done.conf["spark.yarn.tags"] == "team-a,tidegate-a_1-f00d"
    assert done.conf["spark.yarn.maxAppAttempts"] == "1"
    assert done.conf["spark.yarn.submit.waitAppCompletion"] == "true"
    assert given.kill is None


def test_paths_of_this_machine_stay_here(given: Submission, store: LocalStore) -> None:
    done = sent(given, store)
    assert done.env.keys() == {"AIRFLOW_CONN_KAFKA", "SPARK_HOME", CREDENTIALS, "TIDEGATE_UNSET"}
    assert done.conf["spark.driver.extraClassPath"] == "/opt/own.jar"


def test_an_application_whose_submitter_was_killed_is_known(store: LocalStore) -> None:
    """By its job, or its driver's name; not by the files of a chunk."""
    for name, file in (("a1", JOB), ("a2", DRIVER), ("a3", "_done.json"), ("a4", "topic=t/x")):
        store.create(Attempt("f00d", 0, name).directory + file, b"{}")
    store.create(Attempt("other", 0, "a5").directory + JOB, b"{}")
    found = left_behind(store, "f00d")
    assert [re.findall("tidegate-a[0-9]", each) for each in found] == [
        ["tidegate-a1"], ["tidegate-a2"],
    ]  # fmt: skip


def test_what_cannot_be_checked_is_a_notice(store: LocalStore) -> None:
    assert list(SparkEngine(connection=LOCAL).notices(store)) == []
    (notice,) = cluster_notices(store, YARN)
    assert f"{store.root}" in notice
    assert "same shared directory" in notice
    s3: Any = SimpleNamespace(native=lambda _: "s3a://lake/p/", is_shared_by_nodes=True)
    (notice,) = cluster_notices(s3, YARN)
    assert "keys of S3 from their nodes" in notice


def refused(extra: Mapping[str, Any] = KAFKA, conf: Mapping[str, str] | None = None) -> list[str]:
    try:
        refuse_cluster_mode(YARN, KafkaSettings("kafka_x", extra), dict(conf or {}))
    except ConfigurationError as error:
        return [line[4:] for line in str(error).splitlines() if line.startswith("  - ")]
    return []


def test_a_cluster_must_be_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused() == []
    monkeypatch.delenv("HADOOP_CONF_DIR")
    (complaint,) = refused()
    assert complaint.startswith("neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set")
    monkeypatch.setenv("YARN_CONF_DIR", "/etc/hadoop")
    assert refused() == []


def test_credentials_of_the_environment_are_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CREDENTIALS, "/container/tokens")
    (complaint,) = refused()
    assert f"{CREDENTIALS} is set (/container/tokens)" in complaint


@pytest.mark.parametrize("keytab", ["spark.kerberos.keytab", "spark.yarn.keytab"])
def test_a_key_that_would_be_lost_is_refused(keytab: str) -> None:
    (complaint,) = refused(conf={keytab: "/etc/user.keytab"})
    assert complaint.startswith(f"{keytab}: a login by keytab drops")


def test_delegation_tokens_are_refused() -> None:
    extra = KAFKA | {
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "u", "sasl.password": "hunter2", "tidegate.delegation_token": True,
    }  # fmt: skip
    (complaint,) = refused(extra)
    assert "tidegate.delegation_token needs a login of Spark by keytab" in complaint
    assert "hunter2" not in complaint


def test_a_file_that_is_made_of_a_text_is_refused(tmp_path: Path) -> None:
    """The nodes do not have it; a path is passed on as it is."""
    ca = Authority.create()
    extra = KAFKA | {"security.protocol": "SSL", "ssl.ca.pem": ca.pem}
    (complaint,) = refused(extra)
    assert "ssl.ca.pem becomes a file of this machine" in complaint
    assert "give ssl.ca.location, with a path that each node has" in complaint
    assert "BEGIN" not in complaint
    (tmp_path / "ca.pem").write_text(ca.pem)
    located = KAFKA | {"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "ca.pem")}
    assert refused(located) == []


class Yarn:
    """Keeps what it was asked to kill; `away` if it does not answer."""

    def __init__(self, away: bool = False) -> None:
        self.killed: list[str] = []
        self.away = away

    def kill(self, tag: str, _: object) -> list[str]:
        if self.away:
            raise OSError("no answer within 60 s")
        self.killed.append(tag)
        return ["application_17_0001"]


@pytest.mark.parametrize("error", [StageFailed("it ended with 1"), KeyboardInterrupt()])
def test_an_error_kills_the_application_and_stays_the_error(
    given: Submission, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """The end of spark-submit would not end it; in client mode it does."""
    said: list[str] = []
    tagged = replace(given, kill=partial(yarn_client.kill_tagged, "tidegate-a1", Path("/spark")))
    for yarn, line in (
        (Yarn(), "application_17_0001: killed"),
        (Yarn(away=True), "the YARN application with the tag tidegate-a1 may still run: no answer"),
    ):
        monkeypatch.setattr(yarn_client, "kill_applications", yarn.kill)
        with pytest.raises(type(error)) as raised, killed_on_error(tagged, said.append):
            raise error
        assert raised.value is error
        assert yarn.killed == ([] if yarn.away else ["tidegate-a1"])
        assert said.pop().startswith(line)
    with killed_on_error(tagged, said.append):
        pass
    with pytest.raises(type(error)), killed_on_error(given, said.append):
        raise error
    assert said == []


def test_an_ended_spark_submit_kills_its_application(
    given: Submission, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(yarn_client, "kill_applications", (yarn := Yarn()).kill)
    fails = tmp_path / "spark-submit"
    fails.write_text("#!/bin/sh\nexit 1\n")
    fails.chmod(0o755)
    kill = partial(yarn_client.kill_tagged, "tidegate-a1", Path("/spark"))
    tagged = replace(given, binary=str(fails), kill=kill)
    with pytest.raises(StageFailed):
        submit(tagged, master="yarn", log=lambda _: None)
    assert yarn.killed == ["tidegate-a1"]


def test_keys_of_s3_are_kept_from_sparks_client(
    given: Submission, store: LocalStore, tmp_path: Path
) -> None:
    """It would write them into files that YARN keeps; in client mode the driver needs them."""
    home = tmp_path / "spark"
    (home / "bin").mkdir(parents=True)
    (home / "bin/spark-submit").write_text("#!/bin/sh\nenv\n")
    (home / "bin/spark-submit").chmod(0o755)
    keys = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "hunter2")
    for call, seen in ((given, True), (sent(given, store), False)):
        done = subprocess.run(
            [spark_home.SPARK_SUBMIT], capture_output=True, text=True, check=True,
            env={**os.environ, **keys, **call.env, "SPARK_HOME": str(home)},
        )  # fmt: skip
        assert ("hunter2" in done.stdout) == seen
        assert "TIDEGATE_UNSET" not in done.stdout


@pytest.mark.parametrize("attempt", ["", "A1", "a,b", "a b", "ä", "a" * 92])
def test_a_tag_that_yarn_would_change_is_an_error(attempt: str) -> None:
    with pytest.raises(ValueError, match="YARN would not keep it"):
        identify_application(Attempt("f00d", 0, attempt))
    assert len(identify_application(Attempt("f00d", 0, "a" * 91))["tag"]) == 100
    assert identify_application(Attempt("f00d", 0, "x1_y")) == {
        "master": "yarn",
        "tag": "tidegate-x1_y",
    }
