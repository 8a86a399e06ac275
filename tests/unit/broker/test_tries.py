"""How often the planner asks a broker: as Spark does, by `fetchOffset.numRetries`."""

from typing import Any

import pytest

from tidegate.broker import cluster, consumer_groups
from tidegate.broker.client_settings import KafkaSettings
from tidegate.errors import BrokerError, BrokerUnreachable, NotAuthenticated, TidegateError

KAFKA = KafkaSettings("k", {"bootstrap.servers": "b:1"})


class Broker:
    """Refuses every request; counts them."""

    def __init__(self, error: TidegateError) -> None:
        self.error, self.asked = error, 0

    def __call__(self, *_: Any) -> Any:
        self.asked += 1
        raise self.error


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    seconds: list[float] = []
    monkeypatch.setattr("tenacity.nap.time.sleep", seconds.append)
    return seconds


@pytest.mark.parametrize(
    ("settings", "error", "of_log", "of_group"),
    [
        (KAFKA, BrokerError("no leader"), 3, 3),
        (KAFKA, BrokerUnreachable("away"), 1, 1),  # connecting has a patience of its own
        (KAFKA, NotAuthenticated("refused"), 1, 1),
        (KAFKA.used_by("c", 5), BrokerError("no leader"), 5, 5),
        (KAFKA.used_by("c", 5), BrokerUnreachable("away"), 5, 5),
        (KAFKA.used_by("c", 5), NotAuthenticated("refused"), 1, 1),
        # A fresh broker's first answer about a group is "not available yet".
        (KAFKA.used_by("c", 1), BrokerError("no leader"), 1, 3),
    ],
)
def test_beyond_the_tries(
    monkeypatch: pytest.MonkeyPatch,
    settings: KafkaSettings,
    error: TidegateError,
    of_log: int,
    of_group: int,
) -> None:
    """The error is that of the broker, for look-ups of the log and of a group alike."""
    for ask, asked in (
        (lambda: cluster.survey(settings, ["t"], "read_committed"), of_log),
        (lambda: consumer_groups.read_group_offsets(settings, "g"), of_group),
        (lambda: consumer_groups.commit_offsets(settings, "g", {}), of_group),
    ):
        broker = Broker(error)
        for module in (cluster, consumer_groups):
            monkeypatch.setattr(module, "Cluster", broker)
        with pytest.raises(type(error), match=str(error)):
            ask()
        assert broker.asked == asked


def test_within_the_tries(
    monkeypatch: pytest.MonkeyPatch, slept: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    """Each try that fails is one warning, with its error."""
    answers: list[Any] = [BrokerUnreachable("away"), BrokerError("no leader"), "seen"]

    def survey(*_: Any) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, TidegateError):
            raise answer
        return answer

    monkeypatch.setattr(cluster, "survey_once", survey)
    settings = KAFKA.used_by("c", 3, 0.25)
    assert cluster.survey(settings, ["t"], "read_committed") == "seen"
    assert slept == [0.25, 0.25]
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert [record.getMessage() for record in caplog.records] == [
        "the look-up of topics and offsets failed: try 1 of 3; the next in 0.25 s: "
        "BrokerUnreachable: away",
        "the look-up of topics and offsets failed: try 2 of 3; the next in 0.25 s: "
        "BrokerError: no leader",
    ]


@pytest.mark.parametrize(
    ("ask", "what"),
    [
        (
            lambda: consumer_groups.read_group_offsets(KAFKA, "g"),
            "the look-up of consumer group 'g'",
        ),
        (
            lambda: consumer_groups.commit_offsets(KAFKA, "g", {}),
            "the commit to consumer group 'g'",
        ),
    ],
)
def test_what_is_tried_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, ask: Any, what: str
) -> None:
    """In words: no name of a function."""
    monkeypatch.setattr(consumer_groups, "Cluster", Broker(BrokerError("no leader")))
    with pytest.raises(BrokerError):
        ask()
    assert [record.getMessage() for record in caplog.records] == [
        f"{what} failed: try {each} of 3; the next in 1 s: BrokerError: no leader"
        for each in (1, 2)
    ]
