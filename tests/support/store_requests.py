"""Requests to a store, counted: on S3 each costs money and time."""

from collections import Counter

import pytest

from tidegate.lake.store import LocalStore

KINDS = ("get", "read", "objects", "names", "size", "create", "modified", "delete", "place")


def count(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the calls of each kind from now on; a test may clear the counter."""
    counted: Counter[str] = Counter()
    for name in KINDS:

        def call(self, *args, _of=getattr(LocalStore, name), _name=name, **given):
            counted[_name] += 1
            return _of(self, *args, **given)

        monkeypatch.setattr(LocalStore, name, call)
    return counted
