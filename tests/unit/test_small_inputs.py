"""Inputs that ended in a traceback, or in an answer that was not right."""

import io
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support import staged_attempts
from support.egress_world import World, target_of
from support.kafka_answers import answer
from support.staged_attempts import ledger_of, plan_of
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.cli import main
from tidegate.core import layout, replacement, sampled_columns, schema
from tidegate.core.cluster_answers import Record
from tidegate.core.decoding import Decoder, Decoding
from tidegate.core.offsets import OffsetRange, parse_spark_offsets
from tidegate.core.schema import SchemaError
from tidegate.errors import ConfigurationError, LakeDamaged
from tidegate.ingest.report import IngestReport
from tidegate.lake import attempts, committing, dataset, placing, plans, views
from tidegate.lake.store import LocalStore
from tidegate.pipelines import pipeline_files, scaffold
from tidegate.samples import peek as peeking
from tidegate.samples.proposed_decoder import SampledRecord, better_than, propose_decoder
from tidegate.spark import formats
from tidegate.terminal import console
from tidegate_check import lake as checker


@pytest.fixture(autouse=True)
def _what_an_earlier_test_could_not_print_is_forgotten() -> None:
    for each in (console.out, console.err):
        each._buffer.clear()


def lake_of(tmp_path: Path, name: str) -> LocalStore:
    """Ten records of t are in the lake of a pipeline of this name."""
    form = {"name": name, "kind": "ingest", "topics": ["t"], "lake": str(tmp_path)}
    (tmp_path / f"{name}.yaml").write_text(json.dumps(form))
    store = LocalStore(tmp_path / name)
    plan = plan_of((OffsetRange("t", 0, 0, 10),), pipeline=name)
    staged_attempts.seal(store, plan)
    committing.commit_sealed_chunks(store, ledger_of(store, name), plan, run="run")
    return store


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIDEGATE_PIPELINES", str(tmp_path))
    monkeypatch.setenv("TIDEGATE_HOME", str(tmp_path / "home"))
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": "nowhere:1"}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(kafka))
    for name in ("AIRFLOW_HOME", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    lake_of(tmp_path, "p")
    return tmp_path


@pytest.fixture
def tidegate(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def run(*args: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["tidegate", *args])
        monkeypatch.setattr("sys.stdin", io.StringIO())
        with pytest.raises(SystemExit) as ended:
            main.run()
        return int(ended.value.code or 0), *capsys.readouterr()

    return run


def peeked(monkeypatch: pytest.MonkeyPatch, value: bytes) -> None:
    """Let `peek` find one record with this value."""
    record = Record(0, b"k", value, 0, 0, ())
    found = peeking.Peeked("p", "t", (peeking.SeenRecord.of(0, record),))
    monkeypatch.setattr(peeking, "peek_records", lambda *_, **__: found)


# 1
@pytest.mark.parametrize("query", ["", "  ", ";", "/* nothing */"])
def test_sql_without_a_statement(tidegate: Any, query: str) -> None:
    """One line and exit 2."""
    code, out, err = tidegate("sql", "p", query)
    assert (code, out, err.count("\n")) == (2, "", 1)


# 2
@pytest.mark.parametrize(
    "value",
    [b'{"a":"\\ud800"}', b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000,
     b"[" * 900 + b"]" * 900],
    ids=["surrogate", "brackets", "closed", "deep"],
)  # fmt: skip
def test_peek_shows_any_value(tidegate: Any, monkeypatch: Any, value: bytes) -> None:
    peeked(monkeypatch, value)
    real = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")  # as a terminal: capsys takes anything
    monkeypatch.setattr("sys.stdout", real)
    assert tidegate("peek", "p")[0] == 0
    real.flush()
    text = real.buffer.getvalue().decode()  # type: ignore[attr-defined]
    assert ("\\ud800" if b"ud800" in value else "[") in text


# 3
UNUSABLE = ["", "a\nb", "a\rb", "a\x85b", "${HOME}", "${X:-", "\ud800", "a\u2028b"]


@pytest.mark.parametrize("name", UNUSABLE)
def test_keys_that_are_no_columns_are_not_proposed(name: str) -> None:
    text = json.dumps({name: 1, "ok": "x", "in": {name: 2, "b": 3}, "only": {name: 1}}).encode()
    columns = "ok STRING, `in` STRUCT<b: BIGINT>, only STRING".replace("`in`", "in")
    assert propose_decoder([text]) == Decoder("json", columns)
    assert (
        formats.format_of_files("json").propose_columns([text])
        == "ok STRING, in STRING, only STRING"
    )
    declared = Decoding(Decoder("json", "ok STRING"))
    assert better_than(declared, [text], []) == Decoder("json", columns)
    file = scaffold.ingest_text(
        "p", ["t"], "/lake", "k", {"t": scaffold.Proposal(Decoder("json", columns), 1)}
    )
    assert pipeline_files.examine_text(file, "p", {}).complaints == ()


def test_init_by_keys_that_are_no_columns(tidegate: Any, monkeypatch: Any) -> None:
    values = [SampledRecord(0, 0, None, b'{"": 1, "ok": "x"}')]
    monkeypatch.setattr(
        "tidegate.samples.proposed_decoder.sample_records", lambda *_: {"t": values}
    )
    code, _, _ = tidegate("init", "--name", "q", "--topic", "t", "--lake", "/lake")
    assert (code, "ok STRING" in Path("q.yaml").read_text()) == (0, True)


def test_init_proposes_nothing_that_is_expanded(tidegate: Any, monkeypatch: Any) -> None:
    values = [SampledRecord(0, 0, None, b'{"${HOME}": 1, "ok": "x"}')]
    monkeypatch.setattr(
        "tidegate.samples.proposed_decoder.sample_records", lambda *_: {"t": values}
    )
    code, _, _ = tidegate("init", "--name", "q", "--topic", "t", "--lake", "/lake")
    assert (code, "${HOME}" in Path("q.yaml").read_text()) == (0, False)


def test_objects_within_objects_are_proposed_as_deep_as_can_be_declared() -> None:
    value: Any = 1
    for _ in range(40):
        value = {"a": value}
    (found,) = sampled_columns.columns_of_objects([json.dumps(value)])
    assert schema.parse_columns(schema.render_ddl([found])) == (found,)


# 4
CONTROLS = "\x1b[2J\x9b2J\x90\x07\x7f"


def test_no_control_character_of_a_value_reaches_the_terminal(
    tidegate: Any, monkeypatch: Any
) -> None:
    def is_clean(text: str) -> bool:
        return not set(text) & {*map(chr, range(32)), *map(chr, range(127, 160))} - {"\n"}

    peeked(monkeypatch, json.dumps({"a": "\x9b2J\x7f"}, ensure_ascii=False).encode())
    assert is_clean(tidegate("peek", "p")[1])
    _, out, _ = tidegate("sql", "p", f'SELECT 1 AS "a{CONTROLS}b"')
    assert is_clean(out)
    # DuckDB quotes the value of a record in its error.
    bad = "chr(27) || '[2J' || chr(155)"
    code, _, err = tidegate("sql", "p", f"SELECT CAST({bad} AS INTEGER) FROM lake")
    assert (code, is_clean(err)) == (2, True)


def test_no_control_character_of_a_reason_reaches_the_terminal(tidegate: Any, home: Path) -> None:
    """Of `offsets set --reason`, and of a run's id: the ledger keeps any text."""
    from tidegate.core.entries import Gap

    ledger = ledger_of(LocalStore(home / "p"))
    ledger.append(Gap("t", "id-t", 0, 10, 11, "why\x1b[2J\x9b", "me\x9b"), run="r\x1b]0;x\x07")
    out = tidegate("offsets", "show", "p")[1]
    with mock.patch.object(KafkaCluster, "survey", side_effect=ConfigurationError("no")):
        out += tidegate("status", "p")[1]
    assert not set(out) & set("\x1b\x9b\x07")


# 5
@pytest.mark.parametrize("name", ["a*b", "a?b", "a[x]b", "a[b"])
def test_a_view_of_a_directory_whose_name_has_signs_of_globs(tmp_path: Path, name: str) -> None:
    """Only its own files; not those of a directory that the glob matches."""
    for each, n in ((name, 1), ("azzb", 2), ("axb", 3)):
        place = tmp_path / each / "data/topic=t"
        place.mkdir(parents=True)
        pq.write_table(pa.table({"o": [n]}), place / "x.parquet")
    lake = views.Directory("p", f"{tmp_path}/{name}/data/", (), ("topic",))
    with duckdb.connect() as db:
        db.execute(views.view_sql("duckdb", lake))
        assert db.execute("SELECT o FROM p").fetchall() == [(1,)]
    assert "__globPaths__ 'false'" in views.view_sql("spark", lake)


def test_a_view_of_a_directory_with_a_backslash() -> None:
    """DuckDB takes it for a slash: there is no glob for it."""
    lake = views.Directory("p", "/a\\b/data/", (), ("topic",))
    with pytest.raises(ConfigurationError, match="DuckDB"):
        views.view_sql("duckdb", lake)


# 6
def test_intervals_and_dates_without_an_end_are_as_duckdb_says(tidegate: Any) -> None:
    query = (
        "SELECT INTERVAL 1 YEAR AS i, 'infinity'::DATE AS d, '-infinity'::TIMESTAMPTZ AS z, "
        "DATE '9999-12-31' AS e, [INTERVAL 1 MONTH] AS l, 1 AS i, TIMESTAMP '2020-01-01' AS t"
    )
    found = json.loads(tidegate("sql", "p", query, "--json")[1])
    assert found == {
        "format": 1,
        "columns": ["i", "d", "z", "e", "l", "i", "t"],
        "rows": [["1 year", "infinity", "-infinity", "9999-12-31", ["1 month"], 1,
                  "2020-01-01 00:00:00"]],
    }  # fmt: skip


def test_an_interval_that_python_does_not_have(tidegate: Any) -> None:
    code, out, _ = tidegate("sql", "p", "SELECT INTERVAL '3000000 years'")
    assert (code, "3000000 years" in out) == (0, True)


# 7
@pytest.mark.parametrize("name", ["order", "my-flights"])
def test_a_name_that_needs_quotes_has_a_hint(tidegate: Any, home: Path, name: str) -> None:
    lake_of(home, name)
    code, _, err = tidegate("sql", name, f"SELECT * FROM {name}")
    assert (code, f'the lake is the view lake, or "{name}"' in err) == (2, True)


# 8
def test_explain_of_a_compacted_target_without_an_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what a run would: a refusal, before anything is frozen."""
    from tidegate.egress import explain

    world = World(tmp_path, target_of(compacted=True))
    (tmp_path / "in").mkdir()
    (tmp_path / "pipelines").mkdir()
    monkeypatch.setenv("TIDEGATE_PIPELINES", str(tmp_path / "pipelines"))
    answer(monkeypatch, survey_target=lambda *_, **__: world.target)
    world.put(a="x\n")
    with pytest.raises(ConfigurationError, match="compacted"):
        explain.explain(world.open()).to_json()
    with pytest.raises(ConfigurationError, match="compacted"):
        world.plan()


# 9
@pytest.mark.parametrize("args", [("peek", "p"), ("sql", "p", "SELECT 'ä→' AS \"ö\"")])
def test_a_terminal_that_is_not_utf_8(
    tidegate: Any, monkeypatch: Any, args: tuple[str, ...]
) -> None:
    peeked(monkeypatch, '{"a": "ä→"}'.encode())
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", terminal)
    assert tidegate(*args)[0] == 0
    terminal.flush()
    assert b"\\xe4\\u2192" in terminal.buffer.getvalue()  # type: ignore[attr-defined]


# 10
def test_validate_a_name_beside_a_directory_of_that_name(tidegate: Any, home: Path) -> None:
    """The lake of `p` is in the current directory: the name means the pipeline."""
    assert (home / "p").is_dir()
    code, out, _ = tidegate("validate", "p")
    assert (code, "p.yaml" in out) == (0, True)


# 11
@pytest.mark.parametrize(
    "query",
    [
        "CALL enable_logging(storage='stdout'); SELECT 1",
        "FROM enable_logging(storage='stdout')",
        "PRAGMA enable_profiling; SELECT 1",
        "CALL enable_profiling(); SELECT 1",
        "SET logging_storage = 'stdout'; SET enable_logging = true; SELECT 1",
        "SET threads = 1",
        "COPY lake TO '.tmp/x.csv'",
        "FROM read_text('.tmp/secret')",
    ],
)
def test_sql_changes_no_setting_and_touches_no_file(
    home: Path, query: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nothing but the answer may be on stdout, and no file of the current directory be touched.

    `enable_logging(storage='file', …)` would abort the process.
    """
    (home / ".tmp").mkdir()
    (home / ".tmp/secret").write_text("x")
    with pytest.raises(ConfigurationError):
        dataset.run_query({"lake": pa.table({"a": [1]})}, query)
    assert capfd.readouterr().out == ""
    assert [each.name for each in Path(home, ".tmp").iterdir()] == ["secret"]


def test_sql_sets_its_time_zone_and_variables() -> None:
    query = "SET TimeZone = 'Europe/Berlin'; SET VARIABLE a = 1; SELECT getvariable('a')"
    assert dataset.run_query({}, query)[1] == [(1,)]


# 12
def test_what_is_pushed_to_xcom_has_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 1,000 partitions in 10 commits: at most 64 KiB under each key, else where it is."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    from tidegate.orchestration import tasks

    account = {"start": 10**9, "end": 10**9 + 5_000, "rows": 5_000, "invisible": 0}
    commits = [
        {"chunk": n, "commit": n, "rows": 5_000_000, "undecodable": {},
         "topics": {"t": {str(p): account for p in range(1_000)}}}
        for n in range(10)
    ]  # fmt: skip
    report = {
        "format": 1, "pipeline": "p", "run": "r", "run_key": "k" * 64, "generation": 1,
        "plan_id": "0" * 16, "lane": "live", "rows": 50_000_000, "commits": commits,
        "covered_by": {}, "missing": [], "left_out": [],
    }  # fmt: skip
    store = LocalStore(tmp_path / "lake/p")
    spec = SimpleNamespace(name="p")
    run = mock.Mock(spec=spec, store=lambda: store)
    run.spec = spec
    published = mock.Mock(report=IngestReport.from_json(report), plan=mock.Mock(topics={}))
    published.offsets = {f"topic-{t}": dict.fromkeys(range(1000), 10**9) for t in range(10)}
    ti = mock.Mock()
    event = {"rows": 1, "commit": 2, "ranges": {str(p): [[0, 10**9]] for p in range(5_000)}}
    published.asset_event = lambda _: event
    task = SimpleNamespace(outlets=[SimpleNamespace(uri="tidegate://p/t", name="t")])
    events = mock.MagicMock()
    monkeypatch.setattr(tasks.flows, "topics", lambda _: ("t",))
    tasks.push_published(run, published, {"ti": ti, "task": task, "outlet_events": events})
    extra = events[task.outlets[0]].extra
    assert extra.keys() == {"rows", "commit", "uri"}
    found = dict(call.args for call in ti.xcom_push.call_args_list)
    sizes = {key: len(json.dumps(value)) for key, value in found.items()}
    assert max(sizes.values()) <= 64 * 1024, sizes
    assert {"pipeline", "run_key", "generation", "rows", "uri"} <= found["report"].keys()


# 13
def test_the_checker_knows_a_file_that_two_replays_have_replaced(tmp_path: Path) -> None:
    """A file of two partitions: one replay has replaced it, another one of its partitions again."""
    store = LocalStore(tmp_path / "p")
    both = (OffsetRange("t", 0, 0, 4), OffsetRange("t", 1, 0, 4))

    def commit(plan: Any, files: dict[str, list[int]]) -> int:
        plans.freeze_plan(store, plan.id, plan, 1, note={})
        rows = sum(map(len, files.values()))
        attempt = staged_attempts.stage(store, plan, rows=rows, files={})
        for number, partitions in enumerate(files.values()):
            offsets = [partitions[:n].count(p) for n, p in enumerate(partitions)]
            name = f"topic=t/part-{number:05d}-0.c000.zstd.parquet"
            staged_attempts.write_file(store, attempt.directory, name, partitions, offsets)
        attempts.create_manifest(store, staged_attempts.check(store, plan, attempt))
        return committing.commit_sealed_chunks(store, ledger_of(store), plan, run="r")[0]

    def again(name: str, *parts: tuple[int, OffsetRange]) -> Any:
        form = replacement.replaces_to_json(replacement.Replaced(n, r) for n, r in parts)
        made = {"id": name, "asked": {}, "replaces": [form]}
        return replace(plan_of(tuple(r for _, r in parts)), lane="replay", replay=made)

    first = commit(plan_of(both), {"shared": [0] * 4 + [1] * 4})
    second = commit(again("x", *((first, r) for r in both)), {"a": [0] * 4, "b": [1] * 4})
    assert [*checker.Checker(checker.Stored(str(store.root))).run()] == []
    commit(again("y", (second, both[0])), {"a": [0] * 4})
    assert [*checker.Checker(checker.Stored(str(store.root))).run()] == []


# 14: green today; red without the guard
def test_a_manifest_of_another_attempt_is_damage(tmp_path: Path) -> None:
    """A copy under a wrong name: whoever committed it would commit another attempt's files."""
    store = LocalStore(tmp_path / "p")
    plan = plan_of((OffsetRange("t", 0, 0, 10),))
    manifest = staged_attempts.seal(store, plan, "one")
    other = staged_attempts.stage(store, plan, "two")
    store.create(other.manifest_path, manifest.encoded)
    with pytest.raises(LakeDamaged, match="it is the manifest of"):
        attempts.read_manifest(store, other)
    assert attempts.read_manifest(store, manifest.attempt).sha256 == manifest.sha256


def test_a_late_copy_is_looked_for_one_day(tmp_path: Path) -> None:
    """A copy that lands within a day after the commit was placed is deleted by the next plan, and
    no plan looks for one later.
    """
    store = LocalStore(tmp_path / "p")
    plan = plan_of((OffsetRange("t", 0, 0, 10),))
    staged_attempts.seal(store, plan)
    n = committing.commit_sealed_chunks(store, ledger_of(store), plan, run="r")[0]
    (old,) = Path(store.native("data")).rglob("*.parquet")
    content = old.read_bytes()
    form = replacement.replaces_to_json([replacement.Replaced(n, plan.chunks[0][0])])
    again = replace(plan, lane="replay", replay={"id": "x", "asked": {}, "replaces": [form]})
    staged_attempts.seal(store, again)
    m = committing.commit_sealed_chunks(store, ledger_of(store), again, run="r")[0]
    marker = Path(store.native(layout.placed(m)))

    def plan_after(hours: float) -> None:
        written = time.time() - hours * 3600
        os.utime(marker, (written, written))
        placing.roll_forward(store, ledger_of(store))

    for hours in (0, 23.9):
        old.write_bytes(content)
        plan_after(hours)
        assert (old.exists(), store.size(layout.cleared(m))) == (False, None), hours
    plan_after(24.1)
    assert store.size(layout.cleared(m)) is not None


def test_a_late_copy_of_a_kept_file_is_looked_for_one_day(tmp_path: Path) -> None:
    """The day begins when `keep_replaced` ends: a copy of the file may be under way until then."""
    store = LocalStore(tmp_path / "p")
    plan = plan_of((OffsetRange("t", 0, 0, 10),))
    staged_attempts.seal(store, plan)
    n = committing.commit_sealed_chunks(store, ledger_of(store), plan, run="r")[0]
    (old,) = Path(store.native("data")).rglob("*.parquet")
    content = old.read_bytes()
    form = replacement.replaces_to_json([replacement.Replaced(n, plan.chunks[0][0])])
    made = {"id": "x", "asked": {}, "replaces": [form], "keep_replaced": 7 * 86_400}
    again = replace(plan, lane="replay", replay=made)
    staged_attempts.seal(store, again)
    m = committing.commit_sealed_chunks(store, ledger_of(store), again, run="r")[0]
    entry = Path(store.native(layout.entry(m)))
    made_at = entry.stat().st_mtime

    def plan_after(hours: float) -> None:
        os.utime(entry, (made_at - hours * 3600,) * 2)  # by the store's clock
        placing.roll_forward(store, ledger_of(store))

    for hours, kept in ((7 * 24 - 1, True), (7 * 24 + 1, False), (8 * 24 - 1, False)):
        old.write_bytes(content)
        plan_after(hours)
        assert (old.exists(), store.size(layout.cleared(m))) == (kept, None), hours
    plan_after(8 * 24 + 1)
    assert store.size(layout.cleared(m)) is not None


@pytest.mark.parametrize("depth", [600, 900, 5000])
def test_a_record_of_many_levels_is_proposed_as_text(depth: int) -> None:
    """Of a sample of a topic: it stops no `init` and no `fit`."""
    value = b'{"a":' * depth + b"1" + b"}" * depth
    found = sampled_columns.columns_of_objects([value, b'{"b":1}'])
    assert found[-1] == schema.Field("b", schema.Type("bigint"))


def test_offsets_that_are_none() -> None:
    for text, said in (
        ('{"t":' + "[" * 5000, "nested too deep"),
        ('{"t":{"0":1,"00":2}}', "a partition stands there twice"),
    ):
        with pytest.raises(ValueError, match=said):
            parse_spark_offsets(text)


def test_the_number_of_an_entry_with_many_digits(tidegate: Any) -> None:
    code, _, said = tidegate("sql", "lake", "SELECT 1", "--at", "9" * 5000)
    assert (code, said.partition(":")[0]) == (2, "ConfigurationError")


def test_a_number_of_a_schema_with_many_digits() -> None:
    with pytest.raises(SchemaError, match="a number was expected"):
        schema.parse_columns(f"a DECIMAL({'1' * 5000})")
