"""The measures of `tools/measures.py` stay within their budgets, which only fall."""

import pytest

from tools import measures

BUDGETS = {
    "modules that name YARN": 8,
    "modules that name S3": 5,
    "modules that name Kerberos": 9,
    "modules that name MSK": 1,
    "modules that name CSV": 11,
    "names that the heart imports of engines": 0,
    "names that the heart imports of Kafka": 0,
    "names that the heart imports of configuration": 0,
    "names that the heart imports of formats": 0,
    "modules of the heart that load kafka": 0,
    "modules of the heart that load pydantic": 0,
    "modules of the heart that load obstore": 0,
    "modules of the heart that load tenacity": 0,
    "modules of the heart that load yaml": 0,
    "modules whose name another has": 14,
    "public names defined twice or more": 33,
    "reads of documents by string keys": 358,
    "modules under 50 lines": 69,
    "private names that tests replace": 6,  # of Airflow, PySpark and rich
    "functions that read the fold for themselves": 5,  # three list claims, two sweep
    "functions that decide by what is staged": 7,
    "sentences that tests quote": 453,
    "semicolons per 10,000 words": 28.5,
    "there is none per 10,000 words": 0.5,
    "of which per 10,000 words": 0.8,
    "semicolons of docs per 10,000 words": 16.4,
    "there is none of docs per 10,000 words": 0.0,
    "of which of docs per 10,000 words": 0.7,
    "words of README": 600,
    "words of docs for users": 40_000,
    "words of docs": 55_000,
}


@pytest.fixture(scope="module")
def measured() -> dict[str, float]:
    return measures.all_of_them()


def test_every_measure_has_a_budget(measured: dict[str, float]) -> None:
    assert measured.keys() == BUDGETS.keys()


@pytest.mark.parametrize("name", BUDGETS)
def test_within_its_budget(measured: dict[str, float], name: str) -> None:
    """A change that makes a number smaller lowers the budget in the same commit."""
    assert measured[name] <= BUDGETS[name], "\n".join(measures.places(name))


@pytest.mark.parametrize("variant", measures.VARIANTS)
def test_what_names_a_variant_is_found(variant: str) -> None:
    """The count is of something: each variant has at least its own modules."""
    assert measures.naming(variant)
