"""Google Cloud Storage without a server: what is refused in the environment, and for Spark."""

import json
from pathlib import Path
from typing import Any

import pytest
from obstore.exceptions import GenericError
from obstore.store import MemoryStore

from tidegate.core.locations import find_scheme
from tidegate.core.source_root import Root
from tidegate.errors import ConfigurationError, LakeReadOnly, LakeUnavailable
from tidegate.lake import buckets, gcs_buckets
from tidegate.lake.gcs_buckets import GoogleStorage
from tidegate.lake.store_errors import as_lake_errors
from tidegate.launch.spark_jars import PACKAGES, refuse_missing


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, and no variable of Google's."""
    for name in ("BASE_URL", "ALLOW_HTTP", "APPLICATION_CREDENTIALS", "SERVICE_ACCOUNT"):
        monkeypatch.delenv(f"GOOGLE_{name}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_a_name_that_no_path_can_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named: a retry does not mend it."""

    def names(_: object) -> None:
        raise GenericError('Generic GCS error: invalid path: Path "a//b" contained empty segment')

    monkeypatch.setattr(buckets.obstore, "list", names)
    with pytest.raises(ConfigurationError, match=r"rename it: .*a//b"):
        list(GoogleStorage().files(Root.of("gs://bucket/in/*.json"), MemoryStore()))


def refused(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError) as raised:
        GoogleStorage().open("gs://bucket/lake")
    return str(raised.value)


@pytest.mark.parametrize("kind", ["external_account", "impersonated_service_account"])
@pytest.mark.parametrize("by", ["variable", "gcloud"])
def test_credentials_that_obstore_cannot_use(
    home: Path, monkeypatch: pytest.MonkeyPatch, kind: str, by: str
) -> None:
    file = home / ("key.json" if by == "variable" else gcs_buckets._OF_GCLOUD)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"type": kind}))
    environ = {"GOOGLE_APPLICATION_CREDENTIALS": str(file)} if by == "variable" else {}
    said = refused(environ, monkeypatch)
    assert kind in said
    assert str(file) in said


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"GOOGLE_APPLICATION_CREDENTIALS": "/gone.json"}, "No such file"),
        ({"GOOGLE_SERVICE_ACCOUNT": "/key.json"}, "Spark does not read it"),
        ({"GOOGLE_BASE_URL": "HTTP://host:1"}, "GOOGLE_ALLOW_HTTP=true"),
        ({"GOOGLE_BASE_URL": "host:1"}, "an endpoint is http(s)://host:port"),
    ],
)
def test_what_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], said: str
) -> None:
    assert said in refused(environ, monkeypatch)


@pytest.mark.usefixtures("home")
def test_settings_of_spark_have_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark finds credentials as Google's own tools do, also where Python does."""
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/key.json")
    conf = GoogleStorage().spark_conf()
    assert conf["spark.hadoop.fs.gs.auth.type"] == "APPLICATION_DEFAULT"
    assert "spark.hadoop.fs.gs.storage.root.url" not in conf
    assert "/key.json" not in json.dumps(dict(conf))


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("404 Not Found: <Code>NoSuchBucket</Code>", ConfigurationError),
        ("404 Not Found: The specified bucket does not exist.", ConfigurationError),
        ("404 Not Found: nginx", LakeUnavailable),
        ("PUT http://169.254.169.254/latest/api/token: 404 Not Found", LakeUnavailable),
        ('400 Bad Request: {"error":"invalid_grant"}', LakeReadOnly),
        ("401 Unauthorized", LakeReadOnly),
        ("503 Service Unavailable", LakeUnavailable),
    ],
)
def test_what_a_retry_may_solve(said: str, error: type[Exception]) -> None:
    """A 404 of a proxy, or of who gives tokens, is no missing bucket."""
    with pytest.raises(error), as_lake_errors("gs://bucket/lake"):
        raise GenericError(f"Generic GCS error: status code: {said}")


def test_a_connector_that_spark_cannot_fetch_by_its_coordinates() -> None:
    scheme: Any = find_scheme("gs://bucket")
    with pytest.raises(ConfigurationError, match="jars: packages"):
        refuse_missing(PACKAGES, scheme.library, None)
