"""Errors of a JVM that is not there, as py4j shows them."""

from __future__ import annotations

from dataclasses import dataclass

from py4j.protocol import Py4JJavaError


@dataclass(frozen=True)
class _Class:
    name: str

    def getName(self) -> str:
        return self.name

    def getSimpleName(self) -> str:
        return self.name.rpartition(".")[2]


@dataclass(frozen=True)
class Thrown:
    """A Java exception: the full name of its class, its message, and its cause."""

    name: str
    message: str | None
    cause: Thrown | None = None
    _target_id: str = "o1"

    def getClass(self) -> _Class:
        return _Class(self.name)

    def getMessage(self) -> str | None:
        return self.message

    def getCause(self) -> Thrown | None:
        return self.cause


def java_error(*causes: tuple[str, str | None]) -> Py4JJavaError:
    """Return an error of these Java exceptions, the outermost first: pairs of class and message."""
    thrown: Thrown | None = None
    for name, message in reversed(causes):
        thrown = Thrown(name, message, thrown)
    return Py4JJavaError("An error occurred while calling o1.x.\n", thrown)
