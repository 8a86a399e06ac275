"""A Kafka connection: its settings are checked, and translated for kafka-python and Spark."""

from __future__ import annotations

import copy
import logging
import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from tidegate.broker import delegation_token, security, tls
from tidegate.broker.mechanism import Mechanism, Session
from tidegate.broker.mechanisms import mechanism_of
from tidegate.core.java_client import DelegationToken, JavaClient, PrivateFiles
from tidegate.errors import ConfigurationError, TidegateError
from tidegate.settings.setting import Place
from tidegate.settings.table import find_setting

# The settings besides those of security, with the names of Airflow's Kafka provider. Nothing else
# is passed on: a client option can run code (login modules, interceptors).
NAMES = ("bootstrap.servers", "client.id", "request.timeout.ms")
_SERVER = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:/\[\],@]+):([0-9]{1,5})")
_TIMEOUT = (501, 539_999)  # kafka-python: above the wait of a fetch, below that of an idle socket

_AS_FILES = {
    "ssl.ca.pem": "ssl.ca.location",
    "ssl.key.pem": "ssl.keystore.location and ssl.keystore.password",
    "ssl.key.location": "ssl.keystore.location and ssl.keystore.password",
    "https.ca.pem": "https.ca.location",
    "tidegate.oauthbearer.token.callable": "tidegate.oauthbearer.token.file",
}
"""Settings that become files for Java's client, and those that name a file which is there."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class KafkaSettings:
    """A connection's settings. `repr` shows no values, which may be secrets.

    Raises ConfigurationError with all complaints about them at once.
    """

    connection: str
    extra: Mapping[str, Any] = field(repr=False)
    client: str = ""
    """What the clients call themselves if the connection has no `client.id`."""
    tries: int | None = None
    """Of a look-up of offsets, and of the connecting before it. None: Tidegate decides."""
    pause: float = 1.0
    """Seconds between such tries."""

    def __post_init__(self) -> None:
        given = normalise_settings(self.connection, self.extra)
        if ignored := sorted(given.keys() - {*NAMES, *security.NAMES}):
            logger.info("connection %s: settings that are not used: %s", self.connection, ignored)
        object.__setattr__(self, "extra", given)

    @property
    def bootstrap_servers(self) -> str:
        return str(self.extra["bootstrap.servers"])

    def used_by(self, client: str, tries: int | None = None, pause: float = 1.0) -> Self:
        """Return the same settings, and logins that were made, for clients of this name."""
        other = copy.copy(self)
        vars(other).update(client=client, tries=tries, pause=pause)
        return other

    def client_id(self, name: str) -> str:
        """Return the connection's client id, for which a quota may be, or else this name."""
        return str(self.extra.get("client.id", name))

    @property
    def options(self) -> dict[str, str]:
        """The settings besides those of login and cluster, as options of Spark's source."""
        return options_of(self.extra)

    @property
    def cluster(self) -> str:
        """Return the cluster as error messages name it."""
        return f"Kafka at {self.bootstrap_servers} ({self.connection})"

    def to_json(self) -> dict[str, str | None]:
        """Return which cluster it is, the protocol, and who logs in. Nothing of it is secret."""
        return {
            "connection": self.connection,
            "bootstrap_servers": self.bootstrap_servers,
            "protocol": self.extra.get("security.protocol", "PLAINTEXT"),
            "login": security.login(self.extra),
        }

    @property
    def mechanism(self) -> Mechanism | None:
        """How clients log in. None: not at all, or by certificate."""
        return mechanism_of(self.extra)

    @property
    def delegation_token(self) -> DelegationToken | None:
        """Return the token with which Spark is to log in. None: with the connection's login."""
        return delegation_token.token_of(self.connection, self.extra)

    @cached_property
    def ssl_context(self) -> ssl.SSLContext | None:
        """Return the certificates and checks of TLS. None without TLS."""
        if not self.extra.get("security.protocol", "").endswith("SSL"):
            return None
        with self._unusable():
            return tls.make_context(self.extra)

    def unchecked_context(self) -> ssl.SSLContext | None:
        """Return a context that accepts any broker, for a connection that sends nothing.

        It shows the client's certificate, as the broker may demand. None without TLS.
        """
        if not self.ssl_context:
            return None
        with self._unusable():
            context = tls.make_context(self.extra)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context

    @property
    def login_error(self) -> TidegateError | None:
        """Return why the last login failed before a broker was asked. None if it did not."""
        return self._session.error if self._session else None

    @cached_property
    def _session(self) -> Session | None:
        return self.mechanism.session(self.extra, self.cluster) if self.mechanism else None

    def for_python(self) -> dict[str, Any]:
        """Return the arguments of a kafka-python client.

        A login by token or ticket is tried: NotAuthenticated if it is refused, BrokerUnreachable if
        the token endpoint or the KDC does not answer.
        """
        arguments: dict[str, Any] = {"bootstrap_servers": self.bootstrap_servers}
        if name := self.client_id(self.client):
            arguments["client_id"] = name
        if protocol := self.extra.get("security.protocol"):
            arguments["security_protocol"] = str(protocol)
        if timeout := self.extra.get("request.timeout.ms"):
            arguments["request_timeout_ms"] = int(timeout)
        if self.ssl_context:
            arguments["ssl_context"] = self.ssl_context
        return arguments | (self._session.arguments() if self._session else {})

    def for_java(self, directory: Path) -> JavaClient:
        """Return what Java's client needs. What it reads from files only will be in `directory`.

        That is a directory which nobody else can read, and which lives as long as the application.
        """
        extra = {key: str(value) for key, value in self.extra.items()}
        options = {"kafka.bootstrap.servers": extra["bootstrap.servers"], **self.options}
        for key in ("security.protocol", "sasl.mechanism"):
            if key in extra:
                options[f"kafka.{key}"] = extra[key]
        files = PrivateFiles(directory)
        with self._unusable():
            if self.ssl_context:
                options |= tls.for_java(extra, files)
            if self.mechanism:
                options |= self.mechanism.for_java(extra, files, self.cluster)
        instead = {name: others for name, others in _AS_FILES.items() if name in extra}
        return JavaClient(options, files.contents, instead)

    @property
    def java_options(self) -> tuple[str, ...]:
        """The options that each JVM needs for the login."""
        return self.mechanism.java_options() if self.mechanism else ()

    @contextmanager
    def _unusable(self) -> Iterator[None]:
        """Name the connection whose certificates were replaced by unusable ones."""
        try:
            yield
        except tls.Unusable as error:
            text = "; ".join(error.args)
            raise ConfigurationError(f"Kafka connection {self.connection!r}: {text}") from None


