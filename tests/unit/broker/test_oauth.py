"""Tokens for OAUTHBEARER and AWS MSK: where they come from, how long they are kept, refusals."""

import base64
import json
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from kafka.net.sasl.oauth import SaslMechanismOAuth

from support.certificates import Authority
from tidegate.broker.client_settings import KafkaSettings, normalise_settings
from tidegate.errors import (
    BrokerUnreachable,
    ConfigurationError,
    NotAuthenticated,
    TidegateError,
)
from tidegate.launch.token_settings import client_options

SECRET = "canary-secret"
BROKER = {
    "bootstrap.servers": "broker:9092",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
}
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
AUTHORITY = Authority.create()


def oidc(url: str = "https://issuer/token", **others: Any) -> dict[str, Any]:
    """Return a connection with client credentials; `_` in a name stands for `.`."""
    given = {
        "method": "oidc", "client_id": "alice", "client_secret": SECRET, "token_endpoint_url": url,
        **others,
    }  # fmt: skip
    return BROKER | {f"sasl.oauthbearer.{k.replace('_', '.')}": v for k, v in given.items()}


def jwt(lifetime: float) -> str:
    """Return a token that expires in so many seconds, without a signature."""
    body = json.dumps({"exp": int(time.time() + lifetime), "sub": "alice"}).encode()
    return f"e30.{base64.urlsafe_b64encode(body).decode().rstrip('=')}.c2ln"


