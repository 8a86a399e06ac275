"""Cluster mode on Kubernetes: the driver runs in a pod, whose image need not have Tidegate.

Its modules, the key of its job (`job_in_lake`) and the certificates of its Kafka connection are
volumes of Secrets, which end with the pod.
The pod's name is a lock, since each attempt has one name. Its finalizer keeps the pod, whoever
deletes it, until its end was seen.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

from tidegate.core.locations import find_scheme
from tidegate.errors import ConfigurationError, StageFailed
from tidegate.lake import attempts
from tidegate.lake.attempts import Attempt
from tidegate.lake.store_protocol import Store
from tidegate.launch import kube_client, kube_submission, spark_jars
from tidegate.launch.job_in_lake import (
    ApplicationInLake,
    handed_over,
    read_answer,
    withdraw_job,
)
from tidegate.launch.kube_client import (
    EGRESS,
    EXECUTOR,
    INGEST,
    KubeClient,
    SparkPod,
)
from tidegate.launch.kube_submission import pod_name
from tidegate.launch.spark_connection import SparkConnection
from tidegate.launch.spark_output import application_failure
from tidegate.launch.spark_submit import supervise
from tidegate.runs.engine_protocol import Ended, Unknown
from tidegate.runs.kafka_protocol import JavaCluster
from tidegate.spark import kube_pod
from tidegate.spark.answers import DRIVER, JOB
from tidegate.spark.ingest_job import IngestJob

MASTER = "k8s"
"""The master in the identity of an application, in claims."""
ENDED = "ended"
"""The uid of a driver's pod whose end was seen, in the directory of its attempt."""
_IMAGE = "spark.kubernetes.container.image"
_NAMESPACE, _POD = "namespace", "pod"  # keys of an identity
_OUT_OF_MEMORY = "OOMKilled"
_ABANDONED = timedelta(minutes=10)
_LOOKS_APART = 2.0  # seconds
_PATIENCE = 60.0  # seconds for a pod to run before it is told why, and for one to end

logger = logging.getLogger(__name__)


def answer_of_cluster(spark: SparkConnection) -> str:
    """Return what answers for a master. OSError if nothing does."""
    try:
        client = kube_client.connect(spark)
        kept = [pod.name for pod in client.pods_of(None) if pod.has_ended and pod.is_kept]
    except OSError as error:
        raise OSError(f"{error}; check the master's address, and the rights to its pods") from error
    said = f"its API server answers (deploy mode {spark.deploy_mode}, {client.namespace})"
    return f"{said}; ended drivers that the next run lets go: {', '.join(kept)}" if kept else said


def refuse_pods(spark: SparkConnection, kafka: JavaCluster, conf: Mapping[str, str]) -> None:
    """Raise ConfigurationError, with all complaints, if an application could not run there.

    `conf` are the pipeline's settings. Nothing is asked of the cluster.
    """
    wrong = []
    given = {**spark.conf, **conf}
    if not given.get(_IMAGE) and not given.get("spark.kubernetes.driver.container.image"):
        wrong.append(f"{_IMAGE} is not set: an image with Spark, Python and Kafka's connector")
    if spark.jars not in (spark_jars.OF_PODS, spark_jars.PACKAGES):
        wrong.append(f"jars: {spark.jars}: they are not in the image; write image or packages")
    if kafka.delegation_token:
        wrong.append(
            f"Kafka connection {kafka.connection!r}: tidegate.delegation_token was not tested on "
            "Kubernetes: remove it"
        )
    try:
        kube_client.connect(spark)
    except ConfigurationError as error:
        wrong.append(str(error))
    if wrong:
        listed = "\n".join(f"  - {each}" for each in wrong)
        raise ConfigurationError(
            f"Spark connection {spark.id!r}, deploy-mode cluster:\n{listed}\n"
            "deploy-mode client does without"
        )


