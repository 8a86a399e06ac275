"""The DAGs of backfills and replays: triggered by hand, with a form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Param

from tidegate import flows
from tidegate.core.requests import ORDERS, Backfill
from tidegate.orchestration import factory, rights, tasks
from tidegate.pipelines import files

if TYPE_CHECKING:
    from airflow.sdk import Context

    from tidegate.runs.run import EgressRun, Run

# What Airflow can refuse when the form is sent; the plan task checks the rest.
_EDGE = r"^\s*(\d+|\{.*\}|\d{4}-\d\d-\d\d[T ].*(Z|[+-]\d\d:?\d\d))\s*$"
_EDGE_HELP = (
    'An offset for all partitions, offsets like {"flights": {"0": 123}}, or a time with a zone, '
    "like 2026-03-14T00:00:00Z."
)


def backfill_dag() -> DAG:
    """Return the DAG that reads any window into the lake, unless it is there."""
    return _dag(
        "tidegate_backfill",
        "Any window of a topic into the lake, without a doubled row",
        _BACKFILL_DOC,
        partial(factory.flow_tasks, _backfill, flows.INGEST),
        {
            **_window_params(files.ingest_names()),
            "fill_gaps": Param(
                False,
                type="boolean",
                description="In place of start and end: what was skipped and is still in the log.",
            ),
            "chunk_size": Param(
                None,
                type=["null", "integer"],
                minimum=1,
                description="Offsets per commit; empty: the pipeline's max_records.",
            ),
            "order": Param(
                ORDERS[0],
                type="string",
                enum=list(ORDERS),
                description="The oldest offsets of all partitions first, or what expires soonest.",
            ),
            "dry_run": Param(False, type="boolean", description="Explain, and do nothing."),
        },
    )


def replay_dag() -> DAG:
    """Return the DAG that reads a window again and replaces its files, or sends it again."""
    return _dag(
        "tidegate_replay",
        "A window that is in the lake, once more: read and replaced, or sent to a topic",
        _REPLAY_DOC,
        partial(factory.replay_tasks, _replay),
        {
            **_window_params(files.replay_names()),
            "replay_id": Param(
                type="string",
                pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:+-]{0,127}$",
                description="The same id again does nothing; a new one does it once more.",
            ),
            "where": Param(
                None,
                type=["null", "string"],
                minLength=1,
                description="Of an egress: send only rows of which this SQL is true, like "
                "cast(key as string) = 'AA'.",
            ),
            "dry_run": Param(False, type="boolean", description="Explain, and do nothing."),
        },
    )


def _window_params(names: list[str]) -> dict[str, Param]:
    # A pipeline whose file is wrong has no runs; its own DAG shows what is wrong.
    one_of: dict[str, Any] = {"enum": names} if names else {}
    return {
        "pipeline": Param(type="string", description="The pipeline.", **one_of),
        "topic": Param(
            None, type=["null", "string"], description="Empty: the pipeline's only topic."
        ),
        "partitions": Param(
            None,
            type=["null", "array"],
            items={"type": "integer", "minimum": 0},
            description="Null: all. An empty list is refused.",
        ),
        "start": Param(None, type=["null", "string"], pattern=_EDGE, description=_EDGE_HELP),
        "end": Param(None, type=["null", "string"], pattern=_EDGE, description="Exclusive."),
    }


def _dag(
    dag_id: str,
    description: str,
    doc: str,
    add_tasks: Callable[[], None],
    params: dict[str, Param],
) -> DAG:
    with DAG(
        dag_id=dag_id,
        description=description,
        doc_md=doc,
        schedule=None,
        start_date=factory.BEFORE_ANY_RUN,
        catchup=False,
        tags={"tidegate", "by hand"},
        default_args={"retries": 3, "retry_delay": timedelta(seconds=15)},
        params=params,
    ) as dag:
        add_tasks()
    return dag


def _backfill(context: Context) -> Run | EgressRun:
    params = tasks.params_of(context)
    rights.check(context, params["pipeline"])
    spec = files.load_ingest(params["pipeline"])
    asked = Backfill(
        topic=spec.topic_named(params["topic"]),
        fill_gaps=params["fill_gaps"],
        chunk_size=params["chunk_size"],
        order=params["order"],
        **_window(params),
    )
    return tasks.new_run(spec, context, _known_params(context), asked=asked)


def _replay(context: Context) -> Run | EgressRun:
    from tidegate.orchestration import connections

    params = tasks.params_of(context)
    rights.check(context, params["pipeline"])
    spec = files.load_named(params["pipeline"])
    window = {"id": params["replay_id"], "where": params["where"], **_window(params)}
    settings = flows.of(spec).replay(spec, params["topic"], connections.kafka, window)
    return tasks.new_run(spec, context, _known_params(context), **settings)


def _window(params: Mapping[str, Any]) -> dict[str, Any]:
    given = params["partitions"]
    partitions = None if given is None else tuple(sorted(set(given)))
    return {"partitions": partitions, "start": params["start"], "end": params["end"]}


def _known_params(context: Context) -> list[str]:
    return [*context["dag"].params, rights.KEY]


_BACKFILL_DOC = """\
### Any window of a topic into the lake

Trigger it with a pipeline and a window: from `start` to `end` (exclusive), or *fill gaps*.
What the lake has already is skipped and said so; the live cursor stays where it is, or moves only
over what is then covered. One plan of many chunks, one Spark application, one commit a chunk.
Stop and clear it at any moment: what is sealed or committed is not read again.

A window that makes no sense is refused with every complaint at once, and nothing is done.

Only for pipelines whose own DAG you may trigger.
"""

_REPLAY_DOC = """\
### A window that is in the lake, once more

Trigger it with a pipeline, a window and an id. The same id again does nothing.

Of an ingest pipeline the window is *read again*, from Kafka, with the pipeline's settings of today;
by one ledger entry a chunk the new files take the place of the old ones, which are moved to
`_tidegate/replaced/`. Readers by the ledger see each row once, at every moment. A window that cuts
files is refused, naming the nearest one that does not; so is one that has expired in part, for
nobody can read it again.

Of an egress pipeline whose source is a lake the window is *sent again*, from the lake to the
pipeline's target, all of it or the rows of which `where` is true. What is not in the lake is
refused; whether Kafka still has it does not matter. What the pipeline's own runs send is not
touched. An attempt that died half-way is finished by the same id, which sends only what is missing.

Only for pipelines whose own DAG you may trigger.
"""
