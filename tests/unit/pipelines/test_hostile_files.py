"""Whatever is in a pipeline file, reading it ends soon, with a spec or a ConfigurationError."""

import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tidegate.errors import ConfigurationError
from tidegate.pipelines import pipeline_files, yaml_reader
from tidegate.pipelines.spec import Egress, Ingest, Source, Spark, StartAt, Target

LEAST = "name: flights\nkind: ingest\ntopics: [flights]\nlake: /lake\n"
EGRESS = "name: flights\nkind: egress\nlake: /lake\ntarget: {topic: a}\nsource: {lake: b}\n"


def complaints(directory: Path, text: str | bytes) -> str:
    """Return what is said of a file with this content; a text that UTF-8 can hold."""
    path = directory / "flights.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigurationError) as refused:
        pipeline_files.load_spec(path, {})
    str(refused.value).encode()
    return str(refused.value)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("start: {timestamp: 2026-02-30}", "start.timestamp: '2026-02-30': not a time"),
        ("start: {timestamp: 2026-02-30T00:00:00Z}", "start.timestamp: '2026-02-30T00:00:00Z': "),
        ("start: {timestamp: 1714521600}", "start.timestamp: 1714521600: not a time"),
        ("start: {timestamp: !!timestamp 2026-02-30}", "a value cannot be read (ValueError)"),
        (f"max_records: {'1' * 5000}", "max_records: '111"),
        (f"max_records: 0x{'f' * 5000}", "max_records: '0xf"),
        (f"max_records: {2**63}", "max_records: 9223372036854775808: "),
        ("max_records: yes", "max_records: True: not a whole number"),
        ("max_records: 010000", "max_records: '010000': not a whole number"),
        ("max_records: 1:30", "max_records: '1:30': not a whole number"),
        ("max_records: 5.0", "max_records: 5.0: not a whole number"),
        ("max_records: .inf", "max_records: inf: not a whole number"),
        ("retries: on", "retries: True: not a whole number"),
        ("start: {offsets: {flights: {00: 1}}}", "start.offsets.flights.00: '00': not a whole"),
        ("start: {offsets: {flights: {1_0: 1, 10: 2}}}", "10: given twice, in lines 5 and 5"),
        ("retries: 1\nretries: 2", "retries: given twice, in lines 5 and 6"),
        ("name: other", "name: given twice, in lines 1 and 5"),
        ("schedule: 0 0 30 2 *", "schedule: '0 0 30 2 *': it never fires"),
        ("schedule: '* * * * * * 1999'", "schedule: '* * * * * * 1999': not a cron expression"),
        ("schedule: hourly", "schedule: 'hourly': not a cron expression"),
        ("schedule: every day", "schedule: 'every day': not a cron expression: five fields"),
        ("schedule: '@every 5m'", "schedule: '@every 5m': not a cron expression: five fields"),
        ("schedule: 61 * * * *", "schedule: '61 * * * *': not a cron expression: five fields"),
        ("schedule: R * * * *", "schedule: 'R * * * *': not a cron expression"),
        ("schedule: * * * * *", "line 5, column 12: not YAML: "),
        ("exclude: [a\nretries: 1", "what it ends began in line 5"),
        ("spark:\n\tconf: {}", "line 6, column 1: not YAML: a tab; indent with spaces"),
        ("spark: &a {conf: *a}", "line 5, column 18: an alias"),
        (f"spark: {'[' * 5000}", "nested more than 20 deep"),
        (f"spark: {'{a: ' * 5000}", "nested more than 20 deep"),
        ("? [a, b]\n: 1", "found unhashable key"),
        ("1: 2", "1: "),
        ("lake: \"/lake\\0\"", "lake: given twice"),
        ("kafka: \"a\\0b\"", "kafka: holds a control character, or is not Unicode"),
        ("kafka: \"\\ud800\"", "line 5, column 11: not YAML: found invalid Unicode character"),
        ("\"a\\0b\": 1", "a\\x00b: holds a control character"),
        ("pattern: a{99999999999999999999}", "pattern: 'a{99999999999999999999}': not a regular"),
        (f"pattern: {'(' * 5000 + ')' * 5000}", "not a regular expression"),
        ("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]", "an alias"),
        ("spark: !!binary x", "line 5, column 8: not YAML"),
        ("spark: !!python/object/apply:os.getcwd []", "not YAML: could not determine"),
    ],
)  # fmt: skip
def test_each_bad_value_is_a_complaint(tmp_path: Path, line: str, expected: str) -> None:
    """Where YAML or a validator would raise something else, loop, or read another value."""
    assert expected in complaints(tmp_path, f"{LEAST}{line}\n")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\xff\xfe", "cannot be read: not UTF-8"),
        (b"\0", "unacceptable character"),
        (b"#" * (yaml_reader.MOST_BYTES + 1), "larger than 128 KiB"),
        (b"--- a\n--- b\n", "but found another document"),
        (b"!!set {name, kind}", "a mapping of keys to values"),
    ],
)
def test_what_is_no_pipeline_file_is_refused(tmp_path: Path, content: bytes, expected: str) -> None:
    assert expected in complaints(tmp_path, content)