def options_of(extra: Mapping[str, Any]) -> dict[str, str]:
    """Return what checked settings have for Spark's source, besides login and cluster."""
    timeout = extra.get("request.timeout.ms")
    return {"kafka.request.timeout.ms": str(timeout)} if timeout else {}


def normalise_settings(connection: str, extra: Any, *, here: bool = True) -> dict[str, Any]:
    """Return a connection's settings in their usual form, without empty ones.

    Raises ConfigurationError with all complaints. Without `here`, nothing on this machine is looked
    at: neither files that the settings name, nor variables.
    """
    if not isinstance(extra, Mapping):
        raise ConfigurationError(
            f"Kafka connection {connection!r}: its extra is not a mapping of settings"
        )
    # An empty field of a form is a setting that is not given.
    given = {key: value for key, value in extra.items() if value not in (None, "")}
    for old in list(given):
        setting = find_setting(Place.CONNECTION, str(old))
        if setting and setting.becomes and setting.becomes not in given:
            given[setting.becomes] = given.pop(old)
            if here:
                logger.info("connection %s: %s is read as %s", connection, old, setting.becomes)
    complaints = [
        *security.resolve_aliases(given),
        *_server_complaints(given.get("bootstrap.servers")),
        *security.complaints(given),
        *(security.unusable(given) if here else ()),
        *_timeout_complaints(given.get("request.timeout.ms")),
        *delegation_token.complaints(connection, given),
    ]
    if complaints:
        listed = "\n".join(f"  - {each}" for each in complaints)
        raise ConfigurationError(f"Kafka connection {connection!r}:\n{listed}")
    if protocol := given.get("security.protocol"):
        given["security.protocol"] = protocol.upper()  # kafka-python knows only this form
    return given


def describe_connection(form: Mapping[str, str | None]) -> str:
    """Return the text of a connection's `to_json`."""
    return (
        f"Kafka at {form['bootstrap_servers']} ({form['connection']}): {form['protocol']}, "
        f"{form['login'] or 'no login'}"
    )


def _server_complaints(servers: Any) -> list[str]:
    """Return what is wrong with the broker addresses: both clients must read the same."""
    if servers is None:
        return [
            'bootstrap.servers: missing: the extra is {"bootstrap.servers": "host:9092", …}, with '
            "the names of Kafka's clients"
        ]
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


def _timeout_complaints(timeout: Any) -> list[str]:
    low, high = _TIMEOUT
    whole = isinstance(timeout, int | str) and re.fullmatch("[0-9]{1,9}", str(timeout))
    if timeout is None or (whole and low <= int(timeout) <= high):
        return []
    return [f"request.timeout.ms: {timeout!r}: not a whole number between {low} and {high}"]
