"""The wheel of a clean clone in somebody's own Airflow: DAGs, page, runs, and no checkout.

Needs a package index and a Maven repository, or what their caches have.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import httpx
import pytest

from support import matrix, oracle_client, own_airflow, topic_reader, topic_records
from support.doc_pages import fenced, page
from support.matrix import AIRFLOW, COMMON, AirflowRow
from support.own_airflow import OwnAirflow, Wheel, run_of
from support.process_list import command_line, is_job
from tidegate.launch import jars
from tidegate_local.kafka import Broker

ONE_LINE = "from tidegate.airflow import dags; globals().update(dags())\n"
BUNDLES = [
    {
        "name": "dags-folder",
        "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle",
        "kwargs": {},
    },
    {"name": "tidegate", "classpath": "tidegate.airflow.bundle.TidegateDagBundle", "kwargs": {}},
]
# Airflow fails a rescheduled sensor whose last check is reported after its next one is queued
# (docs/airflow.md). The report may be 5 s late, so an interval of 5 s is too short.
OF_THE_USER = """\
from airflow.sdk import DAG, task

from tidegate.airflow import TidegateCompleteThroughSensor, TidegateRunOperator

with DAG("of_the_user", schedule=None):
    ingest = TidegateRunOperator(task_id="ingest", pipeline="orders")
    complete = TidegateCompleteThroughSensor(
        task_id="complete", pipeline="orders", topic="TOPIC", poke_interval=20,
        until="{{ dag_run.start_date.isoformat() }}", timeout=200,
    )

    @task
    def read():
        import os
        import sys

        import tidegate

        return {
            "file": tidegate.__file__,
            "path": sys.path,
            "environ": sorted(os.environ),
            "rows": sum(each["rows"] for each in tidegate.files("orders")),
        }

    [ingest, complete] >> read()
