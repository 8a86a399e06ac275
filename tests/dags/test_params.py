"""What a run's conf can reach: the schema of each Param of each DAG, and what no schema checks."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.exceptions import AirflowException
from airflow.sdk.exceptions import ParamValidationError

from tidegate.core.requests import Replay
from tidegate.errors import ConfigurationError
from tidegate.orchestration import form_dags, maintenance, rights, tasks
from tidegate.pipelines import pipeline_files
from tidegate.runs.run import replay_key

PROJECT = Path(__file__).parents[2]
PAYLOADS = (
    "../../etc", "/etc/passwd", "file:///etc/passwd", "s3a://bucket/x", "%2e%2e/", "a\\b", "a\0b",
    "..", "~root", "{{ conn.x }}", "{{ var.value.x }}", "${HOME}", "$(id)", "`id`", "a; rm -rf /",
    "'; DROP TABLE t", "169.254.169.254:80", "http://169.254.169.254/", "kafka://x", "a,b:9092",
    "spark.jars=/tmp/x.jar", "--conf spark.jars=x", "sasl.login.class=x", "conn_id: kafka_admin",
    '{"{{ conn.x }}": {"0": 1}}', '{"t": {"0": "$(id)"}}', "2026-03-14T{{ conn.x }}Z", "\x1b[2J",
)  # fmt: skip
# Params that are no number, switch or word of a list, and what of PAYLOADS they take.
TEXTS: dict[str, set[str]] = {
    # The name of a replay: compared with others, and hashed into the key of its run.
    "replay_id": {"169.254.169.254:80"},
    # SQL, which only computes a value of a row: tests/spark/test_egress_rows.py.
    "where": {*PAYLOADS} - {"a\0b", "\x1b[2J"},
    # Compared with the names of files that were sent; no other file is opened.
    "files": {*PAYLOADS} - {"a\0b", "\x1b[2J"},
    # Kept in the ledger, and printed.
    "reason": {*PAYLOADS} - {"a\0b", "\x1b[2J"},
}
PARAMS = {
    "tidegate__flights": {"max_records", "max_chunks", "dry_run", "replan"},
    "tidegate__back": {"max_records", "resend", "dry_run", "replan"},
    "tidegate_backfill": {
        "pipeline", "topic", "partitions", "start", "end", "zone", "ranges", "fill_gaps",
        "chunk_size", "dry_run",
    },
    "tidegate_replay": {
        "pipeline", "topic", "partitions", "start", "end", "zone", "replay_id", "where",
        "files", "dry_run",
    },
    "tidegate_maintenance": {
        "pipeline", "repair", "reconcile", "sweep", "checkpoint", "topic", "partition", "offset",
        "reason",
    },
}  # fmt: skip
SETTINGS = (
    "kafka", "lake", "spark", "conf", "connection", "conn_id", "source", "target", "columns",
    "bootstrap.servers", "spark.jars", "spark.driver.extraJavaOptions", "sasl.jaas.config",
)  # fmt: skip


@pytest.fixture
def two(pipelines: Path) -> None:
    """An ingest pipeline, and an egress pipeline of its lake."""
    shared = {"lake": "/nowhere"}
    for name, form in {
        "flights": {"kind": "ingest", "topics": ["flights"]},
        "back": {"kind": "egress", "source": {"lake": "flights"}, "target": {"topic": "copy"}},
    }.items():
        (pipelines / f"{name}.yaml").write_text(json.dumps({"name": name, **shared, **form}))


def dags() -> dict[str, Any]:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(PROJECT / "dags"))
    assert bag.import_errors == {}
    return bag.dags


def forms(payload: str) -> Iterator[Any]:
    """Yield a payload as a value that JSON can hold."""
    yield payload
    yield [payload]
    yield {payload: payload}


def taken(param: Any, payload: str) -> bool:
    for value in forms(payload):
        try:
            param.resolve(value)
        except ParamValidationError:
            continue
        assert value in (payload, [payload]), "only a text may be free, or a list of texts"
        return True
    return False


def test_no_param_takes_a_path_a_setting_or_a_connection(two: None) -> None:
    """By its schema, which Airflow applies when a run is requested, and again in each task. A new
    Param fails here until it was reviewed.
    """
    found = dags()
    assert {dag_id: set(dag.params) for dag_id, dag in found.items()} == PARAMS
    for dag_id, dag in found.items():
        for name in dag.params:
            accepted = {p for p in PAYLOADS if taken(dag.params.get_param(name), p)}
            assert accepted == TEXTS.get(name, set()), (dag_id, name)


def test_nor_without_any_valid_pipeline(pipelines: Path) -> None:
    """Then the forms cannot list the names that they take."""
    for dag_id, dag in dags().items():
        assert not [p for p in PAYLOADS if taken(dag.params.get_param("pipeline"), p)], dag_id


def test_right_values_are_taken(two: None) -> None:
    found = dags()
    for dag_id, name, value in (
        ("tidegate_backfill", "topic", "a.b_c-1"),
        ("tidegate_backfill", "topic", ""),
        ("tidegate_backfill", "topic", None),
        ("tidegate_backfill", "start", ' { "a.b" : {"0": 5, "12": 7}} '),
        ("tidegate_backfill", "end", "2026-03-14T00:00:00.123+0130"),
        ("tidegate_backfill", "start", "2026-03-14"),
        ("tidegate_backfill", "start", "-1d"),
        ("tidegate_backfill", "zone", "America/Argentina/Buenos_Aires"),
        ("tidegate_backfill", "ranges", ["a.b_c-1:0:120-340", "t:12:0-9"]),
        ("tidegate_replay", "where", "a = 1\n\tor b = 'ü'"),
        ("tidegate_maintenance", "reason", "poison: 'ключ'"),
        ("tidegate_maintenance", "reason", None),
    ):
        assert found[dag_id].params.get_param(name).resolve(value) == value


def test_a_replay_id_is_hashed() -> None:
    """Of all that a replay's id may be, its run has a key of hexadecimal digits."""
    assert re.fullmatch("[0-9a-f]{64}", replay_key(Replay("t", "169.254.169.254:80")))


