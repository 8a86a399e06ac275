"""Jars that only tests need: their locks stand beside this file."""

from pathlib import Path
from unittest import mock

from tidegate.launch import jars


def fetched(name: str) -> list[Path]:
    """Return the jars of the lock `<name>.lock`; the first test that needs them fetches them."""
    lock = Path(__file__).with_name(f"{name}.lock")
    locked = jars.parse_lock(lock.read_text(), source=lock.name)
    with mock.patch.object(jars, "read_lock", return_value=locked):
        return jars.ensure_jars(name)
