"""How spark-submit is called: whose settings win, what is never shown, what a failure names."""

import os
import re
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from support.calls import sending, staging
from support.fake_submit import fake
from support.process_list import have_ended, is_job
from support.unreachable_broker import unreachable
from tidegate.broker.client_settings import KafkaSettings
from tidegate.core.offsets import OffsetRange
from tidegate.core.parquet_settings import ParquetSettings
from tidegate.errors import (
    BrokerUnreachable,
    ConfigurationError,
    NotAuthenticated,
    NotAuthorised,
    StageFailed,
    TidegateError,
)
from tidegate.launch import cds_archive, jars
from tidegate.launch import spark_submit as module
from tidegate.launch.masters import for_master
from tidegate.launch.spark_connection import SparkConnection
from tidegate.launch.spark_output import failure_line
from tidegate.launch.spark_submit import ensure_archive, submit
from tidegate.launch.submission import (
    Submission,
    decoding_submission,
)
from tidegate.spark.answers import LocalAnswers
from tidegate.spark.hadoop_files import WITHOUT_SHELL
from tidegate.spark.ingest_job import Chunk, IngestJob
from tidegate.spark.job_files import terminal_if_refused, write_refusal


@pytest.fixture(autouse=True)
def _jars_and_no_archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(jars, "lock_paths", lambda name: [Path(f"/jars/{name}.jar")])
    monkeypatch.setattr(cds_archive, "find_archive", lambda: None)
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "cache"))


def described(conf: Mapping[str, str] | None = None, records: int = 400) -> Submission:
    return staging(Path("/private/job.json"), conf or {}, records, name="flights r1")


def test_a_pipelines_conf_wins_except_over_correctness() -> None:
    conf = described(
        {
            "spark.ui.enabled": "true",
            "spark.executor.cores": "3",
            "spark.submit.deployMode": "cluster",
        }
    ).conf
    assert conf["spark.ui.enabled"] == "true"
    assert conf["spark.executor.cores"] == "3"
    assert conf["spark.submit.deployMode"] == "client"


def test_a_sample_has_the_settings_of_a_run() -> None:
    """A connection's and, above them, a pipeline's; in cluster mode on this machine's Python."""
    connection = SparkConnection(
        "c", "yarn", {"spark.sql.ansi.enabled": "false", "spark.driver.memory": "6g"},
        python="/of/the/nodes", deploy_mode="cluster",
    )  # fmt: skip
    made = decoding_submission(Path("job"), {"spark.sql.ansi.enabled": "true"}, connection)
    assert made.conf["spark.sql.ansi.enabled"] == "true"
    assert made.conf["spark.driver.memory"] == "6g"
    assert made.conf["spark.submit.deployMode"] == "client"
    assert made.env["PYSPARK_PYTHON"] == sys.executable


def test_a_redaction_pattern_adds_to_what_hides_the_login() -> None:
    """Spark hides options that match either of its patterns; a pipeline may set both."""
    name = "spark.sql.redaction.options.regex"
    ours = "(?i:url|jaas|secret|passw|token)"
    assert described().conf[name] == ours
    assert described({"spark.redaction.regex": "(?i)ssn"}).conf[name] == ours
    assert described({name: "(?i)ssn"}).conf[name] == f"{ours}|(?i)ssn"


def test_the_job_file_is_the_only_argument() -> None:
    given = described()
    assert given.args == ("/private/job.json",)
    assert is_job(given.application, "ingest")
    assert Path(given.application).is_file()


@pytest.mark.parametrize(
    "key",
    ["spark.hadoop.fs.s3a.secret.key", "spark.ssl.keyPassword", "spark.hadoop.fs.s3a.access.key"],
)
def test_a_secret_in_conf_is_refused_and_not_quoted(key: str) -> None:
    """Every `--conf` can be read by all users of the machine."""
    with pytest.raises(ConfigurationError, match=key) as refused:
        described({key: "hunter2"})
    assert "hunter2" not in str(refused.value)


