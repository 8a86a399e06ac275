"""Mutants of ingest/."""

from mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "a backfill by time does not pass over what expired unread",
        "ingest/backfill.py",
        "            complaints += _may_have_expired(fold, topic_id, window, marks, edges.start)\n",
        "            pass\n",
        "tests/unit/runs/test_boundaries.py::test_records_that_expired_unread_are_not_passed_over",
    ),
    Mutant(
        "a backfill over dates does not pass over what expired unread",
        "ingest/backfill.py",
        "            below += r.parts(expired_below(fold, topic_id, r, marks).within(0, cursor))\n",
        "",
        "tests/unit/runs/test_boundaries.py::test_dates_whose_records_expired_unread",
    ),
    Mutant(
        "dates leave what is above the cursor to the live lane",
        "ingest/backfill.py",
        "expired_below(fold, topic_id, r, marks).within(0, cursor))",
        "expired_below(fold, topic_id, r, marks))",
        "tests/unit/runs/test_boundaries.py"
        "::test_dates_leave_what_expired_above_the_cursor_to_the_live_lane",
    ),
    Mutant(
        "what is finished and not wrong is kept",
        "ingest/sealing.py",
        "        if not isinstance(error, WRONG):\n            logger.warning(",
        "        if False:\n            logger.warning(",
        "tests/unit/ingest/test_ingest_runs.py::test_a_broker_that_is_away_costs_no_finished_attempt",
    ),
    Mutant(
        "nothing is sealed without a leader",
        "ingest/sealing.py",
        "            _refuse_leaderless(plan, attempt, seen)\n",
        "",
        "tests/unit/ingest/test_leaderless.py::test_nothing_is_sealed_while_its_partition_has_no_leader",
    ),
    Mutant(
        "no epoch is not the same epoch",
        "ingest/truncation.py",
        "if seen.identities[topic].epochs.get(p) != epoch",
        "if seen.identities[topic].epochs.get(p, epoch) != epoch",
        "tests/unit/ingest/test_leaderless.py::test_a_partition_that_has_no_epoch_now_is_asked_for_its_end",
    ),
    Mutant(
        "without an epoch before the read the plan's is compared",
        "ingest/stage.py",
        "epochs = plans.epochs(opened.note(plan)) | truncation.of_survey(before)",
        "epochs = truncation.of_survey(before)",
        "tests/unit/ingest/test_leaderless.py"
        "::test_a_log_that_is_cut_off_while_spark_waits_for_a_leader_is_not_sealed",
    ),
    Mutant(
        "what is finished is sealed before a plan is made",
        "ingest/plan.py",
        "kept = [sealing.seal_kept(opened, each) for each in unfinished]",
        "kept = [Kept(each, [], {}) for each in unfinished]",
        "tests/unit/ingest/test_ingest_runs.py::test_no_gap_is_recorded_over_what_spark_has_finished",
    ),
    Mutant(
        "no gap over what cannot be sealed yet",
        "ingest/plan.py",
        "        sealing.refuse_gaps(kept, draft.gaps)\n",
        "",
        "tests/unit/ingest/test_ingest_runs.py::test_no_gap_is_recorded_over_what_cannot_be_sealed_yet",
    ),
    Mutant(
        "a plan with a kept attempt lives without a leader",
        "ingest/plan.py",
        "to_stage = [number for number in chunks if number not in kept.unproven]",
        "to_stage = chunks",
        "tests/unit/ingest/test_ingest_runs.py"
        "::test_a_partition_without_a_leader_costs_no_finished_attempt_at_the_retry",
    ),
    Mutant(
        "a topic's identity is judged chunk by chunk",
        "ingest/sealing.py",
        "            refuse_recreated(plan, attempt, seen)\n",
        "            [refuse_recreated(plan, each, seen) for each in done]\n",
        "tests/unit/ingest/test_ingest_runs.py"
        "::test_a_recreated_topic_costs_no_finished_attempt_of_another",
    ),
    Mutant(
        "another cluster costs no kept attempt",
        "ingest/sealing.py",
        "        kept.unproven.update((attempt.chunk, error) for attempt in found)",
        "        [discard(opened, attempt, error) for attempt in found]",
        "tests/unit/ingest/test_ingest_runs.py::test_another_cluster_costs_no_kept_attempt",
    ),
    Mutant(
        "a damaged record of an attempt stops no other work",
        "ingest/sealing.py",
        "        except TidegateError as error:\n            failures[attempt] = error\n    if not",
        "        except BrokerError as error:\n            failures[attempt] = error\n    if not",
        "tests/unit/ingest/test_ingest_runs.py::test_a_damaged_record_of_an_attempt_stops_no_other_work",
    ),
    Mutant(
        "a finished attempt is given up before it is deleted",
        "ingest/sealing.py",
        "opened.ledger.append(given_up, run=opened.run.run_id)",
        "Lost()",
        "tests/unit/ingest/test_ingest_runs.py"
        "::test_a_finished_attempt_that_is_wrong_is_abandoned_and_staged_again",
    ),
    Mutant(
        "a boundary is of all partitions",
        "ingest/backfill.py",
        "        refuse_leaderless(seen, topic)\n    in_kafka = Topic(",
        "        pass\n    in_kafka = Topic(",
        "tests/unit/ingest/test_leaderless.py::test_no_boundary_is_frozen_without_all_partitions",
    ),
    Mutant(
        "a log that is cut off while it is read is not sealed",
        "ingest/sealing.py",
        "            _refuse_cut_off(plan, attempt, cut)\n",
        "",
        "tests/unit/ingest/test_leaderless.py::test_a_log_that_is_cut_off_while_it_is_read_is_not_sealed",
    ),
    Mutant(
        "a run with chunks missing fails",
        "ingest/publish.py",
        "    if missing:\n        raise _chunks_missing(run, plan, missing)\n",
        "",
        "tests/unit/ingest/test_ingest_runs.py::test_the_steps_of_a_dag_run_whose_stage_has_failed",
    ),
    Mutant(
        "seals of other runs are published before a plan is made",
        "ingest/plan.py",
        "if publish_unfinished(store, ledger, others, run=run.run_id):",
        "if False:",
        "tests/unit/ingest/test_ingest_runs.py::test_plan_publishes_what_other_runs_have_sealed",
    ),
    Mutant(
        "no plan holds an unreadable record",
        "ingest/drafting.py",
        "    unreadable_records.exclude(\n",
        "    (lambda *_, **__: None)(\n",
        "tests/integration/test_unreadable_records_live.py::test_a_plan_with_an_unreadable_record_is_replaced",
    ),
    Mutant(
        "an old plan that holds an unreadable record is dead",
        "ingest/plan.py",
        "return _unreadable(run, plan, chunks, seen)",
        "return None",
        "tests/integration/test_unreadable_records_live.py::test_a_plan_with_an_unreadable_record_is_replaced",
    ),
    Mutant(
        "a pattern on a lake that is not mounted",
        "ingest/plan.py",
        "    variables.refuse_ahead(run.mirror, run.spec, ledger)\n",
        "",
        "tests/unit/maintenance/test_cursor.py::test_a_pattern_on_a_lake_that_is_not_mounted",
    ),
    Mutant(
        "rows without a leader have not expired",
        "ingest/verify.py",
        "            findings.leaderless.add((r.topic, r.partition))\n            continue\n",
        "            pass\n",
        "tests/unit/lake/test_audit.py::test_rows_without_a_leader_have_not_expired",
    ),
    Mutant(
        "files are capped by bytes",
        "ingest/file_size.py",
        "bit_length() - 1) if sizes else MOST_RECORDS",
        "bit_length() - 1) if False else MOST_RECORDS",
        "tests/unit/ingest/test_file_size.py",
    ),
    Mutant(
        "the ledger is checked again after Spark",
        "ingest/run.py",
        "    stage(opened, submit)\n    opened.ledger.recheck()\n",
        "    stage(opened, submit)\n",
        "tests/unit/ingest/test_ingest_runs.py::test_the_ledger_is_checked_again_after_spark",
    ),
)
