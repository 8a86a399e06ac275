"""A Kafka connection: what is wrong is a ConfigurationError before any client is made."""

import logging
import ssl
from pathlib import Path
from typing import Any

import pytest

from support.certificates import Authority
from tidegate.broker.client_settings import KafkaSettings
from tidegate.errors import ConfigurationError
from tidegate.launch.token_settings import client_options
from tidegate.settings.setting import Place
from tidegate.settings.table import find_setting

PASSWORD = "hunter2"
LOGIN = {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": PASSWORD}
SERVER = {"bootstrap.servers": "broker:9092"}
# Self-signed, without basicConstraints, as keytool makes it: TLS trusts it when it is pinned.
PINNED = """\
-----BEGIN CERTIFICATE-----
MIIBYzCCAQmgAwIBAgIUEahpBf0steGIdeeMjEUS9DubrPQwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMjA1NDQ1MVoYDzIxMjYxMDI5
MDU0NDUxWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAR8EBLciSLs19pZeY2myjK69nlZs1TMLgv8mdNOhUk1/sxKs/MWob7v
izvERa8OsESEk08G1RpKp82Xh6caVsCxozcwNTAUBgNVHREEDTALgglsb2NhbGhv
c3QwHQYDVR0OBBYEFMoRg9wUH56uLSDN3MhC3JLf5nt8MAoGCCqGSM49BAMCA0gA
MEUCIQC0ZwVEbI6gKifgEmojL3+r7xJuCkMaSc6j8ee8eChhcAIgGAPMhOi4wApI
OcrCEkXcE7JpgdtEQ8LAxXhuBt/j4uA=
-----END CERTIFICATE-----
"""


AUTHORITY = Authority.create()
OIDC = {"method": "oidc", "client.id": "a", "client.secret": PASSWORD,
        "token.endpoint.url": "https://issuer/token"}  # fmt: skip
WAYS: list[dict[str, Any]] = [
    {**SERVER, "request.timeout.ms": 9000},
    {**SERVER, **LOGIN, "security.protocol": "SASL_SSL", "ssl.ca.pem": AUTHORITY.pem,
     "ssl.endpoint.identification.algorithm": "none"},
    {**SERVER, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER",
     **{f"sasl.oauthbearer.{name}": value for name, value in OIDC.items()}},
]  # fmt: skip


@pytest.fixture
def ca(tmp_path: Path) -> Path:
    """A file with a certificate in PEM form."""
    path = tmp_path / "ca.pem"
    path.write_text(AUTHORITY.pem)
    return path


def complaints(**extra: Any) -> str:
    """Return what is wrong with a connection whose keys are given with _ for a dot."""
    given = {n if "." in n else n.replace("_", "."): value for n, value in extra.items()}
    with pytest.raises(ConfigurationError) as refused:
        KafkaSettings("kafka_default", {**SERVER, **given})
    assert refused.value.exit_code == 2
    assert PASSWORD not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("protocol", ["SASL_SLL", "TLS", "sasl-ssl", "SASL_SSL ", 5, True, ["SSL"]])
def test_an_unknown_protocol_is_never_taken_for_plaintext(protocol: Any) -> None:
    """kafka-python would connect in clear, and send the password."""
    told = complaints(security_protocol=protocol, **LOGIN)
    assert "security.protocol: not one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL" in told


@pytest.mark.parametrize("mechanism", ["plain", "NTLM", ["PLAIN"], {"PLAIN": 1}, 5])
def test_an_unknown_mechanism_is_named(mechanism: Any) -> None:
    login = {**LOGIN, "sasl.mechanism": mechanism}
    assert "sasl.mechanism: " in complaints(security_protocol="SASL_PLAINTEXT", **login)


@pytest.mark.parametrize("pasted", [PASSWORD, {"password": PASSWORD}, [PASSWORD]])
def test_a_secret_in_the_wrong_field_is_not_quoted(pasted: Any) -> None:
    """`complaints` looks for it; the nearest value is named in its place."""
    assert "security.protocol: not one of" in complaints(security_protocol=pasted)
    login = {**LOGIN, "sasl.mechanism": pasted}
    assert "sasl.mechanism: " in complaints(security_protocol="SASL_SSL", **login)
    assert "; did you mean 'SASL_SSL'?" in complaints(security_protocol="sasl_sll")


def test_a_protocol_may_be_written_small(tmp_path: Path) -> None:
    """Other clients take it; kafka-python takes it for plaintext."""
    for protocol in ("sasl_plaintext", "Sasl_Plaintext"):
        kafka = KafkaSettings("k", {**SERVER, "security.protocol": protocol, **LOGIN})
        assert kafka.for_python()["security_protocol"] == "SASL_PLAINTEXT"
        assert client_options(kafka, tmp_path)["kafka.security.protocol"] == "SASL_PLAINTEXT"


@pytest.mark.parametrize(
    ("login", "missing"),
    [
        ({}, ["sasl.mechanism", "sasl.username", "sasl.password"]),
        ({"sasl.mechanism": "PLAIN"}, ["sasl.username", "sasl.password"]),
        ({**LOGIN, "sasl.username": ""}, ["sasl.username"]),
        ({**LOGIN, "sasl.password": None}, ["sasl.password"]),
    ],
)
def test_sasl_needs_mechanism_user_and_password(login: dict[str, Any], missing: list[str]) -> None:
    """All that is missing is named, empty values too."""
    told = complaints(security_protocol="SASL_PLAINTEXT", **login)
    assert [line.strip() for line in told.splitlines()[1:]] == [
        f"- {name}: missing: SASL_PLAINTEXT needs it" for name in missing
    ]


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        (LOGIN, "sasl.mechanism: PLAINTEXT, the protocol if none is given, has no login"),
        ({"security.protocol": "", **LOGIN}, "has no login"),
        ({"security.protocol": "PLAINTEXT", **LOGIN}, "sasl.password: PLAINTEXT has no login"),
        ({"security.protocol": "SSL", **LOGIN}, "sasl.username: SSL has no login"),
        ({"ssl.ca.location": "/ca"}, "ssl.ca.location: PLAINTEXT, the protocol if none is given"),
        ({"ssl.key.pem": PASSWORD}, "ssl.key.pem: PLAINTEXT, the protocol if none is given"),
        ({"sasl.kerberos.keytab": "/k"}, "sasl.kerberos.keytab: PLAINTEXT, the protocol if none"),
        (
            {"security.protocol": "SASL_PLAINTEXT", **LOGIN, "ssl.ca.location": "/ca"},
            "ssl.ca.location: SASL_PLAINTEXT does not encrypt",
        ),
    ],
)
def test_settings_that_the_protocol_would_ignore_are_refused(
    extra: dict[str, Any], expected: str
) -> None:
    """A login without SASL, a CA without TLS: something else was meant than plaintext."""
    assert expected in complaints(**extra)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("none.pem", "no such file"),
        ("directory", "Is a directory"),
        ("empty.pem", "no certificate in PEM form"),
        ("key.pem", "no certificate in PEM form"),
    ],
)
def test_a_ca_that_cannot_be_used_is_said_at_once(tmp_path: Path, name: str, expected: str) -> None:
    """Missing, or without a certificate: no broker needs to be asked."""
    (tmp_path / "directory").mkdir()
    (tmp_path / "empty.pem").touch()
    (tmp_path / "key.pem").write_text(AUTHORITY.pem.replace("CERTIFICATE", "PRIVATE KEY"))
    told = complaints(security_protocol="SSL", ssl_ca_location=str(tmp_path / name))
    assert f"ssl.ca.location: {tmp_path / name}: " in told
    assert expected.lower() in told.lower()