def test_jars_are_added_to_those_of_the_pipeline() -> None:
    """Where the pipeline has jars of its own."""
    given = described({"spark.jars": "/mine.jar", "spark.driver.extraClassPath": "/lib/*"})
    assert given.jars == ("/jars/spark-kafka.jar", "/mine.jar")
    assert given.conf["spark.driver.extraClassPath"] == "/jars/spark-kafka.jar:/lib/*"
    assert "spark.jars" not in given.conf
    assert for_master(given, "spark://host:7077") == given
    assert for_master(given, "local[2]").jars == ("/mine.jar",)


def test_local_files_are_opened_without_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the jar is in the class path of all of Spark, and the pipeline does not say another."""
    impl = "spark.hadoop.fs.file.impl"
    for jar, master, conf, found in (
        ("hadoop-bare-naked-local-fs-0.1.0.jar", "local[2]", {}, WITHOUT_SHELL),
        ("hadoop-bare-naked-local-fs-0.1.0.jar", "local", {impl: "own"}, "own"),
        ("hadoop-bare-naked-local-fs-0.1.0.jar", "spark://host:7077", {}, None),
        ("kafka-clients-3.9.2.jar", "local[2]", {}, None),
    ):
        monkeypatch.setattr(jars, "lock_paths", lambda _, jar=jar: [Path("/jars", jar)])
        assert for_master(described(conf), master).conf.get(impl) == found, (jar, master)


def test_a_master_that_retries_tasks_is_refused_for_a_send() -> None:
    """`local[2,4]` beats spark.task.maxFailures: what a task has sent would be sent again."""
    given = sending(Path("/private/job.json"), {}, name="out r1", rows=10)
    for master in ("local[2,4]", "local[*, 2]"):
        with pytest.raises(ConfigurationError, match=re.escape(master)):
            for_master(given, master)
        for_master(described(), master)  # what is staged twice is sealed once
    for master in ("local", "local[2]", "local[*]", "local[2,1]", "spark://host:7077"):
        for_master(given, master)


def test_what_a_task_has_sent_is_not_sent_again_by_spark() -> None:
    """Whatever the pipeline says: neither a failure nor a lost executor repeats a task."""
    once = {
        "spark.task.maxFailures": "1",
        "spark.stage.maxConsecutiveAttempts": "1",
        "spark.speculation": "false",
        "spark.dynamicAllocation.enabled": "false",
        "spark.decommission.enabled": "false",
        "spark.stage.ignoreDecommissionFetchFailure": "false",
    }
    given = dict.fromkeys(once, "x")
    conf = sending(Path("/private/job.json"), given, name="out r1", rows=10).conf
    assert {name: conf[name] for name in once} == once
    staged = described(given).conf  # what is staged twice is sealed once
    assert {name: staged[name] for name in once} == given


def test_a_job_that_was_refused_for_good_is_not_retried(tmp_path: Path) -> None:
    """A file beside the job file decides: Airflow returns none of the application's output."""
    with pytest.raises(StageFailed, match="away"), terminal_if_refused(LocalAnswers(tmp_path).read):
        raise StageFailed("the broker is away")
    write_refusal(
        LocalAnswers(tmp_path),
        ConfigurationError("starting Spark: Spark 3.5.1: 4.0 or later is needed"),
    )
    for failure in (StageFailed("spark-submit failed"), BrokerUnreachable("no broker answers")):
        with (
            pytest.raises(ConfigurationError, match=r"Spark 3\.5\.1"),
            terminal_if_refused(LocalAnswers(tmp_path).read),
        ):
            raise failure
    with terminal_if_refused(LocalAnswers(tmp_path).read):
        pass


@pytest.mark.parametrize("refusal", [ConfigurationError, NotAuthenticated, NotAuthorised])
def test_a_refusal_keeps_its_class(tmp_path: Path, refusal: type[TidegateError]) -> None:
    write_refusal(LocalAnswers(tmp_path), refusal("plan f00: refused\nfor two reasons"))
    with pytest.raises(TidegateError) as raised, terminal_if_refused(LocalAnswers(tmp_path).read):
        raise StageFailed("spark-submit failed")
    assert type(raised.value) is refusal
    assert str(raised.value) == "plan f00: refused\nfor two reasons"


