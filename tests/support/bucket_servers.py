"""Servers of buckets in tests: a place on each, and a check of a lake there by the checker."""

import secrets

import pytest

from tidegate.lake.store import open_store
from tidegate_check.lake import Checker, Stored

FIXTURES = {"s3": "s3", "gs": "gcs", "abfss": "azure"}
"""The fixture of each server, by scheme."""
_FETCHED = {"abfss"}  # too slow for `make test`
SCHEMES = [
    pytest.param(each, marks=[pytest.mark.slow] if each in _FETCHED else []) for each in FIXTURES
]


def place_on(scheme: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL of a new place on a server, for which this process is configured."""
    server = request.getfixturevalue(FIXTURES[scheme])
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return f"{scheme}://{getattr(server, 'bucket', 'lakes')}/{secrets.token_hex(8)}"


def check(place: str, request: pytest.FixtureRequest) -> None:
    """Check a pipeline's directory on a server."""
    server = request.getfixturevalue(FIXTURES[place.partition(":")[0]])
    assert Checker(Stored(place, getattr(server, "files", None))).run() == []


def create_names(lake: str, number: int) -> set[int]:
    """Create 50 names; return those that this process has created."""
    store = open_store(lake, "p")
    return {name for name in range(50) if store.create(f"log/{name}", b"%d" % number)}
