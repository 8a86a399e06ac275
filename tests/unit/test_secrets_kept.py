"""Secrets stay where they are: variables in texts of data, command lines, logs, signatures."""

import json
import logging
import os
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import yaml

from tidegate import faults
from tidegate.broker import oauth
from tidegate.errors import ConfigurationError, TriggerNotPermitted
from tidegate.orchestration import rights
from tidegate.pipelines import scaffold
from tidegate.pipelines.pipeline_files import Examined, examine_text
from tidegate.samples.proposed_decoder import propose_decoder
from tidegate.settings import secrets
from tidegate.settings.setting import Place
from tidegate.settings.table import judge_settings
from tidegate.spark import formats

SECRET = "hunter2secret"
NAME = "AIRFLOW__CORE__FERNET_KEY"
INGEST = {"name": "p", "kind": "ingest", "topics": ["t"], "lake": "/lake"}
EGRESS = {
    "name": "p", "kind": "egress", "lake": "/lake", "target": {"topic": "t"},
    "source": {"path": "/in", "format": "json", "columns": "a STRING"},
}  # fmt: skip


def read(form: dict[str, Any], **environ: str) -> Examined:
    return examine_text(yaml.safe_dump(form), "p", {NAME: SECRET, **environ})


# (1) Variables


@pytest.mark.parametrize(
    "change",
    [
        {"lake": f"/x/${{{NAME}}}"},
        {"lake": f"/x/${{{NAME}:-y}}"},
        {"max_records": f"${{{NAME}}}"},  # quoted in the DAG's documentation today
        {"name": f"${{{NAME}}}"},
        {"spark": {"conf": {"spark.x": f"${{{NAME}}}"}}},
    ],
)
def test_a_variable_that_nobody_has_allowed(change: dict[str, Any]) -> None:
    found = read({**INGEST, **change})
    assert [each.partition(": ")[0] for each in found.complaints][:1] != []
    assert f"${{{NAME}}}" in found.complaints[0]
    assert "TIDEGATE_VARIABLES" in found.complaints[0]
    assert SECRET not in repr(found)


def test_variables_that_are_allowed() -> None:
    form = {**INGEST, "lake": "/${TIDEGATE_X}/${AREA}/$${AREA}/$${AREA:-x}"}
    found = read(form, TIDEGATE_X="x", AREA="west", TIDEGATE_VARIABLES="OTHER, AREA")
    assert found.spec is not None, found.complaints
    assert found.spec.lake == "/x/west/${AREA}/${AREA:-x}"


def test_a_sampled_key_is_never_expanded() -> None:
    """From a record, by `tidegate init`, to the file, and back."""
    for name in (NAME, "TIDEGATE_X"):
        made = propose_decoder(
            [json.dumps({f"${{{name}}}": 1, "n": {f"${{{name}:-x}}": 2}}).encode()]
        )
        assert made is not None
        text = scaffold.ingest_text(
            "p", ["t"], "/lake", "kafka_default", {"t": scaffold.Proposal(made, 1)}
        )
        found = examine_text(text, "p", {name: SECRET})
        assert SECRET not in repr(found)
        assert found.spec is not None
        assert found.spec.decoding["t"].value == made  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "change",
    [
        {"columns": {"value": "`${TIDEGATE_X}`"}},
        {"order_by": ["`${TIDEGATE_X}`"]},
        {"source": {**EGRESS["source"], "columns": "`${TIDEGATE_X}` STRING"}},  # type: ignore[dict-item]
    ],
)
def test_sql_is_never_expanded(change: dict[str, Any]) -> None:
    found = read({**EGRESS, **change}, TIDEGATE_X=SECRET)
    assert found.spec is not None, found.complaints
    assert "${TIDEGATE_X}" in repr(found.spec)
    assert SECRET not in repr(found.spec)


def test_a_key_with_a_line_end_stays_within_its_comment() -> None:
    """`tidegate init` ends with a traceback of BadFile today."""
    columns = formats.format_of_files("json").propose_columns(
        [json.dumps({"a\nlake: /other": 1}).encode()]
    )
    text = scaffold.egress_text("p", "/in/*.json", "json", "t", "/lake", "k", columns)
    assert examine_text(text, "p", {}).complaints == ()


def test_a_value_of_source_options_is_not_quoted() -> None:
    """As docs/configuration.md says."""
    options = {"encoding": SECRET, "header": SECRET, "quote": SECRET}
    source = {"path": "/in", "format": "csv", "columns": "id STRING", "options": options}
    found = read({**EGRESS, "source": source})
    assert len(found.complaints) == 3
    assert SECRET not in repr(found.complaints)


@pytest.mark.parametrize("name", ["/etc/hostname", "../x", "a/../../x"])
def test_a_schema_file_is_beside_the_pipelines_file(name: str) -> None:
    """Complaints about another file of the worker say words of it."""
    decode = {"t": {"value": {"format": "json", "schema": {"file": name}}}}
    (complaint,) = read({**INGEST, "decode": decode}).complaints
    assert "beside" in complaint


