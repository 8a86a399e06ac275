"""Foreign text is read in a time linear in its size, and within bounds: 6 s of CPU each."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

CPU, WALL = 6, 30  # seconds; what is linear takes 2 at most on two busy cores


def bounded(work: Callable[[], object]) -> None:
    """Run `work` in a child of its own that may use CPU seconds, and 3 GiB more than this process.

    A worker that has run Spark may have 3 GiB of addresses already. Below what is in use, the limit
    would let each allocation fail in the kernel, which takes seconds.
    """
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + (3 << 30)
    if (child := os.fork()) == 0:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU, CPU + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(WALL)
        code = 0
        try:
            work()
        except MemoryError:
            code = 7
        except Exception:
            pass
        os._exit(code)
    _, status, used = os.wait4(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        what = {signal.SIGALRM: f"it hangs: no end within {WALL} s"}.get(number)
        cpu = f"more than {CPU} s of CPU: {used.ru_utime:.1f} in user mode, {used.ru_stime:.1f} in"
        faults = f"{used.ru_minflt:,} page faults"
        pytest.fail(what or f"{cpu} the kernel, {faults} (signal {number})", pytrace=False)
    assert os.waitstatus_to_exitcode(status) == 0, "more than 3 GiB of memory"


INGEST = "name: p\nkind: ingest\nlake: /lake\ntopics: [t]\n"


def examined(directory: Path, text: str, environ: dict[str, str] | None = None) -> None:
    from tidegate.pipelines import pipeline_files

    path = directory / "p.yaml"
    path.write_text(text)
    assert len(text) <= 128 * 1024
    bounded(lambda: pipeline_files.examine_file(path, environ or {}))


# --- pipeline files: each of these stops the parsing of all DAGs ---------------------------------


def test_a_long_value_is_searched_for_secrets_once(tmp_path):
    examined(tmp_path, f"{INGEST}spark: {{conf: {{spark.x: {'a' * 60_000}}}}}\n")


def test_variables_with_defaults_that_are_not_closed(tmp_path):
    examined(tmp_path, f"{INGEST}kafka: '{'${A:-' * 16_000}'\n")


def test_variables_do_not_make_a_small_file_large(tmp_path):
    examined(tmp_path, f"{INGEST}kafka: '{'${A}' * 5_000}'\n", {"A": "x" * 100_000})


def test_many_variables_that_are_not_set(tmp_path):
    options = "".join(f" k{i:x}: ${{B}}\n" for i in range(9_000))
    examined(tmp_path, f"{INGEST}options:\n{options}")


def test_a_pattern_that_backtracks(tmp_path):
    decode = f"decode: {{{'a' * 40}: {{value: {{format: string}}}}}}\n"
    examined(tmp_path, f"name: p\nkind: ingest\nlake: /lake\npattern: '(a+)+b'\n{decode}")


def test_what_a_broken_file_says_of_its_schedule(tmp_path, monkeypatch):
    """Read for the DAG that shows its error, when all DAGs are parsed."""
    from tidegate.pipelines import pipeline_files

    monkeypatch.setenv("TIDEGATE_PIPELINES", str(tmp_path))
    path = tmp_path / "p.yaml"
    path.write_text(f"kind: ingest # a # b\nbad: 1\nschedule: 'a{' ' * 120_000}b'  # daily\n")
    bounded(lambda: pipeline_files.unchecked_lines("p"))
    said = pipeline_files.unchecked_lines("p")
    assert (said["kind"], said["schedule"][:2], said["schedule"][-2:]) == ("ingest", "a ", " b")


def test_a_decimal_of_many_bytes():
    """Of a large `fixed` Spark takes 38 digits, as of one of 2,000 bytes."""
    from tidegate.spark.formats import avro_schema

    for size in (16, 19, 20, 2_000, 64 << 20):
        fixed = {"type": "fixed", "name": "f", "size": size, "logicalType": "decimal"}
        field = {"name": "x", "type": {**fixed, "precision": 38}}
        text = json.dumps({"type": "record", "name": "r", "fields": [field]})
        bounded(lambda text=text: avro_schema.columns_of_schema(text))
        assert [str(each.type) for each in avro_schema.columns_of_schema(text)] == ["DECIMAL(38,0)"]


def test_a_glob_of_many_directories():
    from tidegate.core.source_root import Root

    root = Root.of("/in/" + "**/" * 40_000 + "a")
    bounded(lambda: [root.matches("x/y/z") for _ in range(10)])


def test_a_schema_of_many_columns():
    from tidegate.core import schema

    text = ", ".join(f"c{i} INT" for i in range(20_000))
    bounded(lambda: schema.parse_columns(text))


def test_a_schema_file_that_many_topics_name(tmp_path):
    (tmp_path / "s").write_text(f"a INT COMMENT '{'x' * 1_000_000}'")
    names = [f"t{i}" for i in range(2_000)]
    decode = "".join(f" {n}: {{value: {{format: json, schema: {{file: s}}}}}}\n" for n in names)
    examined(tmp_path, INGEST.replace("[t]", f"[{','.join(names)}]") + f"decode:\n{decode}")


def test_a_schema_file_that_is_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "s")
    examined(tmp_path, f"{INGEST}decode: {{t: {{value: {{format: json, schema: {{file: s}}}}}}}}\n")


def test_a_bracket_of_a_glob_that_is_not_closed():
    from tidegate.core.source_root import Root

    root = Root.of(f"/in/{'[' * 120_000}")
    bounded(root.complaint)


def test_a_regular_expression_for_delegation_tokens_that_backtracks():
    from tidegate.broker import delegation_token

    given = {
        "tidegate.delegation_token": "true",
        "tidegate.delegation_token.target_regex": "(a+)+b",
        "security.protocol": "SASL_SSL",
        "bootstrap.servers": f"{'a' * 40}:9092",
    }
    bounded(lambda: delegation_token.complaints("k", given))


def test_many_options_of_a_reader():
    from tidegate.spark import formats

    given = {f"k{i:06x}": "1" for i in range(40_000)}
    bounded(lambda: formats.format_of_files("csv").complaints_of_options(given))


def test_a_list_of_jars():
    from tidegate.settings.spark_conf import CONNECTOR

    bounded(lambda: CONNECTOR.search(" spark-avro-" * 30_000))


# --- schemas ------------------------------------------------------------------------------------


def test_a_schema_whose_columns_are_all_renamed():
    from tidegate.core import schema
    from tidegate.core.schema import Field, Type

    old = [Field(f"customer_{i:05d}", Type("int")) for i in range(1_200)]
    new = [Field(f"kunde_{i:05d}_x", Type("int")) for i in range(1_200)]
    bounded(lambda: schema.column_changes(old, new))


def _avro(depth: int) -> str:
    form = {"type": "record", "name": f"R{depth}", "fields": [{"name": "a", "type": "int"}]}
    for n in range(depth - 1, -1, -1):
        fields = [{"name": "a", "type": form}, {"name": "b", "type": f"R{n + 1}"}]
        form = {"type": "record", "name": f"R{n}", "fields": fields}
    return json.dumps(form)


def test_an_avro_schema_that_names_a_type_again_and_again():
    from tidegate.core import schema
    from tidegate.spark.formats import avro_schema

    text = _avro(28)  # 2 KB

    def changes() -> None:
        schema.column_changes(
            avro_schema.columns_of_schema(text), avro_schema.columns_of_schema(text)
        )

    bounded(changes)


# --- names of files -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("glob", "name"),
    [("*a*a*a*a*b", "a" * 250), ("*0*0*0*0*.csv", "0" * 250), ("**/" * 12 + "x", "a/" * 60)],
)
def test_a_glob_with_many_stars(glob, name):
    from tidegate.core.source_root import Root

    root = Root.of(f"/in/{glob}")
    bounded(lambda: root.matches(name))


def test_a_directory_and_a_glob_with_many_stars():
    from tidegate.core.source_root import Root

    root = Root.of("/in/*a*a*a*a*b/x")
    bounded(lambda: root.may_hold("a" * 250))


def test_a_key_file_without_an_end():
    from tidegate.broker import tls

    text = "-----BEGIN PRIVATE KEY-----" * 15_000
    bounded(lambda: tls.unusable({"ssl.key.pem": text, "ssl.certificate.pem": "x"}))


def test_a_secret_that_repeats_its_name():
    from tidegate.spark.kafka_source import redact_options

    bounded(lambda: redact_options("x", {"kafka.sasl.jaas.config": "password" * 30_000}))


def test_an_answer_of_s3():
    from tidegate.lake.store_errors import one_line

    bounded(lambda: one_line(Exception("<Code></Code><Message>" * 900)))  # 20 KB


def test_what_a_client_has_logged():
    from tidegate.broker import client_errors

    bounded(lambda: client_errors._ATTEMPT.findall("Bootstrap connection to x failed: y " * 10_000))


def test_untrusted_certificates_that_a_client_has_logged():
    from tidegate.broker import client_errors

    text = "certificate verify failed: x. " * 8_000 + "\nx"
    bounded(lambda: client_errors._UNTRUSTED.search(text))


def test_the_error_of_a_token_endpoint(monkeypatch):
    import httpx

    from tidegate.broker.oauth import TokenProvider

    def post(*_: object, **__: object) -> None:
        raise httpx.ConnectError(f"CERTIFICATE_VERIFY_FAILED{'x' * 300_000}")

    monkeypatch.setattr(httpx, "post", post)
    given = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "a",
        "sasl.oauthbearer.client.secret": "b",
        "sasl.oauthbearer.token.endpoint.url": "https://a/b",
    }
    bounded(lambda: TokenProvider(given, "c").token())


def test_the_nearest_of_many_topics():
    from tidegate.core.nearest import did_you_mean

    known = [f"orders.eu.{i:06d}.created" for i in range(6_000)]
    missing = [f"orders-us-{i}-created" for i in range(120)]
    bounded(lambda: did_you_mean(missing, known))


# --- records ------------------------------------------------------------------------------------


def test_a_record_with_an_array_of_different_objects():
    from tidegate.core.sampled_columns import columns_of_objects

    form = {"a": [{f"k{i:x}_{j}": 1 for j in range(20)} for i in range(4_000)]}  # 1 MB
    text = json.dumps(form)
    bounded(lambda: columns_of_objects([text]))


def test_a_proposal_for_many_columns_that_do_not_fit():
    from tidegate.core.decoding import Decoder, Decoding
    from tidegate.samples.proposed_decoder import better_than

    declared = Decoding(Decoder("json", ", ".join(f"col{i:x} INT" for i in range(3_000))))
    assert declared.value
    assert len(declared.value.fields) == 3_000  # parsed once
    fault = "value: " + ", ".join(f"colx{i:x}: no INT" for i in range(3_000))
    bounded(lambda: better_than(declared, [], [fault] * 100))


# --- Spark's errors and output ------------------------------------------------------------------


class _Thrown:
    _target_id = "o1"

    def __init__(self, message: str) -> None:
        self.getMessage = lambda: message
        self.getCause = lambda: None
        self.getClass = lambda: self
        self.getName = lambda: "java.lang.NumberFormatException"


def _java_error(message: str) -> Exception:
    from py4j.protocol import Py4JJavaError

    return Py4JJavaError("", _Thrown(message))


@pytest.mark.parametrize("row", ["a." * 50_000, "[A]" * 180_000], ids=["classes", "conditions"])
def test_an_error_that_quotes_a_row(row):
    from tidegate.spark import bad_files

    error = _java_error(f'For input string: "{row}"')
    bounded(lambda: bad_files.is_temporary(error))


def test_an_error_that_quotes_the_name_of_an_error():
    from tidegate.spark import bad_files

    error = _java_error("FAILED_READ_FILE" * 40_000)
    bounded(lambda: bad_files.first_match(bad_files.UNREADABLE, error))


def test_a_long_line_of_output(monkeypatch, tmp_path):
    from tidegate.launch import spark_output

    monkeypatch.setattr(spark_output, "create_log", lambda _: tmp_path / "output.log")
    line = "ERROR TaskSetManager: " * 50_000
    bounded(lambda: list(spark_output.SparkOutput("x").shown([line])))


def test_csv_of_many_columns_does_not_recurse_in_java():
    """`(?:a|b){n}` is a recursion of Java's for each n, `(?:a|b){n}+` a loop: no JVM is started."""
    from tidegate.spark import decoded_rows

    assert r"{{{len(fields) - 1}}}\z" not in Path(decoded_rows.__file__).read_text()


# --- Airflow's API server -----------------------------------------------------------------------


def test_the_body_of_a_request_without_a_login():
    from tidegate.ui import triggers

    chunk, left = b"x" * 65_536, 64 * 16  # 64 MiB

    async def receive() -> dict[str, object]:
        nonlocal left
        left -= 1
        return {"type": "http.request", "body": chunk, "more_body": left > 0}

    scope = {"type": "http", "headers": []}
    bounded(lambda: asyncio.run(triggers.signed("tidegate_replay", scope, receive)))
