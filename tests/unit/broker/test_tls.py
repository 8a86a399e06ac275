"""Certificates and keys of a connection: what both clients get, and what is refused."""

import re
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

from support.certificates import EXPIRED, NOT_YET_VALID, Authority, Certificate
from tidegate.broker.client_settings import KafkaSettings
from tidegate.errors import ConfigurationError
from tidegate.launch.token_settings import client_options

PASSWORD = "hunter2"
TLS = {"bootstrap.servers": "broker:9093", "security.protocol": "SSL"}
AUTHORITY = Authority.create("Root")
ISSUER = Authority.create("Issuer", issuer=AUTHORITY)
SERVER = AUTHORITY.server()
RSA = ISSUER.client("alice", is_rsa=True)
EC = ISSUER.client("alice")


def given(certificate: Certificate = EC, **others: Any) -> dict[str, Any]:
    """Return a connection with this client certificate as text; `_` in a name stands for `.`."""
    texts = {"ssl_certificate_pem": certificate.chain_pem, "ssl_key_pem": certificate.key_pem()}
    extra = {"ssl_ca_pem": AUTHORITY.pem, **texts, **others}
    return TLS | {name.replace("_", "."): value for name, value in extra.items()}


def complaints(extra: dict[str, Any]) -> list[str]:
    with pytest.raises(ConfigurationError) as refused:
        KafkaSettings("k", extra)
    assert PASSWORD not in str(refused.value)
    assert "-----BEGIN" not in str(refused.value)
    return [line.removeprefix("  - ") for line in str(refused.value).splitlines()[1:]]


def peer_of(extra: dict[str, Any], tmp_path: Path, server: Certificate = SERVER) -> Any:
    """Return whom a server sees that demands a certificate of the authority."""
    listening = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    listening.load_cert_chain(*server.write(tmp_path, "server"))
    listening.verify_mode = ssl.CERT_REQUIRED
    listening.load_verify_locations(cadata=AUTHORITY.pem)
    context = KafkaSettings("k", extra).for_python()["ssl_context"]
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(to_client, to_server, server_hostname="localhost")
    served = listening.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, served, client, served):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return served.getpeercert()["subject"]


