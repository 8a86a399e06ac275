"""A command about all pipelines: an error of any type in one of them is reported for that one."""

import json
from unittest import mock

import pytest

from support.kafka_answers import answer
from tidegate.cli import main, maintenance_commands
from tidegate.doctor import machine
from tidegate.doctor import pipeline_checks as pipeline_checks
from tidegate.doctor.check import Check, ok
from tidegate.errors import BrokerUnreachable, LakeUnavailable
from tidegate.lake.local_store import LocalStore
from tidegate.runs.run import NO_MIRROR

INTERNAL = {
    "name": "Internal", "kind": "terminal", "message": "RuntimeError: unforeseen", "numbers": {},
}  # fmt: skip


@pytest.fixture
def lakes(tmp_path, monkeypatch):
    """Pipelines a, b and c; the errors that their lakes raise, by name: b's is unforeseen."""
    monkeypatch.setenv("TIDEGATE_PIPELINES", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", '{"extra": {"bootstrap.servers": "b:1"}}')
    for name in "abc":
        form = {"name": name, "kind": "ingest", "topics": ["t"], "lake": str(tmp_path / "lake")}
        (tmp_path / f"{name}.yaml").write_text(json.dumps(form))
    errors = {"b": RuntimeError("unforeseen")}
    names = LocalStore.names

    def broken(self, directory, *, after=""):
        if self.root.name in errors:
            raise errors[self.root.name]
        return names(self, directory, after=after)

    monkeypatch.setattr(LocalStore, "names", broken)
    monkeypatch.setattr(maintenance_commands, "variables", lambda: NO_MIRROR)
    unreachable = mock.Mock(side_effect=BrokerUnreachable("no broker answered"))
    answer(monkeypatch, survey=unreachable)
    return errors


@pytest.fixture
def tidegate(lakes, monkeypatch, capsys):
    """Run a command; return its exit code, stdout and stderr."""

    def run(*args):
        monkeypatch.setattr("sys.argv", ["tidegate", *args])
        with pytest.raises(SystemExit) as ended:
            main.run()
        return ended.value.code or 0, *capsys.readouterr()

    return run


def test_the_doctor_without_a_directory_of_pipelines(tidegate, monkeypatch):
    """The machine is checked all the same."""
    monkeypatch.setattr(
        machine, "machine_checks", lambda: [Check("x", lambda: iter([ok("x", "fine")]))]
    )
    monkeypatch.setenv("TIDEGATE_PIPELINES", "/nowhere")
    code, out, _ = tidegate("doctor", "--json")
    lines = [(each["check"], each["state"], each["says"]) for each in json.loads(out)["checks"]]
    wrong = ("pipelines", "failure", "there is no directory /nowhere")
    assert (code, lines) == (3, [("x", "ok", "fine"), wrong])


COMMANDS = ("status", "repair", "reconcile", "sweep", "checkpoint")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_other_pipelines_are_done(tidegate, command):
    """The one has `Internal` in its place, as a command about it alone has, and exit code 1."""
    code, out, _ = tidegate(command, "--json")
    a, b, c = json.loads(out)["pipelines"]
    assert (code, a["pipeline"], c["pipeline"]) == (1, "a", "c")
    assert "error" not in a | c
    assert b == {"format": 1, "pipeline": "b", "error": INTERNAL}
    assert json.loads(tidegate(command, "b", "--json")[1])["error"] == INTERNAL
    code, _, err = tidegate(command)
    assert (code, "b: RuntimeError: unforeseen" in err) == (1, True)


def test_it_hides_no_refusal_and_is_hidden_by_no_retry(tidegate, lakes):
    """A script that retries on 4 must not hide it."""
    lakes["a"] = LakeUnavailable("away")
    assert tidegate("repair")[0] == 1


def test_the_doctor_examines_the_others(tidegate, lakes, monkeypatch):
    """Also when the checks of one pipeline cannot even be listed."""
    lakes.clear()
    checks = pipeline_checks.checks

    def broken(spec, *lookups):
        if spec.name == "b":
            raise RuntimeError("unforeseen")
        return [check for check in checks(spec, *lookups) if check.name == "lake"]

    monkeypatch.setattr(machine, "machine_checks", list)
    monkeypatch.setattr(pipeline_checks, "checks", broken)
    code, out, _ = tidegate("doctor", "--json")
    lines = json.loads(out)["checks"]
    assert (code, {line["pipeline"] for line in lines}) == (3, {"a", "b", "c"})
    (failure,) = (line for line in lines if line["state"] == "failure")
    assert (failure["pipeline"], failure["says"]) == ("b", "RuntimeError: unforeseen")
