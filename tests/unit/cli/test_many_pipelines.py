"""Commands about several pipelines: one state each, its exit code, and runs as a process each."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.doc_pages import fenced, page
from tidegate import flows
from tidegate.cli import main, pipeline_commands
from tidegate.core.partition import LeftOut, Problem, Reason
from tidegate.egress.status import EgressStatus, judge_egress
from tidegate.errors import BrokerUnreachable, ConfigurationError, LakeUnavailable
from tidegate.ingest.status import IngestStatus
from tidegate.runs.pipeline_state import State

Tidegate = Callable[..., tuple[int, str, str]]
STATUS, EGRESS = map(json.loads, fenced(page("docs/json.md#status"), "json"))
"""The examples of the page."""
(LOST,) = IngestStatus.from_json(STATUS).problems
RECREATED = Problem(LeftOut("flights", None, Reason.RECREATED, {"was": "a", "is": "b"}), "adopt")
HEALTHY = replace(IngestStatus.from_json(STATUS), problems=(), unfinished=())


@pytest.fixture
def statuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Pipelines by their files; what each status is, or the error in its place."""
    monkeypatch.setenv("TIDEGATE_PIPELINES", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", '{"extra": {"bootstrap.servers": "b:1"}}')
    found: dict[str, Any] = {}

    def status(_: object, spec: Any, __: object) -> Any:
        answer = found[spec.name]
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(flows.IngestFlow, "status", status)
    monkeypatch.setattr(flows.EgressFlow, "status", status)
    return found


@pytest.fixture
def add(statuses: dict[str, Any], tmp_path: Path) -> Callable[..., None]:
    def pipeline(name: str, status: Any, **more: Any) -> None:
        lake = {"lake": str(tmp_path / "lake")}
        form = {"name": name, "kind": "ingest", "topics": ["flights"], **lake, **more}
        (tmp_path / f"{name}.yaml").write_text(json.dumps(form))
        statuses[name] = status

    return pipeline


@pytest.fixture
def tidegate(
    statuses: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Tidegate:
    def run(*args: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["tidegate", *args])
        with pytest.raises(SystemExit) as ended:
            main.run()
        return int(ended.value.code or 0), *capfd.readouterr()

    return run


@pytest.mark.parametrize(
    ("status", "more", "state", "code"),
    [
        (HEALTHY, {}, State.OK, 0),
        (replace(HEALTHY, topics={}), {}, State.IDLE, 0),
        (replace(HEALTHY, problems=(LOST, RECREATED)), {}, State.LOSING, 3),
        (replace(HEALTHY, problems=(LOST,)), {"on_expired": "skip"}, State.OK, 0),
        (replace(HEALTHY, problems=(RECREATED,)), {}, State.BLOCKED, 3),
        (replace(HEALTHY, broker="no broker answered"), {}, State.UNKNOWN, 4),
        (replace(HEALTHY, broker="wrong password", refused=True), {}, State.BLOCKED, 3),
        (BrokerUnreachable("no broker answered"), {}, State.UNKNOWN, 4),
    ],
)  # fmt: skip
def test_the_state_of_an_ingest(
    tidegate: Tidegate, add: Callable[..., None], status: Any, more: Any, state: State, code: int
) -> None:
    """Of `status` and `list` the same, for one pipeline and for all."""
    add("p", status, **more)
    for command in (("status", "p"), ("status",), ("list",)):
        assert tidegate(*command)[0] == code, command
    (listed,) = json.loads(tidegate("list", "--json")[1])["pipelines"]
    assert listed["state"] == state


def test_the_state_of_an_egress() -> None:
    """A file that is excluded, or a dead sender, needs action; a source may not answer."""
    whole = EgressStatus.from_json(EGRESS)
    healthy = replace(whole, left_out=(), open_claims=())
    away = replace(healthy, waiting=None, source_problem="not mounted")
    assert healthy.waiting
    empty = replace(healthy.waiting, files=0, young=0, offsets=0, ahead=0, unselected=0)
    (claim,) = whole.open_claims
    dead, unseen = replace(claim, sender_dead=True), replace(claim, sender_dead=False)
    replay = replace(dead, replay="again")
    for status, state in (
        (whole, State.BLOCKED),  # a file is excluded
        (healthy, State.OK),
        (replace(healthy, waiting=empty), State.IDLE),
        (replace(healthy, waiting=replace(empty, ahead=5)), State.OK),
        (away, State.UNKNOWN),
        (replace(away, refused=True), State.BLOCKED),
        (replace(healthy, waiting=empty, open_claims=(dead,)), State.IDLE),  # the next run's
        (replace(healthy, waiting=empty, open_claims=(unseen,)), State.OK),
        (replace(healthy, waiting=empty, open_claims=(replay,)), State.BLOCKED),
    ):
        assert judge_egress(status).state == state, status


def test_the_worst_pipelines_come_first(
    tidegate: Tidegate, add: Callable[..., None], tmp_path: Path
) -> None:
    """Also one whose file is wrong, with what is wrong with it."""
    add("fine", HEALTHY)
    add("lost", replace(HEALTHY, problems=(LOST,)))
    (tmp_path / "wrong.yaml").write_text("name: wrong\n")
    code, out, _ = tidegate("list")
    assert code == 3
    assert [line.split()[0] for line in out.splitlines()[1:4]] == ["lost", "wrong", "fine"]
    assert f"lost: {LOST.excluded}" in out
    assert "kind: missing" in out


def test_no_pipeline(tidegate: Tidegate, tmp_path: Path) -> None:
    """It says where they would be."""
    for command in ("status", "list"):
        code, _, err = tidegate(command)
        assert (code, str(tmp_path) in err) == (0, True)


def test_runs_of_several(tidegate: Tidegate, tmp_path: Path) -> None:
    """Each line has its pipeline, no failure stops another, and the worst exit code is theirs."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(f"name: {name}\n")
    code, out, err = tidegate("run", "--all", "--jobs", "2")
    assert code == 2
    assert {line.partition(":")[0] for line in out.splitlines()} == {"a", "b"}
    assert "failed: a, b " in err
    code, out, _ = tidegate("run", "b", "a", "--json")
    found = json.loads(out)["pipelines"]
    assert [(each["pipeline"], each["error"]["name"]) for each in found] == [
        ("b", "ConfigurationError"), ("a", "ConfigurationError"),
    ]  # fmt: skip


def test_options_of_one_kind_are_for_those_pipelines(
    tidegate: Tidegate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --all. By name they are refused by the run, as those of one pipeline are."""
    both = {"lake": str(tmp_path)}
    a = {"name": "a", "kind": "ingest", "topics": ["t"]}
    b = {"name": "b", "kind": "egress", "source": {"lake": "a"}, "target": {"topic": "t"}}
    for form in (a, b):
        (tmp_path / f"{form['name']}.yaml").write_text(json.dumps(form | both))
    (tmp_path / "wrong.yaml").write_text("name: wrong")
    given: dict[str, list[str]] = {}

    def run_each(names: list[str], options_of: Any, jobs: int, **_: Any) -> int:
        given.update({name: options_of(name) for name in names})
        return 0

    monkeypatch.setattr(pipeline_commands, "run_each", run_each)
    options = ("--max-records", "5", "--max-chunks", "2", "--resend")
    assert tidegate("run", "--all", *options)[0] == 0
    assert given == {
        "a": ["--max-records=5", "--max-chunks=2"],
        "b": ["--max-records=5", "--resend"],
        "wrong": ["--max-records=5", "--max-chunks=2", "--resend"],
    }
    assert tidegate("run", "a", "b", *options)[0] == 0
    assert given["b"] == ["--max-records=5", "--max-chunks=2", "--resend"]


def test_a_watched_status_goes_on_after_a_refusal(
    tidegate: Tidegate, add: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lake does not answer once. An error that a retry cannot mend ends it."""
    answers = [LakeUnavailable("no answer"), HEALTHY, ConfigurationError("wrong")]

    def status(*_: object) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    add("flights", HEALTHY)
    monkeypatch.setattr(flows.IngestFlow, "status", status)
    monkeypatch.setattr(pipeline_commands.time, "sleep", lambda _: None)
    code, out, err = tidegate("status", "flights", "--watch", "1")
    assert (code, answers, "flights" in out) == (2, [], True)
    assert err.splitlines() == ["LakeUnavailable: no answer", "ConfigurationError: wrong"]
