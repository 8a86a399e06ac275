"""The Kafka connection for what a text says about its cluster, without any secret of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from tidegate.settings.kafka_clients import SECURITY

_BROKERS = ("bootstrap.servers", "metadata.broker.list", "broker.list")
_PREFIXES = ("ssl.", "sasl.", "security.", "https.", "enable.ssl.")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_SERVERS = re.compile(r"[\w.-]+:\d{1,5}(\s*,\s*[\w.-]+:\d{1,5})*", re.ASCII)
_FILE = re.compile(r"/[\w./-]{1,200}", re.ASCII)
_WORD = re.compile(r"[a-z][a-z0-9-]{0,40}")
_LOGINS = {
    "PLAIN": {"sasl.username": "USERNAME", "sasl.password": "PASSWORD"},
    "SCRAM-SHA-256": {"sasl.username": "USERNAME", "sasl.password": "PASSWORD"},
    "SCRAM-SHA-512": {"sasl.username": "USERNAME", "sasl.password": "PASSWORD"},
    "GSSAPI": {"sasl.kerberos.principal": "PRINCIPAL", "sasl.kerberos.keytab": "/CLIENT.keytab"},
    "OAUTHBEARER": {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "CLIENT_ID",
        "sasl.oauthbearer.client.secret": "CLIENT_SECRET",
        "sasl.oauthbearer.token.endpoint.url": "https://TOKEN_ENDPOINT",
    },
    "AWS_MSK_IAM": {},
}


def belongs(name: str) -> bool:
    """Return whether a client's setting, without `kafka.`, belongs in the connection."""
    return name in SECURITY or name in _BROKERS or name.startswith(_PREFIXES)


def command(given: Mapping[str, str], connection: str = "kafka_default") -> list[str]:
    """Return the command that defines the connection, and remarks, as lines.

    Words in capitals stand for what is a secret, or what the given settings do not say.
    """
    remarks: list[str] = []
    extra = _extra(given, remarks)
    form = json.dumps({"conn_type": "kafka", "extra": extra})
    return [f"airflow connections add {connection} --conn-json '{form}'", *remarks]


def _extra(given: Mapping[str, str], remarks: list[str]) -> dict[str, str]:
    """Return the connection's settings, by the names that Tidegate has for them."""
    servers = next((given[name] for name in _BROKERS if name in given), "")
    extra = {"bootstrap.servers": servers if _SERVERS.fullmatch(servers) else "HOST:PORT"}
    mechanism = given.get("sasl.mechanism", given.get("sasl.mechanisms", ""))
    protocol = given.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in _PROTOCOLS:
        protocol = "PROTOCOL"
    if protocol != "PLAINTEXT":
        extra["security.protocol"] = protocol
    if "SASL" in protocol:
        mechanism = mechanism if mechanism in _LOGINS else "" if mechanism else "GSSAPI"
        extra["sasl.mechanism"] = mechanism or "MECHANISM"
        extra |= _LOGINS.get(mechanism, {})
        service = given.get("sasl.kerberos.service.name", "")
        if mechanism == "GSSAPI" and _WORD.fullmatch(service):
            extra["sasl.kerberos.service.name"] = service
    if protocol.endswith("SSL"):
        _add_tls(extra, given, remarks)
    return extra


def _add_tls(extra: dict[str, str], given: Mapping[str, str], remarks: list[str]) -> None:
    if any(name.startswith(("ssl.truststore.", "ssl.ca.")) for name in given):
        file = given.get("ssl.ca.location") or given.get("ssl.truststore.location", "")
        is_pem = "ssl.ca.location" in given or given.get("ssl.truststore.type", "").upper() == "PEM"
        extra["ssl.ca.location"] = file if is_pem and _FILE.fullmatch(file) else "/CA.pem"
        if not is_pem:
            remarks.append(
                "The CA is a PEM file: keytool -exportcert -rfc -keystore TRUSTSTORE -alias ALIAS"
            )
    if any(name.startswith(("ssl.keystore.", "ssl.certificate.")) for name in given):
        file = given.get("ssl.keystore.location", "")
        is_p12 = given.get("ssl.keystore.type", "").upper() == "PKCS12"
        extra["ssl.keystore.location"] = file if is_p12 and _FILE.fullmatch(file) else "/CLIENT.p12"
        extra["ssl.keystore.password"] = "PASSWORD"
        if not is_p12:
            remarks.append(
                "The key store is PKCS#12: keytool -importkeystore -srckeystore KEYSTORE "
                "-destkeystore CLIENT.p12 -deststoretype PKCS12"
            )
    if given.get("ssl.endpoint.identification.algorithm", "https").strip() in ("", "none"):
        extra["ssl.endpoint.identification.algorithm"] = "none"
