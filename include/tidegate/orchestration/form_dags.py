"""The DAGs of backfills and replays, triggered manually with a form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Param

from tidegate import flows
from tidegate.core.requests import Backfill
from tidegate.orchestration import factory, rights, tasks
from tidegate.pipelines import pipeline_files
from tidegate.pipelines.spec import Ingest, Spec
from tidegate.runs.requested_windows import absolute_edge, parse_ranges

if TYPE_CHECKING:
    from airflow.sdk import Context

    from tidegate.runs.run import EgressRun, Run

# Airflow refuses other values when the form is submitted. The plan task checks the rest.
_NAME = "[A-Za-z0-9._-]"
_OFFSETS = rf'\{{\s*"{_NAME}{{1,249}}"\s*:\s*\{{[\s0-9":,]*\}}\s*\}}'
_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9:.,]+(Z|[+-][0-9]{2}:?[0-9]{2})?)?"
_EDGE = rf"^\s*([0-9]+|{_OFFSETS}|{_TIME}|-[0-9]{{1,6}}[dhm])\s*$"
_RANGE = rf"^{_NAME}{{1,249}}:[0-9]+:[0-9]+-[0-9]+$"
TOPIC = rf"^(?!\.{{1,2}}$){_NAME}{{0,249}}$"
"""The schema's pattern of a topic. Empty means none."""
_EDGE_HELP = (
    'An offset for all partitions, offsets like {"flights": {"0": 123}}, a date, a time, like '
    "2026-03-14T00:00:00Z, or -1d, -6h, -30m before the run."
)
_END_HELP = "Exclusive. Empty: the end of the log, of a replay the end of what is in the lake."


def backfill_dag(loaded: pipeline_files.Loaded | None = None) -> DAG:
    """Return the DAG that ingests the offsets of a window that are not in the lake.

    Its form offers the pipelines that are loaded, or else asked for.
    """
    specs = _specs(loaded)
    return _dag(
        "tidegate_backfill",
        "Ingest any window of a topic, without duplicates",
        _BACKFILL_DOC,
        _backfill,
        partial(factory.flow_tasks, flow=flows.INGEST),
        {
            **_window_params([name for name in specs if isinstance(specs[name], Ingest)]),
            "ranges": Param(
                None,
                type=["null", "array"],
                items={"type": "string", "pattern": _RANGE},
                description="In place of start and end: exact offsets of one topic or several, "
                "like flights:0:120-340.",
            ),
            "fill_gaps": Param(
                False,
                type="boolean",
                description="In place of start and end: all skipped offsets still in the log.",
            ),
            "chunk_size": Param(
                None,
                type=["null", "integer"],
                minimum=1,
                description="Offsets per commit; empty: the pipeline's max_records.",
            ),
            "dry_run": Param(
                False, type="boolean", description="Only explain, in the log of `plan`."
            ),
        },
    )


def replay_dag(loaded: pipeline_files.Loaded | None = None) -> DAG:
    """Return the DAG that re-ingests a window and replaces its files, or sends it again.

    Its form offers the pipelines that are loaded, or else asked for.
    """
    return _dag(
        "tidegate_replay",
        "Replay a window of the lake: read and replace it, or send it again",
        _REPLAY_DOC,
        _replay,
        factory.replay_tasks,
        {
            **_window_params([*_specs(loaded)]),
            "replay_id": Param(
                type="string",
                pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:+-]{0,127}$",
                description="Identifies the replay: the same id resumes it; if done, nothing.",
            ),
            "where": Param(
                None,
                type=["null", "string"],
                minLength=1,
                pattern=r"^[^\x00-\x08\x0b-\x1f\x7f-\x9f]*$",
                description="Egress: send only rows that match this SQL condition, like "
                "cast(key as string) = 'AA'. Spark checks it when the run starts.",
            ),
            "files": Param(
                None,
                type=["null", "array"],
                items={"type": "string", "pattern": r"^[^\x00-\x1f\x7f-\x9f]+$"},
                description="Egress of files: names or globs of what was sent. start and end are "
                "then when it was sent.",
            ),
            "dry_run": Param(
                False, type="boolean", description="Only explain, in the log of `plan`."
            ),
        },
    )


def _specs(loaded: pipeline_files.Loaded | None) -> dict[str, Spec]:
    return pipeline_files.valid_specs(factory.wanted_pipelines() if loaded is None else loaded)


