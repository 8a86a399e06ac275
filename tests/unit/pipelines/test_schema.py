"""JSON Schema of pipeline files: what is valid passes, and what editors should show does not."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema
import pytest

from support.cases import each_of
from support.doc_pages import DOCS, PROJECT, fenced
from tidegate.pipelines import yaml_reader
from tidegate.pipelines.editor_schema import editor_schema
from tidegate.pipelines.spec import parse_spec
from tidegate.settings.setting import Answer, Place, Setting
from tidegate.settings.table import TABLE

LEAST: dict[str, Any] = {"name": "flights", "kind": "ingest", "topics": ["t"], "lake": "/lake"}
EGRESS: dict[str, Any] = {
    "name": "out", "kind": "egress", "source": {"lake": "flights"}, "target": {"topic": "t"},
    "lake": "/lake",
}  # fmt: skip


@cache
def validator() -> jsonschema.Draft7Validator:
    jsonschema.Draft7Validator.check_schema(editor_schema())
    return jsonschema.Draft7Validator(editor_schema())


def problems(form: Any) -> list[str]:
    """Return what the schema says of a form; as in JSON, keys are texts."""
    errors = validator().iter_errors(json.loads(json.dumps(form)))
    return [f"{'.'.join(map(str, each.absolute_path))}: {each.message}" for each in errors]


def examples() -> Iterator[str]:
    for path in DOCS:
        yield from fenced(path.read_text(), "yaml")
    for path in sorted((PROJECT / "include/pipelines").glob("*.yaml")):
        yield path.read_text()


@pytest.mark.parametrize("text", examples())
def test_pipelines_of_the_docs_are_valid(text: str) -> None:
    """As they stand in the file: with their variables."""
    form, _ = yaml_reader.read_yaml(text)
    assert problems(form) == []


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"max_records": "5_000", "retries": "3", "schedule": "@daily", "pattern": None},
        {"start": "latest"},
        {"start": {"timestamp": "2026-03-14T00:00:00Z"}},
        {"start": {"offsets": {"t": {0: 120, 1: "5"}}}},
        {"start": {"group": "g", "otherwise": "fail"}},
        {"start": {"timestamps": {"t": {0: "2026-03-14T00:00:00Z"}}, "otherwise": "latest"}},
        {"topics": [], "assign": {"t": [0, 2]}},
        {
            "decode": {
                "t": {"value": {"format": "json", "schema": "id INT"}},
                "*": {
                    "key": {"format": "csv", "schema": "id INT", "separator": ";", "prefix": "k_"}
                },
            }
        },
        {"spark": {"conf": {"spark.executor.cores": 2, "spark.ui.enabled": False}}},
        {"spark": {"conf": {"spark.kafka.consumer.cache.capacity": "10"}}},
    ],
)
def test_what_parse_takes(more: dict[str, Any]) -> None:
    parse_spec({**LEAST, **more})
    assert problems({**LEAST, **more}) == []


@pytest.mark.parametrize(
    "more",
    [
        {"source": {"path": "/in", "format": "csv", "columns": "v STRING",
                    "options": {"sep": ";", "header": True}},
         "columns": {"value": "v"}, "tombstones": "true", "settle": 0},
        {"target": {"topics": ["a", "b"], "partitions": 4, "producer": {"linger.ms": 5,
         "acks": "all"}}, "columns": {"topic": "t"}},
    ],
)  # fmt: skip
def test_what_parse_takes_of_an_egress(more: dict[str, Any]) -> None:
    parse_spec({**EGRESS, **more})
    assert problems({**EGRESS, **more}) == []


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"max_recods": 5}, "'max_recods' was unexpected"),
        ({"topics": "flights"}, "topics: 'flights' is not of type 'array'"),
        ({"max_records": True}, "max_records: True is not of type"),
        ({"on_expired": "later"}, "on_expired: 'later' is not valid"),
        ({"start": "smalest"}, "start: 'smalest' is not valid"),
        ({"spark": {"conection": "x"}}, "spark: Additional properties"),
        ({"spark": {"conf": {"executor.memory": "2g"}}}, "'executor.memory' does not match"),
        ({"spark": {"conf": {"spark.executor.cores": [2]}}}, "cores: [2] is not of type"),
        ({"kind": "egres"}, "kind: 'egres' is not one of"),
        ({"decode": {"t": {"value": {"format": "xml"}}}}, "decode.t.value: {'format': 'xml'}"),
        ({"decode": {"t": {"valu": {"format": "json"}}}}, "'valu' was unexpected"),
    ],
)
def test_what_is_wrong(more: dict[str, Any], says: str) -> None:
    """It is also a complaint of `parse`."""
    with pytest.raises(ValueError):
        parse_spec({**LEAST, **more})
    assert says in "\n".join(problems({**LEAST, **more}))


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"target": {"topic": "t", "producer": {"transactional.id": "x"}}}, "transactional.id: "),
        ({"target": {"topic": "t", "producer": {"lingr.ms": 5}}}, "'lingr.ms' was unexpected"),
        ({"source": {"path": "/in", "format": "avro"}}, "source.format: 'avro' is not valid"),
        ({"topics": ["t"]}, "'topics' was unexpected"),
    ],
)
def test_what_is_wrong_in_an_egress(more: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError):
        parse_spec({**EGRESS, **more})
    assert says in "\n".join(problems({**EGRESS, **more}))


@pytest.mark.parametrize("key", ["name", "lake", "target", "source", "kind"])
def test_what_every_file_needs(key: str) -> None:
    assert problems({name: value for name, value in EGRESS.items() if name != key}) != []


@pytest.mark.parametrize("form", [LEAST, EGRESS], ids=["ingest", "egress"])
def test_each_value_may_be_a_variable(form: dict[str, Any]) -> None:
    """Of every key of the models, but `kind`; within mappings and lists too."""
    model = editor_schema()["$defs"][form["kind"].capitalize()]["properties"]
    for key, value in model.items():
        types = [each.get("type") for each in (value, *value.get("anyOf", ()))]
        if key == "kind" or "$ref" in value or "object" in types or "array" in types:
            continue
        others = {"pattern": {"topics": []}, "exclude": {"topics": [], "pattern": "a"}}.get(key, {})
        assert problems({**form, **others, key: "${X}"}) == [], key
        assert problems({**form, **others, key: "a${X:-b}c"}) == [], key
    deep = {"conf": {"spark.kafka.consumer.cache.capacity": "${X}", "spark.a": "${X}"}}
    assert problems({**form, "spark": deep}) == []


def given(each: Setting) -> dict[str, Any]:
    """Return a valid pipeline with this setting; its value may be wrong."""
    match each.place:
        case Place.SPARK:
            return LEAST | {"spark": {"conf": {each.name: 1}}}
        case Place.SENDING:
            return EGRESS | {"spark": {"conf": {each.name: 1}}}
        case Place.SINK:
            return EGRESS | {"target": {"topic": "t", "options": {each.name: 1}}}
    return LEAST | {"options": {each.name: 1}}


@each_of(each for each in TABLE if each.place is not Place.CONNECTION)
def test_each_setting_of_the_table(each: Setting) -> None:
    """Its name is known. A refused one fails with any value, and so it does for `parse`."""
    found = problems(given(each))
    assert [problem for problem in found if "unexpected" in problem] == []
    if each.answer is Answer.REFUSED:
        assert [problem for problem in found if each.name in problem] != []
        with pytest.raises(ValueError) as refused:
            parse_spec(given(each))
        assert f"{each.name}: refused: {each.why}" in str(refused.value)
