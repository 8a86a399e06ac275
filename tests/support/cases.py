"""Tests of many small cases: one test that lists all faults at once."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

Case = TypeVar("Case")


def each_of(
    cases: Iterable[Case], named: Callable[[Case], object] = str
) -> Callable[[Callable[[Case], None]], Callable[[], None]]:
    """Make a test of a check of one case: it checks all, and fails with each that is wrong.

    There must be cases: a list that became empty would check nothing.
    """
    listed = list(cases)

    def test_of(check: Callable[[Case], None]) -> Callable[[], None]:
        def test() -> None:
            wrong = []
            for case in listed:
                try:
                    check(case)
                except (Exception, pytest.fail.Exception) as error:
                    wrong.append(f"{named(case)}: {type(error).__name__}: {error}")
            assert listed, "no cases"
            assert not wrong, f"{len(wrong)} of {len(listed)}:\n" + "\n".join(wrong)

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        test.__module__ = check.__module__
        return test

    return test_of
