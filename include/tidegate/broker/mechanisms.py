"""The SASL mechanisms that a connection may have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidegate.broker.aws_iam import AwsIam
from tidegate.broker.kerberos import Gssapi
from tidegate.broker.mechanism import Mechanism
from tidegate.broker.oauth import OAuthBearer
from tidegate.broker.passwords import Plain, Scram

MECHANISMS: Mapping[str, Mechanism] = {
    each.name: each
    for each in (
        Plain(), Scram("SCRAM-SHA-256"), Scram("SCRAM-SHA-512"), OAuthBearer(), AwsIam(), Gssapi(),
    )
}  # fmt: skip


def mechanism_of(given: Mapping[str, Any]) -> Mechanism | None:
    """Return the mechanism that settings name, or None if they name none that there is."""
    return MECHANISMS.get(str(given.get("sasl.mechanism")))
