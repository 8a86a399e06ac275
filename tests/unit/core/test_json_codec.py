"""JSON forms that follow from type hints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal, NamedTuple

import pytest

from tidegate.core.entries import Commit, Reference
from tidegate.core.json_codec import MALFORMED, OMITTED, Document, Form, Name, form_of


class Pair(NamedTuple):
    low: int
    high: int


@dataclass(frozen=True)
class Part:
    name: str


@dataclass(frozen=True)
class Whole(Document):
    identity: Annotated[str, Name("id")]
    kind: Literal["a", "b"]
    pairs: Mapping[int, Pair]
    parts: tuple[Part, ...]
    tags: set[str]
    path: Annotated[tuple[str, ...], Form("/".join, lambda text: tuple(text.split("/")))]
    note: Annotated[str | None, OMITTED] = None
    root: str | None = None


WHOLE = Whole("x", "a", {10: Pair(1, 2)}, (Part("p"),), {"t", "s"}, ("d", "f"), "n", "/")
FORM = {
    "id": "x", "kind": "a", "pairs": {"10": [1, 2]}, "parts": [{"name": "p"}], "tags": ["s", "t"],
    "path": "d/f", "note": "n", "root": "/",
}  # fmt: skip


def test_every_form_reads_back():
    assert WHOLE.to_json() == FORM
    assert Whole.from_json(FORM) == WHOLE


def test_a_field_that_may_be_missing():
    """It is omitted while it has its default; any other is always written."""
    form = replace(WHOLE, note=None, root=None).to_json()
    assert form == {**{k: v for k, v in FORM.items() if k != "note"}, "root": None}
    assert Whole.from_json(form) == replace(WHOLE, note=None, root=None)


def test_unknown_keys():
    """Of a document they are ignored (an entry has an envelope), within it they are refused."""
    assert Whole.from_json({**FORM, "run": "r"}) == WHOLE
    with pytest.raises(ValueError, match=r"unknown in Part: \['x'\]"):
        Whole.from_json({**FORM, "parts": [{"name": "p", "x": 1}]})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("id", 1), ("id", None), ("kind", "c"), ("pairs", {"x": [1, 2]}), ("pairs", {"1": [1]}),
        ("pairs", {"1": [1, True]}), ("pairs", []), ("parts", "p"), ("parts", ["p"]),
        ("parts", [{}]), ("tags", "s"), ("path", 1), ("note", 0),
    ],
)  # fmt: skip
def test_a_document_that_does_not_fit(name, value):
    """Each kind of value is checked, and the error names the field."""
    with pytest.raises(ValueError, match=f"^{name}: "):
        Whole.from_json({**FORM, name: value})


@pytest.mark.parametrize("name", sorted(FORM.keys() - {"note", "root"}))
def test_a_field_that_may_not_be_missing(name):
    with pytest.raises(ValueError, match=f"^{name}: missing"):
        Whole.from_json({key: value for key, value in FORM.items() if key != name})


def test_a_field_that_is_missing():
    commit = Commit("live", "p", "sha", 0, "a", "c", {}, {}, Reference("m", "sha"))
    assert "broken_order" not in commit.to_json()
    for name in commit.to_json():
        with pytest.raises(MALFORMED):
            Commit.from_json({key: each for key, each in commit.to_json().items() if key != name})


def test_a_type_without_a_form():
    with pytest.raises(TypeError, match="has no JSON form"):
        form_of(object)
