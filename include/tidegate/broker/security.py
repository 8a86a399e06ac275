"""Protocols and mechanisms of a Kafka connection: which settings belong together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tidegate.broker import delegation_token, tls
from tidegate.broker.mechanisms import MECHANISMS, mechanism_of
from tidegate.core.nearest import did_you_mean

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


_PASSWORD = ("sasl.username", "sasl.password")
_LOGIN = {"sasl.mechanism", *(n for m in MECHANISMS.values() for n in (*m.needed, *m.allowed))}
CERTIFICATES = ("ssl.certificate.location", "ssl.certificate.pem", "ssl.keystore.location")
NAMES = ("security.protocol", *sorted(_LOGIN), *tls.NAMES, *delegation_token.NAMES)
ALIASES = {"sasl.mechanisms": "sasl.mechanism"}
"""Names of librdkafka → those of both clients here."""
_PREFIXES = ("security.", "sasl.", "ssl.", "enable.ssl.", "enable.sasl.", "https.", "tidegate.")
# Settings of other clients, by the beginning of their names → why they are refused.
_REFUSED = {
    "sasl.jaas.config": "it may name any class to run; give sasl.mechanism and its settings",
    "sasl.login.": "it names code to run; give sasl.mechanism and its settings",
    "sasl.client.callback.": "it names code to run; give sasl.mechanism and its settings",
    **{start: why for each in MECHANISMS.values() for start, why in each.refused.items()},
    "ssl.truststore.": "give the CA in PEM form by ssl.ca.location",
    "ssl.keystore.type": "a key store is PKCS#12; convert others (keytool -importkeystore)",
    "ssl.keystore.": "give ssl.keystore.location, or certificate and key in PEM form",
    "ssl.engine.": "it names a library to run",
    "ssl.provider": "it names a library to run",
    "ssl.crl.location": "Java has no such setting, and both clients must make the same checks",
}
_NOT_FOR_BOTH = "not among the security settings that Tidegate can give to both its clients"


def resolve_aliases(given: dict[str, Any]) -> list[str]:
    """Replace aliases and drop settings without effect, in place. Return what contradicts."""
    complaints = []
    for alias, name in ALIASES.items():
        value = given.pop(alias, None)
        if value is not None and given.setdefault(name, value) != value:
            complaints.append(f"{name}, {alias}: both are given, and differ")
    if str(given.pop("enable.ssl.certificate.verification", True)).lower() != "true":
        complaints.append(
            "enable.ssl.certificate.verification: only 'true', the default: the check is always"
            " made"
        )
    for key in sorted(given.keys() & set(NAMES) - {"security.protocol"}):
        if isinstance(given[key], str | int | float):
            given[key] = str(given[key])
        else:
            complaints.append(f"{key}: neither a text nor a number")
            del given[key]
    return complaints


def complaints(given: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with the settings of protocol, login and certificates.

    And those that would be ignored. No file is read.
    """
    found = [_unknown(key) for key in sorted(given)]
    wrong = [complaint for complaint in found if complaint]
    protocol = given.get("security.protocol", "PLAINTEXT")
    if not isinstance(protocol, str) or protocol.upper() not in PROTOCOLS:
        near = did_you_mean(str(protocol).upper(), PROTOCOLS)  # no value is quoted
        return [*wrong, f"security.protocol: not one of {', '.join(PROTOCOLS)}{near}"]
    protocol = protocol.upper()
    by_default = "" if "security.protocol" in given else ", the protocol if none is given,"
    wrong += _login(given, protocol, by_default)
    if protocol.endswith("SSL"):
        return [*wrong, *tls.complaints(given)]
    hint = "SASL_SSL" if "sasl.mechanism" in given else "SSL"
    return wrong + [
        f"{key}: {protocol}{by_default} does not encrypt; did you mean {hint}?"
        for key in tls.NAMES
        if key in given
    ]


def unusable(given: Mapping[str, Any]) -> list[str]:
    """Return what is wrong on this machine: with the files and variables that settings name."""
    protocol = str(given.get("security.protocol", "")).upper()
    wrong = tls.unusable(given) if protocol in PROTOCOLS and protocol.endswith("SSL") else []
    mechanism = mechanism_of(given) if protocol.startswith("SASL") else None
    if mechanism and protocol in PROTOCOLS:
        wrong += mechanism.unusable(given)
    return wrong


def _unknown(key: str) -> str | None:
    """Return why a security setting is refused. None if it is known, or not about security.

    In capitals, with blanks around it, with `_` or as `kafka.…` it is one, too: were it ignored,
    the connection would be less protected than its settings say.
    """
    usual = re.sub("[_-]", ".", key.strip().lower()).removeprefix("kafka.")
    if key in NAMES or not usual.startswith(_PREFIXES):
        return None
    shown = key if key == usual else repr(key)
    if reason := _reason(usual):
        return f"{shown}: refused: {reason}"
    return f"{shown}: {_NOT_FOR_BOTH}{did_you_mean(usual, NAMES)}"


def setting_refusal(name: str) -> str | None:
    """Return why a setting of this name is refused in a connection. None if it is not."""
    return (_reason(name) or _NOT_FOR_BOTH) if _unknown(name) else None


def _reason(name: str) -> str | None:
    return next((why for start, why in _REFUSED.items() if name.startswith(start)), None)


def _login(given: Mapping[str, Any], protocol: str, by_default: str) -> Iterator[str]:
    named = [key for key in sorted(_LOGIN) if key in given]
    if not protocol.startswith("SASL"):
        for key in named:
            yield f"{key}: {protocol}{by_default} has no login; did you mean SASL_SSL?"
        return
    name = given.get("sasl.mechanism")
    if name is None:
        yield f"sasl.mechanism: missing: {protocol} needs it"
        needed: tuple[str, ...] = () if set(named) - set(_PASSWORD) else _PASSWORD
    elif (mechanism := MECHANISMS.get(name)) is None:
        yield f"sasl.mechanism: not one of {', '.join(MECHANISMS)}{did_you_mean(name, MECHANISMS)}"
        return
    else:
        needed = mechanism.needed
        for key in sorted(set(named) - {"sasl.mechanism", *needed, *mechanism.allowed}):
            yield f"{key}: {name} does not use it"
    for key in needed:
        if key not in given:
            yield f"{key}: missing: {protocol} needs it"
    if mechanism := mechanism_of(given):
        yield from mechanism.complaints(given)


def login(given: Mapping[str, Any]) -> str | None:
    """Return how and as whom checked settings log in, without secrets. None: they do not."""
    parts = []
    if mechanism := mechanism_of(given):
        parts.append(f"{mechanism.name} {mechanism.identity(given)}")
    if subject := tls.certificate_subject(given):
        parts.append(f"certificate {subject}")
    if delegation_token.is_on(given):
        parts.append("Spark with a delegation token")
    return ", ".join(parts) or None
