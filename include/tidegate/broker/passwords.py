"""Logins by a name and a password: PLAIN and SCRAM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from tidegate.broker.mechanism import Mechanism, jaas
from tidegate.core.java_client import PrivateFiles
from tidegate.errors import TidegateError

_USER, _PASSWORD = "sasl.username", "sasl.password"
_MODULES = "org.apache.kafka.common.security"


class _Arguments:
    """A login without a token or a ticket: only the broker knows whether it is right."""

    error: TidegateError | None = None

    def __init__(self, **arguments: Any) -> None:
        self._arguments = arguments

    def arguments(self) -> dict[str, Any]:
        return self._arguments


class Plain(Mechanism):
    """The password is sent as it is."""

    name = "PLAIN"
    check = "sasl.mechanism, sasl.username and sasl.password of the connection"
    needed: ClassVar[tuple[str, ...]] = (_USER, _PASSWORD)
    module = f"{_MODULES}.plain.PlainLoginModule"

    def identity(self, given: Mapping[str, Any]) -> str:
        return f"as {given[_USER]}"

    def session(self, given: Mapping[str, str], cluster: str) -> _Arguments:
        del cluster
        return _Arguments(
            sasl_mechanism=self.name,
            sasl_plain_username=self.escaped(given[_USER]),
            sasl_plain_password=given[_PASSWORD],
        )

    def for_java(
        self, given: Mapping[str, str], files: PrivateFiles, cluster: str
    ) -> dict[str, str]:
        del files, cluster
        options = {"username": given[_USER], "password": given[_PASSWORD]}
        return {"kafka.sasl.jaas.config": jaas(self.module, options)}

    def escaped(self, user: str) -> str:
        """Return the user's name as kafka-python must send it."""
        return user


class Scram(Plain):
    """The password is proven, and not sent."""

    module = f"{_MODULES}.scram.ScramLoginModule"

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def token_mechanism(self) -> str | None:
        return self.name

    def escaped(self, user: str) -> str:
        """Return the name as RFC 5802 writes it, which Java's client does itself."""
        return user.replace("=", "=3D").replace(",", "=2C")
