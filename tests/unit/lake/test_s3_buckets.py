"""S3 settings of the environment: for Spark, and the errors of a wrong one."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, cast

import obstore
import pytest

from support.calls import staging
from tidegate.errors import ConfigurationError, LakeReadOnly, LakeUnavailable
from tidegate.lake import multipart_uploads, s3_buckets
from tidegate.lake.store import LocalStore, ObjectStore, open_store
from tidegate.lake.store_errors import as_lake_errors
from tidegate.launch import cds_archive, jars
from tidegate.launch.masters import for_master, for_places

SECRET = "hunter2-never-to-be-seen"
ENVIRONMENT = {
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9000",
    "AWS_ALLOW_HTTP": "true",
    "AWS_REGION": "eu-west-3",
    "AWS_ACCESS_KEY_ID": "someone",
    "AWS_SECRET_ACCESS_KEY": SECRET,
}


@pytest.fixture(autouse=True)
def _no_other_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*ENVIRONMENT, "AWS_ENDPOINT", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def test_spark_gets_the_location_and_no_key() -> None:
    """The same endpoint, region and style that obstore reads; the keys stay where they are."""
    conf = s3_buckets.spark_conf(ENVIRONMENT)
    assert conf["spark.hadoop.fs.s3a.endpoint"] == "http://127.0.0.1:9000"
    assert conf["spark.hadoop.fs.s3a.endpoint.region"] == "eu-west-3"
    assert conf["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert conf["spark.hadoop.fs.s3a.committer.name"] == "magic"
    assert not {"someone", SECRET} & set(conf.values())


def test_without_an_endpoint_it_is_aws() -> None:
    conf = s3_buckets.spark_conf({"AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true"})
    assert "spark.hadoop.fs.s3a.endpoint" not in conf
    assert conf["spark.hadoop.fs.s3a.endpoint.region"] == "us-east-1"
    assert conf["spark.hadoop.fs.s3a.path.style.access"] == "false"


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ({"AWS_ENDPOINT": "https://s3", "AWS_DEFAULT_REGION": "x"}, ("https://s3", "x", True)),
        ({"AWS_ENDPOINT_URL": "https://a", "AWS_ENDPOINT": "https://b"}, ("https://a", None, True)),
        ({"AWS_ENDPOINT_URL": "", "AWS_REGION": ""}, (None, None, True)),
        ({"AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "TRUE"}, (None, None, False)),
    ],
)
def test_the_names_of_a_place(
    environ: dict[str, str], place: tuple[str | None, str | None, bool]
) -> None:
    """Each name and its other one; empty is not set."""
    endpoint, region, path_style = place
    assert s3_buckets.location(environ) == s3_buckets.Location(
        endpoint, region or "us-east-1", path_style
    )


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"AWS_ENDPOINT_URL": "http://s3:9"}, "AWS_ALLOW_HTTP=true"),
        ({"AWS_ENDPOINT_URL": "http://s3:9", "AWS_ALLOW_HTTP": "false"}, "in clear"),
        ({"AWS_ENDPOINT_URL": "s3:9000"}, r"http\(s\)://host:port"),
        ({"AWS_ENDPOINT_URL": "https://storage.googleapis.com"}, "use gs://"),
    ],
)
def test_a_wrong_endpoint_is_refused(
    environ: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is sent there, also when a lake is opened."""
    with pytest.raises(ConfigurationError, match=said):
        s3_buckets.location(environ)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=said):
        open_store("s3://bucket/lake", "p")


