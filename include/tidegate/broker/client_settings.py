"""A Kafka connection: its settings are checked, and translated for kafka-python and Spark."""

from __future__ import annotations

import logging
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate.errors import ConfigurationError

# Name in the connection (as in Airflow's Kafka provider) → kafka-python's. Nothing else is passed
# on: a client option can run code (login modules, interceptors). Other security settings are
# refused.
_PYTHON_NAMES = {
    "bootstrap.servers": "bootstrap_servers",
    "client.id": "client_id",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "request.timeout.ms": "request_timeout_ms",
}
_SECURITY = ("security.", "sasl.", "ssl.", "enable.ssl.", "https.")
# What both clients always do: this value is accepted, another one is refused.
_FIXED = {
    "ssl.endpoint.identification.algorithm": "https",
    "enable.ssl.certificate.verification": "true",
}
_INTEGERS = {"request.timeout.ms"}
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_LOGIN = ("sasl.mechanism", "sasl.username", "sasl.password")
_SERVER = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:/\[\],@]+):([0-9]{1,5})")
_TIMEOUT = (501, 539_999)  # kafka-python: above the wait of a fetch, below that of an idle socket
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class KafkaSettings:
    """A connection's settings; `repr` shows no values, which may be secrets.

    Raises ConfigurationError with all complaints about them at once.
    """

    connection: str
    extra: Mapping[str, Any] = field(repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.extra, Mapping):
            raise ConfigurationError(
                f"Kafka connection {self.connection!r}: its extra is not a mapping of settings"
            )
        # An empty field of a form is a setting that is not given.
        given = {key: value for key, value in self.extra.items() if value not in (None, "")}
        complaints = _resolved(given)
        unknown = sorted(given.keys() - _PYTHON_NAMES.keys())
        complaints += [
            f"{key}: not among the security settings that Tidegate can give to both its clients;"
            f" known: {', '.join(_PYTHON_NAMES)}"
            for key in unknown
            if key.startswith(_SECURITY)
        ]
        if ignored := [key for key in unknown if not key.startswith(_SECURITY)]:
            logger.info("connection %s: settings that are not used: %s", self.connection, ignored)
        complaints += [
            *_server_complaints(given.get("bootstrap.servers")),
            *_security_complaints(given),
            *_timeout_complaints(given.get("request.timeout.ms")),
        ]
        if complaints:
            listed = "\n".join(f"  - {each}" for each in complaints)
            raise ConfigurationError(f"Kafka connection {self.connection!r}:\n{listed}")
        if protocol := given.get("security.protocol"):
            given["security.protocol"] = protocol.upper()  # kafka-python knows only this form
        object.__setattr__(self, "extra", given)

    @property
    def bootstrap_servers(self) -> str:
        return str(self.extra["bootstrap.servers"])

    @property
    def cluster(self) -> str:
        """Return the cluster as error messages name it."""
        return f"Kafka at {self.bootstrap_servers} ({self.connection})"

    def for_python(self) -> dict[str, Any]:
        """Return the arguments of a kafka-python client."""
        return {
            name: int(self.extra[key]) if key in _INTEGERS else str(self.extra[key])
            for key, name in _PYTHON_NAMES.items()
            if key in self.extra
        }

    def for_spark(self) -> dict[str, str]:
        """Return the `kafka.*` options of Spark's source; they hold the secrets."""
        extra = {key: str(value) for key, value in self.extra.items()}
        options = {"kafka.bootstrap.servers": extra["bootstrap.servers"]}
        for key in ("security.protocol", "sasl.mechanism", "request.timeout.ms"):
            if key in extra:
                options[f"kafka.{key}"] = extra[key]
        if "sasl.mechanism" in extra:
            module = _LOGIN_MODULES[extra["sasl.mechanism"]]
            username = _jaas_quoted(extra.get("sasl.username", ""))
            password = _jaas_quoted(extra.get("sasl.password", ""))
            options["kafka.sasl.jaas.config"] = (
                f"{module} required username={username} password={password};"
            )
        if "ssl.ca.location" in extra:
            options["kafka.ssl.truststore.type"] = "PEM"
            options["kafka.ssl.truststore.location"] = extra["ssl.ca.location"]
        return options


