"""Variables and connections from a terminal: Airflow's database is lost, and `reconcile` brings the
first back; the doctor finds the second where the pipelines do.
"""

import json
import logging
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tidegate.cli import maintenance_commands
from tidegate.core.entries import Origin
from tidegate.doctor.check import run_checks
from tidegate.errors import ConfigurationError, NeedsAirflow
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import open_store
from tidegate.maintenance.reconcile import reconcile_pipeline
from tidegate.orchestration.command_connections import kafka, spark
from tidegate.orchestration.metadata_database import NAMED_BY, StoredVariables, quiet_airflow
from tidegate.pipelines.pipeline_files import load_named
from tidegate.pipelines.spec import parse_spec


def test_reconcile_brings_every_variable_back(airflow_database, tmp_path):
    """Every one of a pipeline whose Variables were never there, with the ledger's cursors; and
    what is written is what Airflow reads.
    """
    from airflow.models import Variable

    topics = [f"t{i}" for i in range(5)]
    spec = parse_spec({"name": "lost", "kind": "ingest", "topics": topics, "lake": str(tmp_path)})
    ledger = Ledger(open_store(spec.lake, spec.name), spec.name)
    for i, topic in enumerate(topics):
        ledger.append(Origin(topic, f"id-{topic}", {0: i, 1: 7}), run="run")
    variables = StoredVariables()
    assert variables.read("tidegate__lost__t3") is None
    assert [
        d["state"] for d in reconcile_pipeline(spec, variables, None).to_json()["variables"]
    ] == ["missing"] * 5
    assert json.loads(Variable.get("tidegate__lost__t3")) == {"t3": {"0": 3, "1": 7}}
    assert reconcile_pipeline(spec, variables, None).to_json()["variables"] == []
    Variable.set("tidegate__lost__t0", "not offsets")
    (drift,) = reconcile_pipeline(spec, variables, None).to_json()["variables"]
    assert (drift["state"], drift["mended"]) == ("unreadable", True)
    assert json.loads(Variable.get("tidegate__lost__t0")) == {"t0": {"0": 0, "1": 7}}


def test_no_airflow_is_said(monkeypatch):
    """Not looked for in the user's home, where Airflow would make a new one."""
    for name in NAMED_BY:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(NeedsAirflow, match="AIRFLOW_HOME"):
        StoredVariables()


@pytest.mark.parametrize("absent", ["sqlalchemy.exc", "airflow.models.variable"])
def test_an_airflow_that_is_not_installed_here_is_said(monkeypatch, absent):
    """Of an environment that names an Airflow: Tidegate may be elsewhere, without the extra."""
    monkeypatch.setenv("AIRFLOW_HOME", "/of/airflow")
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(NeedsAirflow, match="AIRFLOW_HOME is set, but Airflow is not installed"):
        StoredVariables()


def test_another_missing_package_is_not_taken_for_airflow():
    with pytest.raises(ModuleNotFoundError, match="of_a_backend"), quiet_airflow():
        import_module("of_a_backend")


def test_alembic_is_quiet_only_within():
    """Airflow 3.2 imports it with each connection, and it logs a line for each plugin."""
    logger = logging.getLogger("alembic.of_this_test")
    logging.getLogger("alembic").setLevel(logging.INFO)
    with quiet_airflow():
        assert not logger.isEnabledFor(logging.INFO)
    assert logger.isEnabledFor(logging.INFO)


def test_a_database_without_tables_is_said(airflow_database, monkeypatch):
    """Without its address, which may hold a password."""
    import sqlalchemy
    from airflow import settings

    empty = sqlalchemy.create_engine("sqlite://")
    monkeypatch.setattr(settings, "engine", empty)
    session = sqlalchemy.orm.scoped_session(sqlalchemy.orm.sessionmaker(bind=empty))
    monkeypatch.setattr(settings, "Session", session)
    with pytest.raises(NeedsAirflow, match="airflow db migrate"):
        StoredVariables()


@pytest.fixture
def connections(airflow_database):
    """Two connections that only Airflow's database has."""
    from airflow.models import Connection
    from airflow.utils.session import create_session

    extra = json.dumps({"bootstrap.servers": "127.0.0.1:1"})
    made = [
        Connection(conn_id="kafka_kept", conn_type="kafka", extra=extra),
        Connection(conn_id="spark_kept", conn_type="spark", host="spark://127.0.0.1", port=1),
    ]
    with create_session() as session:
        session.add_all(made)
    yield
    with create_session() as session:
        for each in made:
            session.delete(session.merge(each))


def test_the_doctor_reads_airflows_connections(connections, tmp_path, pipelines, monkeypatch):
    """Of an environment that names an Airflow and has no such connection itself: both are found,
    and asked at the addresses that they hold. One that is nowhere is said so, with the way out.
    """
    monkeypatch.delenv("AIRFLOW_CONN_KAFKA_KEPT", raising=False)
    form = {
        "name": "p", "kind": "ingest", "topics": ["t"], "lake": str(tmp_path),
        "kafka": "kafka_kept", "spark": {"connection": "spark_kept"},
    }  # fmt: skip
    (pipelines / "p.yaml").write_text(json.dumps(form))
    lost = {**form, "name": "q", "kafka": "kafka_lost", "spark": {"connection": "spark_lost"}}
    (pipelines / "q.yaml").write_text(json.dumps(lost))
    said = {
        (line["pipeline"], line["check"]): line["says"]
        for line in run_checks(
            [*maintenance_commands._checks_of("p"), *maintenance_commands._checks_of("q")]
        ).to_json()["checks"]
    }
    assert "127.0.0.1:1" in said["p", "kafka"]
    assert "no master answers: 127.0.0.1:1" in said["p", "spark"]
    assert "Airflow has no connection 'kafka_lost'" in said["q", "kafka"]
    assert "Airflow has no connection 'spark_lost'" in said["q", "spark"]
    here = {"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:2"}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_KEPT", json.dumps(here))
    assert kafka(load_named("p")).bootstrap_servers == "127.0.0.1:2"
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT", raising=False)
    (pipelines / "r.yaml").write_text(json.dumps({**form, "name": "r", "spark": {}}))
    assert spark(load_named("r")).master == "local[*]"
    for name in NAMED_BY:
        monkeypatch.delenv(name)
    with pytest.raises(ConfigurationError, match="set AIRFLOW_CONN_SPARK_LOST"):
        spark(load_named("q"))


@pytest.mark.slow
def test_an_answer_is_one_document_beside_airflow(connections, tmp_path, pipelines):
    """What Airflow says when it is imported, and asked for a connection, goes to stderr."""
    form = {
        "name": "p", "kind": "ingest", "topics": ["t"], "lake": str(tmp_path),
        "kafka": "kafka_kept",
    }  # fmt: skip
    (pipelines / "p.yaml").write_text(json.dumps(form))
    env = {k: v for k, v in os.environ.items() if k != "AIRFLOW_CONN_KAFKA_KEPT"}
    done = subprocess.run(
        [Path(sys.executable).with_name("tidegate"), "status", "p", "--json"],
        env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 4, done.stderr  # the broker does not answer
    assert "127.0.0.1:1" in json.loads(done.stdout)["broker"]
