"""docker-compose.yaml as processes: from its settings to rows in the lake in S3."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import image_environment, oracle_client, process_memory
from support.compose_processes import Topology
from support.doc_pages import fenced, page
from support.image_environment import ImageEnvironment
from support.process_list import have_ended, of_stack
from tidegate.launch import jars
from tidegate_local.airflow_api import AirflowApi

FLIGHTS = 336_776
HOSTILE = r"""p@ss:/%#"\$ {a}&'?[1]+"""
VARIABLES = {
    "POSTGRES_PASSWORD": HOSTILE,
    "AIRFLOW_ADMIN_PASSWORD": HOSTILE,
    "AIRFLOW_FERNET_KEY": "7T512UXSSmBOkpWimFHIVb8jK6lfmSAvx4mO6Arehnc=",
    "AIRFLOW_JWT_SECRET": "jwt-of-this-test-alone-and-of-no-installation",
    "SPARK_SECRET": HOSTILE,
    "AWS_ACCESS_KEY_ID": "TIDEGATE",
    "AWS_SECRET_ACCESS_KEY": HOSTILE,
}


@pytest.fixture(scope="module")
def image() -> Iterator[ImageEnvironment]:
    """What the Dockerfile installs, on a disk: it is too large for the memory where tests write."""
    jars.cache_dir().mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="image-", dir=jars.cache_dir()))
    try:
        yield image_environment.build(directory)
    finally:
        shutil.rmtree(directory)


@pytest.fixture
def topology(tmp_path: Path, image: ImageEnvironment) -> Iterator[Topology]:
    """The services, none started yet; in the end no process of them is left."""
    with process_memory.sampled() as memory:
        made = Topology(tmp_path, VARIABLES, image, memory)
        try:
            yield made
        finally:
            made.close()
    assert have_ended(process.pid for process in of_stack(tmp_path))


@pytest.mark.slow
def test_from_up_to_rows_in_the_lake(topology: Topology) -> None:
    """`ready`, and with it every service in its order, with passwords of any character. The loader
    counts the rows; the oracle compares them with the topic. The way back was run, too. Repeated,
    the steps find nothing to do. No service took more memory than its limit.
    """
    began = time.monotonic()
    topology.up("ready")
    print(f"up: {time.monotonic() - began:.0f} s")
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
    _backfill_of_the_page(topology, api)
    for step in ("s3-bucket", "loader"):
        again = topology.run(step)
        assert again.returncode == 0, again.stderr
    assert again.stdout.splitlines()[-1] == said[-1]
    assert "0 flights sent" in again.stdout
    for name, taken in topology.memory.megabytes.items():
        print(f"{name}: {taken:.0f} MB of {topology.services[name]['mem_limit']}")
    assert topology.over_their_limit() == {}


def _backfill_of_the_page(topology: Topology, api: AirflowApi) -> None:
    """Run the command of docs/how-to/past-data.md for one interval, where `airflow` has the
    scheduler's settings.
    """
    (command,) = fenced(page("docs/how-to/past-data.md"), "")
    command = command.replace("tidegate__orders", "tidegate__flights")
    command = command.replace("2026-03-08", "2026-03-01")
    done = subprocess.run(
        ["bash", "-ec", command], env=topology.environment("scheduler"), cwd=topology.home,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    runs = api.runs("tidegate__flights")
    (created,) = (run["dag_run_id"] for run in runs if run["run_type"] == "backfill")
    assert api.wait("tidegate__flights", created, timeout=120)["state"] == "success"


@pytest.mark.slow
def test_every_user_can_read_the_image(image: ImageEnvironment) -> None:
    """Whatever the umask of the host on which it was built."""
    paths = [image.directory, *image.directory.rglob("*")]
    needed = {path: 0o005 if path.is_dir() else 0o004 for path in paths if not path.is_symlink()}
    assert [path for path, mode in needed.items() if mode & ~path.stat().st_mode] == []


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