def test_a_pinned_certificate_is_accepted(tmp_path: Path) -> None:
    """It is no CA's, and Python's list of CA certificates does not show it."""
    path = tmp_path / "pinned.pem"
    path.write_text(PINNED)
    assert not ssl.create_default_context(cafile=path).get_ca_certs()
    extra = {**SERVER, "security.protocol": "SSL", "ssl.ca.location": str(path)}
    assert KafkaSettings("k", extra).for_python()["ssl_context"].cert_store_stats()["x509"] == 1


def test_the_mechanism_has_two_names(tmp_path: Path) -> None:
    """librdkafka's `sasl.mechanisms` gives both clients the same; two that differ are refused."""
    login = {**SERVER, "security.protocol": "SASL_PLAINTEXT", **LOGIN}
    named = {key: value for key, value in login.items() if key != "sasl.mechanism"}
    for extra in ({**named, "sasl.mechanisms": "PLAIN"}, {**login, "sasl.mechanisms": "PLAIN"}):
        kafka, expected = KafkaSettings("k", extra), KafkaSettings("k", login)
        assert kafka.for_python() == expected.for_python()
        assert client_options(kafka, tmp_path) == client_options(expected, tmp_path)
    told = complaints(security_protocol="SASL_PLAINTEXT", **LOGIN, sasl_mechanisms="SCRAM-SHA-256")
    assert "sasl.mechanism, sasl.mechanisms: both are given, and differ" in told
    told = complaints(security_protocol="SASL_PLAINTEXT", **{**LOGIN, "sasl.mechanism": "X"})
    assert "sasl.mechanism: not one of" in told
    assert "has no login" in complaints(sasl_mechanisms="PLAIN")


