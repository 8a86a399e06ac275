"""Records of other producers in the target that Spark cannot read stop no read-back."""

from collections import Counter

import pytest

from spark import test_egress_resume
from spark.test_egress_resume import ALL, produce, send_and_die
from support import topic_records
from support.egress_pipeline import EgressPipeline
from tidegate.errors import RowsRefused
from tidegate.spark import target_records

pipeline = test_egress_resume.pipeline


@pytest.mark.slow
def test_records_of_others_that_spark_cannot_read(pipeline: EgressPipeline) -> None:
    """Stamped with nanoseconds, before, between and behind those of a dead attempt."""
    config = {"message_timestamp_after_max_ms": str(2**63 - 1), "retention_ms": "-1"}
    topic_records.configure(pipeline.bootstrap, pipeline.topic, **config)
    late = [1_700_000_000_000_000_000] * 3
    now = [1_700_000_000_000]
    topic_records.stamped(pipeline.bootstrap, pipeline.topic, 0, late)
    plan = send_and_die(pipeline, range(20))
    topic_records.stamped(pipeline.bootstrap, pipeline.topic, 0, [*late, *now, *late])
    produce(pipeline, plan, range(20, 50))
    topic_records.stamped(pipeline.bootstrap, pipeline.topic, 1, late)
    report = pipeline.run_all()
    assert (report["plan_id"], report["duplicates"], report["broken_order"]) == (plan, 0, [])
    found = Counter(each.row for each in pipeline.records() if each.plan == plan)
    assert found == ALL


def test_too_many_records_that_spark_cannot_read(
    pipeline: EgressPipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target_records, "MOST_UNREADABLE", 5)
    config = {"message_timestamp_after_max_ms": str(2**63 - 1), "retention_ms": "-1"}
    topic_records.configure(pipeline.bootstrap, pipeline.topic, **config)
    send_and_die(pipeline, range(20))
    late = [1_700_000_000_000_000_000] * 6
    topic_records.stamped(pipeline.bootstrap, pipeline.topic, 0, late)
    with pytest.raises(RowsRefused, match="more than 5 records of other producers, from offset"):
        pipeline.run_all()
