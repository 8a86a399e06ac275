"""The YARN container of a driver in cluster mode: its secrets, and what identifies it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.core.json_codec import Document
from tidegate.errors import ConfigurationError

SECRETS = "tidegate"
"""The name of the secret key among the Hadoop credentials of an application."""


@dataclass(frozen=True)
class Container(Document):
    """A container: its id, the web address (`host:port`) of its node manager, its start.

    `started` is a time of the node's clock at which the process ran, in ms since the epoch.
    """

    id: str
    node: str
    started: int


def own(environ: Mapping[str, str] = os.environ) -> Container | None:
    """Return the container of this process; None outside YARN."""
    names = ("CONTAINER_ID", "NM_HOST", "NM_HTTP_PORT")
    identity, host, port = (environ.get(name) for name in names)
    if not identity or not host or not port:
        return None
    return Container(identity, f"{host}:{port}", int(time.time() * 1000))


def secrets(jvm: Any) -> dict[str, str]:
    """Return the secrets that the submission gave to this application.

    Raises ConfigurationError if there are none: they were lost on the way.
    """
    users = jvm.org.apache.hadoop.security.UserGroupInformation
    credentials = users.getCurrentUser().getCredentials()
    secret = credentials.getSecretKey(jvm.org.apache.hadoop.io.Text(SECRETS))
    if secret is None:
        raise ConfigurationError(
            "the credentials of this YARN application have no secrets of Tidegate: does "
            "spark-submit log in by a keytab, or does YARN drop the secret keys of credentials?"
        )
    form: dict[str, str] = json.loads(bytes(secret))
    return form
