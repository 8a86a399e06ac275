"""Cluster mode on Kubernetes: the call, the proof that a driver has ended, and what is refused.

`make test-kubernetes` has the real one.
"""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.toy_kube import ToyKube
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.errors import ConfigurationError, OutOfMemory, StageFailed
from tidegate.lake.attempts import Attempt
from tidegate.lake.store import LocalStore
from tidegate.launch import kube_client, kube_cluster, kube_submission
from tidegate.launch.kube_client import FINALIZER
from tidegate.launch.kube_cluster import Kubernetes, end_driver
from tidegate.launch.kube_submission import pod_name
from tidegate.launch.spark_connection import SparkConnection, parse_connection
from tidegate.launch.submission import Submission
from tidegate.runs.engine_protocol import Ended, Unknown
from tidegate.settings.setting import Place
from tidegate.spark.answers import DRIVER, FAILURE, JOB, WITHDRAWN

OWN = Attempt("f00d", 0, "5d0c3f7e9b8a4c61")
POD = "tidegate-5d0c3f7e9b8a4c61-driver"
SPARK = SparkConnection(
    "s",
    "k8s://https://host:6443",
    {"spark.kubernetes.namespace": "spark", "spark.kubernetes.container.image": "i"},
    jars="image of the pods",
    deploy_mode="cluster",
)
KAFKA = KafkaCluster("k", {"bootstrap.servers": "nowhere:1"})


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "lake/p")


@pytest.fixture
def kube(monkeypatch: pytest.MonkeyPatch) -> ToyKube:
    found = ToyKube()
    monkeypatch.setattr(kube_client, "connect", lambda *_: found)
    monkeypatch.setattr(kube_cluster.time, "sleep", lambda _: None)
    return found


@pytest.fixture
def given(tmp_path: Path) -> Submission:
    private = tmp_path / "private"
    private.mkdir()
    (tmp_path / "ingest.py").write_text("job")
    (tmp_path / "modules.zip").write_bytes(b"zip")
    return Submission(
        binary="spark-submit",
        application=str(tmp_path / "ingest.py"),
        args=(str(private / "job.json"),),
        name="flights r1",
        conf={"spark.submit.pyFiles": f"{tmp_path}/modules.zip,local:///own.zip"},
        jars=(),
        env={"SPARK_HOME": "/spark", "PYSPARK_PYTHON": "/venv/bin/python"},
    )


def run(given: Submission, store: LocalStore, kube: ToyKube, *codes: int, **pod: Any) -> Submission:
    """Run an application whose pod ends with these codes. Return the call."""
    more = {f"tidegate-{OWN.name}-kafka"} if any(Path(*given.args).parent.iterdir()) else set()
    calls: list[Submission] = []

    def submit(call: Submission) -> None:
        calls.append(call)
        assert store.get(OWN.directory + JOB)
        assert kube.secrets.keys() == {"tidegate-5d0c3f7e9b8a4c61", *more}
        kube.add(POD, *codes, **pod)

    application = kube_cluster.KubeApplication(_Job(), given, OWN, store, SPARK, submit)
    application.run()
    return calls[0]


class _Job:
    def to_json(self) -> dict[str, str]:
        return {"password": "pa55-word"}


def test_the_call(given: Submission, store: LocalStore, kube: ToyKube) -> None:
    """Modules are in a Secret, the job is in the lake, and no argument has a secret."""
    call = run(given, store, kube, 0)
    assert call.application == "local:///opt/tidegate/ingest.py"
    assert call.args == ("--in-lake", f"{store.root}/_tidegate/staging/f00d/0/{OWN.name}")
    assert call.conf["spark.submit.pyFiles"] == "local:///opt/tidegate/modules.zip,local:///own.zip"
    assert call.conf["spark.kubernetes.driver.pod.name"] == POD
    assert call.conf["spark.kubernetes.submission.waitAppCompletion"] == "false"
    assert "PYSPARK_PYTHON" not in call.env
    assert "55-word" not in repr(call)
    assert kube.secrets == {}
    assert kube.pods == {}
    assert store.get(OWN.directory + JOB) is None
    assert [each for each in kube.done if "owns" in each] == [
        f"{POD} owns tidegate-{OWN.name}",
    ]


def test_certificates_are_a_volume_at_the_path_that_they_have_here(
    given: Submission, store: LocalStore, kube: ToyKube
) -> None:
    private = Path(*given.args).parent
    (private / "kafka-0f.pem").write_bytes(b"certificate")
    call = run(given, store, kube, 0)
    name = f"tidegate-{OWN.name}-kafka"
    for role in ("driver", "executor"):
        assert call.conf[f"spark.kubernetes.{role}.secrets.{name}"] == str(private)
    assert f"{POD} owns {name}" in kube.done
    assert kube.secrets == {}


