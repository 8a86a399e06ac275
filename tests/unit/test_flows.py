"""What both kinds of pipelines have in common: options, errors, the Kafka of a lake."""

import pytest

from tidegate import flows
from tidegate.errors import ConfigurationError
from tidegate.pipelines.pipeline_files import load_named
from tidegate.pipelines.spec import parse_spec


def test_an_error_of_any_type_is_its_pipelines_alone(tmp_path, monkeypatch, caplog):
    """The others are done; of an unforeseen one the log has the traceback."""
    monkeypatch.setenv("TIDEGATE_PIPELINES", str(tmp_path))
    for name in ("a", "c", "d"):
        text = f"name: {name}\nkind: ingest\ntopics: [t]\nlake: /lake\n"
        (tmp_path / f"{name}.yaml").write_text(text)
    (tmp_path / "b.yaml").write_text("name: b\n")
    unforeseen = RuntimeError("unforeseen")

    def do(spec):
        if spec.name == "c":
            raise unforeseen
        return {"pipeline": spec.name}

    results = dict(flows.for_each("abcd", do))
    assert (results["a"], results["d"]) == ({"pipeline": "a"}, {"pipeline": "d"})
    assert isinstance(results["b"], ConfigurationError)
    assert results["c"] is unforeseen
    assert [record.exc_info[1] for record in caplog.records] == [unforeseen]
    assert dict(flows.for_each(["a"], do, kinds=["egress"])) == {}


def test_the_kafka_of_an_egress_lake(tmp_path, monkeypatch):
    """That of the ingest pipeline which reads it; to send the lake it may be unknown here."""
    monkeypatch.setenv("TIDEGATE_PIPELINES", str(tmp_path))
    text = "name: in\nkind: ingest\ntopics: [t]\nlake: /lake\nkafka: kafka_a\n"
    (tmp_path / "in.yaml").write_text(text)
    form = {"kind": "egress", "lake": "/lake", "target": {"topic": "t", "kafka": "kafka_b"}}
    of_lake = parse_spec({"name": "out", "source": {"lake": "in"}, **form})
    of_files = parse_spec({"name": "out", "source": {"path": "/in", "format": "text"}, **form})
    of_none = parse_spec({"name": "out", "source": {"lake": "gone"}, **form})
    asked = []

    def kafka_of(spec):
        asked.append(spec.name)
        return f"settings of {spec.kafka}"

    def undefined(_):
        raise ConfigurationError("not defined")

    assert flows._kafka_of_lake(of_lake, kafka_of) == "settings of kafka_a"
    assert asked == ["in"]
    assert flows._kafka_of_lake(of_files, undefined) is None
    assert flows._kafka_of_lake(of_none, kafka_of) is None
    assert flows._kafka_of_lake(of_lake, undefined) is None


def test_options_of_the_other_kind_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("TIDEGATE_PIPELINES", str(tmp_path))
    (tmp_path / "a.yaml").write_text("name: a\nkind: ingest\ntopics: [t]\nlake: /lake\n")
    spec = load_named("a")
    given = flows.given_options(spec, max_records=7, max_chunks=None, resend=False)
    assert given == {"max_records": 7}
    with pytest.raises(ConfigurationError, match=": resend is for egress pipelines"):
        flows.given_options(spec, resend=True)
