"""The YARN container of a driver in cluster mode: its key, and what identifies it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.core.json_codec import Document
from tidegate.errors import ConfigurationError

SECRET = "tidegate"
"""The name of the secret key among the Hadoop credentials of an application."""


@dataclass(frozen=True)
class Container(Document):
    """A container: its id, the web address (`host:port`) of its node manager, its start.

    `started` is a time of the node's clock at which the process ran, in ms since the epoch.
    """

    id: str
    node: str
    started: int

    def read_key(self, jvm: Any) -> bytes:
        """Return the key of the job. ConfigurationError if it was lost on the way."""
        return read_secret(jvm)


def own_container(environ: Mapping[str, str] = os.environ) -> Container | None:
    """Return the container of this process. None outside YARN."""
    names = ("CONTAINER_ID", "NM_HOST", "NM_HTTP_PORT")
    identity, host, port = (environ.get(name) for name in names)
    if not identity or not host or not port:
        return None
    return Container(identity, f"{host}:{port}", int(time.time() * 1000))


def read_secret(jvm: Any) -> bytes:
    """Return the key that the submission gave to this application.

    Raises ConfigurationError if the key was lost on the way.
    """
    users = jvm.org.apache.hadoop.security.UserGroupInformation
    credentials = users.getCurrentUser().getCredentials()
    found = credentials.getSecretKey(jvm.org.apache.hadoop.io.Text(SECRET))
    if found is None:
        raise ConfigurationError(
            "the credentials of this YARN application have no key of Tidegate: does spark-submit "
            "log in by a keytab, or does YARN drop the secret keys of credentials?"
        )
    return bytes(found)
