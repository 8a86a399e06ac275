"""What a submission becomes in YARN's cluster mode."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tidegate.errors import ConfigurationError
from tidegate.launch import cluster_mode
from tidegate.launch.cluster_mode import for_yarn, tag
from tidegate.launch.spark_submit import Submission

CREDENTIALS = "HADOOP_TOKEN_FILE_LOCATION"
SECRET = {"kafka.sasl.jaas.config": 'password="pä55-word"'}


@pytest.fixture(autouse=True)
def _yarn_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    for name in ("YARN_CONF_DIR", CREDENTIALS):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def given(tmp_path: Path) -> Submission:
    return Submission(
        binary="/package/spark-submit.sh",
        application="/package/ingest.py",
        args=(str(tmp_path / "job.json"),),
        name="flights r1",
        conf={
            "spark.submit.deployMode": "client",
            "spark.driver.extraClassPath": "/cache/connector.jar:/opt/site/own.jar",
            "spark.driver.defaultJavaOptions": "-XX:-UsePerfData -Xshare:auto "
            "-XX:SharedArchiveFile=/cache/4.0.jsa",
        },
        jars=("/cache/connector.jar",),
        env={
            "AIRFLOW_CONN_KAFKA": "",
            "SPARK_HOME": "/spark",
            "PYSPARK_PYTHON": "/venv/bin/python",
            "PYSPARK_DRIVER_PYTHON": "/package/driver-python.sh",
            "TIDEGATE_PYTHONPATH": "include",
        },
    )


def sent(given: Submission, **secrets: str) -> Submission:
    return for_yarn(
        given, attempt="a_1-f00d", modules=Path("/cache/tidegate.zip"),
        python="/usr/bin/python3.11", secrets=secrets,
    )  # fmt: skip


def test_the_driver_gets_job_file_modules_and_python(given: Submission, tmp_path: Path) -> None:
    """The job file is in the container's working directory; the jars travel as before."""
    done = sent(given)
    assert done.args == ("job.json",)
    assert done.conf["spark.submit.deployMode"] == "cluster"
    assert done.conf["spark.yarn.dist.files"] == str(tmp_path / "job.json")
    assert done.conf["spark.yarn.dist.pyFiles"] == "/cache/tidegate.zip"
    assert done.conf["spark.pyspark.python"] == "/usr/bin/python3.11"
    assert done.conf["spark.pyspark.driver.python"] == "/usr/bin/python3.11"
    assert (done.application, done.jars) == (given.application, given.jars)


def test_the_application_is_tagged_and_never_tried_again(given: Submission) -> None:
    conf = sent(given).conf
    assert conf["spark.yarn.tags"] == "tidegate-a_1-f00d"
    assert conf["spark.yarn.maxAppAttempts"] == "1"
    assert conf["spark.yarn.submit.waitAppCompletion"] == "true"


def test_a_pipelines_own_files_and_tags_stay_and_its_attempts_do_not(given: Submission) -> None:
    own = {
        "spark.yarn.tags": "team-a",
        "spark.yarn.dist.files": "/site/krb5.conf",
        "spark.yarn.dist.pyFiles": "/site/udf.zip",
        "spark.yarn.maxAppAttempts": "4",
        "spark.yarn.submit.waitAppCompletion": "false",
    }
    conf = sent(replace(given, conf={**given.conf, **own})).conf
    assert conf["spark.yarn.tags"] == "team-a,tidegate-a_1-f00d"
    assert conf["spark.yarn.dist.files"].startswith("/site/krb5.conf,/")
    assert conf["spark.yarn.dist.pyFiles"] == "/site/udf.zip,/cache/tidegate.zip"
    assert conf["spark.yarn.maxAppAttempts"] == "1"
    assert conf["spark.yarn.submit.waitAppCompletion"] == "true"


def test_paths_of_this_machine_stay_here(given: Submission) -> None:
    done = sent(given)
    assert done.conf["spark.driver.extraClassPath"] == "/opt/site/own.jar"
    assert done.conf["spark.driver.defaultJavaOptions"] == "-XX:-UsePerfData -Xshare:auto"
    assert done.env == {"AIRFLOW_CONN_KAFKA": "", "SPARK_HOME": "/spark"}
    bare = replace(given, conf={"spark.driver.extraClassPath": "/cache/connector.jar"})
    assert "spark.driver.extraClassPath" not in sent(bare).conf
    assert "spark.driver.defaultJavaOptions" not in sent(bare).conf


def test_secrets_are_in_a_private_file_alone(given: Submission, tmp_path: Path) -> None:
    done = sent(given, **SECRET)
    path = Path(done.env[CREDENTIALS])
    assert path == tmp_path / "credentials"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes().endswith(json.dumps(SECRET).encode())
    assert "55-word" not in repr(done)


def test_without_secrets_there_is_no_file(given: Submission, tmp_path: Path) -> None:
    assert CREDENTIALS not in sent(given).env
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("keytab", ["spark.kerberos.keytab", "spark.yarn.keytab"])
def test_secrets_are_refused_where_they_would_be_lost(
    given: Submission, tmp_path: Path, keytab: str
) -> None:
    kerberos = replace(given, conf={**given.conf, keytab: "/etc/user.keytab"})
    with pytest.raises(ConfigurationError, match=f"{keytab}: .*kinit") as error:
        sent(kerberos, **SECRET)
    assert "55-word" not in str(error.value)
    assert list(tmp_path.iterdir()) == []
    assert sent(kerberos).conf[keytab] == "/etc/user.keytab"


def test_credentials_of_the_environment_are_not_replaced(
    given: Submission, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CREDENTIALS, "/container/tokens")
    with pytest.raises(ConfigurationError, match=r"\(/container/tokens\)"):
        sent(given, **SECRET)
    assert CREDENTIALS not in sent(given).env


def test_a_cluster_must_be_configured(given: Submission, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR")
    with pytest.raises(ConfigurationError, match="neither HADOOP_CONF_DIR nor YARN_CONF_DIR"):
        sent(given)
    monkeypatch.setenv("YARN_CONF_DIR", "/etc/hadoop")
    assert sent(given).conf["spark.submit.deployMode"] == "cluster"


@pytest.mark.parametrize("attempt", ["", "A1", "a,b", "a b", "ä", "a" * 92])
def test_a_tag_that_yarn_would_change_is_an_error(attempt: str) -> None:
    with pytest.raises(ValueError, match="YARN would not keep it"):
        tag(attempt)
    assert len(tag("a" * 91)) == 100
    assert cluster_mode.tag("tidegate-x1_y") == "tidegate-tidegate-x1_y"
