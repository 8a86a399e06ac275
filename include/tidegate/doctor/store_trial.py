"""A trial of a place for lakes: what Tidegate rests on, in a directory of its own, then deleted."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from tidegate.doctor.check import Check, Line, failure, ok
from tidegate.doctor.lake import check_clock
from tidegate.errors import LakeDamaged, TidegateError
from tidegate.lake import create_check
from tidegate.lake.dataset import filesystem
from tidegate.lake.store import LocalStore, open_store
from tidegate.lake.store_protocol import Store

_CHECK = "store"
_LONG = 128 << 10  # bytes
_NAMES = ("a/1", "a/topic=t.x/2+é", "ab/3")  # é needs two bytes in UTF-8


class _Unexpected(Exception):
    """A store has answered something else than Tidegate rests on."""


def store_trial(place: str) -> list[Check]:
    """Return the checks of a directory or a URL: the store, and its rivals for one name."""
    name = f"tidegate-trial-{secrets.token_hex(8)}"
    return [Check(_CHECK, lambda: _try(place, name), place)]


def _try(place: str, name: str) -> Iterator[Line]:
    store = open_store(place, name)
    if isinstance(store, LocalStore) and not store.root.parent.is_dir():
        fix = "if it is a mount, mount it; else create it"
        yield failure(_CHECK, f"{store.root.parent} does not exist", fix)
        return
    try:
        for says, ask in _TRIALS.items():
            try:
                ask(store)
            except _Unexpected as error:
                yield failure(_CHECK, f"not so: {says}: {error}", "keep no lake there")
                return
            yield ok(_CHECK, says)
        yield from check_clock(store)
        rivals = [open_store(place, name) for _ in range(create_check.RIVALS)]
        outcome = create_check.compete_for_names(rivals)
        says = f"{outcome.winners} of {create_check.RIVALS} rivals create the same name"
        if outcome.atomic:
            yield ok(_CHECK, f"{says}, in {outcome.rounds} rounds")
        else:
            fix = "keep no lake there: two runs could commit the same offsets"
            yield failure(_CHECK, f"{says}, in round {outcome.rounds}", fix)
    finally:
        with suppress(TidegateError):  # the first error says more
            store.delete(*(each.path for each in store.objects("")))
            store.prune("")


def _expect(what: str, found: Any, wanted: Any) -> None:
    if found != wanted:
        raise _Unexpected(f"{what}: {found!r}, and not {wanted!r}")


def _creates_once(store: Store) -> None:
    for content in (b"", b"one", bytes(_LONG)):
        path = f"create/{len(content)}"
        _expect("a new name", store.create(path, content), True)
        _expect("the same bytes again", store.create(path, content), True)
        _expect("other bytes", store.create(path, b"other"), False)
        _expect("what is there", store.get(path), content)


def _lists_names(store: Store) -> None:
    for path in _NAMES:
        store.create(path, path.encode())
    _expect("a directory", [each.path for each in store.objects("a/")], [*_NAMES[:2]])
    _expect("sizes", [each.size for each in store.objects("ab/")], [4])
    _expect("after a name", store.names("create/", after="0"), ["131072", "3"])


def _places_files(store: Store) -> None:
    store.create("place/from", b"rows")
    for _ in range(2):
        store.place("place/from", "place/to", 4)
        _expect("both names", [store.size(f"place/{each}") for each in ("from", "to")], [4, 4])
    for source, target, size in (("none", "new", 4), ("from", "to", 5)):
        try:
            store.place(f"place/{source}", f"place/{target}", size)
        except LakeDamaged:
            continue
        raise _Unexpected(f"{source} was placed as {target}, with {size} bytes")


def _reads_parts(store: Store) -> None:
    store.create("read", b"0123456789")
    _expect("a range", store.read("read", 3, 5), b"34")
    with store.open("read") as file:
        file.seek(-3, 2)
        _expect("the end", file.read(), b"789")
    system, root = filesystem(store)
    for path in _NAMES:
        with system.open_input_file(f"{root}/{path}") as other:
            _expect(f"{path} by PyArrow", other.read(), path.encode())


def _deletes_files(store: Store) -> None:
    store.delete("read", "none")
    _expect("a deleted object", store.get("read"), None)


_TRIALS: Mapping[str, Any] = MappingProxyType(
    {
        "the first to create a name wins, and its content stays": _creates_once,
        "a listing has what is in a directory, by name, and no more": _lists_names,
        "a second name has the whole content at once": _places_files,
        "parts of an object are read, by PyArrow's client, too": _reads_parts,
        "a deleted object is gone, and one that is not there is no error": _deletes_files,
    }
)
