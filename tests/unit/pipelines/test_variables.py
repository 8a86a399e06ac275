"""Variables in pipeline files: what depends on an unset one is not checked, nor is it quoted."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.cases import each_of
from tidegate.errors import ConfigurationError
from tidegate.pipelines import pipeline_files
from tidegate.settings.setting import Answer, Place
from tidegate.settings.sink_settings import READING
from tidegate.settings.table import TABLE

SECRET = "hunter2"
LISTED = {pipeline_files.ALLOWED: "A, ACKS, B, N, R, T, U, X, Y, Z"}
INGEST = {"name": "p", "kind": "ingest", "topics": ["t"], "lake": "/lake"}
SOURCE = {"path": "/in", "format": "text"}


def options(place: Place) -> list[str]:
    return [e.name for e in TABLE if e.place is place and e.answer is not Answer.REFUSED]


def egress(**target: Any) -> dict[str, Any]:
    least = {"name": "p", "kind": "egress", "source": SOURCE, "lake": "/lake"}
    return {**least, "target": {"topic": "t", **target}}


def examined(form: dict[str, Any], **environ: str) -> pipeline_files.Examined:
    return pipeline_files.examine_text(yaml.safe_dump(form), "p", {**LISTED, **environ})


FORMS = [
    *({**INGEST, "options": {name: f"{SECRET}${{X}}"}} for name in options(Place.SOURCE)),
    *(egress(options={name: f"{SECRET}${{X}}"}) for name in options(Place.SINK)),
    *(
        egress(producer={name.removeprefix("kafka."): f"{SECRET}${{X}}"})
        for name in options(Place.SINK)
        if name.startswith("kafka.") and name not in READING
    ),
    *({**INGEST, "isolation": "read_committed", "options": {"kafka.isolation.level": level}}
      for level in ("${X}", "read_${X}")),
]  # fmt: skip


@each_of(FORMS)
def test_a_setting_with_an_unset_variable_is_not_checked(form: dict[str, Any]) -> None:
    """`tidegate validate` has a notice of it, and no message quotes a value."""
    found = examined(form)
    assert found.complaints == ()
    assert found.spec is not None
    (unset,) = found.unset
    assert unset.endswith(": ${X} is not set in the environment")
    assert not any(SECRET in each for each in (unset, *found.spec.notices))


TOGETHER = [
    ("options", {"kafka.heartbeat.interval.ms": 50_000, "kafka.session.timeout.ms": 60_000}),
    ("options", {"kafka.default.api.timeout.ms": 200, "kafka.request.timeout.ms": 100}),
    ("options", {"kafka.fetch.max.wait.ms": 40_000, "kafkaConsumer.pollTimeoutMs": 50_000}),
    ("options", {"fetchOffset.numRetries": 1000, "fetchOffset.retryIntervalMs": 3_600}),
    ("producer", {"delivery.timeout.ms": 20_000, "request.timeout.ms": 10_000}),
    ("producer", {"linger.ms": 100_000, "delivery.timeout.ms": 200_000}),
    ("producer", {"buffer.memory": 1000, "batch.size": 500}),
    ("producer", {"enable.idempotence": False, "retries": 0}),
    ("producer", {"acks": 1, "max.in.flight.requests.per.connection": 9}),
]


@pytest.mark.parametrize(("key", "pair"), TOGETHER)
def test_settings_are_compared_only_if_all_are_known(key: str, pair: dict[str, Any]) -> None:
    """A default does not stand for the value of an unset variable."""
    for name in (None, *pair):
        given = {**pair, **({name: "${X}"} if name else {})}
        found = examined({**INGEST, key: given} if key == "options" else egress(**{key: given}))
        assert found.complaints == (), name
        assert len(found.unset) == bool(name)


def test_an_order_that_depends_on_an_unset_variable() -> None:
    lake = {**egress(), "source": {"lake": "orders"}}
    for idempotence, in_flight in itertools.product(("false", "${X}"), ("1", "${Y}")):
        producer = {
            "enable.idempotence": idempotence,
            "max.in.flight.requests.per.connection": in_flight,
        }
        assert examined({**lake, "target": {"topic": "t", "producer": producer}}).complaints == ()


@pytest.mark.parametrize(
    ("form", "environ", "key"),
    [
        (egress(options={"kafka.acks": "${ACKS:-${Y}}"}), {}, "target.options.kafka.acks"),
        (egress(options={"kafka.client.rack": "${R:-${Y:-1}}"}), {},
         "target.options.kafka.client.rack"),
        ({**INGEST, "options": {"minPartitions": "${N}"}}, {"N": "${PARTS}"},
         "options.minPartitions"),
        ({**INGEST, "options": {"groupIdPrefix": "a${N}"}}, {"N": "${PARTS:-b}"},
         "options.groupIdPrefix"),
        ({**INGEST, "lake": "/${A}"}, {"A": "${B}"}, "lake"),
        ({**INGEST, "topics": ["${T:-${U}}"]}, {}, "topics"),
    ],
)  # fmt: skip
def test_what_still_has_a_variable_after_it_was_expanded(
    tmp_path: Path, form: dict[str, Any], environ: dict[str, str], key: str
) -> None:
    """It would not be checked, and Spark would be given the text."""
    text = f"{key}: holds ${{…}} after it was expanded: defaults and values are not expanded again"
    assert examined(form, **environ).complaints[-1] == text
    path = tmp_path / "p.yaml"
    path.write_text(yaml.safe_dump(form))
    with pytest.raises(ConfigurationError) as refused:
        pipeline_files.load_spec(path, {**LISTED, **environ})
    assert refused.value.numbers["complaints"][-1] == text


def test_an_unset_variable_beside_one_that_holds_another() -> None:
    found = examined({**INGEST, "lake": "/${A}/${B}"}, A="${C}")
    assert found.unset == ("lake: ${B} is not set in the environment",)
    assert [each.partition(": ")[0] for each in found.complaints] == ["lake"]
