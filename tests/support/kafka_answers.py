"""Answers of a test in place of those of a Kafka cluster."""

from collections.abc import Callable
from typing import Any

import pytest

from tidegate.broker.kafka_cluster import KafkaCluster


def answer(patch: pytest.MonkeyPatch, **answers: Callable[..., Any]) -> None:
    """Let these functions answer in place of the methods of each cluster; they get it first."""
    for name, function in answers.items():
        patch.setattr(KafkaCluster, name, _method(function))


def _method(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given, **how: function(*given, **how)
