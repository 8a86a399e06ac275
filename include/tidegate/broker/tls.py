"""Certificates and keys of a connection: checked, for Python's TLS, and as files for Java."""

from __future__ import annotations

import datetime as dt
import os
import re
import secrets
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tidegate.core.java_client import PrivateFiles

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12PrivateKeyTypes

_IDENTITY = (
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
    "ssl.key.password",
)
_KEYSTORE = ("ssl.keystore.location", "ssl.keystore.password")
# A file may hold more: certificates, parameters of a curve.
_KEY = re.compile(
    rb"-----BEGIN ([A-Z ]*)PRIVATE KEY-----(?:(?!-----BEGIN ).)+?-----END \1PRIVATE KEY-----",
    re.DOTALL,
)
_HOST_CHECK = "ssl.endpoint.identification.algorithm"
_PATHS = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", _KEYSTORE[0])
NAMES = ("ssl.ca.location", "ssl.ca.pem", *_IDENTITY, *_KEYSTORE, _HOST_CHECK)


class Unusable(Exception):
    """Certificates or keys cannot be used. Its arguments are the complaints."""


@dataclass(frozen=True)
class _Identity:
    """A client's private key, and its certificate with those of the issuers behind it."""

    key: PKCS12PrivateKeyTypes
    chain: tuple[x509.Certificate, ...]


def not_a_path(given: Mapping[str, Any], name: str) -> str | None:
    """Return what is wrong with a setting that is no absolute path, which it may be by mistake.

    It is not quoted: it may be the key itself.
    """
    value = given.get(name)
    if value is None or re.fullmatch("/[^\r\n]*", value):
        return None
    text = name.replace(".location", ".pem")
    hint = f"; a text belongs in {text}" if "-----" in value and text != name else ""
    return f"{name}: not an absolute path{hint}"


def complaints(given: Mapping[str, Any]) -> list[str]:
    """Return which settings of certificates and keys are wrong. No file is read."""
    wrong = [
        f"{name}.location, {name}.pem: both are given"
        for name in ("ssl.ca", "ssl.certificate", "ssl.key")
        if f"{name}.location" in given and f"{name}.pem" in given
    ]
    if given.get(_HOST_CHECK, "https").lower() not in ("https", "none"):
        wrong.append(f"{_HOST_CHECK}: {given[_HOST_CHECK]!r} is neither https nor none")
    wrong += filter(None, (not_a_path(given, name) for name in _PATHS))
    return wrong


