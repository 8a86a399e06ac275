"""What commands say of a connection: cluster, protocol, and who logs in how; never a secret."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.certificates import Authority
from tidegate.broker.client_settings import KafkaSettings, describe_connection

PASSWORD, SECRET, KEY = "hunter2", "canary-secret", "canary-key"
AUTHORITY = Authority.create()
ALICE = AUTHORITY.client("alice")
SERVERS = {"bootstrap.servers": "broker-1:9093,broker-2:9093"}
LOGIN = {"sasl.username": "alice", "sasl.password": PASSWORD}
SCRAM = {"security.protocol": "sasl_plaintext", "sasl.mechanism": "SCRAM-SHA-512", **LOGIN}
CERTIFICATE = {
    "ssl.ca.pem": AUTHORITY.pem, "ssl.certificate.pem": ALICE.chain_pem,
    "ssl.key.pem": ALICE.key_pem(password=KEY), "ssl.key.password": KEY,
}  # fmt: skip
OAUTH = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
KERBEROS = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}
FILES = "FILES"  # in the place of the test's directory


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "token.jwt").write_text(SECRET)
    (tmp_path / "alice.keytab").write_bytes(b"\5\2")
    (tmp_path / "cache").touch()
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/cache")
    monkeypatch.delenv("KRB5_CONFIG", raising=False)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    return tmp_path


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ({}, "PLAINTEXT, no login"),
        ({"security.protocol": "ssl"}, "SSL, no login"),
        ({"security.protocol": "SSL", **CERTIFICATE}, "SSL, certificate CN=alice"),
        (SCRAM, "SASL_PLAINTEXT, SCRAM-SHA-512 as alice"),
        (
            {**SCRAM, "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", **CERTIFICATE},
            "SASL_SSL, PLAIN as alice, certificate CN=alice",
        ),
        (
            SCRAM | {"tidegate.delegation_token": True},
            "SASL_PLAINTEXT, SCRAM-SHA-512 as alice, Spark with a delegation token",
        ),
        (
            OAUTH | {
                "sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": "tidegate",
                "sasl.oauthbearer.client.secret": SECRET,
                "sasl.oauthbearer.token.endpoint.url": f"https://idp/token?x={SECRET}",
            },
            "SASL_SSL, OAUTHBEARER as client tidegate",
        ),
        (
            OAUTH | {"tidegate.oauthbearer.token.file": f"{FILES}/token.jwt"},
            "SASL_SSL, OAUTHBEARER with the token in FILES/token.jwt",
        ),
        (
            OAUTH | {"tidegate.oauthbearer.token.callable": "acme.tokens:kafka"},
            "SASL_SSL, OAUTHBEARER with the token of acme.tokens:kafka",
        ),
        (
            KERBEROS | {
                "sasl.kerberos.principal": "alice@EXAMPLE.COM",
                "sasl.kerberos.keytab": f"{FILES}/alice.keytab",
            },
            "SASL_PLAINTEXT, GSSAPI as alice@EXAMPLE.COM",
        ),
        (KERBEROS, "SASL_PLAINTEXT, GSSAPI as the owner of the ticket cache"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM"},
            "SASL_SSL, AWS_MSK_IAM with the AWS credentials of this machine",
        ),
    ],
)  # fmt: skip
def test_who_logs_in(files: Path, extra: dict[str, Any], says: str) -> None:
    """For each way to log in; the JSON has the same, and no secret."""
    given = {
        name: value.replace(FILES, str(files)) if isinstance(value, str) else value
        for name, value in {**SERVERS, **extra}.items()
    }
    form = KafkaSettings("kafka_b", given).to_json()
    whole = f"Kafka at broker-1:9093,broker-2:9093 (kafka_b): {says.replace(FILES, str(files))}"
    assert describe_connection(form) == whole
    assert set(form) == {"connection", "bootstrap_servers", "protocol", "login"}
    text = json.dumps(form) + describe_connection(form)
    keys = ALICE.key_pem().splitlines()
    assert not [each for each in (PASSWORD, SECRET, KEY, *keys) if each in text]


def test_a_certificate_that_was_replaced_meanwhile(tmp_path: Path) -> None:
    """What is no certificate any more is not named; the login is refused when it is used."""
    chain, key = ALICE.write(tmp_path, "alice")
    extra = {"ssl.certificate.location": str(chain), "ssl.key.location": str(key)}
    kafka = KafkaSettings("k", {**SERVERS, "security.protocol": "SSL", **extra})
    Path(chain).write_text("no certificate")
    assert kafka.to_json()["login"] is None