def test_the_users_template_is_kept(tmp_path: Path) -> None:
    theirs = {
        "metadata": {"labels": {"team": "a"}, "finalizers": ["own"]},
        "spec": {
            "nodeSelector": {"disk": "ssd"},
            "containers": [
                {"name": "side"},
                {"name": "main", "env": [{"name": "A", "value": "b"}]},
            ],
        },
    }
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(theirs))
    conf = {
        "spark.kubernetes.driver.podTemplateFile": str(tmp_path / "own.yaml"),
        "spark.kubernetes.driver.podTemplateContainerName": "main",
    }
    form = kube_submission._template(conf)
    assert form["metadata"]["finalizers"] == ["own", FINALIZER]
    assert form["metadata"]["labels"] == {"team": "a"}
    assert form["spec"]["nodeSelector"] == {"disk": "ssd"}
    side, main = form["spec"]["containers"]
    assert "env" not in side
    names = ["A", *kube_submission.kube_pod.FIELDS]
    assert [each["name"] for each in main["env"]] == names
    (tmp_path / "own.yaml").write_text("- a list")
    with pytest.raises(ConfigurationError, match=r"own\.yaml"):
        kube_submission._template(conf)


def test_a_driver_that_fails(given: Submission, store: LocalStore, kube: ToyKube) -> None:
    """Its own words and its exit code; its pod is gone, and its end recorded."""
    kube.output = [("1", "starting"), ("2", "tidegate: chunk 0: no such topic")]
    with pytest.raises(StageFailed, match=r"no such topic .* 3"):
        run(given, store, kube, 3)
    assert kube.pods == {}
    assert store.get(OWN.directory + kube_cluster.ENDED) == b"uid-1"
    store.create(OWN.directory + FAILURE, b"the driver's own words")
    with pytest.raises(StageFailed, match="own words"):
        run(given, store, kube, 1)
    kube.output = []
    with pytest.raises(OutOfMemory):
        run(given, store, kube, 137, reason="OOMKilled")


def test_a_pod_that_is_gone_is_no_success(
    given: Submission, store: LocalStore, kube: ToyKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow's provider takes it for one."""
    monkeypatch.setattr(kube, "add", lambda *_, **__: None)
    with pytest.raises(StageFailed, match="nothing proves"):
        run(given, store, kube, 0)


def test_a_name_that_another_pod_has(given: Submission, store: LocalStore, kube: ToyKube) -> None:
    """It is left alone, whether the submission fails or an attempt is to be ended."""
    kube.add(POD, kind="")
    application = kube_cluster.KubeApplication(_Job(), given, OWN, store, SPARK, _refuse)
    with pytest.raises(StageFailed, match="already exists"):
        application.run()
    assert end(store, kube) == Ended()
    assert kube.pods[POD].codes is None
    assert kube.done == []


def _refuse(_: Submission) -> None:
    raise StageFailed("pod already exists")


def named(store: LocalStore, uid: str = "uid-1") -> None:
    """Let a driver have named its pod."""
    form = {"namespace": "spark", "name": POD, "uid": uid, "node": "n"}
    store.create(OWN.directory + DRIVER, json.dumps(form).encode())


def end(store: LocalStore, kube: ToyKube) -> Ended | Unknown:
    client: Any = kube
    return end_driver(OWN, client, POD, store, patience=0)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ({"codes": (143,)}, None),
        ({"codes": (0,)}, None),
        ({}, "kubelet has not reported"),
        ({"phase": "Failed"}, "kubelet has not reported"),
        ({"uid": "uid-2", "codes": (0,)}, "is another one"),
        (None, "is gone"),
    ],
)
def test_the_proof_of_an_end(
    store: LocalStore, kube: ToyKube, made: dict[str, Any] | None, why: str | None
) -> None:
    """Only the containers' own state is one: no phase, no 404, no other pod of the name."""
    kube.ends = False
    named(store)
    if made is not None:
        kube.add(POD)
        kube.pods[POD] = kube_cluster.replace(kube.pods[POD], **made)
    found = end(store, kube)
    if why is None:
        assert found == Ended()
        assert kube.pods == {}
        assert end(store, kube) == Ended()  # it is recorded in the lake
    else:
        assert isinstance(found, Unknown)
        assert why in found.why
        assert store.get(OWN.directory + kube_cluster.ENDED) is None
    assert store.get(OWN.directory + JOB) == WITHDRAWN


def test_a_living_driver_is_ended(store: LocalStore, kube: ToyKube) -> None:
    named(store)
    kube.add(POD)
    client: Any = kube
    assert end_driver(OWN, client, POD, store) == Ended()
    assert kube.done[0] == f"delete {POD}"


def test_an_executor_may_still_send(store: LocalStore, kube: ToyKube) -> None:
    """The driver's end alone is no proof."""
    kube.ends = False
    named(store)
    kube.add(POD, 137)
    executor = kube.add(f"{OWN.name}-exec-1", is_kept=False)
    found = end(store, kube)
    assert isinstance(found, Unknown)
    assert executor.name in found.why
    kube.ends = True
    client: Any = kube
    assert end_driver(OWN, client, POD, store) == Ended()


