"""A SASL mechanism: what it needs of a connection, and how both clients log in by it."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Protocol

from tidegate.core.java_client import PrivateFiles
from tidegate.errors import TidegateError

_REFUSED = re.compile("<refused: ([^<>]*)>")


class Session(Protocol):
    """The login of one connection in this process."""

    error: TidegateError | None
    """Why the last login failed before a broker was asked. kafka-python drops such an error."""

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of a kafka-python client.

        A login by token or ticket is tried: NotAuthenticated if it is refused, BrokerUnreachable if
        the token endpoint or the KDC does not answer.
        """


class Mechanism(ABC):
    """A way to log in. Settings are those of a connection, by their names in Kafka's clients."""

    name: str
    """The value of `sasl.mechanism`."""
    check: str
    """What a user should look at if a broker refuses the login."""
    needed: ClassVar[tuple[str, ...]] = ()
    """The settings that must be given."""
    allowed: ClassVar[tuple[str, ...]] = ()
    """The settings that may be given, too."""
    refused: ClassVar[Mapping[str, str]] = {}
    """Settings of other clients, by the beginning of their names, and why they are refused."""

    @property
    def token_mechanism(self) -> str | None:
        """The mechanism by which a delegation token logs in, or None if brokers give none."""
        return "SCRAM-SHA-512"

    def complaints(self, given: Mapping[str, Any]) -> Iterator[str]:
        """Yield what is wrong with settings. No file is read."""
        del given
        yield from ()

    def unusable(self, given: Mapping[str, Any]) -> Iterator[str]:
        """Yield what is wrong with files and variables of this machine."""
        del given
        yield from ()

    @abstractmethod
    def identity(self, given: Mapping[str, Any]) -> str:
        """Return as whom checked settings log in, for people. Nothing of it is secret."""

    @abstractmethod
    def session(self, given: Mapping[str, str], cluster: str) -> Session:
        """Return the login of kafka-python. `cluster` is what errors name."""

    @abstractmethod
    def for_java(
        self, given: Mapping[str, str], files: PrivateFiles, cluster: str
    ) -> dict[str, str]:
        """Return the options of Spark's source and sink for the login of Java's client."""

    def java_options(self) -> tuple[str, ...]:
        """Return the options that each JVM of Spark needs for this login."""
        return ()

    def spark_login(self, given: Mapping[str, Any]) -> dict[str, str]:
        """Return Spark's settings by which it obtains tokens itself. Empty if it cannot."""
        del given
        return {}

    def token_settings(self, given: Mapping[str, Any]) -> dict[str, str]:
        """Return what Spark's login by a delegation token needs of this one, by Kafka's names."""
        del given
        return {}


def refusal_text(why: str) -> str:
    """Return the text of an error of a mechanism, in which `find_refusal` finds the reason."""
    return f"<refused: {why}>"


def find_refusal(messages: str) -> str | None:
    """Return why a mechanism itself refused a login, by the messages of kafka-python."""
    found = _REFUSED.search(messages)
    return found[1] if found else None


def jaas(module: str, options: Mapping[str, str]) -> str:
    """Return the entry of a login module: `MODULE required NAME="VALUE" …;`."""
    given = "".join(f" {name}={_quoted(value)}" for name, value in options.items())
    return f"{module} required{given};"


def _quoted(value: str) -> str:
    for character, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        value = value.replace(character, escaped)
    return f'"{value}"'
