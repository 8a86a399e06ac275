"""What Java's Kafka client needs to reach a cluster as a connection says."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class JavaClient:
    """Options and files of Java's client. Both may hold secrets.

    `options` have the names that Spark's source and sink take. `files` has the contents of files
    that the options name, by their name in the directory that was given. `instead` says of each
    setting that becomes such a file which settings need none.
    """

    options: Mapping[str, str] = field(repr=False)
    files: Mapping[str, bytes] = field(repr=False)
    instead: Mapping[str, str]


class PrivateFiles:
    """Collects the files of a JavaClient, which will be in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.contents: dict[str, bytes] = {}

    def add(self, ending: str, content: bytes) -> str:
        """Take the content of a file, and return the path that it will have."""
        name = f"kafka-{secrets.token_hex(8)}{ending}"
        self.contents[name] = content
        return str(self._directory / name)


@dataclass(frozen=True)
class DelegationToken:
    """What Spark has to know about the token of one cluster. Nothing here is secret.

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
        return addresses_of(self.servers)

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


def addresses_of(servers: str) -> list[str]:
    """Return the addresses of a list with commas."""
    return [part.strip() for part in servers.split(",") if part.strip()]