@pytest.mark.parametrize("value", [True, "true", "True"])
def test_the_check_of_certificates_may_be_named(value: Any, tmp_path: Path) -> None:
    """The default changes nothing."""
    extra = {**SERVER, "security.protocol": "SSL"}
    kafka = KafkaSettings("k", {**extra, "enable.ssl.certificate.verification": value})
    assert kafka.ssl_context is not None
    assert kafka.ssl_context.verify_mode is ssl.CERT_REQUIRED
    assert client_options(kafka, tmp_path) == client_options(KafkaSettings("k", extra), tmp_path)


@pytest.mark.parametrize("value", [False, "false", 1, "no", " "])
def test_the_check_of_certificates_cannot_be_turned_off(value: Any) -> None:
    told = complaints(security_protocol="SSL", enable_ssl_certificate_verification=value)
    assert "enable.ssl.certificate.verification: only 'true'" in told


@pytest.mark.parametrize("value", ["https", "HTTPS"])
def test_the_check_of_host_names_is_the_default(value: str, tmp_path: Path) -> None:
    extra = {**SERVER, "security.protocol": "SSL"}
    for kafka in (
        KafkaSettings("k", extra),
        KafkaSettings("k", {**extra, "ssl.endpoint.identification.algorithm": value}),
    ):
        assert kafka.for_python()["ssl_context"].check_hostname
        assert "kafka.ssl.endpoint.identification.algorithm" not in client_options(kafka, tmp_path)


