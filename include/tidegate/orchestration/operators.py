"""Operators for DAGs that users write: a whole run in one task, and a sensor."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseOperator, BaseSensorOperator

from tidegate import flows
from tidegate.errors import ConfigurationError, Transient
from tidegate.orchestration import tasks
from tidegate.orchestration.links import ReportLink
from tidegate.orchestration.spark_operator import SparkOperator
from tidegate.pipelines import pipeline_files
from tidegate.pipelines.spec import Ingest, Spec

if TYPE_CHECKING:
    from airflow.sdk import Context

    from tidegate.runs.run import EgressRun, Run
    from tidegate.runs.spec_protocol import IngestSpec

_OF_SPARK = frozenset(inspect.signature(SparkSubmitOperator.__init__).parameters) - frozenset(
    inspect.signature(BaseOperator.__init__).parameters
)
"""The provider's arguments, all of which a pipeline and its connection decide."""

logger = logging.getLogger(__name__)


class TidegateRunOperator(SparkOperator):
    """Carries out a whole run of a pipeline: plan, stage or send, publish, verdict.

    `pipeline` is the name of a pipeline file, which is read when the task runs. It may be a
    template. `max_records` are the offsets per commit, of an egress the rows of the run;
    `max_chunks` (ingest) is the most commits; `resend` (egress) also sends changed files whose
    names were sent. Other arguments are Airflow's own; ValueError for those of Spark, which the
    pipeline file has.

    The task belongs to one plan for each of its DAG's runs: a retry, or the task cleared, resumes
    that. XComs: `plan`, `offsets`, `report`, and of an ingest `startingOffsets` and
    `endingOffsets`, as those of a pipeline's own DAG. Of the pipeline's assets among its `outlets`,
    each gets an event.
    """

    template_fields: Sequence[str] = ("pipeline",)
    operator_extra_links = (ReportLink(),)

    def __init__(
        self,
        *,
        pipeline: str,
        max_records: int | None = None,
        max_chunks: int | None = None,
        resend: bool = False,
        **kwargs: Any,
    ) -> None:
        if of_spark := sorted(_OF_SPARK & kwargs.keys()):
            raise ValueError(
                f"TidegateRunOperator has no {', '.join(of_spark)}: Spark's settings are those of "
                "the pipeline file (`spark.conf`) and of its Spark connection"
            )
        super().__init__(**kwargs)
        self.pipeline = pipeline
        self.max_records = max_records
        self.max_chunks = max_chunks
        self.resend = resend

    def execute(self, context: Context) -> None:
        from tidegate.orchestration import airflow_connections
        from tidegate.spark.parent_death import end_with_parent

        end_with_parent()
        with tasks.airflow_errors():
            spec = pipeline_files.load_named(self.pipeline)
            run = self._run(spec, context)
            self.spark = airflow_connections.spark(spec)
            flows.flow_of(spec).run_all(
                run,
                self.spark,
                lambda given: self.submit(given, context),
                on_planned=lambda planned: tasks.push_plan(run, planned.frozen, context),
                on_published=lambda published: tasks.push_published(run, published, context),
            )

    def _run(self, spec: Spec, context: Context) -> Run | EgressRun:
        """Return the run of this task instance. Its plan is found by DAG, task and run."""
        ti = context["ti"]
        is_mapped = ti.map_index is not None and ti.map_index >= 0
        if is_mapped and not isinstance(spec, Ingest):
            raise ConfigurationError(
                f"pipeline {spec.name!r} is an egress: it cannot be run by a mapped task, because "
                "Airflow does not say whether one of its instances has ended, and with it the "
                "sender of a claim; give it a task of its own"
            )
        options = flows.given_options(
            spec, max_records=self.max_records, max_chunks=self.max_chunks, resend=self.resend
        )
        return tasks.run_of_task(
            spec,
            context,
            f"{ti.dag_id}/{ti.task_id}",
            **tasks.request_of(spec, context),
            **options,
        )


class TidegateCompleteThroughSensor(BaseSensorOperator):  # type: ignore[misc]  # as above
    """Waits until a topic of an ingest pipeline is complete through a time.

    Then each record that a consumer with the pipeline's isolation could read at that time is
    committed, its file is in `data/`, or its offset is in a gap of the ledger. Records with an
    earlier timestamp that are written later are not waited for.

    `until` is a datetime with a zone, or an ISO 8601 text. `pipeline`, `topic` and `until` may be
    templates. By default it checks once a minute, and is rescheduled in between. It reads the
    ledger; only if no run has committed anything since `until`, it asks the broker whether there is
    anything new. A store or a broker that does not answer is asked again at the next check.
    """

    template_fields: Sequence[str] = ("pipeline", "topic", "until")

    def __init__(
        self,
        *,
        pipeline: str,
        topic: str,
        until: datetime | str,
        mode: str = "reschedule",
        **kwargs: Any,
    ) -> None:
        super().__init__(mode=mode, **kwargs)
        self.pipeline = pipeline
        self.topic = topic
        self.until = until

    def poke(self, context: Context) -> bool:  # noqa: ARG002
        """Return whether it is complete; AirflowFailException for wrong arguments."""
        from tidegate.ingest.complete_through import is_complete_through
        from tidegate.lake.store import STORES
        from tidegate.orchestration import airflow_connections

        def run_of(spec: IngestSpec) -> Run:
            return flows.INGEST.new_run(
                spec,
                airflow_connections.kafka(spec),
                dag_id=f"tidegate__{spec.name}",
                run_id="complete-through",
                window_date=datetime.now(UTC).date(),
            )

        with tasks.airflow_errors():
            spec = pipeline_files.load_ingest(self.pipeline)
            until = _time(self.until)
            try:
                done = is_complete_through(spec, self.topic, until, STORES, run_of)
            except Transient as error:
                logger.warning("%s: %s", type(error).__name__, error)
                return False
        state = "is" if done else "is not yet"
        logger.info(
            "%s: topic %s %s complete through %s", spec.name, self.topic, state, until.isoformat()
        )
        return done


def _time(until: datetime | str) -> datetime:
    try:
        return datetime.fromisoformat(str(until).strip())
    except ValueError:
        raise ConfigurationError(f"until {until!r}: an ISO 8601 time with a zone") from None
