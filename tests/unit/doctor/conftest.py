"""An ingest pipeline with one commit."""

import pytest

from support.doctor_checks import commit
from tidegate.lake.store import LocalStore
from tidegate.pipelines.spec import parse_spec


@pytest.fixture
def spec(tmp_path):
    form = {"name": "p", "kind": "ingest", "topics": ["t"], "lake": str(tmp_path / "lake")}
    return parse_spec({**form, "schedule": "0 * * * *"})


@pytest.fixture
def store(tmp_path):
    """[0, 10) of t-0 is committed."""
    store = LocalStore(tmp_path / "lake/p")
    commit(store, 0, 10)
    return store
