"""A broker that does not answer is waited for aloud."""

import logging
import time

import pytest

from tidegate.broker import client_errors
from tidegate.broker.client_errors import connection_errors
from tidegate.broker.client_settings import KafkaSettings

KAFKA = KafkaSettings("k", {"bootstrap.servers": "nowhere:1"})


def test_waiting_is_told_by_one_of_several(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Again and again, and no longer than it lasts."""
    monkeypatch.setattr(client_errors, "FIRST_LINE_AFTER", 0.02)
    monkeypatch.setattr(client_errors, "LINES_APART", 0.02)
    caplog.set_level(logging.INFO, client_errors.__name__)
    with connection_errors(KAFKA), connection_errors(KAFKA):
        give_up = time.monotonic() + 20
        while len(caplog.messages) < 3 and time.monotonic() < give_up:
            time.sleep(0.01)
    told = len(caplog.messages)
    assert set(caplog.messages) == {"waiting for Kafka at nowhere:1 (k): 0 s"}
    time.sleep(0.1)
    assert len(caplog.messages) <= told + 1
    with connection_errors(KAFKA):  # at once
        pass
    assert len(caplog.messages) <= told + 1