def _window_params(names: list[str]) -> dict[str, Param]:
    # Without valid pipelines, and for a task, there is no enum: `plan` looks the pipeline up.
    one_of: dict[str, Any] = {"enum": names} if names else {"pattern": "^[a-z][a-z0-9_-]{0,63}$"}
    return {
        "pipeline": Param(type="string", description="The pipeline.", **one_of),
        "topic": Param(
            None,
            type=["null", "string"],
            pattern=TOPIC,
            description="Empty: the pipeline's only topic.",
        ),
        "partitions": Param(
            None,
            type=["null", "array"],
            items={"type": "integer", "minimum": 0},
            description="Null: all. An empty list is refused.",
        ),
        "start": Param(None, type=["null", "string"], pattern=_EDGE, description=_EDGE_HELP),
        "end": Param(None, type=["null", "string"], pattern=_EDGE, description=_END_HELP),
        "zone": Param(
            "UTC",
            type="string",
            pattern=r"^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$",
            description="Of dates, and of times without one, like Europe/Berlin.",
        ),
    }


def _dag(
    dag_id: str,
    description: str,
    doc: str,
    run_of: tasks.RunOf,
    add_tasks: Callable[[tasks.RunOf], None],
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
        default_args={
            "retries": 3,
            "retry_delay": timedelta(seconds=15),
            **tasks.callbacks(run_of),
        },
        params=params,
    ) as dag:
        add_tasks(run_of)
    return dag


def _backfill(context: Context) -> Run | EgressRun:
    from tidegate.runs.topics import choose_topic

    params = tasks.params_of(context)
    rights.check_rights(context, params["pipeline"])
    spec = pipeline_files.load_ingest(params["pipeline"])
    topic = params["topic"]
    asked = Backfill(
        topic=(topic or "") if params["ranges"] else choose_topic(spec.name, spec.topics, topic),
        ranges=parse_ranges(params["ranges"] or ()),
        fill_gaps=params["fill_gaps"],
        chunk_size=params["chunk_size"],
        **_window(params, context),
    )
    return tasks.new_run(spec, context, _known_params(context), asked=asked)


def _replay(context: Context) -> Run | EgressRun:
    from tidegate.orchestration import airflow_connections

    params = tasks.params_of(context)
    rights.check_rights(context, params["pipeline"])
    spec = pipeline_files.load_named(params["pipeline"])
    given = {
        "id": params["replay_id"],
        "where": params["where"],
        "files": tuple(params["files"] or ()),
        **_window(params, context),
    }
    settings = flows.flow_of(spec).replay(spec, params["topic"], airflow_connections.kafka, given)
    return tasks.new_run(spec, context, _known_params(context), **settings)


def _window(params: Mapping[str, Any], context: Context) -> dict[str, Any]:
    given = params["partitions"]
    # Of the run, so that a task that is cleared means the same.
    now = datetime.fromisoformat(context["dag_run"].run_after.isoformat())
    partitions = None if given is None else tuple(sorted(set(given)))
    edges = {name: absolute_edge(params[name], params["zone"], now) for name in ("start", "end")}
    return {"partitions": partitions, **edges}


def _known_params(context: Context) -> list[str]:
    return [*context["dag"].params, rights.KEY]


_BACKFILL_DOC = """\
### Backfill a window of a topic

Trigger it with a pipeline and a window: from `start` to `end` (exclusive), or *fill gaps*.
Offsets that are already in the lake are skipped and logged; the live cursor moves only over offsets
that are then covered. One plan of many chunks, one Spark application, one commit a chunk.
Stop and clear it at any time: sealed or committed chunks are not read again.

An invalid window is refused with all complaints at once, and nothing is done.

Only for pipelines whose own DAG you may trigger.
"""

_REPLAY_DOC = """\
### Replay a window of the lake

Trigger it with a pipeline, a window and an id. The same id resumes an unfinished replay, and does
nothing if it is done.

**Ingest**: the window is read from Kafka again, with the pipeline's current settings; one ledger
entry a chunk replaces the old files by the new ones, and the old ones are deleted. Queries by the
ledger see each row exactly once at any time. A window that cuts files is refused, naming the
nearest window that cuts none. So is a window that has partly expired in Kafka.

**Egress** from a lake: the window is sent again from the lake to the pipeline's target, all of it
or the rows that match `where`. A window that is not fully in the lake is refused. Kafka need not
have it.

**Egress** of files: those that were sent are sent again, by names or globs, or by when they were
sent. A file that is gone or has changed since is refused.

Regular runs of the pipeline are not affected. After a crash, the same id sends only the missing
rows.

Only for pipelines whose own DAG you may trigger.
"""
