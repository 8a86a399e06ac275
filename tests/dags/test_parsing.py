"""DAG files are read often, by a process that must never wait: no network, no Variables, quick."""

import copy
import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml

from support.doc_pages import fenced, page

PROJECT = Path(__file__).parents[2]
BACK = """
name: back
kind: egress
source: {lake: flights}
target: {topic: copy}
lake: /lake
"""
FLIGHTS = (PROJECT / "include/pipelines/flights.yaml").read_text()

BY_HAND = {"tidegate_backfill", "tidegate_maintenance", "tidegate_replay"}
"""The DAGs that are there whatever pipelines there are."""


def parse(directory: Path = PROJECT / "dags") -> Any:
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(dag_folder=str(directory))


@pytest.fixture
def no_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sockets and Variables that raise when they are touched."""
    from airflow.models import Variable as OldVariable
    from airflow.sdk import Variable

    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("a DAG file must not do this when it is read")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(Variable, "get", refuse)
    monkeypatch.setattr(OldVariable, "get", refuse)


def test_exactly_the_expected_dags(pipelines: Path, no_way_out: None) -> None:
    """Each pipeline file is one DAG; with sockets and Variables blocked, in a CPU second."""
    (pipelines / "flights.yaml").write_text(FLIGHTS)
    other = FLIGHTS.replace("name: flights", "name: other")
    (pipelines / "other.yaml").write_text(other)
    (pipelines / "back.yaml").write_text(BACK)
    parse()  # the first reading also imports Airflow's provider
    started = time.process_time()
    bag = parse()
    seconds = time.process_time() - started
    assert bag.import_errors == {}
    assert set(bag.dags) == {"tidegate__flights", "tidegate__other", "tidegate__back", *BY_HAND}
    assert seconds < 1


def test_the_bundle_has_the_same_dags(pipelines: Path, no_way_out: None) -> None:
    """Airflow finds the packaged file, whose text names DAGs and Airflow, and no other."""
    from tidegate.airflow.bundle import TidegateDagBundle

    (pipelines / "flights.yaml").write_text(FLIGHTS)
    (pipelines / "wrong.yaml").write_text("kind: ingest")
    bag, other = parse(TidegateDagBundle(name="tidegate").path), parse()
    assert len(bag.import_errors) == 1
    assert set(bag.dags) == {"tidegate__flights", "tidegate__wrong", *BY_HAND} == set(other.dags)
    assert {Path(dag.fileloc).name for dag in bag.dags.values()} == {"tidegate_dags.py"}


def test_airflow_makes_the_bundle_of_the_compose_file(
    pipelines: Path, no_way_out: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no other: the image has no DAGs folder. The how-to says the same entry."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager

    services = yaml.safe_load(page("docker-compose.yaml"))["services"]
    name = "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST"
    given = services["dag-processor"]["environment"][name]
    assert given == services["scheduler"]["environment"][name]
    assert given == f"[{re.findall('adding `([^`]+)`', page('docs/how-to/install.md'))[0]}]"
    monkeypatch.setenv(name, given)
    (bundle,) = DagBundlesManager().get_all_dag_bundles()
    bundle.initialize()
    assert set(parse(bundle.path).dags) == BY_HAND


def test_no_directory_of_pipelines_is_an_import_error(
    pipelines: Path, no_way_out: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow shows it; with an empty answer all DAGs would silently be gone."""
    from tidegate.airflow.bundle import TidegateDagBundle

    monkeypatch.setenv("TIDEGATE_PIPELINES", str(pipelines / "away"))
    for directory in (PROJECT / "dags", TidegateDagBundle(name="tidegate").path):
        bag = parse(directory)
        assert bag.dags == {}
        assert all("away; set TIDEGATE_PIPELINES" in each for each in bag.import_errors.values())


