"""The producer of an egress: its settings, the limits of topics, errors of single records."""

import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support import topic_records
from support.egress_pipeline import EgressPipeline
from tidegate.errors import PartitionsLeftOut, SendFailed


def lines(*ids: int) -> str:
    return "".join(f'{{"id":{i},"name":"n{i}"}}\n' for i in ids)


def test_producer_settings_are_applied(pipeline: EgressPipeline) -> None:
    """The settings of the pipeline override the defaults."""
    pipeline.put("a.txt", "x\n")
    pipeline.set_source("text")
    producer = {"linger.ms": 3, "compression.type": "gzip", "acks": 1, "retries": 2}
    pipeline.settings["target"] = {"topic": pipeline.topic, "producer": producer}
    pipeline.run_all()
    assert pipeline.jobs[0].producer == {
        "linger.ms": "3", "compression.type": "gzip", "acks": "1", "retries": "2",
    }  # fmt: skip
    assert len(pipeline.records()) == 1


def executions(pipeline: EgressPipeline) -> dict[int, Any]:
    """Return the SQL executions that Spark remembers, by number."""
    store = pipeline.spark._jsparkSession.sharedState().statusStore()
    known = store.executionsList()
    each = (known.apply(n) for n in range(known.size()))
    return {execution.executionId(): execution for execution in each}


def test_the_sink_is_v1_with_one_producer(pipeline: EgressPipeline) -> None:
    """All tasks of an executor share one producer, whose client id names the attempt, and no
    physical plan writes through Data Source V2.
    """
    for name in range(6):
        pipeline.put(f"{name}.json", lines(*range(name * 100, name * 100 + 100)))
    pipeline.set_source("json")
    pipeline.spark.conf.set(
        "spark.sql.files.openCostInBytes", str(128 << 20)
    )  # a task for each file
    before = executions(pipeline)
    assert pipeline.run_all()["rows"] == 600
    java = pipeline.spark._jvm.java.lang.Thread  # type: ignore[union-attr]
    threads = [thread.getName() for thread in java.getAllStackTraces().keySet()]
    (job,) = pipeline.jobs
    assert job.client_id.startswith("tidegate-out-")
    assert [name for name in threads if job.client_id in name] == [
        f"kafka-producer-network-thread | {job.client_id}"
    ]
    ran = {number: each for number, each in executions(pipeline).items() if number not in before}
    plans = {number: each.physicalPlanDescription() for number, each in ran.items()}
    assert not any("AppendData" in plan for plan in plans.values())
    context: Any = pipeline.spark.sparkContext
    made = range(context._jsc.sc().dagScheduler().nextStageId())
    stages = [stage for n in made if (stage := context.statusTracker().getStageInfo(n))]
    written = [stage for stage in stages if stage.name.startswith("createRelation")]
    assert written[-1].numTasks > 1


