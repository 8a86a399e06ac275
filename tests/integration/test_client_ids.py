"""The names by which a run's clients arrive at a broker, in the broker's own request log."""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from support import topic_records
from support.cli_user import Terminal
from tidegate_local.kafka import Broker

Arrived = dict[str, set[str]]
"""The kinds of requests by the client id that they had."""


def level_of_requests(broker: Broker, level: str) -> None:
    """Set the level of the broker's request log."""
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        logger = ConfigResource(
            ConfigResourceType.BROKER_LOGGER, "1", {"kafka.request.logger": level}
        )
        answer = admin.alter_configs([logger], raise_on_unknown=False, incremental=True)
        assert answer == {"broker_logger": {"1": "OK"}}
    finally:
        admin.close()


@contextmanager
def request_log(broker: Broker) -> Iterator[Callable[[], Arrived]]:
    """Let the broker log its requests; the function returns those that have arrived since."""
    log = broker.home / "logs/kafka.log"
    before = log.stat().st_size

    def arrived() -> Arrived:
        found = defaultdict(set)
        with log.open("rb") as lines:
            lines.seek(before)
            text = lines.read().decode(errors="replace")
        for header in re.findall(r'"requestHeader":(\{[^{}]*\})', text):
            form = json.loads(header)
            found[str(form.get("clientId"))].add(form["requestApiKeyName"])
        return found

    level_of_requests(broker, "DEBUG")
    try:
        yield arrived
    finally:
        level_of_requests(broker, "INFO")


@pytest.mark.slow
def test_clients_name_pipeline_step_run_and_attempt(
    broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    """Those of the planner, of Spark's source and of its sink; each run has others."""
    terminal = Terminal(tmp_path, broker.bootstrap)
    source, target = topic(partitions=2), topic(partitions=2)
    terminal.pipeline("named", [source])
    (tmp_path / "in").mkdir()
    files = {"path": str(tmp_path / "in"), "format": "text"}
    terminal.egress("out", source=files, target={"topic": target})
    with request_log(broker) as arrived:
        for run in ("r 1", "r 2"):
            topic_records.numbers(broker.bootstrap, source, 100, partitions=2)
            (tmp_path / "in" / run[-1]).write_text(f"{run}\n")
            for pipeline in ("named", "out"):
                terminal.run("run", pipeline, "--run-id", run)
    mine = ("tidegate-named", "tidegate-out")
    found = {name: kinds for name, kinds in arrived().items() if name.startswith(mine)}
    steps = (
        ("named-run", "[0-9a-f]{8}", "LIST_OFFSETS"),
        ("named-stage", "[0-9a-f]{16}", "FETCH"),
        ("out-run", "[0-9a-f]{8}", "METADATA"),
        ("out-send", "[0-9a-f]{16}", "PRODUCE"),
    )
    for run in ("r_1", "r_2"):
        for step, attempt, kind in steps:
            pattern = f"tidegate-{step}-{run}-{attempt}"
            (name,) = (name for name in found if re.fullmatch(pattern, name))
            assert kind in found.pop(name)
    assert {*found} <= {*mine}  # those of no run
