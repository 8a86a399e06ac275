"""Steps of the Tidegate on PYTHONPATH, of this version or of a release, without a broker.

`release_steps.py STEPS` prints one JSON document: `version` and `file` of the package, and
`results`, one for each of STEPS, a JSON array of arrays: `["command", ARGUMENT…]` prints JSON;
`["plan", RUN_ID, END]` and `["publish", RUN_ID, END]` are steps of an ingest run of `orders`, each
of whose partitions ends at END; `["fold"]` reads its ledger.
"""

import io
import json
import sys
from contextlib import redirect_stdout
from datetime import date
from typing import Any

import tidegate
from tidegate.broker.client_settings import KafkaSettings
from tidegate.broker.cluster import Survey, TopicIdentity
from tidegate.cli.main import app
from tidegate.core.cursor import Watermarks
from tidegate.ingest import drafting, report, sealing, truncation
from tidegate.ingest.plan import plan
from tidegate.ingest.publish import publish
from tidegate.pipelines import files
from tidegate.runs.run import OpenRun, Run, open_run

CLUSTER_ID, TOPIC_ID = "jFXlJ4qPeWgwowgatTkL1Q", "e028f291-5e1b-40f4-8909-1fb891f5805e"


def survey_of(end: int) -> Survey:
    """Return a survey of the topic, both of whose partitions begin at 0."""
    epochs = {0: 0, 1: 0}
    identity = TopicIdentity(TOPIC_ID, epochs, frozenset(), True)
    return Survey(
        CLUSTER_ID, {"orders": identity}, {"orders": {p: Watermarks(0, end, end) for p in epochs}}
    )


def opened(run_id: str, end: int) -> OpenRun[Run]:
    """Open a run of `orders`; the broker's answers are made up."""
    for module in (drafting, sealing, report):
        vars(module)["survey"] = lambda *_: survey_of(end)
    for module in (drafting, report):
        vars(module)["expiries"] = lambda *_: {}
    vars(truncation)["epoch_ends"] = lambda _, epochs: dict.fromkeys(epochs, end)
    spec = files.load_named("orders")
    assert spec.kind == "ingest"
    kafka = KafkaSettings("kafka_default", {"bootstrap.servers": "nowhere:1"})
    return open_run(Run(spec, kafka, "tidegate__orders", run_id, date(2026, 11, 24)))


def perform(name: str, *given: Any) -> Any:
    """Return the result of one step, as JSON."""
    match name:
        case "command":
            with redirect_stdout(io.StringIO()) as out:
                app(list(given), standalone_mode=False)
            return json.loads(out.getvalue())
        case "plan":
            planned = plan(opened(*given))
            return {"plan_id": planned.plan.id, "known": planned.known}
        case "publish":
            published = publish(opened(*given))
            return {"commits": published.commits, "new": published.new}
    fold = opened("any", 0).ledger.fold
    return {"n": fold.n, "digest": fold.digest}


if __name__ == "__main__":
    results = [perform(*each) for each in json.loads(sys.argv[1])]
    version = {"version": tidegate.__version__, "file": tidegate.__file__}
    print(json.dumps({**version, "results": results}))
