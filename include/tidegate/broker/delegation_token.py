"""Delegation tokens: Spark logs in to a cluster with one instead of the connection's own login."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tidegate import linear_regex
from tidegate.broker.mechanisms import mechanism_of
from tidegate.core.java_client import DelegationToken, addresses_of

_SWITCH = "tidegate.delegation_token"
_CLUSTER = f"{_SWITCH}.cluster"
_REGEX = f"{_SWITCH}.target_regex"
NAMES = (_SWITCH, _CLUSTER, _REGEX)
_ID = re.compile("[A-Za-z0-9_-]{1,64}")  # Spark ends the id at the first dot


def token_of(connection: str, extra: Mapping[str, Any]) -> DelegationToken | None:
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
        regex=str(extra.get(_REGEX) or "|".join(map(re.escape, addresses_of(servers)))),
        protocol=str(extra["security.protocol"]).upper(),
        mechanism=login.token_mechanism,
        settings=login.token_settings(extra),
        ca=extra.get("ssl.ca.location"),
        spark_login=login.spark_login(extra),
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
        addresses = addresses_of(servers)
        outside = [each for each in addresses if not linear_regex.fullmatch(str(regex), each)]
        if outside:
            found.append(f"{_REGEX}: {regex!r} does not match {', '.join(outside)}")
    return found


def is_on(given: Mapping[str, Any]) -> bool:
    """Return whether a connection asks for a token."""
    return str(given.get(_SWITCH, "false")).lower() == "true"


def _cluster(connection: str, given: Mapping[str, Any]) -> str:
    return str(given.get(_CLUSTER) or re.sub("[^A-Za-z0-9_-]", "-", connection))
