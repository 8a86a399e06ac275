"""The JSON Schema of what commands print: made from its types, and the examples of the page fit."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tools import json_schemas

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs/json.md").read_text()
HEADINGS = {
    "Report": ["run"], "Explain": ["explain", "explain", "explain --sample"],
    "Status": ["status", "status"], "List": ["list"],
    "Egress report": ["run"], "Coverage": ["coverage"],
    "Verify": ["verify"], "Offsets": ["offsets show", "offsets set", "offsets adopt"],
    "Reconcile": ["reconcile"], "Repair": ["repair"], "Sweep": ["sweep"],
    "Checkpoint": ["checkpoint"], "Doctor": ["doctor"], "Settings": ["settings"],
    "Validate": ["validate"],
}  # fmt: skip
"""The commands that the examples below each heading of docs/json.md are of."""


def examples() -> list[tuple[str, Any]]:
    """Return the examples of the page, each with its command."""
    chapters = re.split(r"^## (.+)$", PAGE, flags=re.MULTILINE)
    found = []
    for heading, text in zip(chapters[1::2], chapters[2::2], strict=True):
        fenced = re.findall(r"^```json\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
        if heading in HEADINGS:
            found += zip(HEADINGS[heading], map(json.loads, fenced), strict=True)
    return found


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return json_schemas.json_schemas()


def fits(schema: dict[str, Any], command: str, form: Any) -> bool:
    of_command = {**schema["properties"][command], "$defs": schema["$defs"]}
    return jsonschema.Draft202012Validator(of_command).is_valid(form)


def test_the_file_is_current(schema: dict[str, Any]) -> None:
    assert json.loads((PROJECT / "docs/json-schema.json").read_text()) == schema


def test_the_examples_fit(schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    listed = examples()
    assert {command for command, _ in listed} == schema["properties"].keys() - {"release"}
    assert [command for command, form in listed if not fits(schema, command, form)] == []


def test_other_documents_do_not(schema: dict[str, Any]) -> None:
    """One without one of its keys, and one with a text in place of a number."""
    for command, form in examples():
        for key in form.keys() - {"format"}:
            less = {name: value for name, value in form.items() if name != key}
            assert not fits(schema, command, less), (command, key)
        assert not fits(schema, command, {**form, "format": "1"})
