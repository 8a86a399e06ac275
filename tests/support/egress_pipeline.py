"""An egress pipeline of a test's own: source, target and ledger, run in one Spark session."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import SparkSession

from support import topic_reader
from support.handed_in import OUTGOING
from support.toy_engine import Do, ToyEngine
from tidegate.broker.kafka_cluster import KafkaCluster
from tidegate.core.fold import Fold
from tidegate.core.requests import Asked
from tidegate.egress import planning as planning
from tidegate.egress.egress_run import egress
from tidegate.egress.release import release_claim
from tidegate.errors import StageFailed
from tidegate.ingest import ingest_run as ingest
from tidegate.lake.store import STORES
from tidegate.pipelines.spec import Egress, Ingest, parse_spec
from tidegate.runs.run import LIVE, EgressRun, Run, open_run
from tidegate.spark import ingest_driver as staging
from tidegate.spark.answers import LocalAnswers
from tidegate.spark.egress_driver import attempt_sending
from tidegate.spark.egress_job import SENDING, EgressJob
from tidegate.spark.ingest_job import IngestJob
from tidegate.spark.session import configure_session


def begun(job: EgressJob) -> EgressJob:
    """Leave the mark of an attempt that begins to send; return its job."""
    LocalAnswers(Path(str(job.mark))).create(SENDING)
    return job


@dataclass
class EgressPipeline:
    """`settings` are merged into the pipeline's file; `jobs` are those that Spark was given."""

    home: Path
    bootstrap: str
    spark: SparkSession
    topic: str
    settings: dict[str, Any] = field(default_factory=dict)
    jobs: list[EgressJob] = field(default_factory=list)

    @property
    def source(self) -> Path:
        return self.home / "in"

    def put(self, name: str, content: bytes | str) -> Path:
        path = self.source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def set_source(self, format_: str, **source: Any) -> None:
        """Make the source files of a format; those of CSV have two columns of text."""
        if format_ == "csv":
            source = {"columns": "id STRING, name STRING", **source}
        self.settings["source"] = {"path": str(self.source), "format": format_, **source}

    @property
    def spec(self) -> Egress:
        form = {
            "name": "out", "kind": "egress", "lake": str(self.home / "ledger"), "settle": 0,
            "target": {"topic": self.topic},
        }  # fmt: skip
        spec = parse_spec({**form, **self.settings})
        assert isinstance(spec, Egress)
        return spec

    @property
    def kafka(self) -> KafkaCluster:
        return KafkaCluster("kafka_default", {"bootstrap.servers": self.bootstrap})

    def run(self, run_id: str, **others: Any) -> EgressRun:
        return EgressRun(
            self.spec, self.kafka, "dag", run_id, date(2026, 1, 1), **{**OUTGOING, **others}
        )

    def run_ingest(self, topic: str, run_id: str, asked: Asked = LIVE, **settings: object) -> None:
        """Run the ingest pipeline `lake` over a topic, or over the window that is asked for."""
        form = {
            "name": "lake", "kind": "ingest", "topics": [topic], "lake": str(self.home / "lake"),
            **settings,
        }  # fmt: skip
        (self.home / "pipelines").mkdir(exist_ok=True)
        (self.home / "pipelines/lake.yaml").write_text(json.dumps(form))
        spec = parse_spec(form)
        assert isinstance(spec, Ingest)
        session = configure_session(self.spark.newSession())

        def do(job: IngestJob, _: Path) -> None:
            for chunk in job.chunks:
                staging.stage_chunk(session, job, chunk)

        run = Run(
            spec, self.kafka, "dag", run_id, date(2026, 1, 1), asked=asked, stores=STORES,
            engine=ToyEngine(do, self.kafka),
        )  # fmt: skip
        ingest.ingest(run)

    def submit(self, job: EgressJob, directory: Path) -> None:
        self.jobs.append(job)
        if attempt_sending(self.spark, job, LocalAnswers(directory)):
            raise StageFailed("the application ended with 1", exit_code=1)

    def run_all(
        self,
        run_id: str = "r",
        *,
        submit: Do | None = None,
        **others: Any,
    ) -> dict[str, Any]:
        """Run the pipeline; return the report."""
        run = self.run(run_id, engine=ToyEngine(submit or self.submit, self.kafka), **others)
        return egress(run).report.to_json()

    def plan(self, run_id: str = "r") -> planning.Planned:
        return planning.plan(open_run(self.run(run_id)))

    def release(self, how: Literal["resend", "declare sent"]) -> None:
        run = self.run("any")
        release_claim(self.spec, run.store(), None, how, "looked", engine=run.engine, run="me")

    def fold(self) -> Fold:
        run = self.run("any")
        return run.ledger(run.store()).fold

    def records(self, topic: str | None = None, **how: Any) -> list[topic_reader.Record]:
        return topic_reader.read(self.bootstrap, topic or self.topic, **how)

    def ends(self, topic: str | None = None) -> dict[int, int]:
        return topic_reader.ends(self.bootstrap, topic or self.topic)

    def sealed(self) -> list[dict[str, Any]]:
        """Return what the manifests say of each file that was sent."""
        manifests = sorted((self.home / "ledger/out/_tidegate/manifests").glob("*.json"))
        return [file for path in manifests for file in json.loads(path.read_text())["files"]]

    def entries(self) -> list[Mapping[str, Any]]:
        """Return the ledger's entries as they stand there."""
        log = self.home / "ledger/out/_tidegate/log"
        return [json.loads(path.read_text()) for path in sorted(log.glob("*.json"))]
