"""What a pipeline file may say about its DAG, and what would harm the DAGs of others."""

import math
from typing import Any

import pytest

from tidegate.pipelines.spec import parse_spec

LEAST = {"name": "p", "kind": "ingest", "topics": ["t"], "lake": "/lake"}
BACK = {"name": "b", "kind": "egress", "target": {"topic": "t"}, "lake": "/lake"}


def told(**arguments: Any) -> dict[str, Any]:
    return {"on_failure": {"call": "my_alerts.Pager", "arguments": arguments}}


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"prio": 3}, "airflow.prio: unknown key; did you mean 'priority'?"),
        ({"tags": "gold"}, "airflow.tags: 'gold': must be a list, for example [gold]"),
        ({"tags": ["x" * 101]}, "airflow.tags: at most 100 characters each"),
        ({"owner": "x" * 251}, "must have at most 250 characters"),
        ({"deadline": 60}, "airflow.deadline: needs on_failure"),
        ({"on_failure": {"call": "page"}}, "airflow.on_failure.call: 'page': must be a module"),
        (told(context=1), "context is an argument that Airflow gives"),
        (told(body=b"x"), "airflow.on_failure.arguments: must be text"),
        (told(limit=math.nan), "airflow.on_failure.arguments: must be text"),
        (told(blocks=[{"__classname__": "a.B"}]), "a key must be text that does not begin"),
        (told(blocks=[{1: "x"}]), "a key must be text that does not begin"),
    ],
)
def test_what_is_refused(said: dict[str, Any], complaint: str) -> None:
    """What Airflow cannot keep in its database would take away the DAGs of all pipelines."""
    with pytest.raises(ValueError, match=r"^airflow\.") as refused:
        parse_spec({**LEAST, "airflow": said})
    assert complaint in str(refused.value)


def test_no_complaint_quotes_an_argument() -> None:
    with pytest.raises(ValueError, match=r"^airflow\.") as refused:
        parse_spec({**LEAST, "airflow": told(token="hunter2", body=b"hunter2")})
    assert "hunter2" not in str(refused.value)


def test_arguments_are_whatever_json_has() -> None:
    given = {"to": ["a", "b"], "blocks": [{"text": {"n": 1.5, "ok": True, "none": None}}]}
    found = parse_spec({**LEAST, "airflow": told(**given)}).airflow.on_failure
    assert found
    assert found.arguments == given


def test_only_an_egress_of_a_lake_follows_it() -> None:
    assert parse_spec({**BACK, "source": {"lake": "p"}, "schedule": "lake"}).schedule == "lake"
    files = {"path": "/in", "format": "json"}
    for form in ({**BACK, "source": files}, LEAST):
        with pytest.raises(ValueError, match=r"^schedule: "):
            parse_spec({**form, "schedule": "lake"})