def test_the_check_of_host_names_can_be_turned_off_and_no_other(tmp_path: Path) -> None:
    """The certificate is still checked; another word is refused."""
    extra = {**SERVER, "security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "none"}
    kafka = KafkaSettings("k", extra)
    context = kafka.for_python()["ssl_context"]
    assert (context.check_hostname, context.verify_mode) == (False, ssl.CERT_REQUIRED)
    options = client_options(kafka, tmp_path)
    assert options["kafka.ssl.endpoint.identification.algorithm"] == ""
    for other in ("http", "no", False, " "):
        told = complaints(security_protocol="SSL", ssl_endpoint_identification_algorithm=other)
        assert "ssl.endpoint.identification.algorithm: " in told


def test_a_whole_connection(ca: Path, tmp_path: Path) -> None:
    """Both clients are given the same."""
    extra = {
        "security.protocol": "SASL_SSL", **LOGIN, "ssl.ca.location": str(ca),
        "request.timeout.ms": "9000", "bootstrap.servers": "a:1, [::1]:9092,b_c.d-e:65535",
        "client.id": None,
    }  # fmt: skip
    kafka = KafkaSettings("k", extra)
    assert kafka.for_python() == {
        "bootstrap_servers": "a:1, [::1]:9092,b_c.d-e:65535", "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN", "sasl_plain_username": "u", "sasl_plain_password": PASSWORD,
        "ssl_context": kafka.ssl_context, "request_timeout_ms": 9000,
    }  # fmt: skip
    assert client_options(kafka, tmp_path) == {
        "kafka.bootstrap.servers": "a:1, [::1]:9092,b_c.d-e:65535",
        "kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN",
        "kafka.request.timeout.ms": "9000", "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(ca),
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule"
        f' required username="u" password="{PASSWORD}";',
    }  # fmt: skip
    assert PASSWORD not in repr(kafka)


@pytest.mark.parametrize(
    ("mechanism", "user"),
    [("SCRAM-SHA-256", "a=2Cb=3Dc"), ("SCRAM-SHA-512", "a=2Cb=3Dc"), ("PLAIN", "a,b=c")],
)
def test_a_user_name_of_scram_may_hold_commas_and_equals_signs(
    mechanism: str, user: str, tmp_path: Path
) -> None:
    """RFC 5802 has them escaped, which Java's client does and kafka-python does not."""
    login = {**LOGIN, "sasl.username": "a,b=c", "sasl.mechanism": mechanism}
    kafka = KafkaSettings("k", {**SERVER, **login, "security.protocol": "SASL_PLAINTEXT"})
    assert kafka.for_python()["sasl_plain_username"] == user
    assert 'username="a,b=c"' in client_options(kafka, tmp_path)["kafka.sasl.jaas.config"]
    assert kafka.to_json()["login"] == f"{mechanism} as a,b=c"


def test_a_password_is_quoted_for_java(tmp_path: Path) -> None:
    login = {**LOGIN, "sasl.password": 'a"b\\c\nd', "security.protocol": "SASL_PLAINTEXT"}
    options = client_options(KafkaSettings("k", {**SERVER, **login}), tmp_path)
    assert 'password="a\\"b\\\\c\\nd";' in options["kafka.sasl.jaas.config"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("sasl.jaas.config", "it may name any class to run"),
        ("sasl.login.callback.handler.class", "it names code to run"),
        ("sasl.client.callback.handler.class", "it names code to run"),
        ("sasl.kerberos.kinit.cmd", "it is a command to run"),
        ("ssl.truststore.location", "give the CA in PEM form by ssl.ca.location"),
        ("ssl.keystore.type", "a key store is PKCS#12"),
        ("ssl.keystore.key", "give ssl.keystore.location"),
        ("ssl.engine.location", "a library"),
        ("ssl.crl.location", "Java has no such setting"),
        ("enable.sasl.oauthbearer.unsecure.jwt", "without a signature"),
        ("ssl.cipher.suites", "not among the security settings"),
        ("ssl.ca.locaton", "; did you mean 'ssl.ca.location'?"),
        ("tidegate.tokens", "not among the security settings"),
    ],
)
def test_what_is_not_supported_is_refused_by_name_and_reason(name: str, reason: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        KafkaSettings("k", {**SERVER, "security.protocol": "SSL", name: PASSWORD})
    assert f"{name}: " in str(refused.value)
    assert reason in str(refused.value)
    assert PASSWORD not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("SECURITY.PROTOCOL", "; did you mean 'security.protocol'?"),
        (" security.protocol", "; did you mean 'security.protocol'?"),
        ("kafka.security.protocol", "; did you mean 'security.protocol'?"),
        ("security_protocol", "; did you mean 'security.protocol'?"),
        ("Ssl.CA.location", "; did you mean 'ssl.ca.location'?"),
        ("ssl.ca.location ", "; did you mean 'ssl.ca.location'?"),
        ("sasl_plain_password", "; did you mean 'sasl.password'?"),
        ("KAFKA_SASL_PASSWORD", "; did you mean 'sasl.password'?"),
        ("SASL.MECHANISMS", "; did you mean 'sasl.mechanism'?"),
        ("tidegate_delegation_token", "; did you mean 'tidegate.delegation_token'?"),
        ("Enable_SSL_certificate_verification", "not among the security settings"),
        ("kafka.sasl.jaas.config", "it may name any class to run"),
        ("ssl_truststore_location", "give the CA in PEM form by ssl.ca.location"),
    ],
)
def test_a_security_setting_that_is_written_differently_is_refused(name: str, reason: str) -> None:
    """Ignored, it would leave a connection in clear, without a login or with any CA: no error."""
    with pytest.raises(ConfigurationError) as refused:
        KafkaSettings("k", {**SERVER, name: PASSWORD})
    assert f"  - {name!r}: " in str(refused.value)
    assert reason in str(refused.value)
    assert PASSWORD not in str(refused.value)


def test_settings_of_other_clients_that_protect_nothing_are_ignored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level("INFO"):
        KafkaSettings("k", {**SERVER, "group.id": "g", "kafka.linger.ms": 5, "sslish": "x"})
    assert "settings that are not used: ['group.id', 'kafka.linger.ms', 'sslish']" in caplog.text


def test_all_complaints_come_at_once() -> None:
    told = complaints(
        bootstrap_servers="broker", request_timeout_ms="soon", security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-512", sasl_password=PASSWORD, ssl_ca_location="/none.pem",
        ssl_key_location="/none.key", ssl_cipher_suites="x",
    )  # fmt: skip
    assert [line.split(":")[0].strip(" -") for line in told.splitlines()[1:]] == [
        "bootstrap.servers", "ssl.cipher.suites", "sasl.username", "ssl.ca.location",
        "ssl.certificate.location", "ssl.key.location", "request.timeout.ms",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"sasl.mechanism": "GSSAPI", "sasl.username": "u"}, "sasl.username: GSSAPI does not use"),
        ({**LOGIN, "sasl.kerberos.keytab": "/k"}, "sasl.kerberos.keytab: PLAIN does not use it"),
        ({**LOGIN, "sasl.oauthbearer.scope": "s"}, "sasl.oauthbearer.scope: PLAIN does not use it"),
        ({"sasl.oauthbearer.scope": "s"}, "sasl.mechanism: missing"),
        ({**LOGIN, "sasl.password": [PASSWORD]}, "sasl.password: neither a text nor a number"),
    ],
)
def test_settings_that_the_mechanism_would_ignore_are_refused(
    given: dict[str, Any], expected: str
) -> None:
    assert expected in complaints(security_protocol="SASL_PLAINTEXT", **given)