def test_a_record_refused_by_the_broker_fails_the_attempt(
    pipeline: EgressPipeline, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record is too large for a limit that was lowered after the preflight: the attempt fails,
    and the retry sends the missing rows.
    """
    small = f"{topic}-small"
    topic_records.create(pipeline.bootstrap, small, partitions=1)
    patience = {"delivery.timeout.ms": 6_000, "request.timeout.ms": 5_000}
    pipeline.settings["target"] = {"topic": small, "producer": patience}
    pipeline.set_source("text")
    noise = random.Random(1).randbytes(2_500).hex()  # compression does not make it fit
    pipeline.put("a.txt", "".join(f"{noise if n == 700 else 'x' * 90}\n" for n in range(1_000)))

    def lower(point: str) -> None:
        if point == "send.before":
            topic_records.configure(pipeline.bootstrap, small, **{"max.message.bytes": "3000"})

    with monkeypatch.context() as patched:
        patched.setattr("tidegate.spark.egress_driver.faults.point", lower)
        with pytest.raises(SendFailed):
            pipeline.run_all()
    assert pipeline.fold().egress.claims
    assert len(pipeline.records(small)) < 1_000
    topic_records.configure(pipeline.bootstrap, small, **{"max.message.bytes": "1000000"})
    report = pipeline.run_all()
    assert (report["rows"], report["duplicates"]) == (1_000, 0)
    assert len(pipeline.records(small)) == 1_000


def test_small_limits_of_a_topic(pipeline: EgressPipeline, topic: str) -> None:
    """The producer splits batches that are too large for the topic; a record of exactly the limit
    is sent, one of a byte more is refused.
    """
    small = f"{topic}-small"
    topic_records.create(
        pipeline.bootstrap, small, partitions=1, config={"max.message.bytes": "3000"}
    )
    pipeline.settings["target"] = {"topic": small, "producer": {"compression.type": "none"}}
    pipeline.set_source("text")
    pipeline.put("a.txt", "".join("x" * 500 + "\n" for _ in range(100)))
    assert pipeline.run_all("first")["rows"] == 100
    room = 3000 - _overhead(pipeline, small)
    pipeline.put("b.txt", "y" * room)
    assert pipeline.run_all("second")["rows"] == 1
    pipeline.put("c.txt", "z" * (room + 1))
    with pytest.raises(PartitionsLeftOut, match=r"c\.txt: row 0: 3001 bytes as a record, and 3000"):
        pipeline.run_all("third")


def test_the_read_back_waits_for_late_records(pipeline: EgressPipeline, topic: str) -> None:
    """If the producer overestimates the compression, the broker refuses the batch, and its parts
    are sent after Spark's job has ended: the read-back waits for them.
    """
    small = f"{topic}-small"
    topic_records.create(
        pipeline.bootstrap, small, partitions=1, config={"max.message.bytes": "3000"}
    )
    pipeline.settings["target"] = {"topic": small, "producer": {"compression.type": "gzip"}}
    pipeline.set_source("text")
    noise = (random.Random(n).randbytes(250).hex() for n in range(25))
    pipeline.put("a.txt", "\n".join([*["x" * 500] * 2_000, *noise]))
    report = pipeline.run_all()
    assert (report["rows"], report["duplicates"], len(pipeline.records(small))) == (2_025, 0, 2_025)


@pytest.mark.parametrize(("producer", "topics"), [("gzip", "producer"), ("none", "gzip")])
def test_an_incompressible_record_is_refused_before_sending(
    pipeline: EgressPipeline, topic: str, producer: str, topics: str
) -> None:
    """Compression by the producer or the topic makes incompressible data larger: a record that
    would be too large once compressed is refused before anything is sent. A smaller one is sent.
    """
    small = f"{topic}-small"
    config = {"max.message.bytes": "1000000", "compression.type": topics}
    topic_records.create(pipeline.bootstrap, small, partitions=1, config=config)
    patience = {"delivery.timeout.ms": 6_000, "request.timeout.ms": 5_000}
    chosen = {"compression.type": producer, **patience}
    pipeline.settings |= {
        "target": {"topic": small, "producer": chosen}, "columns": {"value": "v"},
    }  # fmt: skip
    pipeline.set_source("parquet")
    noise = random.Random(1).randbytes(1_000_000)
    path = pipeline.source / "a.parquet"
    pq.write_table(pa.table({"v": [noise[:-300]]}), path)  # 300: its headers and the batch's
    with pytest.raises(PartitionsLeftOut, match=r"a\.parquet: row 0: .* and 1000000 is the most"):
        pipeline.run_all("first")
    assert pipeline.ends(small) == {0: 0}
    pq.write_table(pa.table({"v": [noise[:-900]]}), path)
    assert pipeline.run_all("second")["rows"] == 1


def _overhead(pipeline: EgressPipeline, topic: str) -> int:
    """Return the bytes that Tidegate counts for a record in addition to its line."""
    pipeline.put("q.txt", "q" * 4_000)
    with pytest.raises(PartitionsLeftOut) as refused:
        pipeline.run_all("ask")
    (pipeline.source / "q.txt").unlink()
    (file,) = refused.value.numbers["left_out"]
    return int(file["reason"].removeprefix("row 0: ").split()[0]) - 4_000
