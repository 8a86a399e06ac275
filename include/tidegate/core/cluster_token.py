"""The delegation token of a cluster, with which Spark logs in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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
