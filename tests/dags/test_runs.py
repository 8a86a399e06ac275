"""What a task instance belongs to: the lane and the interval of an Airflow run."""

from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pendulum
import pytest
from airflow.exceptions import AirflowFailException

from tidegate.core.boundaries import to_milliseconds
from tidegate.core.offsets import OffsetRange
from tidegate.core.requests import Backfill, Dates, FileReplay, Live, Replay
from tidegate.errors import ConfigurationError
from tidegate.orchestration import form_dags, rights, tasks
from tidegate.pipelines.pipeline_files import load_named

START, END = pendulum.datetime(2026, 3, 14, 10), pendulum.datetime(2026, 3, 14, 11)
HOUR = (datetime(2026, 3, 14, 10, tzinfo=UTC), datetime(2026, 3, 14, 11, tzinfo=UTC))

NOON = datetime(2026, 3, 14, 12, tzinfo=UTC)


@pytest.fixture
def context(pipelines: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make a task's context: `context("scheduled", START, END)`."""
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", '{"extra": {"bootstrap.servers": "b:1"}}')
    text = "name: flights\nkind: ingest\ntopics: [flights]\nlake: /lake\n"
    (pipelines / "flights.yaml").write_text(text)

    def make(run_type: str, start: Any, end: Any, **conf: Any) -> dict[str, Any]:
        run = SimpleNamespace(
            dag_id="tidegate__flights", run_id="r", run_type=run_type, conf=conf,
            triggering_user_name="ann", run_after=NOON, start_date=NOON,
        )  # fmt: skip
        interval = {"data_interval_start": start, "data_interval_end": end}
        ti = SimpleNamespace(task_id="plan", run_id="r", try_number=2)
        return {"dag_run": run, "ti": ti, "params": conf, **interval}

    return make


@pytest.mark.parametrize(
    ("run_type", "start", "end", "asked"),
    [
        ("scheduled", START, END, Live(HOUR)),
        ("backfill", START, END, Dates(HOUR)),
        ("manual", None, None, Live()),
        ("manual", START, START, Live()),
        ("backfill", START, START, Live()),  # a schedule without intervals
    ],
)
def test_what_a_run_is_asked_for(
    context: Any, run_type: str, start: Any, end: Any, asked: Dates | Live
) -> None:
    """By its type, with an interval of plain datetimes: Airflow's own cannot be counted with."""
    run = tasks.run_of(load_named("flights"), context(run_type, start, end, max_chunks=3))
    assert (run.asked, run.max_chunks) == (asked, 3)
    assert run.kafka.for_python()["client_id"] == "tidegate-flights-plan-r-2"
    if asked.interval:
        assert run.window_date == date(2026, 3, 14)
        assert run.asked.interval
        assert {type(edge) for edge in run.asked.interval} == {datetime}
        assert to_milliseconds(run.asked.interval[0]) == 1_773_482_400_000


def test_a_whole_number_is_an_integer_however_json_writes_it(context: Any) -> None:
    """Airflow takes 5.0 for an integer; a run that sliced and counted by it failed three times."""
    given = context("manual", None, None, max_chunks=3.0, max_records=1e3)
    run = tasks.run_of(load_named("flights"), given)
    assert (run.max_chunks, run.max_records) == (3, 1000)
    assert {type(run.max_chunks), type(run.max_records)} == {int}
    form = {"pipeline": "flights", "topic": None, "partitions": [3.0, 0], "start": "0", "end": "5",
            "zone": "UTC", "ranges": None, "fill_gaps": False, "chunk_size": 7.0}  # fmt: skip
    signature = rights.sign_trigger(given["dag_run"].dag_id, "flights", "ann")
    given["params"], given["dag_run"].conf = form, {rights.KEY: signature}
    asked = form_dags._backfill({**given, "dag": SimpleNamespace(params=[*form])}).asked
    assert isinstance(asked, Backfill)
    assert repr((asked.partitions, asked.chunk_size)) == "((0, 3), 7)"


def test_edges_are_those_of_the_run(context: Any) -> None:
    """However often its tasks are cleared; ranges are of several topics."""
    given = context("manual", None, None)
    form = {"pipeline": "flights", "topic": None, "partitions": None, "start": "-1d",
            "end": "2026-03-14", "zone": "Asia/Tokyo", "ranges": None, "fill_gaps": False,
            "chunk_size": None}  # fmt: skip
    signature = rights.sign_trigger(given["dag_run"].dag_id, "flights", "ann")

    def asked(**others: Any) -> Any:
        params = {**form, **others}
        given["params"], given["dag_run"].conf = params, {rights.KEY: signature}
        return form_dags._backfill({**given, "dag": SimpleNamespace(params=[*form])}).asked

    edges = "2026-03-13T12:00:00+00:00", "2026-03-14T00:00:00+09:00"
    assert (asked().start, asked().end) == edges
    exact = asked(start=None, end=None, ranges=["flights:0:5-9", "b:3:0-1"])
    assert exact == Backfill(ranges=(OffsetRange("flights", 0, 5, 9), OffsetRange("b", 3, 0, 1)))
    with pytest.raises(ConfigurationError, match="zone 'Mars': not a name of the IANA time zones"):
        asked(zone="Mars")


def test_unknown_params_are_refused(context: Any) -> None:
    """Airflow takes them."""
    with pytest.raises(ConfigurationError, match="max_chunk'"):
        tasks.run_of(load_named("flights"), context("manual", None, None, max_chunk=3))


def test_a_replay_is_of_its_pipelines_kind(context: Any, pipelines: Path) -> None:
    """An ingest's is read again, an egress's is sent again: by the same form, with the same key,
    and with the source's own Kafka. Keys that are no Params are refused for both.
    """
    (pipelines / "back.yaml").write_text(
        "name: back\nkind: egress\nsource: {lake: flights}\ntarget: {topic: copy, kafka: other}\n"
        "lake: /lake\n"
    )
    form = {"topic": None, "partitions": [3, 0], "start": "0", "end": "5", "replay_id": "x",
            "zone": "UTC", "where": None, "files": None}  # fmt: skip

    def made(pipeline: str, **others: Any) -> Any:
        given = context("manual", None, None)
        params = {**form, "pipeline": pipeline, **others}
        given["dag_run"].dag_id = "tidegate_replay"
        signature = rights.sign_trigger("tidegate_replay", pipeline, "ann")
        given["params"], given["dag_run"].conf = params, {**params, rights.KEY: signature}
        task = SimpleNamespace(dag_id="tidegate_replay", run_id="r", task_id="send", try_number=2)
        return {**given, "dag": SimpleNamespace(params=[*form, "pipeline"]), "ti": task}

    asked = Replay("flights", "x", (0, 3), "0", "5")
    ingest = form_dags._replay(made("flights"))
    with pytest.MonkeyPatch.context() as environment:
        environment.setattr("tidegate.orchestration.deployment.read_identity", lambda: "ours")
        other = '{"extra": {"bootstrap.servers": "other:1"}}'
        environment.setenv("AIRFLOW_CONN_OTHER", other)
        egress = form_dags._replay(made("back"))
        for pipeline in ("flights", "back"):
            with pytest.raises(ConfigurationError, match="wher'"):
                form_dags._replay(made(pipeline, wher="true"))
        (pipelines / "back.yaml").write_text(
            "name: back\nkind: egress\nsource: {path: /in, format: text}\n"
            "target: {topic: copy, kafka: other}\nlake: /lake\n"
        )
        named = {"partitions": None, "start": None, "end": None, "files": ["a*"]}
        of_files = form_dags._replay(made("back", **named)).asked
    assert of_files == FileReplay("x", ("a*",))
    assert (ingest.asked, egress.asked) == (asked, asked)
    assert ingest.key == egress.key
    assert egress.source_kafka is not None
    servers = egress.kafka.bootstrap_servers, egress.source_kafka.bootstrap_servers
    assert servers == ("other:1", "b:1")
    assert egress.senders.task == {"dag": "tidegate_replay", "run": "r", "task": "send", "try": 2,
                           "deployment": "ours"}  # fmt: skip


def test_a_spark_task_is_for_one_kind(context: Any) -> None:
    """A pipeline's file may change its kind between two tasks of a replay."""
    run = SimpleNamespace(spec=load_named("flights"))
    task = tasks.SparkTask(task_id="send", run_of=lambda _: run)  # type: ignore[arg-type,return-value]
    with (
        mock.patch("tidegate.spark.parent_death.end_with_parent"),
        pytest.raises(AirflowFailException, match="'flights' is ingest, and this task is for"),
    ):
        task.execute(context("manual", None, None))


@pytest.mark.parametrize(
    ("states", "over"),
    [
        ({"r": {"send": "running"}}, False),
        ({"r": {"send": "restarting"}}, False),
        ({"r": {"send": "failed"}}, True),
        ({"r": {"send": None}}, True),  # cleared, and none of its processes left
        ({"r": {}}, False),
        ({}, False),
    ],
)
def test_whether_a_senders_task_has_ended(
    states: dict[str, dict[str, Any]], over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what Airflow says; where it says nothing, the sender may live."""
    monkeypatch.setattr("tidegate.orchestration.deployment.read_identity", lambda: "ours")
    ti = SimpleNamespace(
        dag_id="d", run_id="r", task_id="plan", try_number=1, get_task_states=lambda **_: states
    )
    ended = tasks.task_ended({"ti": ti})  # type: ignore[typeddict-item]
    task = {"dag": "d", "run": "r", "task": "send", "try": 1, "deployment": "ours"}
    assert ended(task) is over
