"""One Spark connection has one master: in a terminal, in Airflow, and in the Spark provider."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from airflow.exceptions import AirflowFailException
from airflow.providers.apache.spark.hooks import spark_submit
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time import supervisor, task_runner
from airflow.sdk.execution_time.comms import ConnectionResult, ErrorResponse
from airflow.sdk.execution_time.secrets.execution_api import ExecutionAPISecretsBackend
from airflow.secrets import BaseSecretsBackend
from airflow.secrets.environment_variables import EnvironmentVariablesBackend

from tidegate.errors import AirflowUnavailable, ConfigurationError, NotAuthorised
from tidegate.orchestration import airflow_connections as airflow
from tidegate.orchestration import command_connections as terminal
from tidegate.orchestration.metadata_database import NAMED_BY
from tidegate.orchestration.tasks import airflow_errors
from tidegate.pipelines.spec import parse_spec

EXTRA = {"deploy-mode": "client", "queue": "root.default", "namespace": "n"}
FORM = {"name": "p", "kind": "ingest", "topics": ["t"], "lake": "/lake"}
SPEC = parse_spec({**FORM, "spark": {"connection": "spark_x"}})
OF_KAFKA_X = parse_spec({**FORM, "kafka": "x"})
ON_SPARK_X = parse_spec({**FORM, "spark": {"connection": "x"}})


def define(monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
    for name in NAMED_BY:
        monkeypatch.delenv(name)
    text = value if isinstance(value, str) else json.dumps(value)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_X", text)


@pytest.mark.parametrize(
    ("value", "master"),
    [
        ({"conn_type": "spark", "host": "h", "port": 7077}, "spark://h:7077"),
        ({"conn_type": "spark", "host": "h", "port": "7077", "extra": EXTRA}, "spark://h:7077"),
        ({"conn_type": "spark", "host": "spark://h", "port": 7077}, "spark://h:7077"),
        ({"conn_type": "spark", "host": "spark://h:7077"}, "spark://h:7077"),
        ({"conn_type": "spark", "host": "local[2]", "extra": json.dumps(EXTRA)}, "local[2]"),
        ({"conn_type": "spark", "host": "local", "port": 0}, "local"),
        ({"conn_type": "spark", "host": "yarn", "extra": EXTRA}, "yarn"),
        ({"conn_type": "spark", "host": "k8s://https://h", "port": 443}, "k8s://https://h:443"),
        ({"conn_type": "k8s", "host": "https://h"}, "k8s://https://h"),
        ("spark://h:7077", "spark://h:7077"),
        ("spark://H.example:7077/schema?deploy-mode=client", "spark://h.example:7077"),
        ("spark://yarn?queue=root.default", "yarn"),
        ("spark://local%5B2%5D", "local[2]"),
        ("spark://k8s%3A%2F%2Fhttps%3A%2F%2FH:443", "k8s://https://H:443"),
        ("spark://k8s://https%3A%2F%2FH:443", "k8s://https://H:443"),
        ("k8s://https://h:443?namespace=n", "k8s://https://h:443"),
        ("  spark://spark%3A%2F%2Fh:7077/?__extra__=%7B%7D ", "spark://h:7077"),
    ],
)  # fmt: skip
def test_the_master_of_a_connection(
    monkeypatch: pytest.MonkeyPatch, value: Any, master: str
) -> None:
    define(monkeypatch, value)
    assert terminal.spark(SPEC).master == master
    assert airflow.spark(SPEC) == terminal.spark(SPEC)
    monkeypatch.setitem(vars(spark_submit), "kube_client", True)  # for k8s:// it must be there
    assert spark_submit.SparkSubmitHook(conn_id="spark_x")._connection["master"] == master


@pytest.mark.parametrize(
    ("value", "master"),
    [
        ({"conn_type": "spark", "host": "h"}, "h"),
        ({"conn_type": "my-spark", "host": "h", "port": 1}, "my_spark://h:1"),
        ({"conn_type": "yarn"}, "yarn://"),
        ("yarn://", "yarn://"),
    ],
)
def test_a_master_that_spark_does_not_have(
    monkeypatch: pytest.MonkeyPatch, value: Any, master: str
) -> None:
    define(monkeypatch, value)
    for look_up in (lambda: terminal.spark(SPEC), lambda: airflow.spark(SPEC)):
        with pytest.raises(ConfigurationError, match=f"host: '{master}' is no master of Spark"):
            look_up()


@pytest.mark.parametrize("value", [{"host": "local[2]"}, {"conn_type": "spark"}, "spark://"])
def test_a_connection_that_names_no_master(monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
    """The provider would start Spark with `None://local[2]` or `spark://`."""
    define(monkeypatch, value)
    for look_up in (lambda: terminal.spark(SPEC), lambda: airflow.spark(SPEC)):
        with pytest.raises(ConfigurationError, match="'spark_x' names no master"):
            look_up()


@pytest.mark.parametrize(
    "value",
    [
        {"conn_type": "spark", "host": "spark://ann:hunter2@h:7077"},
        {"conn_type": "spark", "host": "ann@h", "port": 7077},
        {"conn_type": "spark", "host": "h", "login": "ann"},
        {"conn_type": "spark", "host": "h", "password": "hunter2"},
        "spark://ann:hunter2@h:7077",
        "spark://:hunter2@h:7077",
        "k8s://https://ann:hunter2@h:443",
    ],
)
def test_a_master_has_no_login(monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
    """Airflow's provider drops it, or gives it to spark-submit, which shows it."""
    define(monkeypatch, value)
    for look_up in (lambda: terminal.spark(SPEC), lambda: airflow.spark(SPEC)):
        with pytest.raises(ConfigurationError, match="'spark_x' has a user name or a pa") as found:
            look_up()
        assert "hunter2" not in str(found.value)


