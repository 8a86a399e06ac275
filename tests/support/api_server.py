"""Airflow's real API server with Tidegate's plugin, in this process, and its users."""

import json
import os
import warnings
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

with warnings.catch_warnings():
    # Airflow imports Starlette's test client, which would rather have a fork of httpx.
    warnings.simplefilter("ignore")
    from airflow.api_fastapi.app import create_app
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from airflow.api_fastapi.common.dagbag import create_dag_bag
    from fastapi.testclient import TestClient as TestClient

DAGS = Path(__file__).parents[2] / "dags"
FORMS = ("tidegate_backfill", "tidegate_replay", "tidegate_maintenance")


@cache
def server() -> Any:
    return create_app("core")


def token(user: str) -> str:
    from airflow.api_fastapi.app import get_auth_manager

    made = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=user, role="USER"))
    return str(made)


def add_pipelines(directory: Path) -> None:
    """Write the pipelines of all tests of the API server, as far as they are missing.

    It keeps the form DAGs, which offer the pipelines by name, for a while.
    """
    for name in ("a", "b", "flights"):
        form = {"name": name, "kind": "ingest", "topics": ["t"], "lake": "/nowhere"}
        file = directory / f"{name}.yaml"
        if not file.exists():
            file.write_text(json.dumps(form))


def sync_dags() -> None:
    """Put the DAGs of the checkout into Airflow's database, with those of the pipelines."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db

    DagBundlesManager().sync_bundles_to_db()
    # Else Airflow keeps what another test has put there less than half a minute ago.
    with mock.patch.dict(os.environ, {"AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": "0"}):
        sync_bag_to_db(DagBag(dag_folder=str(DAGS)), "dags-folder", None)
    server().state.dag_bag = create_dag_bag()


def permit(monkeypatch: Any, allowed: dict[str, set[str]]) -> None:
    """Let users, by their names, do all that there is to do with these DAGs, and nothing else."""

    def may(self: Any, *, method: Any, user: Any, access_entity: Any = None, details: Any = None):
        return details.id in allowed[user.get_name()]

    monkeypatch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "s" * 64)
    monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", may)
