"""Airflow connections without Airflow: from environment variables, and as settings."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from tidegate.broker import client_settings, delegation_token
from tidegate.core.locations import schemes_of
from tidegate.errors import ConfigurationError
from tidegate.launch import master_kinds, spark_connection, spark_jars, token_settings
from tidegate.launch.spark_connection import SparkConnection
from tidegate.pipelines import pipeline_files
from tidegate.runs.client_options import client_name, naming_pipeline, refuse_options
from tidegate.runs.spec_protocol import Spec
from tidegate.settings import spark_lines
from tidegate.settings.setting import Place

if TYPE_CHECKING:
    from tidegate.broker.kafka_cluster import KafkaCluster

_ADDRESS = re.compile(r"[^\s:/]+:[0-9]+(,[^\s:/]+:[0-9]+)*")
_EXAMPLES = {
    "Kafka": '{"conn_type": "kafka", "extra": {"bootstrap.servers": "host:9092"}}',
    "Spark": '{"conn_type": "spark", "host": "local[2]"}',
}
_MASTERS = f"its host is the master: {master_kinds.EXAMPLES}"


@dataclass(frozen=True)
class Connection:
    """The used fields of an Airflow connection. `repr` omits the extra, which may hold secrets.

    `has_login`: it has a user name or a password.
    """

    conn_type: str
    host: str = ""
    port: int | None = None
    extra: Any = field(default_factory=dict, repr=False)
    has_login: bool = False


def variable(connection_id: str) -> str:
    """Return the name of the environment variable that can define a connection."""
    return f"AIRFLOW_CONN_{connection_id.upper()}"


def read_environment_connection(
    connection_id: str, environ: Mapping[str, str] = os.environ
) -> Connection | None:
    """Return the connection that `AIRFLOW_CONN_<ID>` defines, as Airflow reads it, or None.

    Raises ConfigurationError if the value is neither JSON nor a URI. The value is not quoted, since
    it may contain a password.
    """
    text = environ.get(variable(connection_id), "").strip()
    try:
        if text.startswith("{"):
            return _from_json(text)
        return _from_uri(text) if text else None
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        name = variable(connection_id)
        where = (
            f": {error.msg} at character {error.pos + 1}"
            if isinstance(error, json.JSONDecodeError)
            else ""
        )
        raise ConfigurationError(f"{name} is not a connection in JSON or URI form{where}") from None


def not_defined(
    kind: Literal["Kafka", "Spark"], connection_id: str, *, in_airflow: bool
) -> ConfigurationError:
    """Return the error for a connection that does not exist: how to define it, both ways."""
    if kind == "Kafka" and _ADDRESS.fullmatch(connection_id):
        form = json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": connection_id}})
        return ConfigurationError(
            f"kafka: {connection_id!r} is an address: give the id of a connection, as `kafka: "
            f"kafka_default`, and set AIRFLOW_CONN_KAFKA_DEFAULT to '{form}', or store it in "
            f"Airflow by `airflow connections add kafka_default --conn-json '{form}'`"
        )
    name, form = variable(connection_id), _EXAMPLES[kind]
    command = f"airflow connections add {shlex.quote(connection_id)} --conn-json '{form}'"
    hint = f" ({_MASTERS})" if kind == "Spark" else ""
    if in_airflow:
        return ConfigurationError(
            f"Airflow has no connection {connection_id!r} of type {kind}: add it by "
            f"`{command}`, or set {name} to that JSON for all of Airflow's processes{hint}"
        )
    return ConfigurationError(
        f"{kind} connection {connection_id!r} is not defined: set {name} to '{form}', or "
        f"store it in Airflow by `{command}`{hint}"
    )


def kafka(spec: Spec, look_up: Callable[[], Connection]) -> KafkaCluster:
    """Return a pipeline's Kafka connection; ConfigurationError, which names both, for a wrong one.

    `look_up` returns the connection, or raises.
    """
    from tidegate.broker.kafka_cluster import KafkaCluster  # and with it kafka-python

    with naming_pipeline(spec):
        return KafkaCluster(spec.kafka, _kafka_extra(spec.kafka, look_up()), client_name(spec))


def _kafka_extra(connection_id: str, found: Connection) -> Any:
    """Return the settings of a Kafka connection. Host and port are its server if it names none."""
    extra = found.extra
    if not isinstance(extra, Mapping) or "bootstrap.servers" in extra or not found.host:
        return extra
    if found.has_login or not found.port:
        server = json.dumps(f"{found.host}:{found.port or 9092}")
        login = ', "security.protocol": …, "sasl.mechanism": …' if found.has_login else ""
        raise ConfigurationError(
            f"Kafka connection {connection_id!r} has a host without what Kafka's clients need: "
            f'give it the extra {{"bootstrap.servers": {server}{login}}}'
        )
    return {"bootstrap.servers": f"{found.host}:{found.port}", **extra}


def for_planner(settings: KafkaCluster, spec: Spec, *by: str) -> KafkaCluster:
    """Return the settings for the planner of a run: its tries are those of Spark's look-ups.

    `by` are the step, the run id and the attempt.
    """
    given = spec.source_options if spec.kind == "ingest" else spec.target.reading_options
    tries = given.get("fetchOffset.numRetries")
    pause = int(given.get("fetchOffset.retryIntervalMs", 1000)) / 1000
    return settings.used_by(client_name(spec, *by), int(tries) if tries else None, pause)


def refuse_wrong_kafka(spec: Spec) -> None:
    """Raise ConfigurationError if the settings of a pipeline's Kafka connection cannot work.

    Only of a connection that the environment defines, and without a look at files or other
    variables: this is for a process that parses DAG files, and runs elsewhere than the tasks.
    """
    with naming_pipeline(spec):
        if found := read_environment_connection(spec.kafka):
            extra = client_settings.normalise_settings(
                spec.kafka, _kafka_extra(spec.kafka, found), here=False
            )
            token = delegation_token.token_of(spec.kafka, extra)
            conf = spec.spark.settings
            if wrong := token_settings.token_complaints([token] if token else [], conf, here=False):
                listed = "\n".join(f"  - {each}" for each in wrong)
                raise ConfigurationError(f"delegation token of {spec.kafka!r}:\n{listed}")
            refuse_options(spec, spec.kafka, client_settings.options_of(extra))


def spark(spec: Spec, look_up: Callable[[], Connection]) -> SparkConnection:
    """Return a pipeline's Spark connection; ConfigurationError, which names both, for a wrong one.

    `look_up` returns the connection, or raises. Refused is also a Spark that cannot run the
    pipeline, as far as its file, and that of the lake it sends, show.
    """
    with naming_pipeline(spec):
        place = Place.SENDING if spec.kind == "egress" else Place.SPARK
        found = parse_spark_connection(spec.spark.connection, look_up(), place)
        try:
            _refuse_lacking(spec, found)
        except ConfigurationError as error:
            raise ConfigurationError(f"Spark connection {found.id!r}: {error}") from None
        return found


def _refuse_lacking(spec: Spec, spark: SparkConnection) -> None:
    places = [spec.lake]
    if spec.kind == "egress":
        places.append(spec.source.path or "")
        if spec.source.lake:
            with suppress(ConfigurationError):  # reported where its lake is opened
                places.append(pipeline_files.load_ingest(spec.source.lake).lake)
    for scheme in schemes_of(places):
        spark_jars.refuse_lacking_bucket(spark.jars, scheme, spark.home)
    decodes = spec.kind == "ingest" and spec.decoding
    if spark.home and decodes and (why := spark_lines.complaint_of_decoding(spark.line)):
        raise ConfigurationError(why)
    if spark.home and spec.kind == "egress" and (found := spec.source.file_format):
        columns = [*spec.expressions.values(), spec.expressions.get("value") or found.value]
        is_typed = found.needs_whole_spark(spec.source.columns)
        if why := spark_lines.version_complaint(spark.line, columns, is_typed=is_typed):
            raise ConfigurationError(why)


def parse_spark_connection(
    connection_id: str, connection: Connection, place: Place = Place.SPARK
) -> SparkConnection:
    """Return a Spark connection, with the master that Airflow's Spark provider computes.

    `place` is that of the settings of its pipeline's kind. Raises ConfigurationError for a
    connection without a type, of type spark without a host, with a login, or with a wrong extra.
    """
    conn_type, host, port = connection.conn_type, connection.host, connection.port
    if not conn_type or (conn_type == "spark" and not host):
        raise ConfigurationError(
            f"Spark connection {connection_id!r} names no master: give it conn_type and host, as "
            f"{_EXAMPLES['Spark']}"
        )
    if connection.has_login or "@" in host:
        raise ConfigurationError(
            f"Spark connection {connection_id!r} has a user name or a password: no master of Spark "
            "takes one, and Spark would show it in command lines and logs; remove login, password "
            f"and what stands before an @; {_MASTERS}"
        )
    is_whole = conn_type == "spark" and ("://" in host or not port)
    master = host if is_whole else f"{conn_type}://{host}"
    master = f"{master}:{port}" if port else master
    return spark_connection.parse_connection(connection_id, master, connection.extra, place)


def _from_json(text: str) -> Connection:
    fields = json.loads(text)
    port, extra = fields.get("port"), fields.get("extra")
    conn_type, host = fields.get("conn_type") or "", fields.get("host") or ""
    if not (isinstance(conn_type, str) and isinstance(host, str)):
        raise TypeError
    return Connection(
        _normalised(conn_type),
        host,
        int(port) if port else None,
        _parsed(extra),
        has_login=bool(fields.get("login") or fields.get("password")),
    )


def _from_uri(uri: str) -> Connection:
    """Parse `type://host:port?key=value`. The host may have a scheme: `k8s://https://host:443`."""
    conn_type, separator, rest = uri.partition("://")
    protocol, second, _ = rest.partition("://")
    if not separator or uri.count("://") > 2 or (second and set(protocol) & set("@:")):
        raise ValueError(conn_type)
    parts = urlsplit(rest if second else f"//{rest}")
    host = unquote(parts.hostname or "")
    if "/" in host:  # `hostname` is lower-cased, which would change a path
        host = unquote(parts.netloc.rpartition("@")[2].partition(":")[0])
    if host and second:
        host = f"{parts.scheme}://{host}"
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    extra = _parsed(query["__extra__"]) if "__extra__" in query else query
    has_login = "@" in parts.netloc
    return Connection(_normalised(conn_type.lower()), host, parts.port, extra, has_login)


def _normalised(conn_type: str) -> str:
    return conn_type.replace("-", "_")


def _parsed(extra: Any) -> Any:
    if isinstance(extra, str):
        return json.loads(extra) if extra else {}
    return {} if extra is None else extra