class KubeApplication(ApplicationInLake):
    """An application in a pod."""

    def run(self) -> None:
        client = kube_client.connect(self.spark)
        name = pod_name(self.attempt)
        _tidy(client)
        try:
            self._run(client, name)
        except OSError as error:
            self._kill(client, name, logger.warning)
            raise StageFailed(f"pod {name}: {error}") from error
        except BaseException:
            self._kill(client, name, logger.warning)
            raise

    def _run(self, client: KubeClient, name: str) -> None:
        with ExitStack() as stack:
            key = stack.enter_context(handed_over(self.job, self.attempt, self.store))
            volumes = kube_submission.secret_volumes(self.call, self.attempt, key)
            for each in volumes:
                stack.enter_context(client.secret(each.secret, self.attempt.name, each.content))
            kind = INGEST if isinstance(self.job, IngestJob) else EGRESS
            call = kube_submission.make_driver_call(
                self.call, kind, self.attempt, self.store, self.spark, volumes
            )
            self.submit(replace(call, kill=partial(self._kill, client, name)))
            if (pod := client.pod(name)) is None:
                raise StageFailed(f"pod {name} is gone: {_NO_PROOF}")
            for each in volumes:
                client.own(each.secret, pod)
            self._follow(client, pod)

    def _follow(self, client: KubeClient, pod: SparkPod) -> None:
        """Log a driver's output until it has ended. Raises as `Application.run` does."""
        stop = partial(client.delete_pod, pod)
        let_go = partial(_let_go, client, self.attempt, self.store)
        with supervise(self.call, stop, logger.info) as output:
            for line in output.shown(_lines(client, pod)):
                logger.info("%s", line)
            ended = _seen(client, pod)
            if ended.never_ran:
                raise StageFailed(f"pod {pod.name} was never started: {ended.reason}")
            if any(ended.codes or ()):  # its pod goes when its executors have ended, too
                if _OUT_OF_MEMORY in ended.reason:
                    output.causes.append("Container killed by Kubernetes for exceeding memory")
                raise application_failure(self.call.name, output.causes, max(ended.codes or ()))
            let_go(ended)
            client.delete_pod(ended)  # its output is in this process's log

    def _kill(self, client: KubeClient, name: str, log: Callable[[str], None]) -> None:
        """End a driver and wait for its end, or log why that is not known."""
        let_go = partial(_let_go, client, self.attempt, self.store)
        try:
            pod = client.pod(name)
            if pod is None or not pod.kind:  # somebody else's pod has taken the name
                return
            if why := _ended(client, pod.uid, self.attempt, _PATIENCE, let_go):
                log(f"pod {name}: {why}")
        except OSError as error:
            log(f"pod {name} may still run: {error}")


def _tidy(client: KubeClient) -> None:
    """Let drivers go for whose end nobody asks: of ingests whose submitter was killed, and those
    that never ran.

    A submitter that waits has seen it long before. A failure is none of the run.
    """
    before = datetime.now(UTC) - _ABANDONED
    try:
        for pod in client.pods_of(None):
            is_asked_for = pod.kind != INGEST and not pod.never_ran
            if not is_asked_for and pod.is_kept and pod.ended_at and pod.ended_at < before:
                client.let_go(pod)
                client.delete_pod(pod)
    except OSError as error:
        logger.info("ended drivers cannot be looked for: %s", error)


_NO_PROOF = "nothing proves that its driver has ended"


def _lines(client: KubeClient, pod: SparkPod) -> Iterator[str]:
    """Yield the lines of a driver's output until its containers have ended."""
    seen, told, since = "", "", time.monotonic()
    while True:
        now = _seen(client, pod)
        if now.phase != "Pending":
            before = seen
            for moment, line in _output(client, now):
                if moment > before:  # else it was in an earlier stream
                    yield line
                seen = max(seen, moment)
        elif now.waits != told and time.monotonic() - since > _PATIENCE:
            told = now.waits
            logger.warning("pod %s does not run yet: %s", pod.name, told)
        if _seen(client, pod).has_ended:
            return
        time.sleep(_LOOKS_APART)


def _output(client: KubeClient, pod: SparkPod) -> Iterator[tuple[str, str]]:
    try:
        yield from client.log_lines(pod)
    except OSError as error:
        logger.info("%s: its output is not to be had now: %s", pod.name, error)


def _seen(client: KubeClient, pod: SparkPod) -> SparkPod:
    """Return a pod as it is now. An outage of the server is waited for.

    A task may wait as long as its driver runs: without the server nobody could end it. StageFailed
    if the pod is gone, and if the login is refused for ten minutes.
    """
    refused_at = time.monotonic() + _ABANDONED.total_seconds()
    while True:
        try:
            now = client.pod(pod.name)
        except OSError as error:
            if isinstance(error, PermissionError) and time.monotonic() > refused_at:
                raise StageFailed(f"pod {pod.name} may still run: {error}") from error
            logger.warning("%s; asking again", error)
            time.sleep(_LOOKS_APART)
            continue
        if now is None or now.uid != pod.uid:
            raise StageFailed(f"pod {pod.name} is gone: {_NO_PROOF}")
        return now


def _let_go(client: KubeClient, attempt: Attempt, store: Store, pod: SparkPod) -> None:
    """Record in the lake that a driver has ended. From then on its pod may go."""
    store.create(attempt.directory + ENDED, pod.uid.encode())
    client.let_go(pod)


