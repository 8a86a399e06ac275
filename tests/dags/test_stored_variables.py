"""Variables from a terminal: Airflow's database is lost, and `reconcile` brings them back."""

import json

import pytest

from tidegate.core.entries import Origin
from tidegate.errors import NeedsAirflow
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import open_store
from tidegate.orchestration.database import NAMED_BY, StoredVariables
from tidegate.pipelines.spec import parse
from tidegate.runs.reconcile import reconcile


def test_reconcile_brings_every_variable_back(airflow_database, tmp_path):
    """Every one of a pipeline whose Variables were never there, with the ledger's cursors; and
    what is written is what Airflow reads.
    """
    from airflow.models import Variable

    topics = [f"t{i}" for i in range(5)]
    spec = parse({"name": "lost", "kind": "ingest", "topics": topics, "lake": str(tmp_path)})
    ledger = Ledger(open_store(spec.lake, spec.name), spec.name)
    for i, topic in enumerate(topics):
        ledger.append(Origin(topic, f"id-{topic}", {0: i, 1: 7}), run="run")
    variables = StoredVariables()
    assert variables.read("tidegate__lost__t3") is None
    assert [d["state"] for d in reconcile(spec, variables, None)["variables"]] == ["missing"] * 5
    assert json.loads(Variable.get("tidegate__lost__t3")) == {"t3": {"0": 3, "1": 7}}
    assert reconcile(spec, variables, None)["variables"] == []
    Variable.set("tidegate__lost__t0", "not offsets")
    (drift,) = reconcile(spec, variables, None)["variables"]
    assert (drift["state"], drift["mended"]) == ("unreadable", True)
    assert json.loads(Variable.get("tidegate__lost__t0")) == {"t0": {"0": 0, "1": 7}}


def test_no_airflow_is_said(monkeypatch):
    """Not looked for in the user's home, where Airflow would make a new one."""
    for name in NAMED_BY:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(NeedsAirflow, match="AIRFLOW_HOME"):
        StoredVariables()


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