def test_java_is_told_where_krb5_conf_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not read KRB5_CONFIG; only with Kerberos is it needed."""
    configuration, keytab = tmp_path / "krb 5.conf", tmp_path / "alice.keytab"
    configuration.touch()
    keytab.write_bytes(b"\5\2")
    monkeypatch.setenv("KRB5_CONFIG", str(configuration))
    plain = {"bootstrap.servers": "b:1"}
    kerberos = plain | {
        "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.keytab": str(keytab), "sasl.kerberos.principal": "alice",
    }  # fmt: skip
    names = ("spark.driver.defaultJavaOptions", "spark.executor.defaultJavaOptions")
    for extra, expected in ((plain, 0), (kerberos, 1)):
        given = staging(
            tmp_path / "job.json", {}, 1, name="n", kafka=KafkaSettings("k", extra)
        ), sending(
            tmp_path / "job.json", {}, rows=1, name="n", kafka=KafkaSettings("k", extra)
        )  # fmt: skip
        option = f"'-Djava.security.krb5.conf={configuration}'"
        for each in given:
            assert [each.conf.get(name, "").count(option) for name in names] == [expected] * 2
            assert "-XX:+UseSerialGC" in each.conf[names[0]]


def test_what_airflows_variables_hold_is_not_inherited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job file has what the application needs; Airflow's provider can only add variables."""
    for name in ("AIRFLOW_CONN_KAFKA_DEFAULT", "AIRFLOW_VAR_X", "AIRFLOW__CORE__FERNET_KEY"):
        monkeypatch.setenv(name, "hunter2")
    monkeypatch.setenv("TIDEGATE_STACK", "kept")
    lines: list[str] = []
    given = replace(fake(tmp_path, "tr '\\0' '\\n' < /proc/$$/environ"), env=described().env)
    submit(given, master="local", log=lines.append)
    assert "TIDEGATE_STACK=kept" in lines
    assert "hunter2" not in str(lines)
    assert "hunter2" not in str(given)


