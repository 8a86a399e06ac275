"""What every engine owes a run: the port of `tidegate.runs.engine_protocol`."""

import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.toy_engine import ToyEngine
from support.toy_kube import ToyKube
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core.parquet_settings import ParquetSettings
from tidegate.errors import StageFailed
from tidegate.lake.attempts import Attempt
from tidegate.lake.store import LocalStore
from tidegate.launch import (
    hadoop_credentials,
    kube_client,
    kube_cluster,
    yarn_client,
    yarn_cluster,
)
from tidegate.launch.kube_cluster import pod_name
from tidegate.launch.master_kinds import KINDS
from tidegate.launch.spark_connection import SparkConnection
from tidegate.launch.spark_engine import SparkEngine
from tidegate.launch.submission import Submission
from tidegate.runs.engine_protocol import Engine, Unknown
from tidegate.spark.answers import DRIVER, JOB
from tidegate.spark.ingest_job import IngestJob

OWN = Attempt("f00d", 0, "5d0c3f7e9b8a4c61a2e4d7f00b916c38")
KAFKA = KafkaCluster(
    "k",
    {
        "bootstrap.servers": "nowhere:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "u",
        "sasl.password": "pa55",
    },
)
PARQUET = ParquetSettings("zstd", 1, 1)
OF_JOB = IngestJob(
    "f00d", (), PARQUET, app_name="flights r1", options={"kafka.client.id": "me"}, records=4
)
Do = Callable[[IngestJob, Path], None]


@dataclass
class Variant:
    """An engine, and the calls of spark-submit that it makes, if it makes any."""

    engine: Engine
    store: LocalStore
    calls: list[Submission]

    def application(self, conf: dict[str, str] | None = None) -> Any:
        return self.engine.application(OF_JOB, OWN, store=self.store, conf=conf or {}, places=())


def test_the_list_of_masters() -> None:
    """Each is of one kind, and only those whose cluster mode is tried here have one."""
    for each in KINDS:
        named = [kind.name for kind in KINDS if re.fullmatch(kind.pattern, each.example)]
        assert named == [each.name]
        assert bool(each.key) == bool(each.setting)
    in_cluster = [kind.name for kind in KINDS if not kind.client_alone]
    assert in_cluster == [yarn_cluster.MASTER, kube_cluster.MASTER]


@pytest.fixture(
    params=["a child of this process", "YARN's cluster mode", "Kubernetes' cluster mode", "a toy"]
)
def variant(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Do], Variant]:
    """Return what makes an engine whose application does this."""
    store, calls = LocalStore(tmp_path / "lake/p"), list[Submission]()
    keys: list[bytes] = []
    write = hadoop_credentials.write_credentials

    def keep(path: Path, name: str, key: bytes) -> None:
        keys.append(key)
        write(path, name, key)

    monkeypatch.setattr(hadoop_credentials, "write_credentials", keep)
    monkeypatch.setattr(yarn_client, "kill_applications", lambda *_: [])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def in_a_child(do: Do) -> Callable[[Submission], None]:
        def submit(call: Submission) -> None:
            calls.append(call)
            path = Path(*call.args)
            job = IngestJob.read(path)
            path.unlink()
            do(job, path.parent)

        return submit

    kube = ToyKube()
    monkeypatch.setattr(kube_client, "connect", lambda *_: kube)

    def on_kubernetes(do: Do) -> Callable[[Submission], None]:
        def submit(call: Submission) -> None:
            (key,) = (found["key"] for found in kube.secrets.values() if "key" in found)
            keys.append(key)
            on_yarn(do)(call)
            kube.add(pod_name(OWN), 0)

        return submit

    def on_yarn(do: Do) -> Callable[[Submission], None]:
        def submit(call: Submission) -> None:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM

            calls.append(call)
            directory = Path(call.args[1])
            content = (directory / JOB).read_bytes()
            job = json.loads(AESGCM(keys[-1]).decrypt(content[:12], content[12:], None))
            (directory / JOB).unlink()
            do(IngestJob.from_json(job), directory)

        return submit

    def made(do: Do) -> Variant:
        if request.param == "a toy":
            return Variant(ToyEngine(do, KAFKA), store, calls)
        if request.param == "YARN's cluster mode":
            spark = SparkConnection("s", "yarn", {"spark.own": "1"}, deploy_mode="cluster")
            return Variant(SparkEngine(KAFKA, spark, on_yarn(do)), store, calls)
        if request.param == "Kubernetes' cluster mode":
            conf = {"spark.own": "1", "spark.kubernetes.container.image": "i"}
            master, jars = "k8s://https://host:1", "image of the pods"
            spark = SparkConnection("s", master, conf, deploy_mode="cluster", jars=jars)
            return Variant(SparkEngine(KAFKA, spark, on_kubernetes(do)), store, calls)
        local = SparkConnection("s", "local[2]", {"spark.own": "1"})
        return Variant(SparkEngine(KAFKA, local, in_a_child(do)), store, calls)

    return made


