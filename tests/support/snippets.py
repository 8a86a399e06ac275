"""Which test runs or judges each fenced block of README, runbook and how-tos, in their order.

A block is named by its language and its beginning. What cannot be run is judged by a test: parsed,
or compared with what the code has; the reason stands beside it.
"""

from typing import NamedTuple

RUN = "tests/integration/test_snippets.py::test_the_page"


class Block(NamedTuple):
    """A block, the test that runs or judges it, and, if it is not run, the reason."""

    language: str
    begins: str
    test: str
    not_run: str = ""


_DOCS = "tests/unit/test_docs_snippets.py"
_CONNECTION = f"{_DOCS}::test_connections_can_be_copied"
_PIPELINE = f"{_DOCS}::test_pipelines_can_be_copied"
_COMMAND = f"{_DOCS}::test_command_lines_are_accepted"
_OTHERS = "tests/unit/test_snippets_table.py::test_what_other_tools_are_told"
_FIRST = "tests/integration/test_first_pipeline.py::test_the_first_pipeline"
_DEMO = "tests/e2e/test_airflow.py::test_demo"
_REST = "tests/e2e/test_airflow.py::test_a_run_triggered_by_rest"
_TWO = "tests/integration/secured/test_two_clusters.py::test_from_one_cluster_to_another"
_SECURED = "tests/integration/secured/test_documented_connections.py"
_LOGIN = f"{_SECURED}::test_the_connection_works"
_CLUSTER = "tests/integration/test_spark_cluster_on_s3.py::test_the_settings_of_the_page"
_COMPOSE = "tests/e2e/test_compose_topology.py::test_from_up_to_rows_in_the_lake"
_STORED = "tests/dags/test_connection_commands.py::test_commands_of_the_docs_can_be_copied"

_SERVICE = "a service of others: Amazon MSK, Confluent Cloud, Azure Event Hubs"