class Issuer:
    """A token endpoint; `answers` are given one after the other, the last for ever."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, Any]] = []
        self.forms: list[dict[str, str]] = []
        self.logins: list[str] = []
        self.url = ""


@contextmanager
def endpoint(context: ssl.SSLContext | None = None) -> Iterator[Issuer]:
    issuer = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            issuer.forms.append({key: value for key, (value,) in parse_qs(body).items()})
            issuer.logins.append(self.headers["Authorization"])
            status, answer = issuer.answers.pop(0) if len(issuer.answers) > 1 else issuer.answers[0]
            text = answer if isinstance(answer, str) else json.dumps(answer)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        if context:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        issuer.url = f"http{'s' if context else ''}://127.0.0.1:{server.server_port}/token"
        yield issuer
        server.shutdown()


def complaints(extra: dict[str, Any]) -> list[str]:
    with pytest.raises(ConfigurationError) as refused:
        KafkaSettings("k", extra)
    assert SECRET not in str(refused.value)
    return [line.removeprefix("  - ") for line in str(refused.value).splitlines()[1:]]


def first_message(kafka: KafkaSettings) -> bytes:
    """Return what kafka-python sends to the broker."""
    return bytes(SaslMechanismOAuth(**kafka.for_python()).auth_bytes())


def test_client_credentials() -> None:
    """As RFC 6749 has them; the token is kept for most of its lifetime."""
    with endpoint() as issuer:
        issuer.answers = [(200, {"access_token": jwt(300), "expires_in": 300})]
        kafka = KafkaSettings(
            "k", oidc(issuer.url, scope="records", extensions="logicalCluster=lkc-1, pool=p 2")
        )
        sent = first_message(kafka)
        assert sent.startswith(b"n,,\x01auth=Bearer e30.")
        assert sent.endswith(b"c2ln\x01logicalCluster=lkc-1\x01pool=p 2\x01\x01")
        assert first_message(kafka) == sent
        assert issuer.forms == [{"grant_type": "client_credentials", "scope": "records"}]
        login = base64.b64encode(f"alice:{SECRET}".encode()).decode()
        assert issuer.logins == [f"Basic {login}"]


@pytest.mark.parametrize("lifetime", [0, None, "soon"])
def test_a_token_of_unknown_lifetime_is_not_kept(lifetime: Any) -> None:
    with endpoint() as issuer:
        issuer.answers = [(200, {"access_token": "opaque", "expires_in": lifetime})]
        kafka = KafkaSettings("k", oidc(issuer.url))
        first_message(kafka)
        first_message(kafka)
        assert len(issuer.forms) == 4  # each client asks before it connects, and for its login


@pytest.mark.parametrize(
    ("status", "answer", "error", "expected"),
    [
        (401, {"error": "invalid_client"}, NotAuthenticated, "the client: 401 invalid_client;"),
        (400, {"error": f"bad {SECRET}"}, NotAuthenticated, "refused the client: 400;"),
        (400, "no json", NotAuthenticated, "refused the client: 400;"),
        (302, "", NotAuthenticated, "refused the client: 302;"),
        (200, {"token": "x"}, NotAuthenticated, "gave no token"),
        (200, "[]", BrokerUnreachable, "answers 200 without a token"),
        (200, "<html>", BrokerUnreachable, "answers 200 without a token"),
        (400, {"error": "temporarily_unavailable"}, BrokerUnreachable, "answers 400"),
        (408, "", BrokerUnreachable, "answers 408"),
        (200, {"access_token": f"a b {SECRET}"}, NotAuthenticated, "gave no token"),
        (200, {"access_token": jwt(-5)}, NotAuthenticated, "its token expired at 20"),
        (500, "", BrokerUnreachable, "answers 500"),
        (503, {"error": "x"}, BrokerUnreachable, "answers 503"),
        (429, {}, BrokerUnreachable, "answers 429"),
    ],
)
def test_what_the_token_endpoint_refuses(
    status: int, answer: Any, error: type[TidegateError], expected: str
) -> None:
    """Before a broker is asked: terminal where a retry would be refused as well."""
    with endpoint() as issuer:
        issuer.answers = [(status, answer)]
        with pytest.raises(error, match=expected) as refused:
            KafkaSettings("kafka_x", oidc(issuer.url)).for_python()
    assert SECRET not in str(refused.value)
    assert "(kafka_x)" in str(refused.value)


def test_no_proxy_sees_a_secret_in_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint on the loopback address is asked itself."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with endpoint() as issuer:
        issuer.answers = [(200, {"access_token": jwt(300), "expires_in": 300})]
        assert first_message(KafkaSettings("k", oidc(issuer.url)))


def test_a_token_endpoint_that_is_away_is_transient() -> None:
    with endpoint() as issuer:
        pass
    with pytest.raises(BrokerUnreachable, match=r"the token endpoint .* does not answer"):
        KafkaSettings("k", oidc(issuer.url)).for_python()


def test_the_certificate_of_the_endpoint_is_checked(tmp_path: Path) -> None:
    """By https.ca, else by the connection's own CA; both clients."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*AUTHORITY.server().write(tmp_path, "server"))
    other = Authority.create("Other").pem
    with endpoint(context) as issuer:
        issuer.answers = [(200, {"access_token": jwt(300), "expires_in": 300})]
        encrypted = oidc(issuer.url) | {"security.protocol": "SASL_SSL"}
        for trusted in (
            {"https.ca.pem": AUTHORITY.pem},
            {"ssl.ca.pem": AUTHORITY.pem},
            {"ssl.ca.pem": other, "https.ca.pem": AUTHORITY.pem},
        ):
            kafka = KafkaSettings("k", encrypted | trusted)
            assert first_message(kafka)
            options = client_options(kafka, tmp_path)["kafka.sasl.jaas.config"]
            path = options.partition('ssl.truststore.location="')[2].partition('"')[0]
            assert Path(path).read_text() == AUTHORITY.pem
        for untrusted in ({}, {"ssl.ca.pem": AUTHORITY.pem, "https.ca.pem": other}):
            with pytest.raises(NotAuthenticated, match=r"its certificate is not trusted: \w"):
                KafkaSettings("k", encrypted | untrusted).for_python()


def test_client_credentials_for_spark(tmp_path: Path) -> None:
    """Java asks for the token itself; the secret is in the JAAS entry alone."""
    options = client_options(KafkaSettings("k", oidc(scope="a b", extensions="pool=p")), tmp_path)
    assert options.pop("kafka.sasl.jaas.config") == (
        f'{MODULE} extension_pool="p" clientId="alice" clientSecret="{SECRET}" scope="a b";'
    )
    assert options == {
        "kafka.bootstrap.servers": "broker:9092", "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.login.callback.handler.class":
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
        "kafka.sasl.oauthbearer.token.endpoint.url": "https://issuer/token",
    }  # fmt: skip
    assert list(tmp_path.iterdir()) == []


