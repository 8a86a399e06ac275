"""Azure Blob Storage without a server: what is refused in the environment, and for Spark."""

import json
import os
from types import SimpleNamespace

import pytest
from obstore import put
from obstore.store import MemoryStore

from tidegate.core.locations import (
    IN_USE,
    find_scheme,
    location_complaint,
    native_url,
    without_scheme,
)
from tidegate.errors import ConfigurationError, LakeUnavailable
from tidegate.lake import azure_buckets
from tidegate.lake import store as store_module
from tidegate.lake.azure_buckets import AzureBlobs
from tidegate.lake.buckets import Buckets
from tidegate.lake.store import ObjectStore
from tidegate.launch import spark_jars
from tidegate.launch.masters import for_places
from tidegate.launch.spark_connection import LOCAL
from tidegate.launch.submission import Submission
from tidegate.settings.secrets import secret_settings
from tidegate.spark.hadoop_files import give_secrets

URL = "abfss://container@account.dfs.core.windows.net/lake"
CLIENT = {"AZURE_TENANT_ID": "tenant", "AZURE_CLIENT_ID": "client"}
HADOOP = "spark.hadoop.fs.azure.account"


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AZURE_")]:
        monkeypatch.delenv(name)


def conf(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]) -> dict[str, str]:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    return dict(AzureBlobs().spark_conf())


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"AZURE_STORAGE_ACCOUNT_KEY": "xyz"}, {"auth.type": "SharedKey"}),
        (
            {"AZURE_CLIENT_SECRET": "xyz", **CLIENT},
            {
                "auth.type": "OAuth",
                "oauth.provider.type": "ClientCredsTokenProvider",
                "oauth2.client.endpoint": "https://login.microsoftonline.com/tenant/oauth2/token",
                "oauth2.client.id": "client",
            },
        ),
        (
            {"AZURE_FEDERATED_TOKEN_FILE": "/token", **CLIENT},
            {
                "auth.type": "OAuth",
                "oauth.provider.type": "WorkloadIdentityTokenProvider",
                "oauth2.client.id": "client",
                "oauth2.msi.tenant": "tenant",
                "oauth2.token.file": "/token",
            },
        ),
        ({}, {"auth.type": "OAuth", "oauth.provider.type": "MsiTokenProvider"}),
    ],
)
def test_ways_to_log_in(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], expected: dict[str, str]
) -> None:
    """Each is Spark's, too, without its secret, which its driver takes from the environment."""
    found = conf(monkeypatch, environ)
    of_login = {
        name.removeprefix(f"{HADOOP}."): value.removeprefix(f"{azure_buckets._PROVIDERS}.")
        for name, value in found.items()
        if name.startswith(HADOOP)
    }
    assert of_login == expected
    assert "xyz" not in json.dumps(found)
    assert secret_settings(found) == []
    scheme = find_scheme(URL)
    secret = next(iter(environ), "")
    assert scheme is not None
    assert (secret in scheme.secrets) == ("xyz" in environ.values())
    assert "spark.redaction.regex" not in found  # it would replace the machine's own


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        *(
            (
                {name: "x"},
                f"{name}: Spark does not read it; unset it, use AZURE_STORAGE_ACCOUNT_KEY",
            )
            for name in (
                "AZURE_STORAGE_ACCESS_KEY",
                "AZURE_STORAGE_CONNECTION_STRING",
                "AZURE_STORAGE_SAS_TOKEN",
                "AZURE_STORAGE_TOKEN",
                "AZURE_STORAGE_USE_EMULATOR",
                "AZURE_ENDPOINT",
                "AZURE_USE_AZURE_CLI",
                "AZURE_AUTHORITY_ID",
                "AZURE_SKIP_SIGNATURE",
            )
        ),
        (
            {"AZURE_STORAGE_ACCOUNT_KEY": "x", "AZURE_CLIENT_SECRET": "x"},
            "AZURE_STORAGE_ACCOUNT_KEY and AZURE_CLIENT_SECRET: use one of them",
        ),
        ({"AZURE_STORAGE_ACCOUNT_KEY": ""}, "AZURE_STORAGE_ACCOUNT_KEY is empty: unset it"),
        ({"AZURE_CLIENT_SECRET": "x"}, "needs AZURE_TENANT_ID and AZURE_CLIENT_ID"),
        ({"AZURE_STORAGE_ENDPOINT": "http://host:1/a"}, "AZURE_ALLOW_HTTP=true"),
        ({"AZURE_STORAGE_ENDPOINT": "host:1"}, "an endpoint is http(s)://host:port/account"),
    ],
)
def test_what_is_refused(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], said: str
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError) as raised:
        AzureBlobs().open(URL)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (URL, None),
        ("abfss://container/lake", "abfss://container@account.dfs.core.windows.net/data"),
        ("abfss://c@a.blob.core.windows.net/x", "dfs.core.windows.net"),
        ("abfs://c@a.dfs.core.windows.net/x", "use abfss://"),
        ("az://c/x", "use abfss://"),
        ("wasbs://c@a.blob.core.windows.net/x", "several winners"),
        ("hdfs://host/x", "one winner"),
    ],
)
def test_urls(url: str, said: str | None) -> None:
    found = location_complaint(url)
    assert found is None if said is None else said in (found or "")


