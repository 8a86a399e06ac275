"""An Airflow for each worker of a test run, on SQLite, set up before airflow is imported."""

import atexit
import base64
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2]
_home = Path(
    tempfile.mkdtemp(prefix="tidegate-airflow-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT"))
)
atexit.register(shutil.rmtree, _home, ignore_errors=True)
os.environ |= {
    "AIRFLOW_HOME": str(_home),
    "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
    "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT / "plugins"),
    "AIRFLOW__CORE__FERNET_KEY": base64.urlsafe_b64encode(os.urandom(32)).decode(),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{_home}/airflow.db",
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
}


@pytest.fixture(scope="session")
def airflow_database() -> None:
    """Airflow's tables, made once."""
    from airflow.utils.db import initdb

    initdb()


@pytest.fixture
def pipelines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory of pipeline files, and a lake."""
    directory = tmp_path / "pipelines"
    directory.mkdir()
    monkeypatch.setenv("TIDEGATE_PIPELINES", str(directory))
    monkeypatch.setenv("TIDEGATE_LAKE", str(tmp_path / "lake"))
    return directory


@pytest.fixture
def flights(pipelines: Path, tmp_path: Path) -> str:
    """The pipeline `flights` of the page's tests. Its lake."""
    from support.status_page import make_flights

    lake = str(tmp_path / "lake")
    make_flights(pipelines, lake)
    return lake


@pytest.fixture
def login(airflow_database: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """How to log in to the page: `login("VIEWER")` is a browser."""
    from support.status_page import logins

    monkeypatch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "s" * 64)
    return logins()


@pytest.fixture
def ann(login: Any) -> Any:
    """A browser of a user who may read all DAGs."""
    return login("VIEWER")
