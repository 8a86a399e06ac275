"""A sample of the crash harness on a local disk, and on servers of buckets."""

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from nets.objects import Crash, Fault, Gate, Objects
from nets.world import ORIGIN, Now, World, playing, rows_of
from support import bucket_servers
from tidegate.errors import TidegateError
from tidegate.lake.store import open_store
from tidegate_check.lake import Checker, Stored

ASKED = ("create", "get", "open", "read", "objects", "names", "size", "modified", "place", "delete")


class Gated:
    """A real store, each call of which is a request of the gate."""

    def __init__(self, lake: str, objects: Objects, pipeline: str) -> None:
        self._store: Any = open_store(lake, pipeline)
        self._objects, self.url = objects, self._store.url
        self.native = self.uri = self._store.uri
        self.write = self._store.create

    def each(self, request: Any, items: Any) -> Any:
        return map(request, items)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name not in ASKED:
            return method
        return lambda *a, **k: self._objects.ask(name, f"{a[:1]}", lambda: method(*a, **k))


def check_on_disk(place: str) -> None:
    assert Checker(Stored(place)).run() == []


def lives(lake: str, home: Any, fault: Gate, check: Callable[[str], None] = check_on_disk) -> Gate:
    """Live once with a fault, and go on; the lake is then whole, and has each record once."""
    with playing(home) as world:
        world.open_store = lambda objects, name: Gated(lake, objects, name)
        world.objects.gate = fault
        for step in (World.live, World.replay):
            with suppress(Crash, TidegateError):
                step(world)
        world.restart(Gate())
        for end in ("next", "last"):
            world.grow(5)
            world.live(end)
        world.repair()
    check(f"{lake}/p")
    store = open_store(lake, "p")
    rows = Counter(
        row for each in store.objects("data/") for row in rows_of(store.get(each.path) or b"")
    )
    log = Now.world.log.items()
    wanted = {(p, o) for p, (_, end) in log for o in range(end) if Now.world.has(p, o)}
    assert rows == Counter((p, o) for p, o in wanted if p or o >= ORIGIN)
    return fault


def faults(requests: int, seed: int, number: int) -> list[Fault]:
    chosen = random.Random(seed)
    modes = ("crash", "error before", "error after")
    return [Fault(chosen.randrange(requests), chosen.choice(modes)) for _ in range(number)]


def test_on_a_disk(tmp_path):
    """Forty faults; files are linked to their final names there."""
    made = len(lives(str(tmp_path / "whole"), tmp_path / "home", Gate()).requests)
    assert made > 100
    for i, fault in enumerate(faults(made, 1, 40)):
        (tmp_path / f"{i}").mkdir()
        lives(str(tmp_path / f"{i}/lake"), tmp_path / f"{i}/in", fault)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", bucket_servers.SCHEMES)
def test_on_a_server(tmp_path, request, monkeypatch, scheme):
    """Twelve faults; each is a whole prefix of the bucket."""
    lake = bucket_servers.place_on(scheme, request, monkeypatch)

    def check(place: str) -> None:
        bucket_servers.check(place, request)

    made = len(lives(f"{lake}/whole", tmp_path / "home", Gate(), check).requests)
    assert made > 100
    for i, fault in enumerate(faults(made, 2, 12)):
        (tmp_path / f"{i}").mkdir()
        lives(f"{lake}/{i}", tmp_path / f"{i}/in", fault, check)


pytestmark = pytest.mark.timeout(300)