def test_a_driver_that_has_not_named_itself_sends_nothing(store: LocalStore, kube: ToyKube) -> None:
    """Its job is withdrawn, whatever becomes of its pod, and also if nobody answers."""
    kube.ends = False
    kube.add(POD)
    assert end(store, kube) == Ended()
    kube.away = True
    assert end(store, kube) == Ended()
    named(store)
    assert isinstance(end(store, kube), Unknown)


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All at once, before anything is asked."""

    def nobody(*_: object) -> None:
        raise ConfigurationError("no login to Kubernetes")

    monkeypatch.setattr(kube_client, "connect", nobody)
    spark = SparkConnection("s", SPARK.master, {}, deploy_mode="cluster")
    with pytest.raises(ConfigurationError) as refused:
        Kubernetes().refuse(spark, KAFKA, {})
    said = str(refused.value)
    assert "container.image is not set" in said
    assert "jars: cache" in said
    assert "no login to Kubernetes" in said
    monkeypatch.setattr(kube_client, "connect", lambda *_: None)
    Kubernetes().refuse(SPARK, KAFKA, {})


def test_jars_of_the_image_are_not_looked_for_here() -> None:
    extra = {"deploy-mode": "cluster", "jars": "image", "namespace": "n"}
    spark = parse_connection("s", "k8s://https://host:6443", extra, Place.CONNECTION)
    assert (spark.jars, spark.conf["spark.kubernetes.namespace"]) == ("image of the pods", "n")


def test_ended_drivers_of_ingests_are_let_go(
    given: Submission, store: LocalStore, kube: ToyKube
) -> None:
    """When the next application starts. Those of egresses that ran are a proof that somebody waits
    for, and one that has just ended has a submitter that looks at it.
    """
    now = datetime.now(UTC)
    long_ago = now - timedelta(hours=1)
    kube.add("a", 0, kind="ingest", ended_at=long_ago)
    kube.add("b", 137, kind="egress", ended_at=long_ago)
    kube.add("never", 143, kind="egress", ended_at=long_ago, never_ran=True)
    kube.add("c", kind="ingest")
    kube.add("d", 0, kind="ingest", ended_at=now)
    run(given, store, kube, 0)
    assert kube.pods.keys() == {"b", "c", "d"}
    assert "lets go: b, d" in kube_cluster.answer_of_cluster(SPARK)


def test_an_outage_behind_the_submission(
    given: Submission, store: LocalStore, kube: ToyKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails the stage, and the driver is ended as far as that is possible."""

    def fails(*_: object) -> None:
        raise OSError("Kubernetes: reset")

    monkeypatch.setattr(kube, "own", fails)
    with pytest.raises(StageFailed, match="Kubernetes: reset"):
        run(given, store, kube)
    assert f"delete {POD}" in kube.done
    assert store.get(OWN.directory + kube_cluster.ENDED) == b"uid-1"


def test_a_driver_that_never_ran_is_named(
    given: Submission, store: LocalStore, kube: ToyKube
) -> None:
    with pytest.raises(StageFailed, match="was never started: OutOfcpu: no cores"):
        run(given, store, kube, 143, never_ran=True, reason="OutOfcpu: no cores")
    assert kube.pods == {}


def test_a_login_that_is_refused_for_ten_minutes(
    given: Submission, store: LocalStore, kube: ToyKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An outage is waited for, this is not: the driver cannot be seen any more."""
    clock = iter(range(0, 10_000, 60))
    monkeypatch.setattr(kube_cluster.time, "monotonic", lambda: next(clock))
    pod = kube.add(POD)
    asked: list[str] = []

    def refuses(name: str) -> None:
        asked.append(name)
        raise PermissionError("Kubernetes: Unauthorized")

    monkeypatch.setattr(kube, "pod", refuses)
    with pytest.raises(StageFailed, match="may still run: Kubernetes: Unauthorized"):
        kube_cluster._seen(kube, pod)
    assert len(asked) > 5


def test_an_identity_is_known_before_the_start(store: LocalStore, kube: ToyKube) -> None:
    mode = Kubernetes()
    identity = mode.identity(OWN, SPARK)
    assert identity == {"master": "k8s", "namespace": "spark", "pod": POD}
    assert mode.end(identity, OWN, store, SPARK) == Ended()
    elsewhere = mode.end({**identity, "namespace": "other"}, OWN, store, SPARK)
    assert isinstance(elsewhere, Unknown)
    kube.add(POD)
    assert mode.running(identity, SPARK) == [f"pod {POD} (`kubectl -n spark delete pod {POD}`)"]
    kube.away = True
    assert mode.running(identity, SPARK) == []


def test_what_a_killed_submitter_leaves_is_named(store: LocalStore) -> None:
    named(store)
    (notice,) = kube_cluster.pods_left_behind(store, "f00d")
    assert POD in notice


def test_a_name_that_no_pod_can_have() -> None:
    with pytest.raises(ValueError):
        pod_name(Attempt("f00d", 0, "A_b"))
