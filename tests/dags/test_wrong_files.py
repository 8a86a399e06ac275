"""A pipeline file that is wrong, or gone, is seen: in Airflow's import errors, and by a red run.

Belongs into tests/dags (it uses the fixtures of its conftest.py).
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2]
FLIGHTS = (PROJECT / "include/pipelines/flights.yaml").read_text()
OTHER = FLIGHTS.replace("name: flights", "name: other")
BACK = """
name: back
kind: egress
source: {lake: flights}
target: {topic: copy}
lake: /lake
schedule: "@hourly"
"""
BROKEN = {
    "a key": FLIGHTS.replace("topics:", "topicz:"),
    "no YAML": FLIGHTS.replace("topics:", "topics: ["),
    "no cron": FLIGHTS.replace("*/10 * * * *", "*/10 * * *"),
    "no UTF-8": FLIGHTS + "# \udcff",
}
BUNDLE = "tidegate"


def write(file: Path, text: str) -> None:
    file.write_bytes(text.encode(errors="surrogateescape"))


def of_bundle() -> Path:
    from tidegate.airflow.bundle import TidegateDagBundle

    return Path(TidegateDagBundle(name=BUNDLE).path)


def parse(directory: Path) -> Any:
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(dag_folder=str(directory), bundle_path=directory, bundle_name=BUNDLE)


@pytest.fixture
def session(airflow_database: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A session of Airflow's database, in which no run, DAG or import error is left.

    A DAG that has changed is stored at once, not after half a minute.
    """
    monkeypatch.setenv("AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL", "0")
    from airflow.models import DagModel, DagRun
    from airflow.models.dag_version import DagVersion
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.errors import ParseImportError
    from airflow.utils.session import create_session
    from sqlalchemy import delete, select

    with create_session() as session:
        if not session.scalar(select(DagBundleModel).where(DagBundleModel.name == BUNDLE)):
            session.add(DagBundleModel(name=BUNDLE))
            session.commit()
        yield session
        session.rollback()
        for table in (DagRun, DagVersion, DagModel, ParseImportError):
            session.execute(delete(table))
        session.commit()


def processed(session: Any) -> dict[str, Any]:
    """Do what the DAG processor does with the bundle; return the DAGs in the database."""
    from airflow.dag_processing.dagbag import sync_bag_to_db
    from airflow.models import DagModel
    from sqlalchemy import select

    sync_bag_to_db(parse(of_bundle()), BUNDLE, None, session=session)
    session.commit()
    session.expire_all()
    return {dag.dag_id: dag for dag in session.scalars(select(DagModel))}


def import_errors(session: Any) -> dict[str, str]:
    from airflow.models.errors import ParseImportError
    from sqlalchemy import select

    return {each.filename: each.stacktrace for each in session.scalars(select(ParseImportError))}


def scheduled_once(run: Any, session: Any) -> None:
    """Do what the scheduler does for a running run: the DAG as it is now, then its state."""
    from airflow.models.dag_version import DagVersion
    from airflow.models.dagbag import DBDagBag

    latest = DagVersion.get_latest_version(run.dag_id, session=session)
    for ti in run.get_task_instances(session=session):
        if ti.state is None:
            ti.dag_version_id = latest.id
    run.dag = DBDagBag().get_latest_version_of_dag(run.dag_id, session=session)
    run.verify_integrity(dag_version_id=latest.id, session=session)
    run.update_state(session=session, execute_callbacks=False)
    session.commit()


def begun(dag_id: str, session: Any) -> Any:
    """A scheduled run of a DAG whose `plan` has succeeded, and nothing else has begun."""
    from airflow.models.dag_version import DagVersion
    from airflow.models.dagbag import DBDagBag
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunTriggeredByType, DagRunType

    dag = DBDagBag().get_latest_version_of_dag(dag_id, session=session)
    version = DagVersion.get_latest_version(dag_id, session=session)
    now = datetime.now(UTC)
    run = dag.create_dagrun(
        run_id="r", logical_date=now, data_interval=(now, now + timedelta(minutes=10)),
        run_after=now, run_type=DagRunType.SCHEDULED, state=DagRunState.RUNNING,
        triggered_by=DagRunTriggeredByType.TIMETABLE, session=session,
    )  # fmt: skip
    assert version is not None
    for ti in run.get_task_instances(session=session):
        if ti.task_id == "plan":
            ti.state, ti.start_date, ti.end_date = "success", now, now
    session.commit()
    return run


