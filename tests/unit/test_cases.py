"""`support.cases`: a test of many cases fails with each that is wrong."""

import pytest

from support.cases import each_of


def test_all_faults_are_listed() -> None:
    @each_of(range(5), named=lambda n: f"<{n}>")
    def check(n: int) -> None:
        assert n % 2 == 0
        if n == 4:
            with pytest.raises(ValueError):
                int("4")

    with pytest.raises(AssertionError, match=r"(?s)^3 of 5:\n<1>: .*<3>: .*<4>: Failed: DID NOT"):
        check()


def test_nothing_to_check_is_a_fault() -> None:
    with pytest.raises(AssertionError, match="no cases"):
        each_of([])(lambda _: None)()
