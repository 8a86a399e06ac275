"""Requests to the store, several at a time: each of them is mostly waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
Result = TypeVar("Result")

AT_ONCE = 16  # requests


def in_parallel(request: Callable[[T], Result], items: Iterable[T]) -> Iterator[Result]:
    """Yield the result of each request, in the order of the items. The first error ends it."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(request, items)