def _resolved(given: dict[str, Any]) -> list[str]:
    """Replace aliases and drop settings without effect, in place; return what contradicts."""
    complaints = []
    alias = given.pop("sasl.mechanisms", None)  # librdkafka's name
    if alias is not None and given.setdefault("sasl.mechanism", alias) != alias:
        complaints.append("sasl.mechanism, sasl.mechanisms: both are given, and differ")
    for key, value in _FIXED.items():
        if key in given and str(given.pop(key)).lower() != value:
            complaints.append(f"{key}: only {value!r}, the default: the check is always made")
    return complaints


def _server_complaints(servers: Any) -> list[str]:
    """Return what is wrong with the broker addresses: both clients must read the same."""
    if servers is None:
        return ["bootstrap.servers: missing"]
    if "@" in str(servers):  # not quoted: what stands before it is a login
        return [
            "bootstrap.servers: holds a '@': not host:port, several with commas; a login belongs"
            " in sasl.username and sasl.password"
        ]
    each = [part.strip() for part in servers.split(",")] if isinstance(servers, str) else []
    wrong = [
        part
        for part in filter(None, each)
        if not (match := _SERVER.fullmatch(part)) or not 0 < int(match[1]) < 2**16
    ]
    if wrong or not any(each):
        complaint = f"bootstrap.servers: {wrong or servers!r}: not host:port, several with commas"
        if any("://" in part for part in wrong):
            complaint += "; the protocol belongs in security.protocol: leave out what ends with ://"
        return [complaint]
    return []


def _security_complaints(given: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with protocol, login and CA, and what the protocol would ignore."""
    protocol = given.get("security.protocol", "PLAINTEXT")
    if not isinstance(protocol, str) or protocol.upper() not in _PROTOCOLS:
        return [f"security.protocol: {protocol!r} is not one of {', '.join(_PROTOCOLS)}"]
    protocol = protocol.upper()
    complaints = []
    mechanism = given.get("sasl.mechanism")
    if mechanism is not None and str(mechanism) not in _LOGIN_MODULES:
        complaints.append(f"sasl.mechanism: {mechanism!r} is not one of {list(_LOGIN_MODULES)}")
    by_default = "" if "security.protocol" in given else ", the protocol if none is given,"
    for key in _LOGIN:
        if protocol.startswith("SASL") and key not in given:
            complaints.append(f"{key}: missing: {protocol} needs it")
        elif not protocol.startswith("SASL") and key in given:
            complaints.append(f"{key}: {protocol}{by_default} has no login; did you mean SASL_SSL?")
    if (ca := given.get("ssl.ca.location")) is None:
        return complaints
    if not protocol.endswith("SSL"):
        return [
            *complaints,
            f"ssl.ca.location: {protocol}{by_default} does not encrypt; did you mean SASL_SSL?",
        ]
    return [*complaints, *_ca_complaints(str(ca))]


def _ca_complaints(path: str) -> list[str]:
    try:
        # Not get_ca_certs(): it leaves out a self-signed certificate that is no CA's.
        if not ssl.create_default_context(cafile=path).cert_store_stats()["x509"]:
            raise ssl.SSLError
    except ssl.SSLError:  # an OSError without a text
        return [f"ssl.ca.location: {path}: no certificate in PEM form"]
    except (OSError, ValueError) as error:
        return [f"ssl.ca.location: {path}: {getattr(error, 'strerror', None) or error}"]
    return []


def _timeout_complaints(timeout: Any) -> list[str]:
    low, high = _TIMEOUT
    whole = isinstance(timeout, int | str) and re.fullmatch("[0-9]{1,9}", str(timeout))
    if timeout is None or (whole and low <= int(timeout) <= high):
        return []
    return [f"request.timeout.ms: {timeout!r}: not a whole number between {low} and {high}"]


def _jaas_quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
