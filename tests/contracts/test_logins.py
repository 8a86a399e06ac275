"""What every SASL mechanism owes a connection: the class `tidegate.broker.mechanism.Mechanism`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tidegate.broker.client_settings import KafkaSettings
from tidegate.broker.mechanism import Session
from tidegate.broker.mechanisms import MECHANISMS
from tidegate.broker.passwords import Plain
from tidegate.core.java_client import PrivateFiles
from tidegate.errors import ConfigurationError, TidegateError

SECRET = "5d0c3f7e9b8a4c61"
PASSWORD = {"sasl.username": "alice", "sasl.password": SECRET}
GIVEN: Mapping[str, Mapping[str, str]] = {
    "PLAIN": PASSWORD,
    "SCRAM-SHA-256": PASSWORD,
    "SCRAM-SHA-512": PASSWORD,
    "OAUTHBEARER": {
        "sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": "tidegate",
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.token.endpoint.url": f"https://idp/token?x={SECRET}",
        "https.ca.pem": "CA",
    },
    "AWS_MSK_IAM": {},
    "GSSAPI": {
        "sasl.kerberos.principal": "alice@EXAMPLE.COM", "sasl.kerberos.keytab": "DIRECTORY/keytab",
    },
    "TOY": PASSWORD,
}  # fmt: skip


class ToySession:
    error: TidegateError | None = None

    def arguments(self) -> dict[str, Any]:
        return {"sasl_mechanism": "TOY"}


class Toy(Plain):
    """A mechanism of these tests: one class, and its entry in the list."""

    name = "TOY"

    def session(self, given: Mapping[str, str], cluster: str) -> Session:
        del given, cluster
        return ToySession()

    def for_java(
        self, given: Mapping[str, str], files: PrivateFiles, cluster: str
    ) -> dict[str, str]:
        del cluster
        return {"kafka.sasl.jaas.config": files.add(".toy", given["sasl.password"].encode())}


@pytest.fixture(params=GIVEN)
def extra(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """The settings of a connection that logs in by each mechanism that there is."""
    monkeypatch.setattr("tidegate.broker.mechanisms.MECHANISMS", {**MECHANISMS, "TOY": Toy()})
    monkeypatch.setattr("tidegate.broker.security.MECHANISMS", {**MECHANISMS, "TOY": Toy()})
    monkeypatch.setattr(
        "tidegate.broker.oauth.trust_token_endpoint", lambda _: None
    )  # "CA" is none
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    (tmp_path / "keytab").write_bytes(b"\5\2")
    of_login = {k: v.replace("DIRECTORY", str(tmp_path)) for k, v in GIVEN[request.param].items()}
    return {
        "bootstrap.servers": "nowhere:1", "security.protocol": "SASL_SSL",
        "sasl.mechanism": request.param, **of_login,
    }  # fmt: skip


def test_the_list_is_what_these_tests_ask() -> None:
    assert {*MECHANISMS} == {*GIVEN} - {"TOY"}


def test_what_is_needed_is_named(extra: dict[str, str]) -> None:
    settings = KafkaSettings("k", extra)
    assert settings.mechanism is not None
    for name in settings.mechanism.needed:
        with pytest.raises(ConfigurationError, match=f"{name}: missing"):
            KafkaSettings("k", {key: value for key, value in extra.items() if key != name})


def test_what_another_mechanism_uses_is_refused(extra: dict[str, str]) -> None:
    own = KafkaSettings("k", extra).mechanism
    assert own is not None
    foreign = {n for m in MECHANISMS.values() for n in m.needed} - {*own.needed, *own.allowed}
    for name in foreign:
        with pytest.raises(ConfigurationError, match=f"{name}: {own.name} does not use it"):
            KafkaSettings("k", {**extra, name: "x"})


def test_who_logs_in_is_no_secret(extra: dict[str, str]) -> None:
    login = KafkaSettings("k", extra).to_json()["login"]
    assert login is not None
    assert login.startswith(extra["sasl.mechanism"])
    assert SECRET not in login


def test_java_is_given_contents_and_nothing_is_written(extra: dict[str, str]) -> None:
    """An engine puts the files where its driver finds them: a directory, or a volume of secrets."""
    client = KafkaSettings("k", extra).for_java(Path("/volume"))
    options = " ".join(client.options.values())
    assert client.options["kafka.sasl.mechanism"] == extra["sasl.mechanism"]
    assert client.options["kafka.sasl.jaas.config"]
    assert [name for name in client.files if f"/volume/{name}" not in options] == []
    assert bool(client.files) == (extra["sasl.mechanism"] in ("OAUTHBEARER", "TOY"))
    assert not Path("/volume").exists()
    assert SECRET not in repr(client)


def test_a_token_logs_in_by_a_mechanism_of_passwords(extra: dict[str, str]) -> None:
    """Or brokers give none to this login, and the connection may not ask for one."""
    asking = {**extra, "tidegate.delegation_token": "true"}
    mechanism = KafkaSettings("k", extra).mechanism
    assert mechanism is not None
    if mechanism.token_mechanism is None:
        with pytest.raises(ConfigurationError, match=f"log in by {mechanism.name} take no token"):
            KafkaSettings("k", asking)
    else:
        token = KafkaSettings("k", asking).delegation_token
        assert token is not None
        assert token.mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