def test_no_core_dumps(tmp_path: Path) -> None:
    """By the limit of all processes on this machine, and by an option of the JVMs elsewhere."""
    (tmp_path / "bin").mkdir()
    spark = tmp_path / "bin/spark-submit"
    spark.write_text("#!/bin/sh\nulimit -c; ulimit -Hc\n")
    spark.chmod(0o755)
    done = subprocess.run(
        ["sh", "-c", 'ulimit -S -c "$(ulimit -Hc)" && "$1"; exit', "sh", described().binary],
        env={**os.environ, "SPARK_HOME": str(tmp_path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["0", "0"]
    for of in ("driver", "executor"):
        options = described().conf[f"spark.{of}.defaultJavaOptions"]
        assert "-XX:-CreateCoredumpOnCrash" in options.split()


def test_only_big_work_is_compiled_by_c2() -> None:
    small = described(records=400).conf["spark.driver.defaultJavaOptions"]
    assert "-XX:TieredStopAtLevel=1" in small
    big = described(records=50_000_000).conf["spark.driver.defaultJavaOptions"]
    assert "TieredStopAtLevel" not in big


def test_a_pipelines_own_collector_is_the_only_one() -> None:
    """A JVM that is given two refuses to start."""
    options = described({"spark.driver.extraJavaOptions": "-XX:+UseG1GC"}).conf
    assert "GC" not in options["spark.driver.defaultJavaOptions"]


def test_an_archive_is_used_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cds_archive, "find_archive", lambda: Path("/cache/x.jsa"))
    options = described().conf["spark.driver.defaultJavaOptions"].split()
    assert "-XX:SharedArchiveFile=/cache/x.jsa" in options
    assert "-Xshare:auto" in options  # goes on without it when it does not fit


def test_the_scripts_can_be_executed() -> None:
    """Airflow starts the wrapper directly; git and the wheel keep its mode."""
    for script in Path(module.__file__).parent.glob("*.sh"):
        assert script.stat().st_mode & stat.S_IXUSR, script


def test_submit_passes_everything_and_every_line(tmp_path: Path) -> None:
    lines: list[str] = []
    given = fake(tmp_path, 'for each in "$@"; do echo "$each"; done; echo $COLOUR >&2')
    submit(given, master="spark://m:1", log=lines.append)
    *lines, last = lines
    (file,) = tmp_path.rglob("flights-r1-*.log")
    assert last == f"Spark's output: {file}"
    assert file.read_text().splitlines() == lines
    assert lines == [
        "--master", "spark://m:1", "--name", "flights r1", "--jars", "a.jar,b.jar",
        "--conf", "spark.a=1 2", "job.py", "job.json", "blue",
    ]  # fmt: skip


def test_submit_gives_no_input_to_wait_for(tmp_path: Path) -> None:
    lines: list[str] = []
    submit(fake(tmp_path, "cat; echo over"), master="local", log=lines.append)
    assert lines[:-1] == ["over"]


def test_a_failure_names_its_cause(tmp_path: Path) -> None:
    script = "echo '2026-01-01 tidegate: X: the topic is gone'; echo 'INFO bye'; exit 7"
    with pytest.raises(StageFailed) as failed:
        submit(fake(tmp_path, script), master="local", log=lambda _: None)
    (file,) = tmp_path.rglob("flights-r1-*.log")
    assert str(failed.value) == (
        f"flights r1: X: the topic is gone (spark-submit ended with 7); Spark's output: {file}"
    )
    assert failed.value.numbers == {"exit_code": 7}
    assert file.read_text().endswith("INFO bye\n")


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Iterator[KafkaSettings]:
    """Yield a connection to a broker that is down, and shorten the patience with it."""
    with unreachable(monkeypatch) as settings:
        yield settings


def test_an_outage_ends_the_application_by_name(tmp_path: Path, kafka: KafkaSettings) -> None:
    """Spark's clients would go on for another minute and a half."""
    pid = tmp_path / "pid"
    began = time.monotonic()
    with pytest.raises(BrokerUnreachable) as failed:
        submit(
            fake(tmp_path, f"echo $$ > {pid}; echo line; exec sleep 60", kafka),
            master="local", log=lambda _: None,
        )  # fmt: skip
    assert time.monotonic() - began < 30
    (file,) = tmp_path.rglob("flights-r1-*.log")
    assert str(failed.value) == (
        f"{kafka.cluster}: no broker has answered for 0 s, and Spark was stopped; check that it "
        f"runs. What is finished is kept, and a retry does the rest; Spark's output: {file}"
    )
    assert (failed.value.kind, failed.value.exit_code) == ("transient", 4)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_an_application_that_will_not_end_is_killed(
    tmp_path: Path, kafka: KafkaSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TIME_TO_END", 0.2)
    stubborn = "trap '' TERM; for i in $(seq 300); do sleep 0.1; done"
    began = time.monotonic()
    with pytest.raises(BrokerUnreachable):
        submit(fake(tmp_path, stubborn, kafka), master="local", log=lambda _: None)
    assert time.monotonic() - began < 20


def test_an_application_that_fails_in_an_outage_is_named_for_it(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    with pytest.raises(BrokerUnreachable, match="no broker answers, and Spark has failed"):
        submit(fake(tmp_path, "exit 1", kafka), master="local", log=lambda _: None)


def test_an_application_that_ends_well_in_an_outage_has(
    tmp_path: Path, kafka: KafkaSettings
) -> None:
    lines: list[str] = []
    submit(fake(tmp_path, "echo over", kafka), master="local", log=lines.append)
    assert lines[0] == "over"


def test_a_log_that_fails_ends_the_application(tmp_path: Path) -> None:
    """Ctrl-C arrives in the same place."""
    pid = tmp_path / "pid"

    def interrupted(line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        submit(
            fake(tmp_path, f"echo $$ > {pid}; echo line; exec sleep 60"),
            master="local", log=interrupted,
        )  # fmt: skip
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_the_driver_has_ended_too(tmp_path: Path) -> None:
    """Spark's Python is a child of its Java, and ends a little later."""
    pid = tmp_path / "pid"
    driver = f"(trap '' TERM; sleep 3) & echo $! > {pid}; echo line; exec sleep 60"

    def interrupted(line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        submit(fake(tmp_path, driver), master="local", log=interrupted)
    assert have_ended([int(pid.read_text())])


STACK = """\
26/01/01 10:00:00 WARN NativeCodeLoader: Unable to load native-hadoop library
Exception in thread "main" org.apache.spark.SparkException: Could not parse Master URL: 'nowhere'
\tat org.apache.spark.SparkContext$.createTaskScheduler(SparkContext.scala:3228)
\tat java.base/java.lang.Thread.run(Thread.java:840)
26/01/01 10:00:01 INFO ShutdownHookManager: Deleting directory
"""


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("", "it said nothing"),
        ("no colon here\n\n", "no colon here"),
        (
            STACK,
            'Exception in thread "main" org.apache.spark.SparkException: Could not parse Master'
            " URL: 'nowhere'",
        ),
        (STACK + "10:00 tidegate: IllegalState: gone\nKeyError: 'x'\n", "IllegalState: gone"),
        (
            "Invalid maximum heap size: -Xmxabc\nError: Could not create the JVM.\n",
            "Invalid maximum heap size: -Xmxabc",
        ),
        (
            "Error: Unknown option --x\n\nUsage: spark-submit …\n --queue Q\n",
            "Error: Unknown option --x",
        ),
        ("Traceback (most recent call last):\n  File x\nKeyError: 'x'\n", "KeyError: 'x'"),
    ],
)
def test_the_line_that_names_the_cause(output: str, line: str) -> None:
    assert failure_line(output.splitlines(keepends=True)) == line


def test_an_archive_that_cannot_be_made_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").touch()  # not a directory
    lines: list[str] = []
    assert ensure_archive(lines.append) is None
    assert "no archive of classes" in lines[-1]


def test_only_a_whole_archive_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The JVM crashes on one that lost its end, in a power cut, say."""
    monkeypatch.undo()
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path))
    monkeypatch.setattr(jars, "lock_paths", lambda _: [])
    assert cds_archive.find_archive() is None
    with cds_archive.create_archive() as new:
        assert new is not None
        new.write_bytes(b"classes")
    (archive,) = tmp_path.rglob("*.jsa")
    assert cds_archive.find_archive() == archive
    with cds_archive.create_archive() as again:
        assert again is None
    archive.write_bytes(b"class")
    assert cds_archive.find_archive() is None


def test_the_job_file_is_private_and_returns_as_it_was(tmp_path: Path) -> None:
    window = (OffsetRange("a", 0, 1, 2), OffsetRange("a", 10, 0, 0))
    options = {"kafka.sasl.jaas.config": 'password="hunter2"'}
    job = IngestJob(
        "f00", (Chunk(3, window, "/lake/x"),), ParquetSettings("zstd", 1, 9), app_name="n",
        options=options, records=1,
    )  # fmt: skip
    path = tmp_path / "job.json"
    mask = os.umask(0)
    try:
        job.write(path)
    finally:
        os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert IngestJob.read(path) == job
    assert "hunter2" not in repr(job)
    with pytest.raises(FileExistsError):
        job.write(path)


def test_the_drivers_python_is_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not a zipped PySpark: Spark's own PYTHONPATH is put aside (ADR 14)."""
    monkeypatch.setenv("PYTHONPATH", "/mine")
    env = described().env
    assert env["PYSPARK_PYTHON"] == sys.executable
    assert env["TIDEGATE_PYTHONPATH"] == "/mine"
