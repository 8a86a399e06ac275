"""docker-compose.yaml as processes: from its settings to rows in the lake in S3."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import oracle_client
from support.compose_processes import Topology
from tidegate_local.airflow_api import AirflowApi

FLIGHTS = 336_776
HOSTILE = r"""p@ss:/%#"\$ {a}&'?[1]+"""
VARIABLES = {
    "POSTGRES_PASSWORD": HOSTILE,
    "AIRFLOW_ADMIN_PASSWORD": HOSTILE,
    "AIRFLOW_FERNET_KEY": "7T512UXSSmBOkpWimFHIVb8jK6lfmSAvx4mO6Arehnc=",
    "AIRFLOW_JWT_SECRET": "jwt-of-this-test-alone-and-of-no-installation",
    "AWS_ACCESS_KEY_ID": "TIDEGATE",
    "AWS_SECRET_ACCESS_KEY": HOSTILE,
    "SPARK_WORKER_MEMORY": "1g",
}


@pytest.fixture
def topology(tmp_path: Path) -> Iterator[Topology]:
    made = Topology(tmp_path, VARIABLES)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.slow
def test_from_up_to_rows_in_the_lake(topology: Topology) -> None:
    """`ready`, and with it every service in its order, with passwords of any character. The loader
    counts the rows; the oracle compares them with the topic. The way back was run, too. Repeated,
    the steps find nothing to do; with a wrong key the bucket's step would not have ended well.
    """
    topology.up("ready")
    assert topology.outputs["s3-bucket"].stdout.startswith("bucket 'lake' at http://127.0.0.1:")
    said = topology.outputs["loader"].stdout.splitlines()
    assert said[-1] == f"{FLIGHTS:,} rows = {FLIGHTS:,} distinct (partition, offset) in s3://lake"
    broker = f"127.0.0.1:{topology.ports['9092']}"
    report = oracle_client.agree(
        broker, "s3://lake", "flights", ["flights"], environ=topology.s3_environment()
    )
    assert report["lake"] == FLIGHTS
    url = f"http://127.0.0.1:{topology.ports['8080']}"
    api = AirflowApi(url, user="admin", password=HOSTILE)
    for dag in ("tidegate__flights", "tidegate__flights_back"):
        run = api.run(dag, "compose-1")
        assert run is not None
        assert run["state"] == "success"
    for step in ("s3-bucket", "loader"):
        again = topology.run(step)
        assert again.returncode == 0, again.stderr
    assert again.stdout.splitlines()[-1] == said[-1]
    assert "0 flights sent" in again.stdout


@pytest.mark.slow
def test_a_bucket_that_cannot_be_made_is_one_line(topology: Topology) -> None:
    """With another key than the server's: exit code 3, and nothing of the key in the line."""
    topology.up("s3")
    topology.variables["AWS_SECRET_ACCESS_KEY"] = "another"
    done = topology.run("s3-bucket")
    assert done.returncode == 3
    (line,) = done.stderr.splitlines()
    assert line.startswith("tidegate: bucket failed: bucket 'lake' at http://127.0.0.1:")
    assert "another" not in line
