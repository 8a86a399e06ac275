"""Buckets of Google Cloud Storage: its credentials, Spark's connector, and what obstore lacks.

obstore reads the `GOOGLE_*` variables by itself. Spark's connector takes the credentials where
Google's own tools have them: from a file, or from the machine. No secret is read here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from obstore.store import ObjectStore as Obstore

from tidegate.core.locations import without_scheme
from tidegate.errors import ConfigurationError
from tidegate.lake.buckets import MarkedBuckets, other_server

if TYPE_CHECKING:
    from pyarrow import fs

_FILE = "GOOGLE_APPLICATION_CREDENTIALS"
_KEY = "GOOGLE_SERVICE_ACCOUNT"
_OF_GCLOUD = Path(".config/gcloud/application_default_credentials.json")
_PATIENCE = timedelta(seconds=20)  # of PyArrow, whose default is 15 minutes
_CONNECTOR = "com.google.cloud.hadoop.fs.gcs"
_CHUNK = 8 << 20
"""Bytes that the connector keeps of each open file. Its default, 24 MiB, fills a small heap."""
_UNKNOWN = {
    "external_account": "workload identity federation",
    "impersonated_service_account": "impersonation",
}


class GoogleStorage(MarkedBuckets):
    """Buckets of Google Cloud Storage, or of a server that speaks as it does."""

    def open(self, url: str) -> Obstore:
        endpoint()
        _check_credentials()
        return super().open(url)

    def spark_conf(self) -> Mapping[str, str]:
        return _conf_of_spark()

    def arrow(self, url: str) -> tuple[fs.FileSystem, str]:
        from pyarrow import fs

        place = without_scheme(url).rstrip("/")
        if not (where := endpoint()):
            return fs.GcsFileSystem(retry_time_limit=_PATIENCE), place
        parts = urlsplit(where)
        given = {"scheme": parts.scheme, "endpoint_override": parts.netloc}
        return fs.GcsFileSystem(anonymous=True, retry_time_limit=_PATIENCE, **given), place


def endpoint() -> str | None:
    """Return the address of a server that is not Google's. ConfigurationError for a wrong one."""
    return other_server(os.environ, "GOOGLE_ALLOW_HTTP", "GOOGLE_BASE_URL")


def _conf_of_spark() -> dict[str, str]:
    """Return the settings with which Spark reads and writes there. None is secret.

    With a file of credentials, each node must have it at the same path. Without one, the nodes use
    what their machine has.
    """
    found = {
        "fs.gs.impl": f"{_CONNECTOR}.GoogleHadoopFileSystem",
        "fs.AbstractFileSystem.gs.impl": f"{_CONNECTOR}.GoogleHadoopFS",
        "fs.gs.auth.type": "APPLICATION_DEFAULT",
        "fs.gs.outputstream.upload.chunk.size": str(_CHUNK),
    }
    if where := endpoint():
        found |= {
            "fs.gs.storage.root.url": f"{where}/",
            "fs.gs.project.id": "none",
            "fs.gs.auth.type": "UNAUTHENTICATED",
            "fs.gs.operation.move.enable": "false",  # others lack this request
        }
    return {f"spark.hadoop.{name}": value for name, value in found.items()}


def _check_credentials(environ: Mapping[str, str] = os.environ) -> None:
    """Raise ConfigurationError for credentials that obstore or Spark's connector cannot use."""
    if not endpoint() and (alone := [name for name in environ if name.startswith(_KEY)]):
        raise ConfigurationError(f"{alone[0]}: Spark does not read it; use {_FILE}")
    given, of_gcloud = environ.get(_FILE), Path(environ.get("HOME", "/")) / _OF_GCLOUD
    if not given and not of_gcloud.exists():
        return
    path = Path(given) if given else of_gcloud
    try:
        kind = json.loads(path.read_bytes()).get("type")
    except (OSError, ValueError, AttributeError) as error:
        why = getattr(error, "strerror", None) or "is not a JSON file of Google's credentials"
        raise ConfigurationError(f"{_FILE}={path}: {why}") from None
    if kind in _UNKNOWN:
        raise ConfigurationError(
            f"{_FILE}={path}: {_UNKNOWN[kind]} ({kind}) is not supported; use a service account, "
            "gcloud's user credentials, or the identity of the machine"
        )