def test_the_application_gets_the_whole_job_and_its_answers_come_back(
    variant: Callable[[Do], Variant],
) -> None:
    """The connection's options are added; the job's own win."""
    got: list[IngestJob] = []

    def do(job: IngestJob, directory: Path) -> None:
        got.append(job)
        (directory / "done.json").write_text("{}")

    made = variant(do)
    with made.application() as application:
        assert got == []
        assert application.read("done.json") is None
        application.run()
        assert application.read("done.json") == "{}"
        assert application.read("refused.json") is None
    (job,) = got
    assert (job.plan_id, job.records, job.parquet) == ("f00d", 4, PARQUET)
    assert job.options["kafka.client.id"] == "me"
    assert job.options["kafka.bootstrap.servers"] == "nowhere:1"


def test_an_answer_is_read_after_a_failure(variant: Callable[[Do], Variant]) -> None:
    def do(_: IngestJob, directory: Path) -> None:
        (directory / "refused.json").write_text("[]")
        raise StageFailed("ended with 1", exit_code=1)

    with variant(do).application() as application:
        with pytest.raises(StageFailed, match="ended with 1"):
            application.run()
        assert application.read("refused.json") == "[]"


def test_nothing_is_left_outside_of_the_attempts_directory(
    variant: Callable[[Do], Variant], tmp_path: Path
) -> None:
    """Neither after a success nor a failure; and no job with its secrets anywhere."""
    for error in (None, StageFailed("ended with 1")):

        def do(_: IngestJob, directory: Path, error: Exception | None = error) -> None:
            (directory / "answer").write_text("x")
            if error:
                raise error

        made = variant(do)
        with made.application() as application:
            try:
                application.run()
            except StageFailed:
                assert error
        left = [path for path in tmp_path.rglob("*") if path.is_file()]
        own = made.store.root / OWN.directory
        assert all(path.is_relative_to(own) for path in left)
        assert not any(b"pa55" in path.read_bytes() for path in left)


def test_a_call_has_the_pipelines_settings_and_no_secret(variant: Callable[[Do], Variant]) -> None:
    made = variant(lambda *_: None)
    with made.application({"spark.own": "2", "spark.task.maxFailures": "1"}) as application:
        application.run()
    if isinstance(made.engine, ToyEngine):
        (asked,) = made.engine.asked
        assert asked["conf"] == {"spark.own": "2", "spark.task.maxFailures": "1"}
        return
    (call,) = made.calls
    assert (call.conf["spark.own"], call.conf["spark.task.maxFailures"]) == ("2", "1")
    assert call.name == "flights r1"
    assert "pa55" not in repr(call)


def test_the_end_of_an_application(variant: Callable[[Do], Variant]) -> None:
    """Its identity is known before the start. If it may outlive this process, its end is unknown
    until it is proven, and a job that nobody has read is taken away.
    """
    made = variant(lambda *_: None)
    identity = made.engine.identity(OWN)
    unknown = made.engine.end({"master": "later", "pod": "x"}, OWN, made.store)
    assert isinstance(unknown, Unknown)
    assert "not known here" in unknown.why
    if identity is None:
        return
    assert json.loads(json.dumps(identity)) == identity
    made.store.create(OWN.directory + DRIVER, b'{"id": "c", "node": "nowhere:1", "started": 1}')
    made.engine.withdraw(identity, OWN, made.store)
    with made.application() as application, pytest.raises(StageFailed, match="withdrawn"):
        application.run()
    assert made.calls == []
    assert len(made.engine.left_behind(made.store, "f00d")) == 1