PAGES: dict[str, tuple[Block, ...]] = {
    "README.md": (
        Block("", "make demo", _DEMO, "that test runs the demo without make; make test runs all"),
        Block("text", "runs of tidegate__flights", _DEMO, "what the demo prints"),
        Block("sh", "export AIRFLOW_CONN_KAFKA_DEFAULT", RUN),
        Block("yaml", "# include/pipelines/orders.yaml", RUN),
        Block("sql", "SELECT customer, count(*)", RUN),
        Block("yaml", "# include/pipelines/orders_back.yaml", RUN),
    ),
    "docs/how-to/analysts.md": (
        Block("", ".venv/bin/tidegate sql my_flights", RUN),
        Block("sql", "SELECT unnest(from_json(CASE", RUN),
        Block("sql", 'SELECT "offset", try(decode(key))', RUN),
        Block("", ".venv/bin/tidegate files my_flights", RUN),
        Block("sql", "SET VARIABLE files", RUN),
        Block("sql", "SELECT topic_id, partition", RUN),
        Block("python", "import tidegate", RUN),
        Block("python", "import duckdb", "tests/integration/test_s3.py"
              "::test_everything_a_topic_can_hold"),
    ),
    "docs/how-to/watch.md": (
        Block("sh", ".venv/bin/tidegate metrics", _COMMAND, "it prints what pipelines there are"),
    ),
    "docs/how-to/containers.md": (
        Block("", "cp .env.example .env", _OTHERS, "no container engine"),
        Block("", "chmod -R a+rX", "tests/unit/local/test_compose_steps.py"
              "::test_the_command_of_the_page_makes_pipelines_readable"),
    ),
    "docs/how-to/delegation-tokens.md": (
        Block("json", '{"conn_type": "kafka"', _LOGIN),
        Block("sh", ".venv/bin/tidegate doctor orders", _LOGIN),
    ),
    "docs/how-to/install.md": (
        Block("sh", "pip install", "tests/e2e/test_wheel.py::test_the_commands_of_the_page"),
        Block("sh", "export TIDEGATE_LAKE", _CLUSTER),
        Block("sh", "airflow connections add spark_default", _STORED),
    ),
    "docs/how-to/own-kafka.md": (
        Block("", ".venv/bin/tidegate local up", "tests/integration/test_local_stack.py"
              "::test_up_brings_everything_and_a_second_up_finds_it"),
        Block("sh", "BROKER=", _FIRST),
        Block("sh", ".venv/bin/kafka-python admin", _FIRST),
        Block("yaml", "# include/pipelines/orders.yaml", _FIRST),
        Block("sh", ".venv/bin/tidegate doctor orders", _FIRST),
        Block("sh", ".venv/bin/tidegate sql orders", _FIRST),
        Block("", "  customer  n  amount", _FIRST),
        Block("sh", "AIRFLOW=", _REST),
    ),
    "docs/how-to/past-data.md#windows-offsets-and-times": (
        Block("sh", ".venv/bin/tidegate backfill orders", _COMMAND, "ranges of two topics"),
    ),
    "docs/how-to/past-data.md#backfill": (
        Block("sh", ".venv/bin/tidegate backfill orders", RUN),
        Block("sh", "  curl --silent --fail", _REST),
        Block("", "  airflow backfill create", _COMPOSE),
    ),
    "docs/how-to/past-data.md#replay": (
        Block("sh", ".venv/bin/tidegate replay orders --start 0", RUN),
        Block("sh", ".venv/bin/tidegate replay orders_back", RUN),
        Block("sh", ".venv/bin/tidegate replay orders_out", RUN),
    ),
    "docs/how-to/past-data.md#large-backlogs": (
        Block("sh", ".venv/bin/tidegate explain orders --max-chunks 10", RUN),
    ),
    "docs/how-to/past-data.md#skip-offsets": (
        Block("sh", ".venv/bin/tidegate offsets show orders", RUN),
    ),
    "docs/how-to/platforms.md": (
        Block("", "   kubectl create secret", "tests/unit/test_examples.py"
              "::test_the_values_read_the_secret_that_the_page_makes", "no Kubernetes"),
    ),
    "docs/how-to/azure.md": (Block("yaml", "name: orders", _PIPELINE, "a container of Azure's"),),
    "docs/how-to/kubernetes.md": (
        Block("json", '{"conn_type": "spark", "host": "k8s', _CONNECTION, "a cluster's address"),
    ),
    "docs/how-to/gcs.md": (Block("yaml", "name: orders", _PIPELINE, "a bucket of Google's"),),
    "docs/how-to/s3.md": (
        Block("yaml", "name: orders", RUN),
        Block("sh", "export AWS_REGION", RUN),
        Block("json", '{"Rules"', "tests/integration/test_s3.py::test_the_rule_of_the_page"),
    ),
    "docs/how-to/secured-cluster.md": (
        *(Block("json", '{"conn_type": "kafka"', _LOGIN) for _ in range(8)),
        Block("json", '{"conn_type": "kafka"', _CONNECTION, _SERVICE),
        Block("yaml", "# include/pipelines/orders.yaml", _PIPELINE, "a jar of Amazon's"),
        *(Block("json", '{"conn_type": "kafka"', _CONNECTION, _SERVICE) for _ in range(2)),
        Block("sh", ".venv/bin/airflow connections add", _STORED),
        Block("sh", "export AIRFLOW_CONN_KAFKA_DEFAULT", RUN),
        Block("sh", "kafka-acls.sh", f"{_SECURED}::test_the_acls_of_the_page"),
    ),
    "docs/how-to/send.md": (
        Block("yaml", "# include/pipelines/orders_out.yaml", RUN),
        Block("sh", ".venv/bin/tidegate explain orders_out", RUN),
        Block("yaml", "name: orders_csv", RUN),
        Block("sh", ".venv/bin/tidegate release orders_out", RUN),
        Block("yaml", "# include/pipelines/orders_back.yaml", RUN),
        Block("sh", ".venv/bin/tidegate run orders_back", RUN),
        Block("yaml", "# include/pipelines/orders.yaml", _TWO),
        Block("yaml", "# include/pipelines/orders_elsewhere.yaml", _TWO),
        Block("sh", ".venv/bin/airflow connections add", _STORED),
        Block("text", "orders_elsewhere (live): would send", _TWO),
    ),
    "docs/runbook.md": (
        Block("sh", "  .venv/bin/tidegate offsets adopt", RUN),
        Block("yaml", "name: orders_out", RUN),
        Block("sql", "SELECT file, row, reason", RUN),
    ),
}  # fmt: skip