# (2) Secrets

ENV, APP, JAVA = "spark.executorEnv.", "spark.yarn.appMasterEnv.", "spark.driver.extraJavaOptions"
X = "spark.my.x"
TOKEN = "A1b2" * 10
REFUSED = [
    ("spark.hadoop.fs.http.header.Authorization", f"Bearer {TOKEN}"),
    ("spark.my.authorization", "Basic dXNlcjpwYXNz"),
    ("spark.my.bearer", TOKEN),
    ("spark.my.hmac", TOKEN),
    ("spark.my.cookie", "sid=1"),
    ("spark.my.salt", "abc"),
    ("spark.my.webhook", "https://example.com/x"),
    (f"{ENV}GITHUB_PAT", "hunter2"),
    (f"{APP}AZURE_DEVOPS_EXT_PAT", "hunter2"),
    (f"{ENV}PAT", "hunter2"),
    (f"{ENV}SLACK_WEBHOOK", "https://hooks.slack.com/services/T0/B0/x"),
    (f"{ENV}CREDS", "hunter2"),
    (f"{ENV}AZURE_SAS", "sv=2020&ss=b"),
    (f"{ENV}BASIC_AUTH", "user:pass"),
    *(
        (f"{ENV}{kind}_KEY", "hunter2")
        for kind in (
            "APP",
            "AUTH",
            "CIPHER",
            "CLIENT",
            "DECRYPTION",
            "ENCRYPT",
            "FERNET",
            "HMAC",
            "LICENSE",
            "MASTER",
            "SSH",
            "STORAGE",
        )
    ),
    ("spark.hadoop.ha.zookeeper.auth", "digest:user:pass"),
    (X, "-----BEGIN PRIVATE KEY-----"),
    (X, "-----BEGIN RSA PRIVATE KEY-----\\nMIIE"),
    (X, "-----BEGIN OPENSSH PRIVATE KEY-----"),
    (f"{ENV}AWS_ID", "AKIAIOSFODNN7EXAMPLE"),
    (f"{ENV}AWS_ID", "ASIAIOSFODNN7EXAMPLE"),
    (X, f"ghp_{TOKEN}"),
    (X, f"gho_{TOKEN}"),
    (X, f"github_pat_{TOKEN}"),
    (X, f"glpat-{TOKEN}"),
    (X, f"npm_{TOKEN}"),
    (X, f"dapi{'0123456789abcdef' * 2}"),
    (X, "xoxb-123456789012-abcdef"),
    (X, f"sk_live_{TOKEN}"),
    (X, f"AIza{TOKEN}"),
    (X, f"hvs.{TOKEN}"),
    (X, f"ya29.{TOKEN}"),
    (X, f"sk-proj-{TOKEN}"),
    (X, f"SG.{TOKEN}"),
    (X, "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefghijk"),
    (X, "https://hooks.slack.com/services/T0/B0/x"),
    (X, "https://discord.com/api/webhooks/1/x"),
    (X, "https://ghp@github.com/x"),
    (X, "https://storage.googleapis.com/b/o?X-Goog-Signature=abcd"),
    (X, "https://x.azurewebsites.net/api/f?code=abcdef0123456789=="),
    (X, "jdbc:oracle:thin:scott/tiger@//host:1521/db"),
    (X, '{"headers": {"X-Auth-Key": "abc"}}'),
    ("spark.jars.repositories", "https://tok@repo.example.com/maven"),
    (JAVA, "-Dgithub.pat=x"),
    (JAVA, "-Dx.hmac=abc"),
    (JAVA, "-Dhttp.header=Authorization:Bearer abc"),
    (JAVA, "-javaagent:/a.jar=apikey=x"),
    ("spark.executor.extraJavaOptions", "-Dx=AKIAIOSFODNN7EXAMPLE"),
]
ACCEPTED = {
    "spark.hadoop.hadoop.security.authorization": "true",
    "spark.hadoop.hadoop.http.authentication.cookie.domain": "example.com",
    "spark.hadoop.dfs.client.key.provider.cache.expiry": "864000000",
    "spark.hadoop.dfs.https.client.keystore.resource": "ssl-client.xml",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.executor.extraClassPath": "/lib/a.jar",
    "spark.hadoop.dfs.webhdfs.user.provider.user.pattern": "^[A-Za-z_]+$",
    "spark.sql.warehouse.dir": "abfss://container@account.dfs.core.windows.net/x",
    "spark.jars.packages": "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.4",
    "spark.sql.sessionWindow.buffer.spill.threshold": "1",
    "spark.executor.extraJavaOptions": (
        "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=https://idp/keys"
    ),
}


