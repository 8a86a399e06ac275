"""Certificates made by the tests: authorities, servers, clients, and their keys in every form."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
VALID = (-1, 365)
"""From when to when a certificate is valid, in days from now."""
EXPIRED = (-30, -1)
NOT_YET_VALID = (1, 30)
_SIGNS = x509.KeyUsage(
    key_cert_sign=True,
    crl_sign=True,
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)


@dataclass(frozen=True)
class Certificate:
    """A certificate, its private key, and the certificates of its issuers, nearest first."""

    certificate: x509.Certificate
    key: Key
    issuers: tuple[x509.Certificate, ...] = ()

    @property
    def pem(self) -> str:
        """Return the certificate alone in PEM form."""
        return self.certificate.public_bytes(Encoding.PEM).decode()

    @property
    def chain_pem(self) -> str:
        """Return the certificate and its issuers in PEM form, as a server or client sends them."""
        return "".join(
            each.public_bytes(Encoding.PEM).decode() for each in (self.certificate, *self.issuers)
        )

    @property
    def keystore_pem(self) -> str:
        """Return key (PKCS#8, not encrypted) and chain: a PEM key store as Kafka reads it."""
        return self.key_pem() + self.chain_pem

    def key_pem(self, *, traditional: bool = False, password: str | None = None) -> str:
        """Return the key in PEM form: PKCS#8, or PKCS#1 (RSA) and SEC1 (EC); encrypted or not."""
        form = PrivateFormat.TraditionalOpenSSL if traditional else PrivateFormat.PKCS8
        return self.key.private_bytes(Encoding.PEM, form, _encryption(password)).decode()

    def pkcs12(self, password: str | None) -> bytes:
        """Return key and chain as a PKCS#12 key store; Java needs one with a password."""
        return pkcs12.serialize_key_and_certificates(
            b"key", self.key, self.certificate, self.issuers, _encryption(password)
        )

    def write(self, directory: Path, name: str) -> tuple[Path, Path]:
        """Write NAME.pem (the chain) and NAME.key (PKCS#8, not encrypted); return their paths."""
        chain, key = directory / f"{name}.pem", directory / f"{name}.key"
        chain.write_text(self.chain_pem)
        key.touch(0o600)
        key.write_text(self.key_pem())
        return chain, key


class Authority(Certificate):
    """A certificate authority; without an issuer it signs itself."""

    @classmethod
    def create(cls, name: str = "Test CA", *, issuer: Authority | None = None) -> Authority:
        """Return a new authority, with a key of its own."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = _certificate(name, key, issuer, VALID, ca=True)
        return cls(made, key, issuer.chain if issuer else ())

    @property
    def chain(self) -> tuple[x509.Certificate, ...]:
        """Return the certificates of this authority and of its issuers."""
        return (self.certificate, *self.issuers)

    def server(
        self,
        hosts: Sequence[str] = LOCAL_HOSTS,
        *,
        days: tuple[int, int] = VALID,
        is_rsa: bool = False,
    ) -> Certificate:
        """Return a server's certificate for these host names and addresses."""
        return self._sign(hosts[0], hosts, days, is_rsa, ExtendedKeyUsageOID.SERVER_AUTH)

    def client(
        self, name: str, *, days: tuple[int, int] = VALID, is_rsa: bool = False
    ) -> Certificate:
        """Return a client's certificate; its principal in Kafka is `User:CN=<name>`."""
        return self._sign(name, (), days, is_rsa, ExtendedKeyUsageOID.CLIENT_AUTH)

    def _sign(
        self,
        name: str,
        hosts: Sequence[str],
        days: tuple[int, int],
        is_rsa: bool,
        usage: x509.ObjectIdentifier,
    ) -> Certificate:
        key: Key = (
            rsa.generate_private_key(65537, 2048)
            if is_rsa
            else ec.generate_private_key(ec.SECP256R1())
        )
        made = _certificate(name, key, self, days, hosts=hosts, usage=usage)
        return Certificate(made, key, self.chain)


def _certificate(
    name: str,
    key: Key,
    issuer: Authority | None,
    days: tuple[int, int],
    *,
    ca: bool = False,
    hosts: Sequence[str] = (),
    usage: x509.ObjectIdentifier | None = None,
) -> x509.Certificate:
    now = dt.datetime.now(dt.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer = issuer.key if issuer else key
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + dt.timedelta(days[0]))
        .not_valid_after(now + dt.timedelta(days[1]))
        .add_extension(x509.BasicConstraints(ca, None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    if ca:
        builder = builder.add_extension(_SIGNS, critical=True)
    if hosts:
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    if usage:
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    return builder.sign(signer, hashes.SHA256())


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _encryption(password: str | None) -> KeySerializationEncryption:
    return BestAvailableEncryption(password.encode()) if password else NoEncryption()