def test_a_token_in_a_file_is_read_for_each_login(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{jwt(60)}\n")
    kafka = KafkaSettings("k", BROKER | {"tidegate.oauthbearer.token.file": str(file)})
    first = first_message(kafka)
    file.write_text(jwt(90))
    assert first_message(kafka) != first
    options = client_options(kafka, tmp_path)
    assert options["kafka.sasl.oauthbearer.token.endpoint.url"] == f"file://{file}"
    assert options["kafka.sasl.jaas.config"] == f"{MODULE};"
    file.write_text(jwt(-90))
    with pytest.raises(NotAuthenticated, match=r"token\.file: its token expired at 20"):
        kafka.for_python()
    file.unlink()
    with pytest.raises(ConfigurationError, match="No such file"):
        kafka.for_python()


@pytest.fixture
def tokens(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An installed module with functions."""
    module = ModuleType("acme_tokens")

    def away() -> str:
        raise ConnectionRefusedError(SECRET)

    def broken() -> str:
        raise RuntimeError(SECRET)

    vars(module).update(
        good=lambda: jwt(60), old=lambda: jwt(-60), none=lambda: None, away=away, broken=broken
    )
    monkeypatch.setitem(sys.modules, "acme_tokens", module)
    return module


def called(function: str) -> dict[str, str]:
    return BROKER | {"tidegate.oauthbearer.token.callable": f"acme_tokens:{function}"}


def test_a_token_of_a_function(tokens: ModuleType, tmp_path: Path) -> None:
    """For Spark it is a private file of the run."""
    kafka = KafkaSettings("k", called("good"))
    assert first_message(kafka).startswith(b"n,,\x01auth=Bearer e30.")
    options = client_options(kafka, tmp_path)
    (file,) = tmp_path.iterdir()
    assert options["kafka.sasl.oauthbearer.token.endpoint.url"] == f"file://{file}"
    assert file.read_text().startswith("e30.")
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["t m p", "t%41", "t#p", "t?p", "té"])
def test_a_directory_for_temporary_files_that_java_cannot_read(
    tokens: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Java's client reads a function's token by a URL: Spark alone would fail, at each retry."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / name))
    (told,) = complaints(called("good"))
    assert told.startswith("tidegate.oauthbearer.token.callable: ")
    assert f"{tmp_path / name}: set TMPDIR to " in told
    normalise_settings("k", called("good"), here=False)
    KafkaSettings("k", oidc())


@pytest.mark.parametrize(
    ("function", "error", "expected"),
    [
        ("old", NotAuthenticated, "its token expired"),
        ("none", NotAuthenticated, "gave no token"),
        ("broken", BrokerUnreachable, "acme_tokens:broken failed: RuntimeError"),
        ("away", BrokerUnreachable, "acme_tokens:away failed: ConnectionRefusedError"),
        ("missing", ConfigurationError, "has no attribute 'missing'"),
    ],
)
def test_a_function_that_gives_no_token(
    tokens: ModuleType, function: str, error: type[TidegateError], expected: str
) -> None:
    """What it raises is named by its class: the text may hold a secret."""
    with pytest.raises(error, match=expected) as refused:
        KafkaSettings("k", called(function)).for_python()
    assert SECRET not in str(refused.value)


def test_a_module_that_is_not_installed() -> None:
    with pytest.raises(ConfigurationError, match="No module named 'acme_none'"):
        KafkaSettings(
            "k", BROKER | {"tidegate.oauthbearer.token.callable": "acme_none:token"}
        ).for_python()


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        (BROKER, "sasl.oauthbearer.method: missing: only 'oidc'"),
        (oidc(method="default"), "sasl.oauthbearer.method: only 'oidc'"),
        (oidc(client_id=None), "sasl.oauthbearer.client.id: missing"),
        (oidc(client_secret=""), "sasl.oauthbearer.client.secret: missing"),
        (oidc(""), "sasl.oauthbearer.token.endpoint.url: missing"),
        (oidc("http://issuer/token"), "the client's secret would be sent in clear; use https"),
        (oidc(f"http://127.0.0.1.example/t?x={SECRET}"), "would be sent in clear"),
        (oidc("ftp://issuer/token"), "not https://host/path"),
        (oidc("issuer/token"), "not https://host/path"),
        (oidc("https://issuer:port/"), "no URL"),
        (oidc(f"https://alice:{SECRET}@issuer/token"), "holds a '@'"),
        (oidc(extensions="a"), "sasl.oauthbearer.extensions: not name=value"),
        (oidc(extensions="auth=x"), "sasl.oauthbearer.extensions: not name=value"),
        (oidc(extensions="a=b\x01c"), "sasl.oauthbearer.extensions: not name=value"),
        (oidc() | {"https.ca.location": "/none"}, "https.ca.location: /none: No such file"),
        (
            oidc() | {"tidegate.oauthbearer.token.callable": "a:b"},
            "tidegate.oauthbearer.token.callable, sasl.oauthbearer.method: a token comes from one",
        ),
        (
            BROKER | {"tidegate.oauthbearer.token.file": "/none"},
            "tidegate.oauthbearer.token.file: /none: No such file or directory",
        ),
        (
            BROKER | {"tidegate.oauthbearer.token.file": "token"},
            "tidegate.oauthbearer.token.file: not an absolute path",
        ),
        (
            BROKER | {"tidegate.oauthbearer.token.file": "/dev/null"},
            "tidegate.oauthbearer.token.file: /dev/null: empty",
        ),
        (
            BROKER | {"tidegate.oauthbearer.token.callable": "os.system"},
            "tidegate.oauthbearer.token.callable: not package.module:function",
        ),
        # In place of the name, URL or method: the token or secret itself.
        (
            BROKER | {"tidegate.oauthbearer.token.callable": f"eyJhbGciOiJI.{SECRET}"},
            "tidegate.oauthbearer.token.callable: not package.module:function",
        ),
        (oidc(method=SECRET), "sasl.oauthbearer.method: only 'oidc'"),
        (oidc(SECRET), "sasl.oauthbearer.token.endpoint.url: not https://host/path"),
    ],
)
def test_settings_that_cannot_work(extra: dict[str, Any], expected: str) -> None:
    assert any(expected in told for told in complaints(extra)), complaints(extra)


def test_a_token_endpoint_on_the_loopback_address_needs_no_tls() -> None:
    for host in ("localhost", "127.0.0.1", "127.1.2.3", "[::1]"):
        KafkaSettings("k", oidc(f"http://{host}:8080/token"))


MSK = {
    "bootstrap.servers": "b-1.x.abc.c2.kafka.eu-west-1.amazonaws.com:9098",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "AWS_MSK_IAM",
}


def test_msk_is_signed_by_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Amazon's package, which signs without a network: for the region in the broker's name."""
    for name, value in (("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", SECRET)):
        monkeypatch.setenv(name, value)
    kafka = KafkaSettings("k", MSK)
    assert kafka.for_python()["sasl_mechanism"] == "OAUTHBEARER"
    start, _, token = first_message(kafka).decode().removesuffix("\x01\x01").partition("Bearer ")
    assert start == "n,,\x01auth="
    signed = urlsplit(base64.urlsafe_b64decode(token + "==").decode())
    assert signed.hostname == "kafka.eu-west-1.amazonaws.com"
    query = parse_qs(signed.query)
    assert query["Action"] == ["kafka-cluster:Connect"]
    assert query["X-Amz-Credential"][0].startswith("AKIDEXAMPLE/")
    assert len(query["X-Amz-Signature"][0]) == 64


def test_msk_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'tidegate\[msk\]'"):
        KafkaSettings("k", MSK).for_python()


def test_msk_for_spark(tmp_path: Path) -> None:
    """Its own mechanism there, from a jar that `spark.jars` adds."""
    options = client_options(KafkaSettings("k", MSK), tmp_path)
    assert options["kafka.sasl.mechanism"] == "AWS_MSK_IAM"
    assert options["kafka.sasl.jaas.config"] == (
        "software.amazon.msk.auth.iam.IAMLoginModule required;"
    )
    assert options["kafka.sasl.client.callback.handler.class"] == (
        "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
    )


def test_msk_needs_a_region_and_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    named = MSK | {"bootstrap.servers": "kafka.internal:9098"}
    assert complaints(named) == [
        "sasl.mechanism: AWS_MSK_IAM: set AWS_REGION: no address names the region"
    ]
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    KafkaSettings("k", named)
    assert complaints(MSK | {"security.protocol": "SASL_PLAINTEXT"}) == [
        "sasl.mechanism: AWS_MSK_IAM needs security.protocol SASL_SSL"
    ]
