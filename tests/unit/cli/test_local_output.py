"""What `tidegate local` prints: on a terminal of 80 columns, and in a pipe."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support import printed
from tidegate.cli import main
from tidegate_local import stack

ADDRESSES = """\
Kafka    127.0.0.1:9092
Lake     /data/[b]/lake
Logs     /data/[b]/logs
"""
AIRFLOW = "Airflow  http://127.0.0.1:8080\n"


@pytest.fixture(params=["terminal", "pipe"])
def tidegate(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., tuple[int, str, str]]:
    """Run a command beside an empty home; return its exit code, stdout and stderr."""
    printed.on(request.param, monkeypatch)
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path))

    def run(*args: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["tidegate", *args])
        with pytest.raises(SystemExit) as ended:
            main.run()
        return int(ended.value.code or 0), *capsys.readouterr()

    return run


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state of a stack whose scheduler has ended, and whose Airflow does not answer yet."""
    pids = {"kafka": 4711, "postgres": 12, "api-server": 98765, "scheduler": None}
    state: dict[str, Any] = {
        "services": {
            name: {
                "pid": pid, "healthy": name in ("kafka", "postgres"), "log": f"/logs/{name}.log",
            }
            for name, pid in pids.items()
        },
        "kafka": "127.0.0.1:9092", "airflow": "http://127.0.0.1:8080",
        "lake": "/data/[b]/lake", "logs": "/data/[b]/logs",
    }  # fmt: skip
    monkeypatch.setattr(stack, "status", lambda _: state)


def test_status(tidegate: Callable[..., tuple[int, str, str]], running: None) -> None:
    """Services in aligned columns, then addresses."""
    table = """\
  service     state        pid    log
  kafka       healthy      4711   /logs/kafka.log
  postgres    healthy      12     /logs/postgres.log
  api-server  not healthy  98765  /logs/api-server.log
  scheduler   down         -      /logs/scheduler.log
"""
    assert tidegate("local", "status") == (0, f"{table}{AIRFLOW}{ADDRESSES}", "")


def test_without_a_stack(tidegate: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    """No addresses; a long path of a log is not cut."""
    logs = tmp_path / "logs"
    table = f"""\
  service        state  pid  log
  kafka          down   -    {tmp_path}/kafka/logs/kafka.log
  postgres       down   -    {logs}/postgres.log
  api-server     down   -    {logs}/api-server.log
  scheduler      down   -    {logs}/scheduler.log
  dag-processor  down   -    {logs}/dag-processor.log
"""
    assert tidegate("local", "status") == (0, table, "")
    assert tidegate("local", "down") == (0, f"nothing ran in {tmp_path}\n", "")


def test_up_and_down(
    tidegate: Callable[..., tuple[int, str, str]],
    running: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Steps on stderr, the result on stdout: with the login, and where the data stays."""
    line = f"starting {'scheduler, ' * 10}[dag-processor]"
    monkeypatch.setattr(stack, "up", lambda _, *, say: say(line))
    monkeypatch.setattr("tidegate_local.airflow.password", lambda _: "secret")
    login = "Login    admin / secret\n"
    assert tidegate("local", "up") == (0, f"{AIRFLOW}{login}{ADDRESSES}", f"{line}\n")
    monkeypatch.setattr(stack, "down", lambda *_, **__: True)
    text = f"the stack is down; its data stays in {tmp_path}\n"
    assert tidegate("local", "down") == (0, text, "")