@pytest.mark.parametrize("own", [False, True], ids=["Tidegate's", "with operators"])
def test_reading_a_dag_file_loads_no_client(pipelines: Path, own: bool, tmp_path: Path) -> None:
    """What is slow to import is imported by the tasks. Another's DAG file has the operators."""
    (pipelines / "flights.yaml").write_text(FLIGHTS)
    (pipelines / "back.yaml").write_text(BACK)
    file = PROJECT / "dags/pipelines.py"
    if own:
        file = tmp_path / "own.py"
        file.write_text(fenced(page("docs/airflow.md"), "python")[0])
    script = (
        "import sys, runpy; runpy.run_path(sys.argv[1]);"
        "print([m for m in ('kafka', 'pyarrow', 'obstore', 'pyspark.sql') if m in sys.modules])"
    )
    told = subprocess.run(
        [sys.executable, "-c", script, str(file)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip().splitlines()[-1] == "[]"


def test_shape_of_a_dag(pipelines: Path) -> None:
    """plan → stage → publish → verdict; one run at a time, real intervals, no catch-up."""
    (pipelines / "flights.yaml").write_text(FLIGHTS)
    dag = parse().dags["tidegate__flights"]
    assert {t.task_id: sorted(t.downstream_task_ids) for t in dag.tasks} == {
        "plan": ["publish", "stage"],
        "stage": ["publish"],
        "publish": ["verdict"],
        "verdict": [],
    }
    assert type(dag.timetable).__name__ == "CronDataIntervalTimetable"
    assert dag.catchup is False
    assert dag.max_active_runs == 1
    assert set(dag.params) == {"max_records", "max_chunks", "dry_run", "replan"}
    assert dag.doc_md
    assert all(task.retries == 3 for task in dag.tasks)


def test_shape_of_an_egress_dag(pipelines: Path) -> None:
    """plan → send → publish → verdict; without a schedule it runs when it is triggered."""
    (pipelines / "back.yaml").write_text(BACK)
    dag = parse().dags["tidegate__back"]
    assert {t.task_id: sorted(t.downstream_task_ids) for t in dag.tasks} == {
        "plan": ["send"],
        "send": ["publish"],
        "publish": ["verdict"],
        "verdict": [],
    }
    assert set(dag.params) == {"max_records", "dry_run", "replan", "resend"}
    assert dag.tags == {"tidegate", "egress"}
    assert [asset.uri for asset in dag.get_task("publish").outlets] == ["tidegate://back/copy"]


def test_the_form_of_a_backfill(pipelines: Path) -> None:
    """What Airflow can judge it refuses when the form is sent; only sound pipelines are offered."""
    from airflow.sdk.exceptions import ParamValidationError

    (pipelines / "flights.yaml").write_text(FLIGHTS)
    (pipelines / "bad.yaml").write_text("name: bad\n")
    dag = parse().dags["tidegate_backfill"]
    assert {t.task_id for t in dag.tasks} == {"plan", "stage", "publish", "verdict"}
    assert dag.schedule is None

    def takes(**values: object) -> bool:
        try:
            filled = copy.deepcopy(dag.params)
            filled.update({"pipeline": "flights"} | values)
            filled.validate()
        except ParamValidationError:
            return False
        return True

    assert takes(start="0", end='{"flights": {"0": 5}}')
    assert takes(start="2026-03-14T00:00:00Z", end="2026-03-14 10:00+01:00", partitions=[0, 3])
    assert takes(fill_gaps=True, chunk_size=1)
    for wrong in (
        {"pipeline": "bad"},
        {"start": "14.03.2026"},
        {"start": "latest"},
        {"end": "-1"},
        {"partitions": [-1]},
        {"partitions": ["0"]},
        {"chunk_size": 0},
        {"fill_gaps": "yes"},
    ):
        assert not takes(**wrong), wrong


def test_the_form_of_a_replay(pipelines: Path) -> None:
    """It wants an id that can be a name, and a pipeline with a lake to read for or to send from."""
    from airflow.sdk.exceptions import ParamValidationError

    (pipelines / "flights.yaml").write_text(FLIGHTS)
    (pipelines / "back.yaml").write_text(BACK)
    of_files = BACK.replace("name: back", "name: files").replace(
        "{lake: flights}", "{path: /in, format: text}"
    )
    (pipelines / "files.yaml").write_text(of_files)
    dag = parse().dags["tidegate_replay"]
    assert set(dag.params) == {
        "pipeline", "topic", "partitions", "start", "end", "zone", "replay_id", "where",
        "files", "dry_run",
    }  # fmt: skip
    window = {"pipeline": "flights", "start": "0", "end": "5", "replay_id": "2026-03-14_a"}
    of_files = {"pipeline": "files", "start": None, "files": ["a*.csv", "2026/b.csv"]}
    for right in ({}, {"pipeline": "back", "where": "cast(key as string) = 'AA'"}, of_files):
        filled = copy.deepcopy(dag.params)
        filled.update(window | right)
        filled.validate()
    for wrong in (
        {"replay_id": ""}, {"replay_id": "../x"}, {"replay_id": None}, {"where": ""},
        {"files": "a"}, {"files": [""]}, {"files": ["a\0b"]},
    ):  # fmt: skip
        with pytest.raises(ParamValidationError):
            copy.deepcopy(dag.params).update(window | wrong)


def test_shape_of_a_replay(pipelines: Path) -> None:
    """An ingest is staged, an egress sent; what is not is skipped, and stops nothing behind it."""
    (pipelines / "flights.yaml").write_text(FLIGHTS)
    dag = parse().dags["tidegate_replay"]
    assert {t.task_id: sorted(t.downstream_task_ids) for t in dag.tasks} == {
        "plan": ["publish", "send", "stage"],
        "stage": ["publish"],
        "send": ["publish"],
        "publish": ["verdict"],
        "verdict": [],
    }
    rules = {t.task_id: t.trigger_rule for t in dag.tasks}
    assert (rules["publish"], rules["verdict"]) == ("all_done", "none_failed")


def test_a_bad_file_takes_no_other_with_it(pipelines: Path) -> None:
    """The healthy pipeline is there; the bad one is there too, and its page says what is wrong."""
    (pipelines / "flights.yaml").write_text(FLIGHTS)
    (pipelines / "bad.yaml").write_text("name: bad\nkind: ingest\ntopic: [a]\nlake: x\n")
    (pipelines / "my pipe.yaml").write_text("name: my pipe\n")
    cron = FLIGHTS.replace("name: flights", "name: cron").replace("*/10 * * * *", "every day")
    (pipelines / "cron.yaml").write_text(cron)
    bag = parse()
    assert len(bag.import_errors) == 1
    assert set(bag.dags) == {
        "tidegate__flights",
        "tidegate__bad",
        "tidegate__cron",
        "tidegate__my-pipe.5e47508d",
        *BY_HAND,
    }
    bad = bag.dags["tidegate__bad"]
    assert "topic: unknown key; did you mean 'topics'?" in bad.doc_md
    assert [t.task_id for t in bad.tasks] == ["plan", "stage", "publish", "verdict"]


def test_a_wrong_connection_is_shown_by_its_pipelines_dag(
    pipelines: Path, no_way_out: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As far as the environment defines it, without asking anything; the tasks and the schedule
    stay, so that the next run fails by name. One in Airflow's database is not looked up.
    """
    noted = f"{FLIGHTS}\noptions: {{includeHeaders: true}}\n"
    (pipelines / "flights.yaml").write_text(noted)
    (pipelines / "back.yaml").write_text(BACK.replace("copy}", "copy, kafka: kafka_stored}"))
    extra = {
        "bootstrap.servers": "b:9093", "security.protocol": "SASL_SLL", "sasl.mechanism": "PLAIN",
        "sasl.username": "u", "sasl.password": "canary-password",
    }  # fmt: skip
    form = {"conn_type": "kafka", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(form))
    bag = parse()
    assert bag.import_errors == {}
    wrong, right = bag.dags["tidegate__flights"], bag.dags["tidegate__back"]
    assert wrong.tags == {"tidegate", "ingest", "broken"}
    assert "security.protocol: not one of" in wrong.doc_md
    assert "canary-password" not in wrong.doc_md
    assert "pipeline 'flights': Kafka connection 'kafka_default'" in wrong.doc_md
    assert "options: includeHeaders: it has no effect" in wrong.doc_md
    assert {t.task_id for t in wrong.tasks} == {"plan", "stage", "publish", "verdict"}
    assert wrong.schedule is not None
    assert right.tags == {"tidegate", "egress"}


HOSTILE = {
    "date": "start: {timestamp: 2026-02-30}",
    "digits": f"max_records: {'1' * 5000}",
    "hex": f"max_records: 0x{'f' * 5000}",
    "recursive": "spark: &a {conf: *a}",
    "deep": f"spark: {'[' * 5000}",
    "twice": "retries: 1\nretries: 2",
    "never": "schedule: 0 0 30 2 *",
    "nul": '"a\\0b": "``` \\ud800"',
    "long": "x: " + "y" * 100_000,
    "a~b": "",
    "a-b": "",
    "a b": "",
    "a" * 245: "",
    os.fsdecode(b"\xff"): "",
}


def test_whatever_is_in_a_file_only_its_own_dag_suffers(pipelines: Path) -> None:
    """Values that break YAML, a validator or Airflow, and names that are long, odd or alike: each
    file has a DAG of its own, the healthy one is whole, and Airflow can store all of them.
    """
    from airflow.serialization.serialized_objects import DagSerialization

    (pipelines / "flights.yaml").write_text(FLIGHTS)
    for name, line in HOSTILE.items():
        text = FLIGHTS.replace("name: flights", f"name: {name}")
        content = f"{text}\n{line}\n".encode(errors="surrogateescape")
        (pipelines / f"{name}.yaml").write_bytes(content)
    bag = parse()
    assert len(bag.import_errors) == 1
    ours = {dag_id: dag for dag_id, dag in bag.dags.items() if dag_id not in BY_HAND}
    assert len(ours) == 1 + len(HOSTILE)
    assert {i for i, dag in ours.items() if "broken" not in dag.tags} == {
        "tidegate__flights", "tidegate__a-b",
    }  # fmt: skip
    for dag in ours.values():
        json.dumps(DagSerialization.to_dict(dag), ensure_ascii=False).encode()
        assert "\0" not in dag.doc_md
        assert len(dag.doc_md) < 25_000
    form = bag.dags["tidegate_backfill"].params.get_param("pipeline")
    assert form.schema["enum"] == ["a-b", "flights"]


def test_what_airflow_refuses_is_said_by_that_pipelines_dag(
    pipelines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that nobody foresaw takes no other pipeline with it."""
    from tidegate.orchestration import factory

    for name in ("flights", "other"):
        (pipelines / f"{name}.yaml").write_text(FLIGHTS.replace("name: flights", f"name: {name}"))
    make = factory.pipeline_dag

    def refuse(spec: Any) -> Any:
        if spec.name == "other":
            raise ValueError("no such thing")
        return make(spec)

    monkeypatch.setattr(factory, "pipeline_dag", refuse)
    dags = factory.pipeline_dags()
    assert "broken" not in dags["tidegate__flights"].tags
    assert "Airflow refuses it: ValueError: no such thing" in (dags["tidegate__other"].doc_md or "")


def test_a_task_builds_its_own_dag(pipelines: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow reads the DAG file for each task: a file of another pipeline is not even read."""
    from airflow.sdk.definitions.context import _AIRFLOW_PARSING_CONTEXT_DAG_ID as WANTED

    from tidegate.pipelines import pipeline_files

    for name in ("flights", "other", "Wrong"):
        (pipelines / f"{name}.yaml").write_text(FLIGHTS.replace("name: flights", f"name: {name}"))
    everything = parse().dags
    read: list[str] = []
    load = pipeline_files.load_spec
    monkeypatch.setattr(
        pipeline_files, "load_spec", lambda path: read.append(path.stem) or load(path)
    )
    for dag_id in everything.keys() - BY_HAND:
        read.clear()
        monkeypatch.setenv(WANTED, dag_id)
        found = parse().dags
        assert found.keys() == {dag_id} | BY_HAND
        assert found[dag_id].task_dict.keys() == everything[dag_id].task_dict.keys()
        assert {*read} == {next(n for n in ("flights", "other", "Wrong") if n in dag_id)}
    read.clear()
    monkeypatch.setenv(WANTED, "tidegate_backfill")
    assert parse().dags.keys() == BY_HAND
    assert not read


@pytest.mark.parametrize(
    "schedule",
    ["@hourly", "@quarterly", "0 0 L * *", "0 0 * * sun#2", "*/5 * * * * 30", "5-10/2 1 * jan 1-5"],
)
def test_a_schedule_that_is_accepted_is_one_for_airflow(pipelines: Path, schedule: str) -> None:
    """The scheduler can compute when it fires next."""
    from airflow.timetables.interval import CronDataIntervalTimetable
    from pendulum import datetime

    text = FLIGHTS.replace("*/10 * * * *", schedule)
    (pipelines / "flights.yaml").write_text(text)
    assert "broken" not in parse().dags["tidegate__flights"].tags
    assert CronDataIntervalTimetable(schedule, timezone="UTC")._get_next(datetime(2026, 3, 14))
