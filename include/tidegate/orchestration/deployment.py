"""The identity of an Airflow deployment: tries of a task are counted within one deployment."""

from __future__ import annotations

import secrets
import time

from airflow.configuration import conf
from airflow.sdk import Variable
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType

from tidegate.errors import AirflowUnavailable
from tidegate.orchestration.airflow_connections import ask_api

VARIABLE = "tidegate_deployment"

_DESCRIPTION = "Names this Airflow deployment in Tidegate's claims; never change it"
SETTLED_AFTER = 1.0  # seconds until the id of another task that makes one now is stored


def read_identity() -> str:
    """Return the identity of this task's deployment: the Variable's value and Airflow's base URL.

    The URL differs where a database was copied with the Variable. A Variable that is missing is
    created; of several tasks that do so at once, all use what is stored in the end. Raises
    AirflowUnavailable if the API server does not say whether there is one.
    """
    if (known := _stored()) is None:
        Variable.set(VARIABLE, secrets.token_hex(8), description=_DESCRIPTION)
        time.sleep(SETTLED_AFTER)
        known = _stored()
    if known is None:
        raise AirflowUnavailable(f"Variable {VARIABLE!r} was created, and cannot be read back")
    return f"{known} {conf.get('api', 'base_url', fallback='')}".strip()


def _stored() -> str | None:
    """Return the Variable's value. None only if Airflow answers that there is none."""
    from airflow.sdk.execution_time.comms import GetVariable

    value = Variable.get(VARIABLE, default=None)
    if value is not None:
        return str(value)
    try:
        return str(ask_api(GetVariable(key=VARIABLE)).value)
    except AirflowRuntimeError as error:  # Variable.get gives the default for every error
        if error.error.error is ErrorType.VARIABLE_NOT_FOUND:
            return None
        raise AirflowUnavailable(
            f"Variable {VARIABLE!r} cannot be read now ({error.error.error.value}); check "
            "Airflow's API server and database"
        ) from None