def test_a_pipelines_name_is_no_path(pipelines: Path) -> None:
    """A file beside the pipeline files is not read, whatever leads to it."""
    form = {"name": "evil", "kind": "ingest", "topics": ["t"], "lake": "/"}
    (pipelines.parent / "evil.yaml").write_text(json.dumps(form))
    for name in ("../evil", str(pipelines.parent / "evil"), "./../evil"):
        with pytest.raises(ConfigurationError, match="there is no pipeline"):
            pipeline_files.load_named(name)


def context(dag_id: str, params: dict[str, Any], **more: Any) -> Any:
    """Return a context of a run that ann may trigger, with `more` in its conf."""
    signature = rights.sign_trigger(dag_id, str(params.get("pipeline")), "ann")
    run = SimpleNamespace(
        dag_id=dag_id, run_id="manual__1", run_type="manual", triggering_user_name="ann",
        run_after=datetime(2026, 3, 14, 12, tzinfo=UTC),
        conf={**params, rights.KEY: signature, **more},
    )  # fmt: skip
    return {"dag_run": run, "params": params, "dag": SimpleNamespace(params=params)}


@pytest.mark.parametrize("setting", SETTINGS)
def test_no_key_of_a_conf_is_a_setting(two: None, setting: str) -> None:
    """Airflow takes any key; the tasks refuse those that are no Params, before anything else."""
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}
    window = {
        "pipeline": "flights", "topic": None, "partitions": None, "start": "0", "end": "5",
        "zone": "UTC", "ranges": None, "fill_gaps": False, "chunk_size": None,
        "replay_id": "x", "where": None, "files": None,
    }  # fmt: skip
    more = {setting: "x"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(kafka))
        with pytest.raises(ConfigurationError, match=f"unknown params.*{re.escape(setting)}"):
            tasks.run_of(
                pipeline_files.load_named("flights"),
                context("tidegate__flights", {"max_chunks": 1}, **more),
            )
        with pytest.raises(ConfigurationError, match="unknown params"):
            form_dags._backfill(context("tidegate_backfill", window, **more))
        with pytest.raises(ConfigurationError, match="unknown params"):
            form_dags._replay(context("tidegate_replay", window, **more))
        given = dict.fromkeys(PARAMS["tidegate_maintenance"])
        for step in (maintenance.move_cursor, lambda c: maintenance.run_step("repair", c)):
            with pytest.raises(AirflowException, match="unknown params"):
                step(context("tidegate_maintenance", given, **more))