def test_an_egress_waits_no_longer_than_a_clock_can_tell(tmp_path: Path) -> None:
    assert "settle: 99999999999" in complaints(tmp_path, f"{EGRESS}settle: 99999999999\n")


def test_what_yaml_reads_in_an_unexpected_way_stays_the_text_that_was_written(
    tmp_path: Path,
) -> None:
    """A topic `010` is not the topic `8`; a Spark setting is passed on as it stands."""
    path = tmp_path / "flights.yaml"
    text = "topics: [010, 0x1F, 2026-02-30]\nspark: {conf: {spark.a: 0755, spark.b: 5_000}}"
    path.write_text(LEAST.replace("topics: [flights]", text) + 'schedule: "@quarterly"\n')
    spec = pipeline_files.load_spec(path, {})
    assert isinstance(spec, Ingest)
    assert spec.topics == ("010", "0x1F", "2026-02-30")
    assert spec.spark.conf == {"spark.a": "0755", "spark.b": 5000}


def test_a_reader_may_separate_by_a_control_character(tmp_path: Path) -> None:
    path = tmp_path / "flights.yaml"
    options = r'options: {sep: "\x01", quote: "\0"}'
    source = f"source: {{path: /in, format: csv, columns: id INT, {options}}}"
    path.write_text(EGRESS.replace("source: {lake: b}", source))
    spec = pipeline_files.load_spec(path, {})
    assert isinstance(spec, Egress)
    assert spec.source.options == {"sep": "\x01", "quote": "\0"}


def test_no_file_name_stops_the_listing_of_sound_pipelines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Directories, pipes, broken links, any bytes: the sound one is found beside them."""
    monkeypatch.setenv("TIDEGATE_PIPELINES", str(tmp_path))
    (tmp_path / "flights.yaml").write_text(LEAST)
    (tmp_path / "directory.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "broken.yaml").symlink_to("nowhere")
    Path(os.fsdecode(bytes(tmp_path) + b"/\xff\n.yaml")).write_text(LEAST)
    (tmp_path / f"{'a' * 245}.yaml").write_text(LEAST)
    assert [
        *pipeline_files.valid_specs(pipeline_files.load_all(pipeline_files.pipeline_names()))
    ] == ["flights"]
    for name in pipeline_files.pipeline_names():
        if name != "flights":
            with pytest.raises(ConfigurationError) as refused:
                pipeline_files.load_named(name)
            str(refused.value).encode()


def test_the_largest_files_are_read_soon(tmp_path: Path) -> None:
    """A process that reads all pipelines waits for each."""
    most = yaml_reader.MOST_BYTES
    for text in ("[1,", "a: [" + "1," * (most // 2 - 10) + "]", "k: 1\n" * (most // 5 - 1)):
        started = time.process_time()
        complaints(tmp_path, text)
        assert time.process_time() - started < 5


KEYS = sorted(
    {
        key
        for model in (Ingest, Egress, Source, Target, Spark, StartAt)
        for key in model.model_fields
    }
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["flights", "/lake", "ingest", "egress", "earliest", "* * * * *", "${A:-}"])
    | st.dates()
    | st.datetimes()
    | st.binary(max_size=5)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5) | SCALARS, inner, max_size=4)
    ),
    max_leaves=10,
)
FORMS = st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), VALUES, max_size=8)
FUZZ = settings(
    deadline=2000, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@FUZZ
@given(FORMS, st.sampled_from([LEAST, EGRESS]))
def test_any_values_become_a_spec_or_a_complaint(
    tmp_path: Path, form: dict[Any, Any], least: str
) -> None:
    """Values of any type and shape under the known keys, beside those that are needed."""
    read_or_refused(tmp_path, yaml.dump({**yaml.safe_load(least), **form}).encode())


@FUZZ
@given(
    st.binary(max_size=200)
    | st.text(st.sampled_from("ab:-?*&!|>'\"%@`{}[],# \n\t~<=0129._\\"), max_size=60).map(
        lambda text: f"{LEAST}{text}".encode()
    )
)
@example(f"{LEAST}a: !!timestamp 2026-13-45T99:99:99Z".encode())
def test_any_bytes_become_a_spec_or_a_complaint(tmp_path: Path, content: bytes) -> None:
    """Bytes, and text made of the characters that mean something in YAML."""
    read_or_refused(tmp_path, content)


OF_PYDANTIC = re.compile("Input should|valid (string|integer|dictionary|tuple)|not valid here")


def read_or_refused(directory: Path, content: bytes) -> None:
    """Read a file; a refusal is in Tidegate's words, all of them known."""
    path = directory / "flights.yaml"
    path.write_bytes(content)
    try:
        spec = pipeline_files.load_spec(path, {})
    except ConfigurationError as error:
        message = str(error)
    else:
        message = spec.model_dump_json()
    message.encode()
    assert not OF_PYDANTIC.search(message)