def test_other_names_of_a_place() -> None:
    assert without_scheme(URL) == "container/lake"
    assert native_url(URL) == URL.replace("abfss", "abfs")
    assert without_scheme("s3://bucket/a@b") == "bucket/a@b"
    assert without_scheme("/a@b/c") == "/a@b/c"


@pytest.mark.parametrize("variable", ["AZURE_TENANT_ID", "AZURE_STORAGE_ACCOUNT_NAME"])
def test_variables_that_do_no_harm(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "x")
    AzureBlobs().open(URL)


def test_a_copy_that_goes_on_behind_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for. What was left at 0 bytes is copied again."""
    monkeypatch.setattr(Buckets, "copies_later", True)
    store = ObjectStore("memory:///p", MemoryStore())
    store.create("staging/x", b"rows")
    store.create("data/y", b"")
    store.place("staging/x", "data/y", 4)
    assert store.get("data/y") == b"rows"
    monkeypatch.setattr(Buckets, "copy", lambda _, __, inner, ___, to, ____: put(inner, to, b""))
    monkeypatch.setattr(store_module, "SLOW_COPY", 0.3)
    with pytest.raises(LakeUnavailable, match="0 of 4 bytes"):
        store.place("staging/x", "data/z", 4)


def test_a_secret_in_a_setting_is_one() -> None:
    """Whatever the account is named."""
    given = {
        "spark.hadoop.fs.azure.account.key.any.dfs.core.windows.net": "x",
        "spark.hadoop.fs.azure.sas.container.any.dfs.core.windows.net": "x",
        "spark.hadoop.fs.gs.auth.service.account.private.key": "x",
    }
    kind = {"spark.hadoop.fs.azure.sas.token.provider.type": "org.example.Provider"}
    assert secret_settings({**given, **kind}) == sorted(given)


def test_secrets_are_given_where_they_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """An application whose places are elsewhere gets none."""
    for name, value in {"AZURE_CLIENT_SECRET": "xyz", **CLIENT}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(spark_jars, "jar_files", lambda *_: [])
    for places, expected in (
        ((URL, "/in"), {"fs.azure.account.oauth2.client.secret": "xyz"}),
        (("/in", "gs://bucket/lake"), {}),
    ):
        given = Submission("", "", (), "n", {}, (), {})
        call = for_places(given, *places, spark=LOCAL)
        found: dict[str, str] = {}
        used = call.conf.get(f"spark.hadoop.{IN_USE}")
        give_secrets(SimpleNamespace(get={IN_USE: used}.get, set=found.__setitem__))
        assert found == expected
        assert "xyz" not in repr(call)
