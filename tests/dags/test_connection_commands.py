"""Every `airflow connections add …`, of errors and of the docs, run by Airflow's own commands."""

import re
import shlex
from pathlib import Path
from typing import Literal

import pytest
from airflow.cli.cli_parser import get_parser
from airflow.models.connection import Connection as Stored
from airflow.utils.session import create_session
from sqlalchemy import select

from support.cases import each_of
from support.doc_pages import DOCS, PROJECT, fenced, named
from tidegate import connections, errors
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.connections import Connection

COMMAND = re.compile(r"airflow (connections add \S+ --conn-json (?:'[^']*'|\"[^\"]*\"))")
EXPORTED = re.compile(r"(?:export|\") AIRFLOW_CONN_(\w+)=('[^']*'|\"[^\"]*\")")
SECURED = PROJECT / "docs/how-to/secured-cluster.md"
"""Its examples are what the files of JSON hold that a command reads."""


pytestmark = pytest.mark.usefixtures("airflow_database")


def added(command: str) -> tuple[str, str]:
    """Return the connection's id and JSON, as Airflow's parser takes them from a command line."""
    parsed = get_parser().parse_args(shlex.split(command))
    return parsed.conn_id, parsed.conn_json


def stored(connection_id: str, text: str) -> Connection:
    """Run `airflow connections add`; return what is in Airflow's database, as Tidegate reads it."""
    words = ["connections", "add", connection_id, "--conn-json", text]
    parsed = get_parser().parse_args(words)
    parsed.func(parsed)
    with create_session() as session:
        (row,) = session.scalars(select(Stored).where(Stored.conn_id == connection_id))
        found = Connection(row.conn_type or "", row.host or "", row.port, row.extra_dejson)
        session.delete(row)
    return found


@pytest.mark.parametrize("in_airflow", [True, False])
@pytest.mark.parametrize("kind", ["Kafka", "Spark"])
def test_an_error_shows_the_variable_and_the_command(
    kind: Literal["Kafka", "Spark"], in_airflow: bool
) -> None:
    """Both with the same JSON, which is a connection of that kind; a shell takes the line."""
    error = str(connections.not_defined(kind, "ours", in_airflow=in_airflow))
    assert "\n" not in error
    assert "AIRFLOW_CONN_OURS" in error
    (command,) = COMMAND.findall(error)
    connection_id, text = added(command)
    assert connection_id == "ours"
    assert error.count(text) == (1 if in_airflow else 2)
    found = stored(connection_id, text)
    if kind == "Kafka":
        assert KafkaCluster("ours", found.extra).bootstrap_servers == "host:9092"
    else:
        assert connections.parse_spark_connection("ours", found).master == "local[2]"


def test_an_id_with_a_space_stays_one_word() -> None:
    error = str(connections.not_defined("Kafka", "two words", in_airflow=True))
    (command,) = re.findall(r"`airflow (.*)`", error)
    assert added(command)[0] == "two words"


def in_examples(page: Path) -> list[tuple[str, str]]:
    """Return (id, JSON) of each command in a page, with what the shell would put in."""
    text = page.read_text()
    found = []
    for command in COMMAND.findall(text):
        connection_id, form = added(command)
        exported = {name.lower(): shlex.split(value)[0] for name, value in EXPORTED.findall(text)}
        if form.startswith("$AIRFLOW_CONN_"):
            form = exported[form.removeprefix("$AIRFLOW_CONN_").lower()]
        if form.startswith("$(cat "):
            form = next(each for each in fenced(SECURED.read_text(), "json") if "conn_type" in each)
        found.append((connection_id, form))
    return found


@each_of(DOCS, named)
def test_commands_of_the_docs_can_be_copied(page: Path) -> None:
    """Airflow stores each, and what is stored is a valid connection, but for files."""
    for connection_id, form in in_examples(page):
        found = stored(connection_id, form)
        if found.conn_type == "spark":
            assert connections.parse_spark_connection(connection_id, found).master.startswith(
                ("spark://", "local[")
            )
            continue
        try:
            KafkaCluster(connection_id, found.extra)
        except errors.ConfigurationError as refused:
            complaints = str(refused).splitlines()[1:]
            assert complaints
            assert all(each.endswith(": No such file or directory") for each in complaints)


def test_a_page_that_exports_a_connection_shows_how_airflow_stores_it() -> None:
    """The variable and the command, of one of its connections at least."""
    asking = {}
    for page in DOCS:
        if names := {name.lower() for name, _ in EXPORTED.findall(page.read_text())}:
            asking[named(page)] = names & {connection_id for connection_id, _ in in_examples(page)}
    assert {"README.md", "docs/how-to/secured-cluster.md", "docs/how-to/send.md"} <= set(asking)
    assert [name for name, both in asking.items() if not both] == []