FORMS = {
    "PKCS#8, EC": lambda: given(EC),
    "SEC1": lambda: given(EC, ssl_key_pem=EC.key_pem(traditional=True)),
    "PKCS#8, RSA": lambda: given(RSA),
    "PKCS#1": lambda: given(RSA, ssl_key_pem=RSA.key_pem(traditional=True)),
    "PKCS#8, encrypted": lambda: given(
        RSA, ssl_key_pem=RSA.key_pem(password=PASSWORD), ssl_key_password=PASSWORD
    ),
    "PKCS#1, encrypted": lambda: given(
        RSA,
        ssl_key_pem=RSA.key_pem(traditional=True, password=PASSWORD),
        ssl_key_password=PASSWORD,
    ),
    "all in one file": lambda: given(
        EC, ssl_certificate_pem=EC.keystore_pem, ssl_key_pem=EC.chain_pem + EC.key_pem()
    ),
    "parameters of the curve": lambda: given(
        EC,
        ssl_key_pem="-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n"
        "-----END EC PARAMETERS-----\n" + EC.key_pem(traditional=True),
    ),
    "a password that is not needed": lambda: given(EC, ssl_key_password=PASSWORD),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_key_of_any_form_serves_both_clients(form: str, tmp_path: Path) -> None:
    """Python's TLS shows the certificate; Java gets PKCS#12 with the key and all of the chain."""
    extra = FORMS[form]()
    assert peer_of(extra, tmp_path) == ((("commonName", "alice"),),)
    private = tmp_path / "private"
    private.mkdir()
    options = client_options(KafkaSettings("k", extra), private)
    assert options["kafka.ssl.keystore.type"] == "PKCS12"
    store, password = Path(options["kafka.ssl.keystore.location"]), options[
        "kafka.ssl.keystore.password"
    ]  # fmt: skip
    assert store.parent == private
    assert store.stat().st_mode & 0o777 == 0o600
    held = pkcs12.load_pkcs12(store.read_bytes(), password.encode())
    certificate = RSA if "RSA" in form or "PKCS#1" in form or "encrypted" in form else EC
    assert held.key is not None
    assert held.key.public_key() == certificate.key.public_key()
    assert held.cert is not None
    chain = [held.cert.certificate, *(each.certificate for each in held.additional_certs)]
    assert chain == [certificate.certificate, *certificate.issuers]
    assert password != PASSWORD
    with pytest.raises(ValueError, match="password"):
        pkcs12.load_pkcs12(store.read_bytes(), PASSWORD.encode())


def test_texts_become_files_of_the_run_for_java_alone(tmp_path: Path) -> None:
    """Two connections of a run share no file."""
    private = tmp_path / "private"
    private.mkdir()
    kafka = KafkaSettings("k", given())
    kafka.for_python()
    assert list(private.iterdir()) == []
    first, second = client_options(kafka, private), client_options(kafka, private)
    assert first["kafka.ssl.truststore.type"] == "PEM"
    assert Path(first["kafka.ssl.truststore.location"]).read_text() == AUTHORITY.pem
    assert first["kafka.ssl.truststore.location"] != second["kafka.ssl.truststore.location"]
    assert {each.stat().st_mode & 0o777 for each in private.iterdir()} == {0o600}


def test_a_key_store_is_passed_on_to_java(tmp_path: Path) -> None:
    """Executors on other machines read it at its own path."""
    store = tmp_path / "client.p12"
    store.write_bytes(RSA.pkcs12(PASSWORD))
    keystore = {"ssl.keystore.location": str(store), "ssl.keystore.password": PASSWORD}
    extra = TLS | keystore | {"ssl.ca.pem": AUTHORITY.pem}
    assert peer_of(extra, tmp_path) == ((("commonName", "alice"),),)
    options = client_options(KafkaSettings("k", extra), tmp_path)
    assert options["kafka.ssl.keystore.location"] == str(store)
    assert options["kafka.ssl.keystore.password"] == PASSWORD
    store.write_bytes(RSA.pkcs12(None))  # Java needs a password
    del extra["ssl.keystore.password"]
    options = client_options(KafkaSettings("k", extra), tmp_path)
    assert options["kafka.ssl.keystore.location"] != str(store)
    assert options["kafka.ssl.keystore.password"]


@pytest.mark.parametrize("password", ["Schlüssel", " blank", "blank ", "two\nlines"])
def test_a_key_store_that_java_cannot_open_is_written_anew(tmp_path: Path, password: str) -> None:
    """Java takes ASCII alone, and Kafka's client takes off the blanks at both ends."""
    store = tmp_path / "client.p12"
    store.write_bytes(RSA.pkcs12(password))
    keystore = {"ssl.keystore.location": str(store), "ssl.keystore.password": password}
    options = client_options(
        KafkaSettings("k", TLS | keystore | {"ssl.ca.pem": AUTHORITY.pem}), tmp_path
    )
    written = Path(options["kafka.ssl.keystore.location"])
    new = options["kafka.ssl.keystore.password"]
    assert new.isascii()
    assert pkcs12.load_pkcs12(written.read_bytes(), new.encode()).cert is not None
    assert written != store


def test_files_are_read(tmp_path: Path) -> None:
    chain, key = EC.write(tmp_path, "client")
    (tmp_path / "ca.pem").write_text(AUTHORITY.pem)
    extra = TLS | {
        "ssl.ca.location": str(tmp_path / "ca.pem"),
        "ssl.certificate.location": str(chain),
        "ssl.key.location": str(key),
    }
    assert peer_of(extra, tmp_path) == ((("commonName", "alice"),),)


def test_a_broker_is_checked(tmp_path: Path) -> None:
    """Its authority, its dates and its name; the last only unless that is turned off."""
    for server in (
        Authority.create("Other").server(),
        AUTHORITY.server(days=EXPIRED),
        AUTHORITY.server(["elsewhere.example"]),
    ):
        with pytest.raises(ssl.SSLCertVerificationError):
            peer_of(given(), tmp_path, server)
    unchecked = given(ssl_endpoint_identification_algorithm="none")
    peer_of(unchecked, tmp_path, AUTHORITY.server(["elsewhere.example"]))
    with pytest.raises(ssl.SSLCertVerificationError):
        peer_of(unchecked, tmp_path, AUTHORITY.server(days=EXPIRED))


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        (given(ssl_key_pem=RSA.key_pem()), ["ssl.key.pem: it is not the key of the certificate"]),
        (given(ssl_certificate_pem="no"), ["ssl.certificate.pem: no certificate in PEM form"]),
        (given(ssl_key_pem="no"), ["ssl.key.pem: no private key in PEM form"]),
        (given(ssl_key_pem=EC.pem), ["ssl.key.pem: no private key in PEM form"]),
        (given(ssl_ca_pem=EC.key_pem()), ["ssl.ca.pem: no certificate in PEM form"]),
        (
            given(ssl_key_pem=EC.key_pem(password=PASSWORD)),
            ["ssl.key.password: missing: the key is encrypted"],
        ),
        (
            given(ssl_key_pem=EC.key_pem(password=PASSWORD), ssl_key_password="other"),
            ["ssl.key.password: it does not decrypt the key"],
        ),
        (
            given(ssl_certificate_pem=None),
            ["ssl.certificate.location: missing: a client needs it beside ssl.key.location"],
        ),
        (
            given(ssl_key_pem=None),
            ["ssl.key.location: missing: a client needs it beside ssl.certificate.location"],
        ),
        (
            given(ssl_certificate_pem="no", ssl_key_pem="no", ssl_ca_pem="no"),
            [
                "ssl.ca.pem: no certificate in PEM form",
                "ssl.certificate.pem: no certificate in PEM form",
                "ssl.key.pem: no private key in PEM form",
            ],
        ),
        (
            given(ssl_ca_location="/ca", ssl_key_location="/key"),
            [
                "ssl.ca.location, ssl.ca.pem: both are given",
                "ssl.key.location, ssl.key.pem: both are given",
            ],
        ),
        (
            given(ssl_key_pem=None, ssl_key_location=EC.key_pem()),
            ["ssl.key.location: not an absolute path; a text belongs in ssl.key.pem"],
        ),
        (
            given(ssl_keystore_location="/s"),
            ["ssl.certificate.pem: ssl.keystore.location holds key and certificate already"],
        ),
        (
            TLS | {"ssl.keystore.password": PASSWORD},
            ["ssl.keystore.password: has no effect without ssl.keystore.location"],
        ),
    ],
)
def test_what_cannot_be_used_is_named(extra: dict[str, Any], expected: list[str]) -> None:
    assert complaints(extra) == expected


