"""The doctor's checks of an egress pipeline's claims, source and target."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.broker.target import auto_creates, survey_target
from tidegate.core.cluster_answers import TargetState
from tidegate.core.entries import Claim
from tidegate.core.fold import REPLAY, Fold
from tidegate.core.wording import counted
from tidegate.doctor.check import Line, failure, ok, warning
from tidegate.egress.backlog import read_backlog
from tidegate.egress.pipeline_cycles import refuse_loop
from tidegate.egress.sender import is_alive, is_dead_here
from tidegate.lake import plans
from tidegate.lake.ledger import Ledger
from tidegate.lake.store import STORES, open_store
from tidegate.lake.store_protocol import Store
from tidegate.pipelines import pipeline_files
from tidegate.pipelines.spec import Egress


def check_claims(spec: Egress) -> Iterator[Line]:
    """Check the open claims, and whether their senders are alive."""
    store = open_store(spec.lake, spec.name)
    fold = Ledger(store, spec.name).fold
    for claim in fold.egress.claims.values():
        where = f"process {claim.sender['pid']} on {claim.sender['host']}"
        if application := claim.sender.get("application"):
            named = "the {master} application with the tag {tag}".format_map(application)
            where = f"{named}, submitted by {where}"
        says = f"plan {claim.plan_id} is claimed by {where}"
        if is_alive(claim.sender, claim.attempt):
            yield ok("claim", f"{says}, which is alive: it is being sent")
        elif is_dead_here(claim.sender, claim.attempt):
            yield warning("claim", f"{says}, which is dead", _finishes(spec, store, claim))
        else:
            fix = (
                "wait for that run. If it has surely ended, and Airflow cannot tell, `tidegate "
                f"release {spec.name}`; until then no other run sends"
            )
            yield warning("claim", f"{says}, which cannot be seen from here", fix)
    if not fold.egress.claims:
        yield ok("claim", "none is open")


def _finishes(spec: Egress, store: Store, claim: Claim) -> str:
    """Return the command that finishes a claim whose sender is dead. No run finishes a replay."""
    if claim.lane != REPLAY:
        return f"`tidegate run {spec.name}`, or the next run: it finishes that plan"
    replay = plans.load_plan(store, claim.plan_id).replay or {"id": "…", "asked": {}}
    asked = {"replay-id": replay["id"], **replay["asked"]}
    if numbers := asked.get("partitions"):
        asked["partitions"] = ",".join(map(str, numbers))
    names = ("replay-id", "topic", "partitions", "start", "end", "where")
    options = [(name, asked[name]) for name in names if asked.get(name)]
    options += [("file", each) for each in asked.get("files", ())]
    given = "".join(f" --{name} {shlex.quote(value)}" for name, value in options)
    return f"`tidegate replay {spec.name}{given}`: only the same replay finishes it"


def check_source(spec: Egress) -> Iterator[Line]:
    """Count the backlog of the source, and name what is excluded."""
    backlog = read_backlog(
        spec, STORES, pipeline_files, open_store(spec.lake, spec.name), _fold(spec), None
    )
    offsets, ahead = sum(map(len, backlog.unsent.ranges)), backlog.unsent.ahead
    says = f"waiting: {counted(len(backlog.files), 'file')}, {counted(offsets, 'offset')}"
    yield ok("source", says + (f"; {ahead:,} behind an unseen one" if ahead else ""))
    for each in backlog.left_out:
        fix = f"see `tidegate status {spec.name}`; each run fails until this is resolved"
        yield warning("source", str(each), fix)


def check_target(spec: Egress, kafka: KafkaCluster) -> Iterator[Line]:
    """Check the target topics' rights, identity and compaction. Creates no topic."""
    seen = survey_target(kafka, spec.target.names, create_with=spec.target.partitions, make=False)
    fold = _fold(spec)
    if fold.cluster_id not in (None, seen.cluster_id):
        says = f"it is cluster {seen.cluster_id}, what was sent is in {fold.cluster_id}"
        fix = f"point connection {kafka.connection!r} back, or make another pipeline"
        yield failure("target", says, fix)
        return
    refuse_loop(spec, seen.cluster_id, STORES, pipeline_files)
    topic_ids = {r.topic: r.topic_id for n in sorted(fold.live) for r in fold.live[n].receipts}
    for topic, state in seen.topics.items():
        yield _topic(spec, topic, state, topic_ids.get(topic))
    if auto_creates(kafka):
        yield ok(
            "target",
            "the brokers make missing topics (auto.create.topics.enable): a topic that is "
            "deleted while rows are sent to it comes back, and the run ends with IdentityChanged",
        )


def _topic(spec: Egress, topic: str, state: TargetState, was: str | None) -> Line:
    partitions = counted(state.partitions, "partition")
    if not state.topic_id:
        return ok("target", f"{topic}: the first run creates it, with {partitions}")
    if was not in (None, state.topic_id):
        says = f"{topic}: recreated, it was {was}, it is {state.topic_id}: it lacks what was sent"
        fix = "what comes later is sent to it; for what it lacks, `tidegate replay`"
        return warning("target", says, fix)
    if state.compacted and not (spec.order_by or spec.source.lake):
        says = f"{topic}: compacted, and rows of files have no order: runs refuse it"
        return failure("target", says, "give order_by")
    kind = ", compacted" if state.compacted else ""
    return ok("target", f"{topic}: {partitions}{kind}, may be written and read")


def _fold(spec: Egress) -> Fold:
    return Ledger(open_store(spec.lake, spec.name), spec.name).fold