def _ended(
    client: KubeClient,
    uid: str,
    attempt: Attempt,
    patience: float,
    let_go: Callable[[SparkPod], None],
) -> str | None:
    """End a driver and its executors, and return why that is not proven. None is the proof.

    Executors end by themselves when they have lost their driver. Until then a task may send.
    """
    deadline, name = time.monotonic() + patience, pod_name(attempt)
    while True:
        if (pod := client.pod(name)) is None:
            return f"pod {name} is gone: {_NO_PROOF}"
        if pod.uid != uid:
            return f"pod {name} is another one: {_NO_PROOF}"
        running = [each for each in client.pods_of(attempt.name, EXECUTOR) if not each.has_ended]
        if not pod.has_ended:
            running.append(pod)
        if not running:
            let_go(pod)
            client.delete_pod(pod)
            return None
        for each in running:
            client.delete_pod(each)
        if time.monotonic() > deadline:
            last = running[-1]
            return f"pod {last.name} is {last.phase}, and its kubelet has not reported its end"
        time.sleep(_LOOKS_APART)


def end_driver(
    attempt: Attempt, client: KubeClient, name: str, store: Store, *, patience: float = _PATIENCE
) -> Ended | Unknown:
    """End the application of an attempt whose submitter is gone, and wait for the proof.

    A driver names its pod before it reads its job. With the job withdrawn, a driver that has not
    named itself by now sends nothing, whether its pod starts or not.
    """
    withdraw_job(attempt, store)
    named = read_answer(attempt, store, DRIVER)
    uid = kube_pod.Pod.from_json(json.loads(named)).uid if named else None
    if uid and read_answer(attempt, store, ENDED) == uid:
        return Ended()
    let_go = partial(_let_go, client, attempt, store)
    try:
        if uid is None:
            if (pod := client.pod(name)) and pod.kind:
                _ended(client, pod.uid, attempt, patience, let_go)
            return Ended()
        why = _ended(client, uid, attempt, patience, let_go)
    except OSError as error:
        return Unknown(str(error)) if named else Ended()
    return Unknown(why) if why else Ended()


def pods_left_behind(store: Store, plan_id: str) -> list[str]:
    """Return notices of a plan's applications whose submitter was killed: they may still run."""
    staged = attempts.staged_files(store, plan_id)
    return [
        f"plan {plan_id}: pod {pod_name(attempt)} may still run: its submitter was killed. It does "
        "no harm, and what it finishes is kept"
        for attempt, files in sorted(staged.items(), key=lambda each: each[0].name)
        if {attempt.directory + name for name in (JOB, DRIVER)} & {f.path for f in files}
    ]


def notices_of_pods(store: Store, _: SparkConnection) -> Iterator[str]:
    """Yield what nobody can check from here."""
    where = store.native("")
    if not store.is_shared_by_nodes:
        yield f"cluster mode: each pod must have the lake at {where}, as the same shared volume"
    elif scheme := find_scheme(where):
        yield (
            f"cluster mode: driver and executors take keys of {scheme.title} from their pods, by "
            "an identity or a Secret of your own, and not from this environment"
        )


class Kubernetes:
    """Cluster mode on Kubernetes: `tidegate.launch.cluster_modes.ClusterMode`."""

    ask = staticmethod(answer_of_cluster)
    refuse = staticmethod(refuse_pods)
    application = KubeApplication
    left_behind = staticmethod(pods_left_behind)
    notices = staticmethod(notices_of_pods)

    def identity(self, attempt: Attempt, spark: SparkConnection) -> Mapping[str, str]:
        namespace = kube_client.namespace_of(spark)
        return {"master": MASTER, _NAMESPACE: namespace, _POD: pod_name(attempt)}

    def end(
        self, identity: Mapping[str, str], attempt: Attempt, store: Store, spark: SparkConnection
    ) -> Ended | Unknown:
        try:
            client = kube_client.connect(spark)
        except ConfigurationError as error:
            return Unknown(str(error))
        namespace, pod = _place_of(identity)
        if client.namespace != namespace:
            return Unknown(f"its pod is in the namespace {namespace}")
        return end_driver(attempt, client, pod, store)

    def running(self, identity: Mapping[str, str], spark: SparkConnection) -> list[str]:
        namespace, name = _place_of(identity)
        try:
            pod = kube_client.connect(spark).pod(name)
        except (OSError, ConfigurationError) as error:
            logger.warning("Kubernetes cannot be asked for %s: %s", name, error)
            return []
        if pod is None or pod.has_ended:
            return []
        return [f"pod {name} (`kubectl -n {namespace} delete pod {name}`)"]


def _place_of(identity: Mapping[str, str]) -> tuple[str, str]:
    """Return the namespace and the name of the pod of an application's identity."""
    return identity[_NAMESPACE], identity[_POD]
