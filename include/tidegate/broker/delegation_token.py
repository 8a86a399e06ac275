"""Delegation tokens: Spark logs in to a cluster with one instead of the connection's own login."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate import linear_regex
from tidegate.broker.mechanisms import mechanism_of

_SWITCH = "tidegate.delegation_token"
_CLUSTER = f"{_SWITCH}.cluster"
_REGEX = f"{_SWITCH}.target_regex"
NAMES = (_SWITCH, _CLUSTER, _REGEX)
_ID = re.compile("[A-Za-z0-9_-]{1,64}")  # Spark ends the id at the first dot


@dataclass(frozen=True)
class DelegationToken:
    """What Spark has to know about the token of one cluster; nothing here is secret.

    `regex` selects the bootstrap addresses for which Spark uses the token. `mechanism` is the one
    with which the token logs in, always a SCRAM. `settings` are what that login needs of the
    connection's. `spark_login` has Spark's settings with which it obtains tokens itself, if the
    connection has them. `unknown_to_spark` are settings of the login that Spark cannot be given
    where it obtains the token itself.
    """

    connection: str
    cluster: str
    servers: str
    regex: str
    protocol: str
    mechanism: str
    settings: Mapping[str, str] = field(default_factory=dict)
    ca: str | None = None
    spark_login: Mapping[str, str] = field(default_factory=dict)
    unknown_to_spark: tuple[str, ...] = ()

    @property
    def addresses(self) -> list[str]:
        """Return the bootstrap addresses, as Spark separates them."""
        return _addresses(self.servers)

    def matches(self, address: str) -> bool:
        """Return whether Spark uses this token for a bootstrap address."""
        return linear_regex.fullmatch(self.regex, address)

    def conf(self) -> dict[str, str]:
        """Return the Spark settings `spark.kafka.clusters.<id>.*`, without secrets."""
        settings = {
            "auth.bootstrap.servers": self.servers,
            "target.bootstrap.servers.regex": self.regex,
            "security.protocol": self.protocol,
            "sasl.token.mechanism": self.mechanism,
            **self.settings,
        }
        if self.ca:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.ca}
        prefix = f"spark.kafka.clusters.{self.cluster}."
        return {prefix + name: value for name, value in settings.items()}


def of(connection: str, extra: Mapping[str, Any]) -> DelegationToken | None:
    """Return the token that a checked connection asks for, or None."""
    if not is_on(extra):
        return None
    servers = str(extra["bootstrap.servers"])
    login = mechanism_of(extra)
    assert login
    assert login.token_mechanism
    return DelegationToken(
        connection=connection,
        cluster=_cluster(connection, extra),
        servers=servers,
        regex=str(extra.get(_REGEX) or "|".join(map(re.escape, _addresses(servers)))),
        protocol=str(extra["security.protocol"]).upper(),
        mechanism=login.token_mechanism,
        settings=login.of_tokens(extra),
        ca=extra.get("ssl.ca.location"),
        spark_login=login.of_spark_itself(extra),
        # Of TLS, Spark's own login knows the CA's file.
        unknown_to_spark=tuple(
            name for name in extra if name.startswith("ssl.") and name != "ssl.ca.location"
        ),
    )


def complaints(connection: str, given: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a connection's settings for its token."""
    switch = str(given.get(_SWITCH, "false")).lower()
    if switch not in ("true", "false"):
        return [f"{_SWITCH}: {given[_SWITCH]!r} is not true or false"]
    if switch == "false":
        return [
            f"{name}: has no effect without {_SWITCH}: true" for name in NAMES[1:] if name in given
        ]
    found = []
    protocol = str(given.get("security.protocol", "PLAINTEXT")).upper()
    if not protocol.startswith("SASL_"):
        found.append(
            f"{_SWITCH}: a token logs in by SCRAM, and {protocol} has no login; use SASL_SSL"
        )
    login = mechanism_of(given)
    if login and not login.token_mechanism:
        found.append(f"{_SWITCH}: brokers that log in by {login.name} take no token on that port")
    cluster = _cluster(connection, given)
    if not _ID.fullmatch(cluster):
        found.append(f"{_CLUSTER}: {cluster!r}: not 1 to 64 letters, digits, _ and -")
    regex, servers = given.get(_REGEX), given.get("bootstrap.servers")
    if regex is None:
        return found
    if re.search(r"\(\?P|\\Z", str(regex)):  # Java's regular expressions have none
        return [*found, f"{_REGEX}: {regex!r}: (?P…) and \\Z mean nothing to Java; leave them out"]
    try:
        re.compile(str(regex))
        linear_regex.fullmatch(str(regex), "")
    except (re.error, ValueError) as error:
        return [*found, f"{_REGEX}: {regex!r} is no regular expression: {error}"]
    if isinstance(servers, str) and "@" not in servers:
        addresses = _addresses(servers)
        outside = [each for each in addresses if not linear_regex.fullmatch(str(regex), each)]
        if outside:
            found.append(f"{_REGEX}: {regex!r} does not match {', '.join(outside)}")
    return found


def is_on(given: Mapping[str, Any]) -> bool:
    """Return whether a connection asks for a token."""
    return str(given.get(_SWITCH, "false")).lower() == "true"


def _cluster(connection: str, given: Mapping[str, Any]) -> str:
    return str(given.get(_CLUSTER) or re.sub("[^A-Za-z0-9_-]", "-", connection))


def _addresses(servers: str) -> list[str]:
    return [part.strip() for part in servers.split(",") if part.strip()]
