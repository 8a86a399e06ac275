"""The rights to form DAGs: a user needs the right to trigger the pipeline's own DAG.

A task cannot ask Airflow's auth manager: it knows only the name of the user who triggered its run.
The API server can: when a run of a form DAG is requested, it checks the right, and puts a signature
into the run's conf (`ui.triggers`). The run's tasks fail without a valid signature.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

from tidegate.core import canonical
from tidegate.errors import ConfigurationError, TriggerNotPermitted

if TYPE_CHECKING:
    from airflow.sdk import Context

KEY = "signature"
"""The key of the signature in a run's conf."""

_BY_REQUEST, _BY_A_DAG = "manual", "operator_triggered"


def sign_trigger(dag_id: str, pipeline: str, user: str) -> str:
    """Return the signature that this user may trigger the pipeline's own DAG."""
    return _signature(known_secrets()[0], dag_id, pipeline, user)


def check_rights(context: Context, pipeline: str) -> str:
    """Return the user who triggered the run.

    Raises TriggerNotPermitted without a valid signature for this user, DAG and pipeline. A run that
    another DAG has triggered needs none: DAG authors can run any code anyway. A run of a backfill
    has a conf that no server has signed: a signature in it is that of an earlier run.
    """
    run = context["dag_run"]
    user: str | None = run.triggering_user_name
    if run.run_type == _BY_A_DAG:
        return user or run.run_id
    secrets = known_secrets()
    given = (run.conf or {}).get(KEY) if run.run_type == _BY_REQUEST else None
    if user and isinstance(given, str):
        for secret in secrets:
            expected = _signature(secret, run.dag_id, pipeline, user)
            if given.isascii() and hmac.compare_digest(given, expected):
                return user
    raise TriggerNotPermitted(
        f"run {run.run_id} of {run.dag_id}: nothing proves that user {user!r} may trigger DAG "
        f"tidegate__{pipeline}, and nothing was done. Airflow's API server signs the runs of those "
        "who may, when they are triggered by its UI or REST API with Tidegate's plugin loaded, and "
        "[core] fernet_key is the same there and here. From a terminal, use `tidegate backfill`, "
        "`replay` or `offsets set`"
    )


def _signature(secret: str, dag_id: str, pipeline: str, user: str) -> str:
    message = canonical.encode(["tidegate may trigger", dag_id, pipeline, user])
    return hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()


def known_secrets() -> list[str]:
    """Return the keys that API server and workers share, the newest first."""
    from airflow.configuration import conf

    secrets = [key.strip() for key in str(conf.get("core", "fernet_key", fallback="")).split(",")]
    if not all(secrets):
        raise ConfigurationError(
            "[core] fernet_key is empty: runs of Tidegate's form DAGs are signed with it. Set one "
            "for Airflow's API server and its workers"
        )
    return secrets