@pytest.mark.parametrize(
    ("days", "expected"), [(EXPIRED, "expired at"), (NOT_YET_VALID, "is not valid before")]
)
def test_a_certificate_out_of_its_time(days: tuple[int, int], expected: str) -> None:
    """A broker would refuse it, without a reason."""
    (told,) = complaints(given(AUTHORITY.client("alice", days=days)))
    assert re.fullmatch(rf"ssl\.certificate\.pem: the certificate {expected} \d{{4}}-.*Z", told)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("none.p12", "No such file or directory"),
        ("directory", "Is a directory"),
        ("client.pem", "no PKCS#12 key store, or ssl.keystore.password is not its password"),
        ("client.p12", "no PKCS#12 key store, or ssl.keystore.password is not its password"),
        ("ca.p12", "it holds no private key with its certificate"),
        ("expired.p12", "the certificate expired at"),
    ],
)
def test_key_stores_that_cannot_be_used(name: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "client.pem").write_text(EC.keystore_pem)
    (tmp_path / "client.p12").write_bytes(EC.pkcs12("another"))
    expired = AUTHORITY.client("alice", days=EXPIRED)
    (tmp_path / "expired.p12").write_bytes(expired.pkcs12(PASSWORD))
    trusted = pkcs12.serialize_java_truststore(
        [pkcs12.PKCS12Certificate(AUTHORITY.certificate, b"ca")],
        BestAvailableEncryption(PASSWORD.encode()),
    )
    (tmp_path / "ca.p12").write_bytes(trusted)
    store = {"ssl.keystore.location": str(tmp_path / name), "ssl.keystore.password": PASSWORD}
    (told,) = complaints(TLS | store)
    assert told.startswith(f"ssl.keystore.location: {tmp_path / name}: {expected}")


def test_files_that_are_missing_are_all_named(tmp_path: Path) -> None:
    names = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")
    told = complaints(TLS | {name: f"/none/{name}" for name in names})
    assert told == [f"{name}: /none/{name}: No such file or directory" for name in names]


def test_a_certificate_that_was_replaced_by_an_unusable_one(tmp_path: Path) -> None:
    """Between the check and the use: named with the connection."""
    chain, key = EC.write(tmp_path, "client")
    files = {"ssl.certificate.location": str(chain), "ssl.key.location": str(key)}
    kafka = KafkaSettings("kafka_x", TLS | files)
    key.write_text(RSA.key_pem())
    with pytest.raises(ConfigurationError, match=r"'kafka_x'.*not the key of the certificate"):
        kafka.for_python()
    with pytest.raises(ConfigurationError, match=r"'kafka_x'.*not the key of the certificate"):
        client_options(kafka, tmp_path)


def test_the_key_is_on_no_disk_for_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file that is opened for writing is in memory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    KafkaSettings("k", given()).for_python()
    assert list(tmp_path.iterdir()) == []
