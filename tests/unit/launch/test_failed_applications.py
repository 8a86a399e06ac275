"""Applications that fail: the class of the error, and what it says."""

import re
import time
from pathlib import Path

import pytest

from support.fake_submit import fake
from tidegate.errors import ConfigurationError, OutOfMemory, StageFailed
from tidegate.launch import spark_submit as module
from tidegate.launch.spark_submit import submit


@pytest.mark.parametrize(
    "script",
    [
        "echo 'tidegate: InterruptedException: null'; exit 52",
        "echo 'Exception in thread \"main\" java.lang.OutOfMemoryError: Java heap space'; exit 1",
        "echo 'Reason: Command exited with code 52'; exit 1",
    ],
)
def test_no_memory_is_named_with_both_remedies(tmp_path: Path, script: str) -> None:
    """In place of what a thread that was interrupted by it says; a retry would end so again."""
    with pytest.raises(OutOfMemory) as failed:
        submit(
            fake(tmp_path, script),
            master="local", log=lambda _: None,
        )  # fmt: skip
    for remedy in ("Java ran out of memory", "spark.driver.memory", "local[1]", "Spark's output: "):
        assert remedy in str(failed.value)
    assert failed.value.kind == "terminal"


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (
            ["Error occurred during initialization of VM", "Could not reserve enough space for "
             "9126805504KB object heap"],
            "Could not reserve enough space for 9126805504KB object heap",
        ),
        (
            ["Invalid maximum heap size: -Xmx2gb", "Error: Could not create the Java Virtual "
             "Machine.", "Error: A fatal exception has occurred. Program will exit."],
            "Invalid maximum heap size: -Xmx2gb",
        ),
    ],
)  # fmt: skip
def test_a_java_that_does_not_start_says_why(tmp_path: Path, lines: list[str], reason: str) -> None:
    """Nobody needs to retry that."""
    script = "\n".join(f"echo '{line}'" for line in lines) + "\nexit 1"
    with pytest.raises(ConfigurationError, match=re.escape(f"Java did not start: {reason}")) as no:
        submit(fake(tmp_path, script), master="local", log=lambda _: None)
    assert "spark.driver.memory" in str(no.value)


def test_an_executor_that_was_replaced_is_no_cause(tmp_path: Path) -> None:
    """Spark has recovered from its loss: what ended the application is tried again."""
    script = "echo 'Lost executor 1: Command exited with code 52'; echo 'tidegate: away'; exit 1"
    with pytest.raises(StageFailed, match="r1: away "):
        submit(fake(tmp_path, script), master="local", log=lambda _: None)


def test_a_silent_master_is_named(tmp_path: Path) -> None:
    lines = (
        "ERROR StandaloneSchedulerBackend: All masters are unresponsive! Giving up.",
        (
            "tidegate: starting Spark: IllegalStateException: Cannot call methods on a stopped "
            "context"
        ),
    )
    script = "\n".join(f"echo '{line}'" for line in lines) + "\nexit 1"
    with pytest.raises(StageFailed, match="Spark's master does not answer"):
        submit(fake(tmp_path, script), master="spark://m:1", log=lambda _: None)


def test_an_application_that_ignores_the_request_to_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within its time, on Ctrl-C as on any other way out."""
    monkeypatch.setattr(module, "TIME_TO_END", 1.0)
    pid = tmp_path / "pid"
    script = f"trap '' TERM INT\necho $$ > {pid}\necho begun\nwhile true; do sleep 0.1; done"

    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        submit(fake(tmp_path, script), master="local", log=interrupt)
    assert time.monotonic() - began < 10
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()