@pytest.mark.parametrize(("name", "value"), REFUSED, ids=range(len(REFUSED)))
def test_a_secret_is_refused(name: str, value: str) -> None:
    (complaint,) = judge_settings(Place.SPARK, {name: value}).complaints
    assert secrets.WHY in complaint
    assert value not in complaint


@pytest.mark.parametrize("name", ACCEPTED)
def test_no_secret_is_accepted(name: str) -> None:
    """Passes today, and must go on doing so."""
    assert judge_settings(Place.SPARK, {name: ACCEPTED[name]}).complaints == ()


@pytest.mark.parametrize("value", ["a" * 8_000, "eyJ-" * 2_000, "eyJaaaaaaaa." * 600, ".-" * 4_000])
def test_values_are_looked_at_in_linear_time(value: str) -> None:
    """128 KiB of one letter would take minutes, each time a DAG file is parsed."""
    began = time.perf_counter()
    secrets.is_secret("spark.x", value)
    assert time.perf_counter() - began < 0.2


def test_variables_are_found_in_linear_time() -> None:
    """1,500 × `${a:-` take seconds today, 20,000 almost four minutes."""
    began = time.perf_counter()
    read({**INGEST, "progress_group": "${TIDEGATE_A:-" * 1_500})
    assert time.perf_counter() - began < 0.3


# (3) The token endpoint's query


def test_no_query_of_the_token_endpoint_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """httpx logs each URL at INFO, which is Airflow's level."""
    answer = httpx.Response(200, json={"access_token": "opaque", "expires_in": 300})
    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", lambda *_: answer)
    given = {
        "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "a", "sasl.oauthbearer.client.secret": "b",
        "sasl.oauthbearer.token.endpoint.url": f"https://issuer/token?key={SECRET}",
    }  # fmt: skip
    with caplog.at_level(logging.INFO):
        assert oauth.TokenProvider(given, "k").token() == "opaque"
    assert SECRET not in caplog.text


# (4) Faults


def test_a_fault_outside_of_tests_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEGATE_TESTING", raising=False)
    monkeypatch.setenv(faults.VARIABLE, "p:raise")
    for point in ("p", "another"):
        with pytest.raises(ConfigurationError, match="TIDEGATE_FAULT"):
            faults.point(point)


def test_a_process_with_a_fault_outside_of_tests_goes_on_to_its_end() -> None:
    """It is not killed, and its error names the variable."""
    clean = {k: v for k, v in os.environ.items() if k != "TIDEGATE_TESTING"}
    done = subprocess.run(
        [sys.executable, "-c", "from tidegate import faults; faults.point('p')"],
        env={**clean, faults.VARIABLE: "p:kill"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, "TIDEGATE_FAULT" in done.stderr) == (1, True)


# (5) Signatures


@pytest.mark.parametrize("signature", ["é", "\ud800", "٣" * 64])
def test_a_signature_that_is_not_ascii_is_refused(
    monkeypatch: pytest.MonkeyPatch, signature: str
) -> None:
    monkeypatch.setattr(rights, "known_secrets", lambda: ["key"])
    run = SimpleNamespace(
        dag_id="tidegate_replay", run_id="manual__1", run_type="manual",
        triggering_user_name="ann", conf={rights.KEY: signature},
    )  # fmt: skip
    with pytest.raises(TriggerNotPermitted):
        rights.check_rights({"dag_run": run}, "a")  # type: ignore[typeddict-item]


@pytest.mark.parametrize("body", [b"[" * 200_000, b'{"conf":' * 200_000])
def test_a_body_that_is_nested_without_end_is_no_form(body: bytes) -> None:
    """Airflow answers it; a RecursionError is an error 500."""
    triggers = pytest.importorskip("tidegate.ui.triggers")
    assert triggers._form(body) is None


def test_a_name_that_is_none_is_not_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a surrogate pair has no UTF-8: an administrator's request is an error 500."""
    import asyncio

    triggers = pytest.importorskip("tidegate.ui.triggers")
    monkeypatch.setattr(rights, "known_secrets", lambda: ["key"])

    async def permitted(pipeline: str, scope: Any) -> str:
        return "admin"

    async def receive() -> Any:
        return {"type": "http.request", "body": b'{"conf": {"pipeline": "\\ud800"}}'}

    monkeypatch.setattr(triggers, "permit_user", permitted)
    _, channel = asyncio.run(triggers.signed("tidegate_replay", {"headers": []}, receive))
    assert rights.KEY not in json.loads(asyncio.run(channel())["body"])["conf"]


@pytest.mark.parametrize(
    "value", ["s3a://logs/${env:SECRET}", "https://x/${env.AWS_SECRET_ACCESS_KEY}", "${user.home}"]
)
@pytest.mark.parametrize("place", [Place.SPARK, Place.SENDING])
def test_what_spark_or_hadoop_would_expand_is_refused(place: Place, value: str) -> None:
    (complaint,) = judge_settings(place, {"spark.eventLog.dir": value}).complaints
    assert "would expand" in complaint
    assert value not in complaint