def unusable(given: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the certificates and keys themselves."""
    wrong: list[str] = []
    if complaints(given):
        return wrong
    try:
        trust_authority(_empty(), given, "ssl.ca")
    except Unusable as error:
        wrong += error.args
    try:
        _identity(given)
    except Unusable as error:
        wrong += error.args
    return wrong


def certificate_subject(given: Mapping[str, Any]) -> str | None:
    """Return whom the client's certificate names, like `CN=alice`. None without a usable one."""
    try:
        identity = _identity(given)
    except Unusable:
        return None
    return identity.chain[0].subject.rfc4514_string() if identity else None


def make_context(given: Mapping[str, str]) -> ssl.SSLContext:
    """Return what a client of this connection needs for TLS. Nothing is written to a disk.

    Raises Unusable.
    """
    made = _empty()
    trust_authority(made, given, "ssl.ca")
    if identity := _identity(given):
        _present(made, identity, _where(given, "ssl.certificate"))
    if given.get(_HOST_CHECK, "").lower() == "none":
        made.check_hostname = False
    return made


def for_java(given: Mapping[str, str], files: PrivateFiles) -> dict[str, str]:
    """Return the options of Java's client. What it cannot read as given is one of `files`.

    A key is written as PKCS#12 with a random password, which is in the options alone: without them
    the file is of no use to anybody. Raises Unusable.
    """
    options = {}
    if certificates := ca_file(given, files, "ssl.ca"):
        options = {
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": certificates,
        }
    store, password = given.get(_KEYSTORE[0]), given.get(_KEYSTORE[1])
    if not (store and _suits_java(password)) and (identity := _identity(given)):
        password = secrets.token_urlsafe(24)
        store = files.add(".p12", _pkcs12(identity, password))
    if store and password:
        options["kafka.ssl.keystore.type"] = "PKCS12"
        options["kafka.ssl.keystore.location"] = store
        options["kafka.ssl.keystore.password"] = password
    if given.get(_HOST_CHECK, "").lower() == "none":
        options[f"kafka.{_HOST_CHECK}"] = ""
    return options


def _suits_java(password: str | None) -> bool:
    """Return whether Java opens a store with it: ASCII, whose outer blanks Kafka takes off."""
    text = password or ""
    return bool(text) and text.isascii() and text.isprintable() and text == text.strip()


def ca_file(given: Mapping[str, str], files: PrivateFiles, name: str) -> str | None:
    """Return a PEM file of the CA that Java reads. None if none is given."""
    if (text := given.get(f"{name}.pem")) is None:
        return given.get(f"{name}.location")
    return files.add(".pem", text.encode())


def trust_authority(context: ssl.SSLContext, given: Mapping[str, Any], name: str) -> None:
    """Trust the CA that the settings `name`.location or `name`.pem give, else the system's.

    Raises Unusable.
    """
    path, text = given.get(f"{name}.location"), given.get(f"{name}.pem")
    if not path and not text:
        context.load_default_certs()
        return
    where = _where(given, name)
    try:
        ascii_only = text and text.encode("ascii", "replace").decode()
        context.load_verify_locations(cafile=path, cadata=ascii_only)
        # Not get_ca_certs(): it leaves out a self-signed certificate that is no CA's.
        if not context.cert_store_stats()["x509"]:
            raise ssl.SSLError
    except ssl.SSLError:  # an OSError without a text
        raise Unusable(f"{where}: no certificate in PEM form") from None
    except (OSError, ValueError) as error:
        raise Unusable(f"{where}: {_reason(error)}") from None


def _empty() -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    return made


def _where(given: Mapping[str, Any], name: str) -> str:
    """Return how a complaint names a setting: with the path, never with a text."""
    if _KEYSTORE[0] in given and not name.endswith(".ca"):
        name = "ssl.keystore"
    path = given.get(f"{name}.location")
    return f"{name}.location: {path}" if path else f"{name}.pem"


def _reason(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)


def _identity(given: Mapping[str, Any]) -> _Identity | None:
    """Return the client's key and certificates, None if none is given; raises Unusable."""
    pem = [name for name in _IDENTITY if name in given]
    if any(name in given for name in _KEYSTORE):
        if pem:
            raise Unusable(f"{pem[0]}: ssl.keystore.location holds key and certificate already")
        found = _from_keystore(given)
    elif pem:
        found = _from_pem(given)
    else:
        return None
    where, (key, leaf) = _where(given, "ssl.certificate"), (found.key, found.chain[0])
    wrong = []
    if key.public_key() != leaf.public_key():
        wrong.append(f"{_where(given, 'ssl.key')}: it is not the key of the certificate")
    now = dt.datetime.now(dt.UTC)
    if leaf.not_valid_after_utc < now:
        wrong.append(f"{where}: the certificate expired at {leaf.not_valid_after_utc:%FT%TZ}")
    if leaf.not_valid_before_utc > now:
        wrong.append(
            f"{where}: the certificate is not valid before {leaf.not_valid_before_utc:%FT%TZ}"
        )
    if wrong:
        raise Unusable(*wrong)
    _present(_empty(), found, where)
    return found


def _from_pem(given: Mapping[str, Any]) -> _Identity:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    wrong: list[str] = []
    chain: tuple[x509.Certificate, ...] = ()
    key: PKCS12PrivateKeyTypes | None = None
    try:
        chain = tuple(x509.load_pem_x509_certificates(_content(given, "ssl.certificate")))
    except Unusable as error:
        wrong += error.args
    except ValueError:
        wrong.append(f"{_where(given, 'ssl.certificate')}: no certificate in PEM form")
    password = given.get("ssl.key.password")
    try:
        pem = _KEY.search(_content(given, "ssl.key"))
        is_encrypted = pem is not None and b"ENCRYPTED" in pem[0]
        if is_encrypted and password is None:
            wrong.append("ssl.key.password: missing: the key is encrypted")
        else:
            secret = password.encode() if is_encrypted and password else None
            loaded = load_pem_private_key(pem[0] if pem else b"", secret)
            key = cast("PKCS12PrivateKeyTypes", loaded)
    except Unusable as error:
        wrong += error.args
    except ValueError as error:
        if "password" in str(error):
            wrong.append("ssl.key.password: it does not decrypt the key")
        else:
            wrong.append(f"{_where(given, 'ssl.key')}: no private key in PEM form")
    except Exception as error:  # of a kind that `cryptography` does not know
        wrong.append(f"{_where(given, 'ssl.key')}: {type(error).__name__}")
    if wrong or key is None:
        raise Unusable(*wrong)
    return _Identity(key, chain)


def _from_keystore(given: Mapping[str, Any]) -> _Identity:
    from cryptography.hazmat.primitives.serialization import pkcs12

    path, password = given.get(_KEYSTORE[0]), given.get(_KEYSTORE[1])
    if path is None:
        raise Unusable(f"{_KEYSTORE[1]}: has no effect without {_KEYSTORE[0]}")
    where = f"{_KEYSTORE[0]}: {path}"
    try:
        found = pkcs12.load_pkcs12(
            Path(path).read_bytes(), None if password is None else password.encode()
        )
    except OSError as error:
        raise Unusable(f"{where}: {_reason(error)}") from None
    except Exception:
        raise Unusable(
            f"{where}: no PKCS#12 key store, or {_KEYSTORE[1]} is not its password"
        ) from None
    if found.key is None or found.cert is None:
        raise Unusable(f"{where}: it holds no private key with its certificate")
    others = tuple(each.certificate for each in found.additional_certs)
    key = cast("PKCS12PrivateKeyTypes", found.key)
    return _Identity(key, (found.cert.certificate, *others))


def _content(given: Mapping[str, Any], name: str) -> bytes:
    path, text = given.get(f"{name}.location"), given.get(f"{name}.pem")
    if text is not None:
        return str(text).encode()
    if path is None:
        other = "ssl.key" if name == "ssl.certificate" else "ssl.certificate"
        raise Unusable(f"{name}.location: missing: a client needs it beside {other}.location")
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise Unusable(f"{name}.location: {path}: {_reason(error)}") from None


def _present(context: ssl.SSLContext, identity: _Identity, where: str) -> None:
    """Make the context show the client's certificate. Raises Unusable if OpenSSL refuses it."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = identity.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = b"".join(each.public_bytes(Encoding.PEM) for each in identity.chain)
    # OpenSSL reads a file only: this one is in memory, and gone when it is closed.
    with os.fdopen(os.memfd_create("tidegate"), "wb") as file:
        file.write(key + chain)
        file.flush()
        try:
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
        except ssl.SSLError as error:
            raise Unusable(f"{where}: TLS does not take it: {error.reason}") from None


def _pkcs12(identity: _Identity, password: str) -> bytes:
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    leaf, *others = identity.chain
    return pkcs12.serialize_key_and_certificates(
        b"key", identity.key, leaf, others, BestAvailableEncryption(password.encode())
    )
