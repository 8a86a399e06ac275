"""Delegation tokens before anything is submitted: Spark's settings, and what speaks against them.

Spark picks a token by the bootstrap addresses of a source or sink. A token that matches too much
replaces another cluster's login. One that matches nothing leaves the client without any.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tidegate import linear_regex
from tidegate.core.java_client import DelegationToken
from tidegate.errors import ConfigurationError
from tidegate.launch import jars, spark_home
from tidegate.launch.master_kinds import master_kind
from tidegate.runs.kafka_protocol import JavaCluster
from tidegate.spark.job_files import Login, write_private

PROXY_USER = "Obtaining delegation token for proxy user is not yet supported."
"""Spark's own words. Kafka's users cannot obtain tokens for others (KAFKA-6945)."""
_PROVIDER = "spark-token-provider-kafka-0-10"
_JAAS = "java.security.auth.login.config"
_JAVA_OPTIONS = tuple(
    f"spark.{of}.{kind}JavaOptions"
    for of in ("driver", "executor")
    for kind in ("default", "extra")
)
# Variables from which the JVMs of Spark take options. KAFKA_OPTS is read by Kafka's scripts alone.
_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
_DEFAULT = re.compile(
    rf"^[ \t]*({'|'.join(map(re.escape, _JAVA_OPTIONS))})[ \t=:]+(.*)$", re.MULTILINE
)


def token_matches(token: DelegationToken, address: str) -> bool:
    """Return whether Spark uses a token for a bootstrap address."""
    return linear_regex.fullmatch(token.regex, address)


def client_options(kafka: JavaCluster, private: Path) -> dict[str, str]:
    """Return the options of Java's client, and write the files that they name into `private`."""
    client = kafka.for_java(private)
    for name, content in client.files.items():
        write_private(private / name, content)
    return dict(client.options)


def split_logins(kafka: JavaCluster, private: Path) -> tuple[dict[str, str], tuple[Login, ...]]:
    """Return the options of Spark's source and sink, and the login that obtains the token.

    With a token the options have no login. Without one they have the connection's own. Files of
    either are written into `private`, a directory that nobody else can read.
    """
    # An application has tokens only of the clusters that it talks to. The cluster that a lake was
    # read from may be down while the lake is sent.
    options = client_options(kafka, private)
    if (token := kafka.delegation_token) is None:
        return options, ()
    settings = {
        name.removeprefix("kafka."): value
        for name, value in options.items()
        if name != "kafka.bootstrap.servers"
    }
    without = {k: v for k, v in options.items() if not k.startswith("kafka.sasl.")}
    return without, (Login(token.cluster, kafka.cluster, settings),)


def tokens_of(clusters: Sequence[JavaCluster]) -> list[DelegationToken]:
    """Return the tokens of these connections, each connection once."""
    once = {kafka.connection: kafka for kafka in clusters}
    return [token for kafka in once.values() if (token := kafka.delegation_token)]


def token_conf(
    clusters: Sequence[JavaCluster], given: Mapping[str, str], home: Path | None = None
) -> dict[str, str]:
    """Return Spark's settings for the tokens of these connections, without secrets.

    `given` are the settings of pipeline and Spark connection, `home` the latter's own Spark. Raises
    ConfigurationError with all complaints.
    """
    tokens = tokens_of(clusters)
    if wrong := token_complaints(tokens, given, home=home):
        listed = "\n".join(f"  - {each}" for each in wrong)
        raise ConfigurationError(f"delegation tokens:\n{listed}")
    return {name: value for token in tokens for name, value in token.conf().items()}


def token_complaints(
    tokens: Sequence[DelegationToken],
    given: Mapping[str, str],
    *,
    here: bool = True,
    home: Path | None = None,
) -> list[str]:
    """Return why Spark could not use these tokens together, or with the settings that are given.

    Without `here`, variables, files and jars of this machine are not looked at. `home` is a Spark
    other than the installed one.
    """
    if not tokens:
        return []
    found = _overlaps(tokens)
    places = {f"spark.conf: {name}": given.get(name, "") for name in _JAVA_OPTIONS}
    if here:
        places |= {f"the variable {name}": os.environ.get(name, "") for name in _VARIABLES}
        places |= _spark_defaults(home)
    found += [
        f"{place}: -D{_JAAS}: with a global JAAS configuration Spark uses no token; remove it"
        for place, value in places.items()
        if _JAAS in value
    ]
    user = here and os.environ.get("HADOOP_PROXY_USER")
    if user or any("-DHADOOP_PROXY_USER" in value for value in places.values()):
        found.append(
            f"HADOOP_PROXY_USER is set, and Spark says: {PROXY_USER} (KAFKA-6945); unset it, or "
            "remove tidegate.delegation_token"
        )
    if here and not any(
        jar.artifact.startswith(_PROVIDER) for jar in jars.read_lock("spark-kafka")
    ):
        found.append(
            f"the jars of Spark's Kafka connector lack {_PROVIDER}, which obtains tokens; "
            "install Tidegate anew"
        )
    return found


def tokens_for_master(tokens: Sequence[DelegationToken], master: str) -> dict[str, str]:
    """Return the settings with which Spark itself obtains tokens. None where the driver does.

    Raises ConfigurationError for a connection without the keytab that this needs, or with settings
    of TLS that Spark does not know.
    """
    kind = master_kind(master)
    if not tokens or not kind or not kind.obtains_tokens:
        return {}
    logins = [dict(each) for each in {tuple(token.spark_login.items()) for token in tokens}]
    names = ", ".join(token.connection for token in tokens)
    itself = f"Kafka connections {names}: on {kind.name} Spark obtains delegation tokens itself"
    if unknown := sorted({name for token in tokens for name in token.unknown_to_spark}):
        raise ConfigurationError(
            f"{itself}, and cannot be given {', '.join(unknown)}: use ssl.ca.location alone, "
            "or remove tidegate.delegation_token"
        )
    if {} in logins or len(logins) > 1:
        raise ConfigurationError(
            f"{itself}, with one Kerberos login for all clusters: give sasl.mechanism GSSAPI, "
            "sasl.kerberos.keytab and sasl.kerberos.principal, or remove tidegate.delegation_token"
        )
    return logins[0]


def _spark_defaults(home: Path | None) -> dict[str, str]:
    """Return the Java options in the spark-defaults.conf of spark-submit, by their place."""
    home = home or spark_home.find_spark() or Path()
    path = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf") / "spark-defaults.conf"
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return {}
    return {f"{path}: {name}": value for name, value in _DEFAULT.findall(text)}


def _overlaps(tokens: Sequence[DelegationToken]) -> list[str]:
    """Return each address that not exactly one token matches, and ids that stand for two."""
    found = []
    ids = [token.cluster for token in tokens]
    for cluster in sorted({each for each in ids if ids.count(each) > 1}):
        names = " and ".join(token.connection for token in tokens if token.cluster == cluster)
        found.append(
            f"{names} have the same id {cluster!r}; give tidegate.delegation_token.cluster"
        )
    for token in tokens:
        for address in token.addresses:
            matching = [each.connection for each in tokens if token_matches(each, address)]
            if matching != [token.connection]:
                found.append(
                    f"{address} of {token.connection} matches the target regex of "
                    f"{' and '.join(matching) or 'no connection'}, and must match its own alone; "
                    "correct tidegate.delegation_token.target_regex"
                )
    return found