@pytest.mark.parametrize("place", ["dags", "bundle"])
@pytest.mark.parametrize("how", BROKEN)
def test_a_wrong_file_is_an_import_error_beside_all_dags(
    pipelines: Path, place: str, how: str
) -> None:
    """Of a DAG file that has no DAG, so that Airflow takes none away; all others are whole."""
    directory = PROJECT / "dags" if place == "dags" else of_bundle()
    write(pipelines / "flights.yaml", BROKEN[how])
    write(pipelines / "other.yaml", OTHER)
    bag = parse(directory)
    ((file, text),) = bag.import_errors.items()
    assert "flights.yaml" in text
    assert "other" not in text
    assert {"tidegate__flights", "tidegate__other"} <= set(bag.dags)
    assert not [dag for dag in bag.dags.values() if Path(dag.fileloc) == directory / file]
    write(pipelines / "flights.yaml", FLIGHTS)
    assert parse(directory).import_errors == {}


def test_the_import_error_takes_no_schedule_and_ends_with_the_typo(
    pipelines: Path, session: Any
) -> None:
    """Airflow marks each DAG of a file with an import error as stale: none may be of that file."""
    write(pipelines / "flights.yaml", BROKEN["a key"])
    write(pipelines / "other.yaml", OTHER)
    dags = processed(session)
    assert len(import_errors(session)) == 1
    assert [dag.dag_id for dag in dags.values() if dag.is_stale or dag.has_import_errors] == []
    write(pipelines / "flights.yaml", FLIGHTS)
    processed(session)
    assert import_errors(session) == {}


@pytest.mark.parametrize("how", BROKEN)
def test_a_wrong_file_keeps_a_schedule(pipelines: Path, session: Any, how: str) -> None:
    """Its own where the file still says one, else every hour: so that a red run is seen, too."""
    write(pipelines / "flights.yaml", FLIGHTS)
    was = processed(session)["tidegate__flights"].timetable_summary
    write(pipelines / "flights.yaml", BROKEN[how])
    dag = processed(session)["tidegate__flights"]
    assert dag.timetable_summary == ("0 * * * *" if how == "no cron" else was)
    assert dag.next_dagrun_create_after is not None
    write(pipelines / "flights.yaml", FLIGHTS.replace("schedule:", "# schedule:"))
    assert processed(session)["tidegate__flights"].next_dagrun_create_after is None


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize("name", ["flights", "back"])
def test_a_run_that_is_under_way_when_its_file_breaks_does_not_succeed(
    pipelines: Path, session: Any, how: str, name: str
) -> None:
    """What is left of it is refused by name: it neither vanishes nor counts as done."""
    good = FLIGHTS if name == "flights" else BACK
    bad = BROKEN[how] if name == "flights" else BACK.replace("kind: egress", "kind: [")
    write(pipelines / f"{name}.yaml", good)
    processed(session)
    run = begun(f"tidegate__{name}", session)
    write(pipelines / f"{name}.yaml", bad)
    processed(session)
    scheduled_once(run, session)
    states = {ti.task_id: ti.state for ti in run.get_task_instances(session=session)}
    assert run.state == "running", states  # not success: `stage` or `send` is still to come
    assert "removed" not in states.values()


def test_each_task_of_a_wrong_file_fails_with_its_complaints(pipelines: Path) -> None:
    from airflow.exceptions import AirflowFailException

    write(pipelines / "flights.yaml", BROKEN["a key"])
    dag = parse(PROJECT / "dags").dags["tidegate__flights"]
    assert [task.task_id for task in dag.topological_sort()] == [
        "plan", "stage", "publish", "verdict",
    ]  # fmt: skip
    for task in dag.tasks:
        with pytest.raises(AirflowFailException, match="topicz: unknown key"):
            task.python_callable()
        assert task.retries == 0


@pytest.mark.parametrize("how", ["deleted", pytest.param("renamed", marks=pytest.mark.slow)])
def test_a_run_whose_file_is_gone_fails_maintenance(
    pipelines: Path, session: Any, how: str
) -> None:
    """Airflow leaves such a run as it is, for ever: running, of a DAG that is stale."""
    from airflow.models import DagModel
    from sqlalchemy import update

    def maintained() -> dict[str, str]:
        dag = parse(PROJECT / "dags").dags["tidegate_maintenance"]
        steps = ("repair", "reconcile", "sweep", "checkpoint")
        done = dag.test(run_conf=dict.fromkeys(steps, False))
        session.expire_all()
        return {ti.task_id: str(ti.state) for ti in done.get_task_instances()} | {
            "": str(done.state)
        }

    write(pipelines / "flights.yaml", FLIGHTS)
    processed(session)
    run = begun("tidegate__flights", session)
    assert maintained()[""] == "success"
    if how == "deleted":
        (pipelines / "flights.yaml").unlink()
    else:
        (pipelines / "flights.yaml").rename(pipelines / "other.yaml")
        write(pipelines / "other.yaml", OTHER)
    of_flights = update(DagModel).where(DagModel.dag_id == "tidegate__flights")
    session.execute(of_flights.values(is_stale=True))  # as the DAG processor does after a minute
    session.commit()
    for _ in range(2):
        assert maintained()[""] == "failed"
    run.set_state("failed")
    session.merge(run)
    session.commit()
    assert maintained()[""] == "success"