def test_only_a_job_on_s3_gets_its_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the class path's end, so that the archive of classes fits; what a pipeline says wins."""
    monkeypatch.setattr(jars, "lock_paths", lambda name: [Path(f"/jars/{name}.jar")])
    monkeypatch.setattr(cds_archive, "find_archive", lambda: None)
    monkeypatch.setenv("SPARK_DIST_CLASSPATH", "/theirs/*")
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    conf = {"spark.hadoop.fs.s3a.committer.name": "file"}
    plain = staging(Path("/private/job.json"), conf, 400, name="x")
    assert for_places(plain, "/lake/a", "file:///lake", "") is plain

    given = for_places(plain, "/lake/a", "s3a://bucket/lake")
    assert given.jars == ("/jars/spark-kafka.jar", "/jars/spark-s3.jar")
    assert given.env["SPARK_DIST_CLASSPATH"] == "/jars/spark-s3.jar:/theirs/*"
    assert given.conf["spark.driver.extraClassPath"] == "/jars/spark-kafka.jar"
    assert given.conf["spark.hadoop.fs.s3a.committer.name"] == "file"
    assert given.conf["spark.hadoop.fs.s3a.endpoint"] == "http://127.0.0.1:9000"
    assert SECRET not in repr(given)
    assert for_master(given, "spark://host:7077").jars == given.jars
    assert for_master(given, "local[2]").jars == ()


OBSTORE = (
    "Generic S3 error: Error performing list request: Error performing GET http://s3/lakes in 1ms"
    " - Server returned non-2xx status code: {status}: <?xml version='1.0'?>\n<Error>"
    "<Code>{code}</Code><Message>{message}</Message><Key>k</Key></Error>\n\nDebug source:\nGeneric"
    " {{ secret }}"
)


@pytest.mark.parametrize(
    ("status", "code", "message", "refusal"),
    [
        ("403 Forbidden", "AccessDenied", "no", LakeReadOnly),
        ("404 Not Found", "NoSuchBucket", "it does not exist", ConfigurationError),
        ("503 Slow Down", "SlowDown", "later", LakeUnavailable),
    ],
)
def test_what_s3_says_is_one_line(
    status: str, code: str, message: str, refusal: type[Exception]
) -> None:
    """Code and message, and which of the two kinds of error it is."""
    from obstore.exceptions import GenericError

    with pytest.raises(refusal) as raised, as_lake_errors("s3://lakes/p"):
        raise GenericError(OBSTORE.format(status=status, code=code, message=message))
    assert f"{code}: {message}" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "Debug" not in str(raised.value)
    assert "<" not in str(raised.value)


def test_without_credentials_no_address_of_a_metadata_service_is_named() -> None:
    from obstore.exceptions import GenericError

    said = "Error performing PUT http://169.254.169.254/latest/api/token"
    with pytest.raises(LakeUnavailable) as raised, as_lake_errors("s3://lakes/p"):
        raise GenericError(f"Generic S3 error: {said}")
    assert "no credentials are set" in str(raised.value)
    assert "169.254" not in str(raised.value)


def test_a_directory_has_no_open_uploads(tmp_path: Path) -> None:
    assert multipart_uploads.open_uploads(LocalStore(tmp_path)) == []


def test_an_open_copy_of_any_kind_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the one that tries out placing: it is not below the directories of attempts or files."""
    made: list[str] = []
    monkeypatch.setattr(s3_buckets, "copy_in_parts", lambda *copied: made.append(copied[2]))
    monkeypatch.setattr(obstore, "delete", lambda *_: None)
    large = s3_buckets.PART + 1
    lake = ObjectStore("s3://bucket/lake/p", cast("Any", None))
    lake.check_placing([("staged", "data/final", large)])
    (probe,) = made
    begun = datetime(2024, 5, 1, tzinfo=UTC)

    class Client:
        def get_paginator(self, _: str) -> Self:
            return self

        def paginate(self, **asked: str) -> list[dict[str, Any]]:
            upload = {"Initiated": begun, "Key": f"lake/p/{probe}", "UploadId": "1"}
            return [{"Uploads": [upload] if f"lake/p/{probe}".startswith(asked["Prefix"]) else []}]

    monkeypatch.setattr(s3_buckets, "s3_client", Client)
    assert multipart_uploads.open_uploads(lake) == [multipart_uploads.Upload(begun, probe, "1")]
