"""What the doctor says of a Spark connection to YARN."""

from collections.abc import Callable, Sequence

import pytest

from tidegate.doctor import pipeline_checks
from tidegate.doctor.check import Line
from tidegate.doctor.connection_checks import check_cluster
from tidegate.errors import ConfigurationError
from tidegate.launch import spark_home, yarn_client
from tidegate.launch.spark_connection import SparkConnection

YARN = SparkConnection("spark_yarn", "yarn")
NONE = "Total number of applications (application-types: [], states: [] and tags: [x]):0\n"


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)


def test_a_cluster_that_is_not_named() -> None:
    line = check_cluster(YARN)
    assert line.state == "failure"
    assert line.says == "master yarn: neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set"


def asked(ask: Callable[[Sequence[str]], str], monkeypatch: pytest.MonkeyPatch) -> Line:
    monkeypatch.setattr(yarn_client, "application_client", lambda _: ask)
    return check_cluster(YARN)


def test_a_resource_manager_that_answers_and_one_that_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("YARN_CONF_DIR", "/etc/hadoop")

    def answers(args: Sequence[str]) -> str:
        assert "-appTags" in args
        return NONE

    line = asked(answers, monkeypatch)
    assert line.state == "ok"
    assert line.says.endswith("answers (deploy mode client, YARN_CONF_DIR=/etc/hadoop)")

    def away(_: Sequence[str]) -> str:
        raise OSError("no answer within 60 s")

    line = asked(away, monkeypatch)
    assert line.state == "failure"
    assert "the resource manager does not answer: no answer within 60 s" in line.says
    assert line.fix is not None
    assert "YARN_CONF_DIR=/etc/hadoop" in line.fix
    monkeypatch.setattr(yarn_client, "application_client", lambda _: away)
    assert [each.state for each in pipeline_checks.check_spark(YARN)] == ["failure"]


def test_an_error_without_a_way_out_is_reported_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("YARN_CONF_DIR", "/etc/hadoop")

    def missing() -> None:
        raise ConfigurationError("PySpark is not installed: pip install it")

    monkeypatch.setattr(spark_home, "home", missing)
    with pytest.raises(ConfigurationError, match="PySpark is not installed"):
        check_cluster(YARN)
