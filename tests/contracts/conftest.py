"""A pipeline with a lake, and what is printed, for the contracts of the commands."""

import json
from datetime import UTC, datetime

import pytest

from support import printed, staged_attempts
from support.golden import Golden
from tidegate.core.offsets import OffsetRange
from tidegate.lake import committing
from tidegate.lake.store import LocalStore
from tidegate.terminal import console


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A pipeline p of topic t: [0, 10) of partition 0 is committed; no Airflow here."""
    form = {"name": "p", "kind": "ingest", "topics": ["t"], "lake": str(tmp_path)}
    (tmp_path / "p.yaml").write_text(json.dumps(form))
    monkeypatch.setenv("TIDEGATE_PIPELINES", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path / "home"))
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": "nowhere:1"}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(kafka))
    for name in ("AIRFLOW_HOME", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("getpass.getuser", lambda: "ann")
    store = LocalStore(tmp_path / "p")
    plan = staged_attempts.plan_of((OffsetRange("t", 0, 0, 10),))
    staged_attempts.seal(store, plan)
    committing.commit_sealed_chunks(store, staged_attempts.ledger_of(store), plan, run="run")
    return store


@pytest.fixture(params=["terminal", "pipe"])
def place(request, monkeypatch):
    """Commands print to a terminal of 80 columns, or to a pipe; it is noon of 14 March 2026."""
    printed.on(request.param, monkeypatch)
    monkeypatch.setattr(console, "now", lambda: datetime(2026, 3, 14, 12, tzinfo=UTC))


@pytest.fixture
def shown(capsys):
    """Return what a document is printed as; all of it belongs to the result."""

    def show(show, document):
        show(document)
        out, err = capsys.readouterr()
        assert err == ""
        return out

    return show


@pytest.fixture
def golden(request):
    """Return what compares a command's output with its file below `golden`."""
    return Golden(request.node.originalname, update=request.config.getoption("--update"))