@pytest.mark.parametrize("value", ["soon", "1s", 1.5, True, " ", 0, -1, 500, 540_000, "1e4"])
def test_a_time_out_is_a_number_that_clients_take(value: Any) -> None:
    told = complaints(request_timeout_ms=value)
    assert "between 501" in told


@pytest.mark.parametrize(
    "servers",
    [
        "broker", "broker:", "broker:word", "broker:0", "broker:65536", ":9092", "a:1,b",
        "PLAINTEXT://broker:9092", "bro ker:9092", ["broker:9092"], 9092, ",", "::1:9092",
    ],
)  # fmt: skip
def test_servers_are_hosts_with_ports(servers: Any) -> None:
    """kafka-python would guess, or say that no broker answered."""
    assert "bootstrap.servers: " in complaints(bootstrap_servers=servers)


@pytest.mark.parametrize(
    "servers",
    [
        f"SASL_SSL://user:{PASSWORD}@b:9092", f"user:{PASSWORD}@b:9092", f"{PASSWORD}@b:9092",
        f"user:{PASSWORD},x@b:9092", [f"user:{PASSWORD}@b:9092"], f"a:1,b,user:{PASSWORD}@b:9092",
    ],
)  # fmt: skip
def test_a_login_in_an_address_is_refused_and_not_shown(servers: Any) -> None:
    """Nowhere in an address, nor in the other addresses: a comma may be part of the password."""
    assert "bootstrap.servers: holds a '@'" in complaints(bootstrap_servers=servers)


def test_the_right_form_of_a_listener_is_named() -> None:
    told = complaints(bootstrap_servers="PLAINTEXT://b:9092")
    assert "'PLAINTEXT://b:9092'" in told
    assert "the protocol belongs in security.protocol: leave out what ends with ://" in told


@pytest.mark.parametrize("extra", [[], "text", 5, ["bootstrap.servers"]])
def test_an_extra_that_is_no_mapping_is_refused(extra: Any) -> None:
    with pytest.raises(ConfigurationError, match="not a mapping"):
        KafkaSettings("k", extra)


@pytest.mark.parametrize("old", ["metadata.broker.list", "Broker.List"])
def test_old_names_of_the_brokers(old: str, caplog: pytest.LogCaptureFixture) -> None:
    """Read as bootstrap.servers, with a line in the log; beside it they are ignored."""
    with caplog.at_level(logging.INFO):
        kafka = KafkaSettings("k", {old: "a:1,b:2"})
        both = KafkaSettings("k", {old: "a:1", "bootstrap.servers": "c:3"})
    assert kafka.bootstrap_servers == "a:1,b:2"
    assert f"connection k: {old} is read as bootstrap.servers" in caplog.text
    assert both.bootstrap_servers == "c:3"
    assert f"settings that are not used: ['{old}']" in caplog.text
    with pytest.raises(ConfigurationError, match="not host:port"):
        KafkaSettings("k", {old: "a"})


def test_names_of_a_consumers_connection_are_ignored(caplog: pytest.LogCaptureFixture) -> None:
    """A team's connection works unchanged: one line names what is not used."""
    extra = {
        "bootstrap.servers": "b:1", "group.id": "g", "auto.offset.reset": "beginning",
        "enable.auto.commit": True,
    }  # fmt: skip
    with caplog.at_level(logging.INFO):
        kafka = KafkaSettings("k", extra)
    (line,) = caplog.messages
    assert line.endswith("not used: ['auto.offset.reset', 'enable.auto.commit', 'group.id']")
    assert kafka.for_python() == {"bootstrap_servers": "b:1"}
    assert client_options(kafka, Path("/p")) == {"kafka.bootstrap.servers": "b:1"}


@pytest.mark.parametrize("given", WAYS, ids=lambda each: each.get("sasl.mechanism", "none"))
def test_what_spark_gets_is_for_the_connection_alone(given: dict[str, Any], tmp_path: Path) -> None:
    """A pipeline's options can neither hide nor repeat a setting of it."""
    options = client_options(KafkaSettings("k", given), tmp_path)
    for name in options.keys() - {"kafka.request.timeout.ms"}:
        setting = find_setting(Place.SOURCE, name)
        assert setting is not None
        assert setting.use == "the Kafka connection"
