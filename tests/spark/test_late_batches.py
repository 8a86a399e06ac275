"""Batches of a killed attempt that land after the next one has looked for them."""

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from support.egress_pipeline import EgressPipeline, begun
from tidegate import faults
from tidegate.errors import PartitionsLeftOut, RowsRefused, SendFailed, StageFailed
from tidegate.spark.egress_job import EgressJob

ROWS = 20


@pytest.fixture
def plan(pipeline: EgressPipeline) -> str:
    """Let an attempt of 20 lines begin to send, and die; return the plan id."""
    pipeline.put("a", "".join(f"n{n}\n" for n in range(ROWS)))
    pipeline.set_source("text")

    def dies(given: EgressJob, _: Path) -> None:
        begun(given)
        raise StageFailed("killed")

    with pytest.raises(SendFailed):
        pipeline.run_all(submit=dies)
    (claim,) = pipeline.fold().egress.claims.values()
    return claim.plan_id


def lands(pipeline: EgressPipeline, plan: str) -> None:
    """Append the first five rows, as the broker does with a batch from its queue."""
    producer = Producer({"bootstrap.servers": pipeline.bootstrap})
    for n in range(5):
        producer.produce(pipeline.topic, b"n%d" % n, headers=[("tidegate", f"{plan}:0:{n}:")])
    assert producer.flush(30) == 0


def at(point: str, do: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "point", lambda name: do() if name == point else None)


@pytest.mark.parametrize(
    "point", [pytest.param("send.before", marks=pytest.mark.slow), "send.sent"]
)
def test_it_is_counted(
    pipeline: EgressPipeline, plan: str, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """Also one that lands a second after the last row was sent."""
    delay = 0 if point == "send.before" else 1
    timer = threading.Timer(delay, lands, (pipeline, plan))
    at(point, timer.start, monkeypatch)
    report = pipeline.run_all()
    timer.join()
    assert (report["rows"], report["duplicates"]) == (ROWS, 5)
    values = Counter(each.value for each in pipeline.records())
    assert values == Counter({b"n%d" % n: 2 if n < 5 else 1 for n in range(ROWS)})


@pytest.mark.slow
def test_a_bad_file_is_released_after_a_dead_attempt(pipeline: EgressPipeline) -> None:
    """The attempt died before it began to send, as its mark would tell: the claim is released."""
    pipeline.set_source("json", columns="id INT")
    pipeline.put("a", '{"id": 1}\n')
    pipeline.put("b", "poison\n")

    def killed(_: EgressJob, __: Path) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pipeline.run_all(submit=killed)
    with pytest.raises(PartitionsLeftOut, match="b: row 0: "):
        pipeline.run_all()
    assert pipeline.fold().egress.claims == {}
    assert pipeline.fold().egress.sent.keys() == {"a"}


def test_an_empty_scan_releases_no_claim(pipeline: EgressPipeline, plan: str) -> None:
    """The plan cannot be sent now, and the target has nothing of it: that proves nothing."""
    pipeline.settings["target"] = {"topic": pipeline.topic, "producer": {"max.request.size": "60"}}
    with pytest.raises(RowsRefused, match="Nothing more was sent, and the claim stands"):
        pipeline.run_all()
    assert pipeline.fold().egress.claims.keys() == {plan}
