"""Containers of Azure Blob Storage: its credentials, Spark's driver, and what obstore lacks.

obstore reads the `AZURE_*` variables by itself. Spark's driver (hadoop-azure) reads none: what is
not secret goes into its settings here. The secrets reach it as `core/locations.py` says.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from obstore.store import ObjectStore as Obstore

from tidegate.core.locations import without_scheme
from tidegate.errors import ConfigurationError
from tidegate.lake.buckets import MarkedBuckets, other_server

if TYPE_CHECKING:
    from pyarrow import fs

_KEY, _TOKEN_FILE = "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_FEDERATED_TOKEN_FILE"
_TENANT, _CLIENT, _SECRET = "AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"
_ENDPOINT = "AZURE_STORAGE_ENDPOINT"
_OF_AZURE = ".core.windows.net"
_LOGIN = "https://login.microsoftonline.com"
_PROVIDERS = "org.apache.hadoop.fs.azurebfs.oauth2"
_NEEDS = {_KEY: (), _SECRET: (_TENANT, _CLIENT), _TOKEN_FILE: (_TENANT, _CLIENT)}
"""The ways to log in, by the variable of each, and which others it needs."""
_OF_OBSTORE = re.compile(
    r"AZURE_(STORAGE_(?!ACCOUNT(_NAME)?$).*|ENDPOINT|SKIP_SIGNATURE|USE_.*|AUTHORITY_ID|OBJECT_ID"
    r"|MSI_.*|CREDENTIAL_TYPE|FABRIC_.*|SAS_.*)"
)
"""Variables that obstore would follow, and neither Spark's driver nor PyArrow."""


class AzureBlobs(MarkedBuckets):
    """Containers of Azure Blob Storage, or of a server that speaks as it does."""

    copies_later = True  # obstore does not wait for the end

    def open(self, url: str) -> Obstore:
        _endpoint()
        _way_to_log_in()
        return super().open(url)

    def spark_conf(self) -> Mapping[str, str]:
        return _conf_of_spark(os.environ)

    def arrow(self, url: str) -> tuple[fs.FileSystem, str]:
        from pyarrow import fs

        container, _, rest = without_scheme(url).partition("/")
        account = urlsplit(url).netloc.partition("@")[2].partition(".")[0]
        given: dict[str, str | None] = {
            _KEY: {"account_key": os.environ.get(_KEY)},
            _SECRET: {
                "tenant_id": os.environ.get(_TENANT),
                "client_id": os.environ.get(_CLIENT),
                "client_secret": os.environ.get(_SECRET),
            },
        }.get(_way_to_log_in() or "", {})
        if where := _endpoint():
            parts = urlsplit(where)
            for service in ("blob", "dfs"):
                given |= {
                    f"{service}_storage_authority": parts.netloc,
                    f"{service}_storage_scheme": parts.scheme,
                }
        return fs.AzureFileSystem(account, **given), f"{container}/{rest}".rstrip("/")


def _endpoint() -> str | None:
    form = "http(s)://host:port/account"
    return other_server(os.environ, "AZURE_ALLOW_HTTP", _ENDPOINT, form=form)


def _way_to_log_in(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the variable with which to log in. None: by the identity of the machine.

    ConfigurationError for two ways, for one that lacks a variable, and for one that Spark cannot
    use.
    """
    for name in sorted(environ):
        if _OF_OBSTORE.fullmatch(name) and name not in (_KEY, _ENDPOINT):
            instead = " or ".join(_NEEDS)
            raise ConfigurationError(f"{name}: Spark does not read it; unset it, use {instead}")
        if name in (*_NEEDS, _ENDPOINT, _TENANT, _CLIENT) and not environ[name]:
            raise ConfigurationError(f"{name} is empty: unset it")
    ways = [name for name in _NEEDS if name in environ]
    if len(ways) > 1:
        raise ConfigurationError(f"{ways[0]} and {ways[1]}: use one of them")
    for way in ways:
        if missing := [name for name in _NEEDS[way] if not environ.get(name)]:
            raise ConfigurationError(f"{way} needs {' and '.join(missing)}")
    return ways[0] if ways else None


def _conf_of_spark(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the settings with which Spark reads and writes there. None is secret."""
    found = {
        # Where the account has no hierarchical namespace; the driver asks whether it has.
        "fs.azure.fns.account.service.type": "BLOB",
        **_login_of_spark(environ),
    }
    if where := _endpoint():
        parts = urlsplit(where)
        found |= {
            "fs.azure.abfs.endpoint": parts.netloc,
            "fs.azure.always.use.https": str(parts.scheme == "https").lower(),
        }
        if not parts.netloc.endswith(_OF_AZURE):
            found["fs.azure.account.hns.enabled"] = "false"
    return {f"spark.hadoop.{name}": value for name, value in found.items()}


def _login_of_spark(environ: Mapping[str, str]) -> dict[str, str]:
    way = _way_to_log_in(environ)
    if way == _KEY:
        return {"fs.azure.account.auth.type": "SharedKey"}
    provider = {_SECRET: "ClientCreds", _TOKEN_FILE: "WorkloadIdentity"}.get(way or "", "Msi")
    tenant = environ.get(_TENANT)
    values = {
        "auth.type": "OAuth",
        "oauth.provider.type": f"{_PROVIDERS}.{provider}TokenProvider",
        "oauth2.client.endpoint": f"{_LOGIN}/{tenant}/oauth2/token" if way == _SECRET else None,
        "oauth2.client.id": environ.get(_CLIENT),
        "oauth2.msi.tenant": tenant if way != _SECRET else None,
        "oauth2.token.file": environ.get(_TOKEN_FILE),
    }
    return {f"fs.azure.account.{name}": value for name, value in values.items() if value}
