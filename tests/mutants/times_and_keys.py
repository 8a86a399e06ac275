"""Mutants of the timestamps that an egress keeps, and of the latest row of each key."""

from mutants.mutant import Mutant

_KEPT = "tests/spark/test_kept_timestamps.py"
_LATEST = "tests/unit/lake/test_latest_rows.py"

MUTANTS = (
    Mutant(
        "the read-back sees timestamps",
        "readback._content",
        "[records.TIMESTAMP] if job.keeps_time",
        "[] if job.keeps_time",
        f"{_KEPT}::test_a_dead_attempt_is_resumed",
    ),
    Mutant(
        "a digest has the timestamp that a record keeps",
        "records.content_digest",
        "[F.col(TIMESTAMP)] if job.keeps_time",
        "[] if job.keeps_time",
        f"{_KEPT}::test_by_each_proof[full]",
    ),
    Mutant(
        "rows are looked at for their time before the first is sent",
        "egress_driver._are_in_time",
        "not job.keeps_time or",
        "True or",
        f"{_KEPT}::test_what_the_target_would_not_keep",
    ),
    Mutant(
        "brokers that set times are refused",
        "planning.refuse_other_times",
        'settings_of_plan(plan).timestamps == "source"',
        "False",
        f"{_KEPT}::test_what_the_target_would_not_keep",
    ),
    Mutant(
        "the first record has the timestamp of its row",
        "producer_table._of_plan",
        "record.timestamp() if job.keeps_time",
        "0 if job.keeps_time",
        f"{_KEPT}::test_by_each_proof[counts]",
    ),
    Mutant(
        "a tombstone ends its key",
        "views.latest_rows",
        " AND each.{value} IS NOT NULL",
        "",
        f"{_LATEST}::test_as_a_consumer_that_keeps_a_map",
    ),
    Mutant(
        "a key is in the log with its newest timestamp",
        "views.latest_rows",
        "{timestamp} DESC, ",
        "",
        f"{_LATEST}::test_as_a_consumer_that_keeps_a_map",
    ),
    Mutant(
        "offsets of a recreated topic do not compare",
        "Lake._views",
        '("topic", "topic_id", "partition")',
        '("topic", "partition")',
        "tests/contracts/test_read_api.py::test_the_latest_row_of_each_key",
    ),
)