@pytest.mark.parametrize(
    "value",
    [
        {"conn_type": "kafka", "extra": {"bootstrap.servers": "b:1", "sasl.password": "12345"}},
        {"conn_type": "kafka", "extra": json.dumps({"bootstrap.servers": "b:1"})},
        "kafka://?bootstrap.servers=b%3A1&sasl.password=12345&client.id=",
        "kafka:///?__extra__=%7B%22bootstrap.servers%22%3A+%22b%3A1%22%7D",
    ],
)
def test_the_settings_of_a_kafka_connection(monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
    """The same extra, also where a value looks like a number."""
    define(monkeypatch, value)
    found = airflow.look_up("spark_x")
    assert found is not None
    assert terminal._find("Kafka", "spark_x").extra == found.extra


SECRET = "hunter2"


class Vault(BaseSecretsBackend):
    """A secrets backend whose answers are given; an exception is raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def get_connection(self, **_: Any) -> Any:
        return _next(self.answers)


class Supervisor:
    """The process that asks Airflow's API server for a task."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    def send(self, _: Any) -> Any:
        return _next(self.answers)


def _next(answers: list[Any]) -> Any:
    answer = answers.pop(0) if len(answers) > 1 else answers[0]
    if isinstance(answer, Exception):
        raise answer
    return answer


def response(error: ErrorType) -> ErrorResponse:
    return ErrorResponse(error=error, detail={"message": SECRET})


MISSING = response(ErrorType.CONNECTION_NOT_FOUND)
AWAY = response(ErrorType.API_SERVER_ERROR)
FOUND = ConnectionResult(  # type: ignore[call-arg]
    conn_id="spark_x", conn_type="spark", host="local",
    schema=None, login=None, password=None, port=None, extra=None,
)  # fmt: skip

Backends = Callable[..., None]


@pytest.fixture
def backends(monkeypatch: pytest.MonkeyPatch) -> Backends:
    """Sets what a task asks for a connection: a vault, the environment, and the API server."""

    def given(vault: tuple[Any, ...], api: tuple[Any, ...]) -> None:
        asked = [Vault(*vault), EnvironmentVariablesBackend(), ExecutionAPISecretsBackend()]
        monkeypatch.setattr(supervisor, "ensure_secrets_backend_loaded", lambda: asked)
        monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", Supervisor(*api), raising=False)

    return given


@pytest.mark.parametrize(
    ("vault", "api", "says"),
    [
        ((ConnectionError(SECRET),), (MISSING,), r"Vault \(ConnectionError\)"),
        ((None,), (AWAY,), r"ExecutionAPISecretsBackend \(API_SERVER_ERROR\)"),
        ((None,), (AirflowRuntimeError(AWAY),), r"ExecutionAPI.*\(API_SERVER_ERROR\)"),
        ((None,), (OSError(SECRET),), r"ExecutionAPISecretsBackend \(OSError\)"),
        ((ConnectionError(SECRET), FOUND), (MISSING,), "only the second request"),
        ((None,), (AWAY, FOUND), "only the second request"),
    ],
)
def test_in_a_task_an_outage_is_no_missing_connection(
    backends: Backends, vault: tuple[Any, ...], api: tuple[Any, ...], says: str
) -> None:
    """Airflow says "not found" for both; an outage is transient, so that Airflow retries."""
    for look_up in (
        lambda: airflow.kafka(OF_KAFKA_X),
        lambda: airflow.spark(ON_SPARK_X),
    ):
        backends(vault, api)
        with pytest.raises(AirflowUnavailable, match=says) as refused, airflow_errors():
            look_up()
        assert SECRET not in str(refused.value)


@pytest.mark.parametrize("vault", [None, NotImplementedError()])
@pytest.mark.parametrize("api", [MISSING, AirflowRuntimeError(MISSING)])
def test_in_a_task_a_missing_connection_is_terminal(
    backends: Backends, vault: Any, api: Any
) -> None:
    """Also if a secrets backend has Variables only."""
    backends((vault,), (api,))
    with pytest.raises(AirflowFailException, match="has no connection 'x'"), airflow_errors():
        airflow.kafka(OF_KAFKA_X)


def test_in_a_task_a_denied_connection_is_terminal(backends: Backends) -> None:
    backends((None,), (response(ErrorType.PERMISSION_DENIED),))
    with pytest.raises(NotAuthorised, match="Airflow denies this task the connection 'x'"):
        airflow.kafka(OF_KAFKA_X)


@pytest.mark.parametrize("extra", [f'{{"sasl.password": "{SECRET}" x', SECRET])
def test_an_extra_that_is_no_json(backends: Backends, extra: str) -> None:
    found = FOUND.model_copy(update={"extra": extra})
    backends((None,), (found,))
    with pytest.raises(ConfigurationError, match="'x': its extra is not valid JSON") as refused:
        airflow.kafka(OF_KAFKA_X)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "value",
    [
        f'{{"password": "{SECRET}"', f'{{"conn_type": "kafka", "port": "{SECRET}"}}',
        f'{{"conn_type": "kafka", "nonsense": "{SECRET}"}}', f"a://b://c://{SECRET}",
    ],
)  # fmt: skip
def test_in_a_task_a_variable_that_is_no_connection_is_named(
    backends: Backends, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """An outage of what is asked after it is an outage all the same."""
    monkeypatch.setenv("AIRFLOW_CONN_X", value)
    backends((None,), (MISSING,))
    with pytest.raises(ConfigurationError, match="AIRFLOW_CONN_X is not a connection") as refused:
        airflow.kafka(OF_KAFKA_X)
    assert SECRET not in str(refused.value)
    backends((None,), (AWAY,))
    with pytest.raises(AirflowUnavailable):
        airflow.kafka(OF_KAFKA_X)