"""
FIRST, SECOND, PARTITIONS = 300, 200, 3
FORMS = ("tidegate_backfill", "tidegate_maintenance", "tidegate_replay")


@pytest.fixture(scope="module")
def disk() -> Iterator[Path]:
    """A directory of a disk: environments are too large for the memory where tests write."""
    jars.cache_dir().mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="wheel-", dir=jars.cache_dir()))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def wheel(disk: Path) -> Wheel:
    return own_airflow.build_wheel(disk)


def write_pipelines(home: Path, topic: str, back: str) -> None:
    (home / "pipelines").mkdir()
    both = {"lake": str(home / "lake")}
    ingest = {"name": "orders", "kind": "ingest", "topics": [topic], **both}
    egress = {"name": "orders_back", "kind": "egress", "source": {"lake": "orders"},
              "target": {"topic": back}, **both}  # fmt: skip
    for each in (ingest, egress):
        (home / f"pipelines/{each['name']}.yaml").write_text(json.dumps(each))


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(
            row,
            id=str(row),
            marks=[pytest.mark.matrix, *([pytest.mark.slow] if row == COMMON else [])],
        )
        for row in AIRFLOW
    ],
)
def test_runs_from_the_wheel(
    row: AirflowRow,
    wheel: Wheel,
    disk: Path,
    broker: Broker,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """Installed as docs/how-to/install.md says, with pipelines, connections and DAGs of the user's.

    All of a topic is in the lake, as an independent consumer reads it, by a DAG of Tidegate's and
    one of the user's; each of its rows is once in the topic that it is sent to.
    """
    try:
        python = own_airflow.install(wheel, row, disk / str(row))
    except matrix.Missing as reason:
        pytest.skip(str(reason))
    home, topic, back = tmp_path / "home", f"orders-{row}", f"orders-back-{row}"
    (home / "airflow/dags").mkdir(parents=True)
    write_pipelines(home, topic, back)
    (home / "airflow/dags/of_the_user.py").write_text(OF_THE_USER.replace("TOPIC", topic))
    settings = {"TIDEGATE_PIPELINES": str(home / "pipelines")}
    if row.bundle:
        settings["AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST"] = json.dumps(BUNDLES)
    else:
        (home / "airflow/dags/tidegate_dags.py").write_text(ONE_LINE)
    topic_records.create(broker.bootstrap, back, partitions=PARTITIONS)
    topic_records.numbers(broker.bootstrap, topic, FIRST, partitions=PARTITIONS)
    own = OwnAirflow(home, python, settings)
    expected = {"tidegate__orders", "tidegate__orders_back", "of_the_user", *FORMS}
    try:
        own.up(sorted(expected))
        listed = json.loads(own.airflow("dags", "list", "--output", "json").splitlines()[-1])
        assert {each["dag_id"] for each in listed} == expected
        assert "No data found" in own.airflow("dags", "list-import-errors")
        # The archive of Spark's classes takes half a minute, and is the same on each line.
        own.tidegate("jars", *([] if row == COMMON else ["--no-archive"]))
        kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap}}
        for name, form in (
            ("kafka_default", kafka),
            ("spark_default", {"conn_type": "spark", "host": "local[2]"}),
        ):
            own.airflow("connections", "add", name, "--conn-json", json.dumps(form))
        own.tidegate("doctor", "orders")
        look_at_the_page(own)
        ingest_is_of_the_wheel(own)
        topic_records.numbers(broker.bootstrap, topic, SECOND, first=FIRST)
        states = run_of(own.api, "of_the_user", "first")
        assert states == dict.fromkeys(("ingest", "complete", "read"), "success")
        no_checkout(own)
        states = run_of(own.api, "tidegate__orders_back", "first")
        assert states == dict.fromkeys(("plan", "send", "publish", "verdict"), "success")
        for pipeline in ("orders", "orders_back"):
            own.tidegate("verify", pipeline)
    finally:
        own.close()
    report = oracle_client.agree(broker.bootstrap, home / "lake", "orders", [topic])
    assert report["lake"] == FIRST + SECOND
    sent = topic_reader.read(broker.bootstrap, back)
    assert Counter(each.value for each in sent) == Counter(
        each.value for each in topic_reader.read(broker.bootstrap, topic)
    )
    assert set(topic_reader.rows(sent).values()) == {1}
    assert len(sent) == FIRST + SECOND
    if "matrix" in request.config.option.markexpr:
        tried = ["DAG bundle" if row.bundle else "DAG file", "page", "ingest", "egress of a lake",
                 "operators"]  # fmt: skip
        matrix.record("airflow", asdict(row), {**own_airflow.versions(python), "tried": tried})


@pytest.mark.slow
def test_the_commands_of_the_page(wheel: Wheel, disk: Path) -> None:
    """Those of docs/how-to/install.md, with uv in pip's place: then `tidegate` has its version,
    its jars and no broken dependency.
    """
    here = disk / "page"
    (here / "dist").mkdir(parents=True)
    shutil.copy(wheel.file, here / "dist")
    (here / "docs/constraints").mkdir(parents=True)
    shutil.copy(wheel.constraints / f"airflow-{COMMON.airflow}.txt", here / "docs/constraints")
    try:
        python = matrix.venv(here / "venv", COMMON.python)
    except matrix.Missing as reason:
        pytest.skip(str(reason))
    uv = Path(sys.executable).with_name("uv")
    pip = f'pip() {{ {uv} pip "$@" --quiet --python {python}; }}'
    (commands, *_) = fenced(page("docs/how-to/install.md"), "sh")
    environ = own_airflow.environ(TIDEGATE_CACHE=str(jars.cache_dir()))
    environ["PATH"] = f"{python.parent}{os.pathsep}{environ['PATH']}"
    done = subprocess.run(
        ["bash", "-ec", f"{pip}\n{commands}\npip check\ntidegate --version"],
        cwd=here, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1].endswith(wheel.file.name.split("-")[1]), done.stdout


def look_at_the_page(own: OwnAirflow) -> None:
    """It answers who is logged in, by the cookie of a browser, and nobody else."""
    url = f"http://127.0.0.1:{own.port}"
    with httpx.Client(base_url=url, trust_env=False, timeout=60.0) as browser:
        assert browser.get("/tidegate/").status_code == 401
        login = {"username": "admin", "password": own.password}
        token = browser.post("/auth/token", json=login).json()["access_token"]
        browser.cookies.set("_token", token)
        page = browser.get("/tidegate/")
        assert page.status_code == 200, page.text
        assert "orders_back" in page.text
    (plugin,) = own.api._call("GET", "/api/v2/plugins")["plugins"]
    assert plugin["name"] == "tidegate"
    assert own.api._call("GET", "/api/v2/plugins/importErrors")["import_errors"] == []


def ingest_is_of_the_wheel(own: OwnAirflow) -> None:
    """While its Spark runs, no process of that Airflow knows of the checkout."""
    own.api.trigger("tidegate__orders", "first")
    own.api.unpause("tidegate__orders")
    until = time.monotonic() + 240
    jobs: list[str] = []
    while not jobs:
        assert time.monotonic() < until, own.api.tasks("tidegate__orders", "first")
        time.sleep(0.2)
        told = own.processes()
        jobs = [text for text in told.values() if is_job(text, "ingest")]
    for pid, text in told.items():
        assert not own_airflow.names_checkout(text), command_line(pid)
    assert all(f"{own.python.parents[1]}/lib/python" in text for text in jobs)
    states = run_of(own.api, "tidegate__orders", "first")
    assert states == dict.fromkeys(("plan", "stage", "publish", "verdict"), "success")


def no_checkout(own: OwnAirflow) -> None:
    """A task has the package of the wheel, and no path of the checkout; it has read the lake."""
    found = own.api.xcom("of_the_user", "first", "read", "return_value")
    assert found["rows"] == FIRST + SECOND
    assert found["file"].startswith(str(own.python.parents[1] / "lib"))
    assert "PYTHONPATH" not in found["environ"]
    assert not own_airflow.names_checkout("\n".join(found["path"]))
