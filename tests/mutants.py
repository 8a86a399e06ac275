"""Take out one guard at a time, and see the test that is named for it go red.

`make test-mutants`, or `tests/mutants.py NAME…` for some of them. Each mutant lives in a
copy of the package; the sources are not touched.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).parents[1]
AT_ONCE = 2
"""Mutants tested side by side: most of a test's time is waiting for a JVM or a broker."""
REFUSED = "tests/spark/test_egress_refusals.py::test_refused_before_anything_is_sent"


class Mutant(NamedTuple):
    """A guard: the file it stands in, its text, what is put in its place, and its test."""

    name: str
    file: str
    guard: str
    instead: str
    test: str


MUTANTS = (
    Mutant(
        "create-if-absent",
        "lake/directory.py",
        "target.hardlink_to(temporary)",
        "temporary.replace(target)",
        "tests/unit/test_store.py::test_sixteen_processes_race_for_one_name",
    ),
    Mutant(
        "create-if-absent, in a whole run",
        "lake/directory.py",
        "target.hardlink_to(temporary)",
        "temporary.replace(target)",
        "tests/integration/test_whole_runs.py::test_publishers_race[4]",
    ),
    Mutant(
        "a conflict is no object",
        "lake/store.py",
        "        if there is None:\n            raise _Conflict(",
        "        if False:\n            raise _Conflict(",
        "tests/unit/test_store.py::test_no_seal_is_reported_that_is_not_there",
    ),
    Mutant(
        "the doctor's rivals have connections of their own",
        "runs/pipeline_checks.py",
        "[open_store(lake, pipeline) for _ in range(create_check.RIVALS)]",
        "[open_store(lake, pipeline)] * create_check.RIVALS",
        "tests/unit/test_doctor.py::test_a_store_that_fails_some_races",
    ),
    Mutant(
        "the doctor's rivals meet in many rounds",
        "lake/create_check.py",
        "rounds < ROUNDS:",
        "rounds < 1:",
        "tests/unit/test_doctor.py::test_a_store_that_fails_some_races",
    ),
    Mutant(
        "no run on a store that the doctor saw fail",
        "runs/run.py",
        "        ledger.refuse_unsafe_store()",
        "        pass",
        "tests/unit/test_doctor.py::test_a_run_refuses_a_store_that_the_doctor_saw_fail",
    ),
    Mutant(
        "no ledger entry on a store that the doctor saw fail",
        "lake/ledger.py",
        "        self.refuse_unsafe_store()\n        while",
        "        while",
        "tests/unit/test_doctor.py::test_a_run_refuses_a_store_that_the_doctor_saw_fail",
    ),
    Mutant(
        "a backfill's right to its pipeline",
        "orchestration/windows.py",
        '    rights.check(context, params["pipeline"])\n    spec = files.load_ingest',
        "    spec = files.load_ingest",
        "tests/dags/test_rights.py::test_every_step_of_a_form_asks",
    ),
    Mutant(
        "a re-ingest's right to its pipeline",
        "orchestration/windows.py",
        '    rights.check(context, context["params"]["pipeline"])\n',
        "",
        "tests/dags/test_rights.py::test_every_step_of_a_form_asks",
    ),
    Mutant(
        "a resend's right to its pipeline",
        "orchestration/windows.py",
        '    rights.check(context, params["pipeline"])\n    spec = egress_tasks',
        "    spec = egress_tasks",
        "tests/dags/test_rights.py::test_every_step_of_a_form_asks",
    ),
    Mutant(
        "a moved cursor's right to its pipeline",
        "orchestration/maintenance.py",
        'rights.check(context, params["pipeline"])',
        'context["dag_run"].triggering_user_name',
        "tests/dags/test_maintenance.py::test_a_cursor_is_moved_by_the_form",
    ),
    Mutant(
        "a signature that a request brings along",
        "ui/triggers.py",
        "        conf.pop(rights.KEY, None)\n",
        "",
        "tests/dags/test_rights.py::test_airflows_own_api_server_signs",
    ),
    Mutant(
        "the auth manager's word",
        "ui/triggers.py",
        "        await run_in_threadpool(may, request, user)\n",
        "",
        "tests/dags/test_rights.py::test_airflows_own_api_server_signs",
    ),
    Mutant(
        "one demo at a time",
        "local/demo.py",
        '    with stack.locked(home / "demo.lock", say, "another demo"):\n',
        "    if True:\n",
        "tests/unit/test_local_setup.py::test_two_demos_at_once_are_one_after_the_other",
    ),
    Mutant(
        "no packages exchanged below what runs",
        "local/bootstrap.py",
        "            self._refuse_under_running_processes()\n",
        "",
        "tests/unit/test_bootstrap.py::test_a_changed_lock_waits_for_what_runs",
    ),
    Mutant(
        "a maintenance run fails with any of its steps",
        "orchestration/maintenance.py",
        "steps >> verdict()",
        "pass",
        "tests/dags/test_maintenance.py::test_one_that_fails_stops_no_other",
    ),
    Mutant(
        "what needs action decides the exit code",
        "cli/keeper.py",
        "code = worst(code, error.exit_code)",
        "code = error.exit_code",
        "tests/contracts/test_keeper_words.py::test_what_needs_action_decides_the_exit_code",
    ),
    Mutant(
        "what is finished and not wrong is kept",
        "runs/stage.py",
        "        if not isinstance(error, _WRONG):\n            logger.warning(",
        "        if False:\n            logger.warning(",
        "tests/unit/test_ingest_runs.py::test_a_broker_that_is_away_costs_no_finished_attempt",
    ),
    Mutant(
        "a finished attempt is given up before it is deleted",
        "runs/stage.py",
        "if not isinstance(ledger.append(given_up, run=run.run_id), Appended | Lost):",
        "if False:",
        "tests/unit/test_ingest_runs.py"
        "::test_a_finished_attempt_that_is_wrong_is_abandoned_and_staged_again",
    ),
    Mutant(
        "a partition without a leader is not asked for its end",
        "broker/cluster.py",
        "topic: sorted(each.epochs.keys() - each.leaderless)",
        "topic: sorted(each.epochs.keys())",
        "tests/integration/test_leaders.py::test_a_partition_without_a_leader_stops_no_other",
    ),
    Mutant(
        "a new topic begins when all its partitions have leaders",
        "core/live.py",
        "elif known_id is None and leaderless.get(topic):",
        "elif False:",
        "tests/unit/test_leaders.py::test_a_new_topic_begins_when_all_its_partitions_have_leaders",
    ),
    Mutant(
        "a boundary is of all partitions",
        "runs/backfill.py",
        "        refuse_leaderless(seen, topic)\n    of = Topic(",
        "        pass\n    of = Topic(",
        "tests/unit/test_leaders.py::test_no_boundary_is_frozen_without_all_partitions",
    ),
    Mutant(
        "a log that was cut off below the cursor is not read on",
        "core/planning.py",
        "if cut is not None and cut < cursor <= marks.high:",
        "if False:",
        "tests/unit/test_leaders.py::test_a_log_that_was_cut_off_below_the_cursor",
    ),
    Mutant(
        "a log that is cut off while it is read is not sealed",
        "runs/stage.py",
        "            _refuse_cut_off(plan, attempt, cut)\n",
        "",
        "tests/unit/test_leaders.py::test_a_log_that_is_cut_off_while_it_is_read_is_not_sealed",
    ),
    Mutant(
        "a probe that gets on is not given up",
        "broker/cluster.py",
        "            at, give_up = position, time.monotonic() + patience\n    raise BrokerError(",
        "            at = position\n    raise BrokerError(",
        "tests/unit/test_probes.py::test_a_large_hole_takes_as_long_as_it_gets_on",
    ),
    Mutant(
        "publish although stage has failed",
        "orchestration/factory.py",
        'rule = "all_done_min_one_success" if publish_sealed else "all_success"',
        'rule = "all_success"',
        "tests/dags/test_steps.py::test_which_steps_run",
    ),
    Mutant(
        "a run with chunks missing fails",
        "runs/publish.py",
        "    if missing:\n        raise chunks_missing(run, plan, missing)\n",
        "",
        "tests/unit/test_ingest_runs.py::test_the_steps_of_a_dag_run_whose_stage_has_failed",
    ),
    Mutant(
        "seals of other runs are published before a plan is made",
        "runs/plan.py",
        "if publish_unfinished(store, ledger, run=run.run_id, other_than=mine):",
        "if False:",
        "tests/unit/test_ingest_runs.py::test_plan_publishes_what_other_runs_have_sealed",
    ),
    Mutant(
        "a plan is marked before it can be found",
        "lake/plans.py",
        'store.create(layout.unfinished(plan.id), b"")',
        "pass",
        "tests/unit/test_ingest_runs.py::test_plan_publishes_what_other_runs_have_sealed",
    ),
    Mutant(
        "the overlap check",
        "core/ledger.py",
        "    if not covered:\n        return Accepted()\n",
        "    return Accepted()\n",
        "tests/unit/test_ledger_core.py",
    ),
    Mutant(
        "what was fetched is not kept",
        "spark/options.py",
        '    "spark.kafka.consumer.fetchedData.cache.timeout": "0",\n',
        "",
        "tests/spark/test_memory.py",
    ),
    Mutant(
        "one consumer group for all chunks",
        "spark/ingest.py",
        'given = {"kafka.group.id": f"tidegate-{job.plan_id}", **job.options}',
        "given = dict(job.options)",
        "tests/spark/test_memory.py",
    ),
    Mutant(
        "no plan holds an unreadable record",
        "runs/drafting.py",
        "    unreadable.exclude(\n",
        "    (lambda *_, **__: None)(\n",
        "tests/integration/test_unreadable.py::test_a_plan_that_holds_one_has_a_next_generation",
    ),
    Mutant(
        "an old plan that holds an unreadable record is dead",
        "runs/plan.py",
        "return _unreadable(run, plan, todo, seen)",
        "return None",
        "tests/integration/test_unreadable.py::test_a_plan_that_holds_one_has_a_next_generation",
    ),
    Mutant(
        "nothing is planned that was not examined",
        "core/unreadable.py",
        "end, bad = scan.end, NOTHING",
        "end, bad = r.end, NOTHING",
        "tests/unit/test_unreadable.py",
    ),
    Mutant(
        "the driver runs where the task runs",
        "orchestration/tasks.py",
        'self._deploy_mode = "client"',
        "self._deploy_mode = None",
        "tests/dags/test_spark_task.py",
    ),
    Mutant(
        "no master retries what a task sends",
        "runs/submission.py",
        "if tries and int(tries[2]) > 1 and",
        "if False and",
        "tests/unit/test_submission.py",
    ),
    Mutant(
        "a job that is refused for good is not retried",
        "runs/submission.py",
        "if (message := refusal(directory)) is None:",
        "if (message := refusal(directory)) is None or True:",
        "tests/unit/test_submission.py",
    ),
    Mutant(
        "the seal checks the columns",
        "lake/footers.py",
        "if is_new and (wrong := ",
        "if False and (wrong := ",
        "tests/unit/test_attempts.py",
    ),
    Mutant(
        "local paths have a scheme",
        "spark/locations.py",
        'return path if "://" in path else f"file:{path}"',
        "return path",
        "tests/spark/test_ingest.py::test_no_setting_of_spark_changes_the_files",
    ),
    Mutant(
        "pages have checksums",
        "spark/ingest.py",
        '        .option("parquet.page.write-checksum.enabled", "true")\n',
        "",
        "tests/spark/test_ingest.py::test_no_setting_of_spark_changes_the_files",
    ),
    Mutant(
        "one commit per chunk",
        "core/ledger.py",
        "    n = fold.committed.get((commit.plan_id, commit.chunk))\n"
        "    if n is not None:\n        return Adopt(n)\n",
        "",
        "tests/unit/test_ledger_core.py::test_the_table",
    ),
    Mutant(
        "a pattern on a lake that is not mounted",
        "runs/plan.py",
        "    mirrored.refuse_ahead(run.mirror, run.spec, ledger)\n",
        "",
        "tests/unit/test_by_hand.py::test_a_pattern_on_a_lake_that_is_not_mounted",
    ),
    Mutant(
        "before 1970 is before all records",
        "broker/cluster.py",
        "since = OffsetSpec.EARLIEST if timestamp_ms < 0 else timestamp_ms",
        "since = timestamp_ms",
        "tests/integration/test_times.py::test_before_any_record",
    ),
    Mutant(
        "a boundary asks the lake too",
        "runs/boundaries.py",
        "for offset in (first, row) if",
        "for offset in (first,) if",
        "tests/unit/test_boundaries.py",
    ),
    Mutant(
        "a boundary asks the lake after Kafka",
        "runs/boundaries.py",
        "    in_log = _first_in_log(topic, times)\n"
        "    # Read after Kafka was asked: what expires in between is in one of the two.\n"
        "    fold = Ledger(topic.store, topic.pipeline).fold\n",
        "    fold = Ledger(topic.store, topic.pipeline).fold\n"
        "    in_log = _first_in_log(topic, times)\n",
        "tests/unit/test_boundaries.py::test_rows_that_are_committed_and_expire_meanwhile",
    ),
    Mutant(
        "no boundary while expired rows are staged",
        "runs/boundaries.py",
        "    complaints += _unknown(topic, fold, spans)\n",
        "",
        "tests/unit/test_boundaries.py::test_rows_that_are_staged_and_expired",
    ),
    Mutant(
        "a window is planned up to the log's end",
        "core/backfill.py",
        "missing.within(log_start, log_end)",
        "missing.within(log_start, r.end)",
        "tests/unit/test_windows.py::test_what_the_log_does_not_reach_is_excluded",
    ),
    Mutant(
        "complete_through: every offset has an outcome",
        "core/completeness.py",
        "and all(cursors[p] >= end for p, end in ends.items())",
        "",
        "tests/unit/test_complete_through.py",
    ),
    Mutant(
        "complete_through: a backfill over dates says nothing",
        "core/completeness.py",
        'if plan.lane != "live" or surveyed_id',
        "if surveyed_id",
        "tests/unit/test_complete_through.py::test_a_backfill_over_dates",
    ),
    Mutant(
        "complete_through: no partition is excluded",
        "core/completeness.py",
        "if any(isinstance(e, LeftOut) and e.topic == topic for e in plan.left_out):",
        "if False:",
        "tests/unit/test_complete_through.py::test_a_truncated_partition",
    ),
    Mutant(
        "complete_through: the plan takes all of the source",
        "runs/egress/publish.py",
        'if commit and note.get("takes_all") else None',
        "if commit else None",
        "tests/unit/test_egress_runs.py",
    ),
    Mutant(
        "what is sent again covers nothing",
        "core/ledger.py",
        "if claim.lane == REPLAY and claim.window:",
        "if False:",
        "tests/unit/test_egress_runs.py::test_a_replay_is_released_by_hand",
    ),
    Mutant(
        "a replay's claim is its own affair",
        "core/ledger.py",
        "if claim.lane != REPLAY or claim.files",
        "if claim",
        "tests/unit/test_egress_runs.py"
        "::test_a_replay_and_the_pipelines_own_runs_leave_each_other_alone",
    ),
    Mutant(
        "one filter, with the window",
        "spark/source.py",
        "F.when(within, F.expr(where))",
        "F.expr(where) & within",
        "tests/spark/test_send_again.py::test_rows_beside_the_window_and_the_filter_do_not_matter",
    ),
    Mutant(
        "abandoned attempts",
        "core/ledger.py",
        "    if (commit.plan_id, commit.chunk, commit.attempt) in fold.abandoned:",
        "    if False:",
        "tests/unit/test_ledger_core.py::test_an_abandoned_attempt_is_never_committed",
    ),
    Mutant(
        "run freezing",
        "lake/plans.py",
        "    if store.create(layout.generation(run_key, generation), pointer):\n",
        "    if store.create(layout.generation(run_key, generation), pointer) or True:\n",
        "tests/unit/test_publishing.py::test_a_run_has_one_plan",
    ),
    Mutant(
        "the topic id",
        "core/live.py",
        "elif known_id is not None and known_id != topic_id:",
        "elif False:",
        "tests/unit/test_live.py::test_one_bad_topic_never_stops_the_others",
    ),
    Mutant(
        "the seal's row check",
        "lake/attempts.py",
        'if rows != done["rows"]:',
        "if False:",
        "tests/unit/test_attempts.py::test_a_missing_file_is_missed",
    ),
    Mutant(
        "the hole probe",
        "lake/attempts.py",
        "outcomes = probe(",
        "outcomes = dict.fromkeys(",
        "tests/unit/test_attempts.py::test_a_visible_record_in_a_hole_fails_the_attempt",
    ),
    Mutant(
        "what may be replaced",
        "core/ledger.py",
        "return NotLive(wrong) if wrong else Accepted()",
        "return Accepted()",
        "tests/unit/test_replays.py::test_what_may_be_replaced",
    ),
    Mutant(
        "the second look of a finaliser",
        "lake/placing.py",
        "            _retire(store, n, file)\n    if lost",
        "            pass\n    if lost",
        "tests/unit/test_replays.py::test_a_copy_that_was_under_way_while_its_source_went",
    ),
    Mutant(
        "a late copy is taken away again",
        "lake/placing.py",
        "        _retire_replaced(store, ledger, ledger.commit(n), _take_away)\n",
        "        pass\n",
        "tests/unit/test_replays.py::test_a_copy_that_lands_after_its_client_died",
    ),
    Mutant(
        "a checkpoint does not forget that copies may be late",
        "runs/checkpoint.py",
        "*recent_replacements(store, fold)",
        "",
        "tests/unit/test_replays.py::test_a_copy_that_lands_after_its_client_died",
    ),
    Mutant(
        "a final name is held against its size",
        "lake/directory.py",
        "if (there := self.size(target)) is not None:",
        "if (there := self.size(target)) is False:",
        "tests/unit/test_publishing.py::test_a_final_name_with_another_size_is_not_trusted",
    ),
    Mutant(
        "placing is tried before the commit",
        "lake/publishing.py",
        "    store.check_placing(\n",
        "    list(\n",
        "tests/unit/test_publishing.py::test_what_cannot_be_placed_is_not_committed",
    ),
    Mutant(
        "one commit that cannot be placed stops no other",
        "lake/placing.py",
        "        except TidegateError as error:\n",
        "        except KeyError as error:\n",
        "tests/unit/test_publishing.py::test_one_commit_that_cannot_be_placed_stops_no_other",
    ),
    Mutant(
        "an entry is held against its plan",
        "runs/ledger_audit.py",
        '"the SHA-256 of its plan": commit.plan_sha256 == plan.sha256,',
        "",
        "tests/unit/test_verify.py::test_an_edited_last_entry",
    ),
    Mutant(
        "an entry is held against its seal",
        "runs/ledger_audit.py",
        "commit.accounts == seal.accounts",
        "True",
        "tests/unit/test_verify.py::test_an_account_is_that_of_the_seal",
    ),
    Mutant(
        "an entry is held against those before it",
        "runs/ledger_audit.py",
        "        if not isinstance(verdict, Accepted):\n",
        "        if False:\n",
        "tests/unit/test_verify.py::test_a_last_entry_that_could_not_have_been_made",
    ),
    Mutant(
        "a checkpoint is held against the entries",
        "lake/checkpoints.py",
        "canonical.encode(kept.get(name)) != canonical.encode(expected.get(name))",
        "False",
        "tests/unit/test_verify.py::test_a_checkpoint_with_a_wrong_fold_and_a_right_digest",
    ),
    Mutant(
        "a checkpoint forgets no unplaced commit",
        "runs/ledger_audit.py",
        "if m <= n and m not in known",
        "if False",
        "tests/unit/test_verify.py::test_a_checkpoint_that_forgets_what_is_not_in_place",
    ),
    Mutant(
        "files are capped by bytes",
        "runs/file_size.py",
        "bit_length() - 1) if known else MOST_RECORDS",
        "bit_length() - 1) if False else MOST_RECORDS",
        "tests/unit/test_file_size.py",
    ),
    Mutant(
        "boundaries between their neighbours",
        "core/windows.py",
        "p: max(low.get(p, 0), offset if high is None else min(offset, high.get(p, 0)))",
        "p: offset",
        "tests/unit/test_windows.py::test_adjacent_windows_tile",
    ),
    Mutant(
        "what a backfill must not read again",
        "core/backfill.py",
        "return fold.covered.get((topic_id, r.partition), NOTHING).missing(r.start, r.end)",
        "return NOTHING.missing(r.start, r.end)",
        "tests/unit/test_windows.py::test_a_backfill_takes_what_no_commit_holds",
    ),
    Mutant(
        "the chain of digests",
        "lake/ledger.py",
        'form["previous"] != self.fold.digest',
        "False",
        "tests/unit/test_ledger_lake.py::test_an_edited_byte_breaks_the_chain",
    ),
    Mutant(
        "fsync",
        "lake/directory.py",
        "                    os.fsync(file.fileno())\n                target",
        "                target",
        "tests/unit/test_store.py::test_creating_survives_a_power_loss",
    ),
    Mutant(
        "fsync before the seal",
        "lake/attempts.py",
        "    store.settle([f.path for f in proven.files])\n",
        "",
        "tests/unit/test_attempts.py::test_files_are_durable_before_they_are_sealed",
    ),
    Mutant(
        "fsync after a deletion",
        "lake/directory.py",
        "                with contextlib.suppress(FileNotFoundError):  # pruned meanwhile\n"
        "                    _fsync_directory(directory)\n",
        "                pass\n",
        "tests/unit/test_replays.py::test_replaced_files_stay_away_after_a_power_loss",
    ),
    Mutant(
        "the driver's death signal",
        "spark/parent.py",
        "libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0) != 0",
        "False",
        "tests/spark/test_death.py::test_the_driver_dies_with_its_jvm",
    ),
    Mutant(
        "the JVM's death signal",
        "runs/spark-submit.sh",
        "--pdeathsig TERM",
        "--pdeathsig clear",
        "tests/spark/test_death.py::test_jvm_and_driver_die_with_the_process_that_started_them",
    ),
    Mutant(
        "sealed attempts stay",
        "lake/sweeping.py",
        "    if not any(map(_is_seal, files)):\n",
        "    if True:\n",
        "tests/unit/test_sweeping.py::test_sealed_attempts_of_a_living_plan_are_never_given_up",
    ),
    Mutant(
        "only a replay that is dead",
        "lake/sweeping.py",
        "return bool(parts) and bool(not_live(fold, plan.topics, window, parts))",
        "return True",
        "tests/unit/test_sweeping.py::"
        "test_a_sealed_replay_that_others_were_quicker_than_is_given_up",
    ),
    Mutant(
        "an abandon that stands",
        "lake/sweeping.py",
        "if isinstance(outcome, Appended | Lost):",
        "if outcome:",
        "tests/unit/test_sweeping.py::test_the_abandon_loses_its_number_to_the_commit",
    ),
    Mutant(
        "repair lists before it reads",
        "runs/repair.py",
        "    listed = store.objects(layout.DATA)\n    ledger = Ledger(store, spec.name)\n",
        "    ledger = Ledger(store, spec.name)\n    listed = store.objects(layout.DATA)\n",
        "tests/unit/test_repair.py::test_a_commit_while_it_works_loses_nothing",
    ),
    Mutant(
        "repair looks again",
        "runs/repair.py",
        "    files |= _live_files(store, fold, fold.live.keys() - files.keys())\n",
        "",
        "tests/unit/test_repair.py::test_a_run_that_plans_the_same_again_keeps_its_files",
    ),
    Mutant(
        "a checkpoint's own digest",
        "lake/checkpoints.py",
        'if canonical.digest(canonical.encode(form["fold"])) != form["sha256"]:',
        "if False:",
        "tests/unit/test_checkpoints.py::test_one_that_was_changed_is_passed_over",
    ),
    Mutant(
        "cursors that nobody decided about",
        "runs/mirrored.py",
        "if partition not in (None, p) and offset > highest.get(p, 0)",
        "if False",
        "tests/unit/test_by_hand.py::test_a_decision_about_one_partition_is_about_that_one",
    ),
    # Egress
    Mutant(
        "a file is one plan's",
        "core/ledger.py",
        "        if taken := sorted(names & {file.name for file in other.files}):\n",
        "        if taken := list[str]():\n",
        "tests/unit/test_claims.py::test_a_file_is_one_plans",
    ),
    Mutant(
        "an offset is one plan's",
        "core/ledger.py",
        "    done = fold.covered_part(claim.window, claim.topic_ids)\n",
        "    done = list[OffsetRange]()\n",
        "tests/unit/test_claims.py::test_offsets_of_a_lake_are_one_plans",
    ),
    Mutant(
        "a plan is one sender's",
        "core/ledger.py",
        "        if held.attempt == claim.supersedes:\n",
        "        if held:\n",
        "tests/unit/test_claims.py::test_a_plan_is_one_senders",
    ),
    Mutant(
        "the target's ends are those of the first claim",
        "core/ledger.py",
        "                    entry = replace(entry, target=dead.target)\n",
        "",
        "tests/unit/test_claims.py::test_a_plan_is_one_senders",
    ),
    Mutant(
        "a superseded attempt commits nothing",
        "core/ledger.py",
        "                    self.abandoned.add((entry.plan_id, 0, dead.attempt))\n",
        "",
        "tests/unit/test_claims.py::test_a_plan_is_one_senders",
    ),
    Mutant(
        "a released attempt commits nothing",
        "core/ledger.py",
        "                self.abandoned.add((entry.plan_id, 0, claim.attempt))\n",
        "",
        "tests/unit/test_claims.py::test_a_release_ends_the_claim",
    ),
    Mutant(
        "a release ends its own claim only",
        "core/ledger.py",
        "return Accepted() if held and held.attempt == entry.attempt else Lost()",
        "return Accepted() if held else Lost()",
        "tests/unit/test_claims.py::test_a_zombie_releases_nothing_of_the_next_attempt",
    ),
    Mutant(
        "a sender lives while its process does",
        "runs/egress/sender.py",
        '    if _started(sender["pid"]) == sender["started"]:\n        return False\n',
        "",
        "tests/unit/test_sender.py::test_another_lives_until_it_is_killed",
    ),
    Mutant(
        "a sender lives while its driver does",
        "runs/egress/sender.py",
        "    while _names(attempt):\n",
        "    while False:\n",
        "tests/unit/test_sender.py::test_a_driver_outlives_its_parent_a_little",
    ),
    Mutant(
        "JSON is one object a file",
        "spark/reader_options.py",
        'if name == "multiline" and format_ == "json":',
        "if False:",
        "tests/unit/test_egress_spec.py::test_what_contradicts_itself_is_named",
    ),
    Mutant(
        "every file of the plan is read",
        "spark/preflight.py",
        "        _all_files(job, shaped)\n",
        "",
        f"{REFUSED}[a name that Spark passes over]",
    ),
    Mutant(
        "a line of JSON is one object",
        "spark/json_lines.py",
        " | ~_is_one_object(),",
        ",",
        "tests/spark/test_egress_rows.py::test_what_a_line_of_json_may_be",
    ),
    Mutant(
        "a line of JSON keeps its content",
        "spark/json_lines.py",
        "wrong.when(~_says_the_same(whole)",
        "wrong.when(F.lit(False)",
        "tests/spark/test_egress_rows.py::test_a_line_of_json_keeps_its_content_or_is_refused",
    ),
    Mutant(
        "no file decides how another is read",
        "spark/file_rows.py",
        "        json_lines.refuse_unlike(lines, name)\n",
        "",
        "tests/spark/test_egress_rows.py::test_no_file_decides_how_another_is_read",
    ),
    Mutant(
        "an odd file is refused alone",
        "spark/preflight.py",
        "            if odd := _odd(spark, job, job.rows.files, rows=True):\n",
        "            if odd := list[str]():\n",
        f"{REFUSED}[a header with a column that has no name]",
    ),
    Mutant(
        "SQL calls only what is allowed",
        "spark/expressions.py",
        "            if not is_allowed(spark, function):\n",
        "            if False:\n",
        "tests/spark/test_egress_rows.py::test_which_sql_may_shape_a_row",
    ),
    Mutant(
        "SQL reads no other rows",
        "spark/expressions.py",
        "            or name.removeprefix(_PLAIN) in _OTHER_ROWS\n",
        "",
        "tests/spark/test_egress_rows.py::test_which_sql_may_shape_a_row",
    ),
    Mutant(
        "a replay that may have sent something keeps its plan",
        "lake/ledger.py",
        'set(ends) == {"nothing sent"}',
        '"nothing sent" in ends',
        "tests/unit/test_egress_runs.py::test_a_replay_that_may_have_sent_something_keeps_its_plan",
    ),
    Mutant(
        "the read-back sees headers",
        "spark/readback.py",
        '"topic", "key", "value", "headers", *_chosen(job)]',
        '"topic", "key", "value", *_chosen(job)]',
        "tests/spark/test_egress_resume.py::test_the_read_back_sees_a_header_that_is_not_there",
    ),
    Mutant(
        "what does not compress",
        "spark/records.py",
        '    return size + F.floor(size / min(known)).cast("int") + 32 if known else size\n',
        "    return size\n",
        "tests/spark/test_egress.py::test_what_does_not_compress_is_seen_before",
    ),
    Mutant(
        "the claim comes before the first record",
        "runs/egress/send.py",
        "    match ledger.append(claim, run=run.run_id):\n",
        "    match ledger.fold.apply(claim, ledger.fold.digest):\n",
        "tests/unit/test_egress_runs.py::test_what_was_begun_is_finished_from_where_it_was_claimed",
    ),
    Mutant(
        "a committed name with other content",
        "runs/egress/waiting.py",
        "        elif file.name not in fold.sent:\n",
        "        elif True:\n",
        "tests/unit/test_egress_runs.py::test_a_sent_name_with_other_content_is_left_out",
    ),
    Mutant(
        "files are what they were when all is sent",
        "runs/egress/send.py",
        "claim, target, submit)\n    _refuse_changed(plan)\n",
        "claim, target, submit)\n",
        "tests/unit/test_egress_runs.py::test_a_file_that_changes_while_it_is_sent",
    ),
    Mutant(
        "the target is the one that was planned",
        "runs/egress/send.py",
        "    if found != planned or now.cluster_id != plan.cluster_id:\n",
        "    if False:\n",
        "tests/unit/test_egress_runs.py::test_another_target_under_the_same_name",
    ),
    Mutant(
        "a release needs the proof that nothing was sent",
        "runs/egress/send.py",
        " or claim.supersedes is not None\n",
        "\n",
        "tests/unit/test_egress_runs.py::test_a_refusal_of_a_later_attempt_frees_the_claim_if_a_scan_shows_that_nothing_was_sent",
    ),
    Mutant(
        "a refused plan is released",
        "runs/egress/send.py",
        '        began = began and refused["sent"]\n',
        "        began = True\n",
        "tests/unit/test_egress_runs.py::test_a_poisoned_file_wedges_nothing",
    ),
    Mutant(
        "an attempt is sealed once",
        "lake/sendings.py",
        "if not store.create(path, canonical.encode(sending.to_json())):",
        "if store.create(path, canonical.encode(sending.to_json())) is None:",
        "tests/unit/test_egress_runs.py::test_an_attempt_is_sealed_once",
    ),
    Mutant(
        "the seal of an abandoned attempt",
        "lake/sendings.py",
        "            if sending and (plan.id, 0, sending.attempt) not in fold.abandoned:\n",
        "            if sending:\n",
        "tests/unit/test_egress_runs.py::test_a_sleeper_that_sent_all_is_not_committed",
    ),
    Mutant(
        "no order into a compacted topic",
        "runs/egress/send.py",
        '    if compacted and not (settings["order_by"] or settings["source"]["lake"]):\n',
        "    if False:\n",
        "tests/unit/test_egress_runs.py::test_rows_without_order_do_not_go_into_a_compacted_topic",
    ),
    Mutant(
        "a loop",
        "runs/egress/loops.py",
        "            if closes:\n",
        "            if False:\n",
        "tests/unit/test_egress_runs.py::test_a_loop_is_refused",
    ),
    Mutant(
        "duplicates that come later",
        "runs/egress/verify.py",
        "            _count_later(read, seen, fold.live, findings)\n",
        "",
        "tests/unit/test_egress_verify.py::test_duplicates_that_come_later_are_found",
    ),
    Mutant(
        "verify compares content",
        "runs/egress/verify.py",
        "content.of_file(found.values()) != _digest(sent, file, found)",
        "False",
        "tests/unit/test_egress_verify.py::test_content_is_compared",
    ),
    Mutant(
        "Spark's digest of content is that of verify",
        "spark/content.py",
        '        *_optional(F.col("value")), count, headers,\n',
        '        *_optional(F.col("value")), count,\n',
        "tests/spark/test_egress_fidelity.py::test_everything_that_a_topic_can_hold_comes_back",
    ),
    Mutant(
        "a lake that lacks a file is damaged",
        "runs/egress/lake_source.py",
        "if size != f.size}",
        "if False}",
        "tests/unit/test_egress_runs.py::test_a_lake_that_lacks_a_file_is_damaged",
    ),
    Mutant(
        "a refused file is tried once under quarantine",
        "core/ledger.py",
        "                    self.unfit |= etags\n",
        "                    pass\n",
        "tests/unit/test_egress_runs.py::"
        "test_a_refused_file_is_taken_when_bad_rows_go_into_quarantine",
    ),
    Mutant(
        "a producer setting that cannot start",
        "spark/sink.py",
        "not _NUMBERS[name][0] <= int(given[name]) <= _NUMBERS[name][1]",
        "False",
        "tests/unit/test_sink.py::test_what_is_refused_is_told_why",
    ),
    Mutant(
        "a strict order needs a key or a partition",
        "pipelines/spec.py",
        '        if self.order == "strict" and self._spreads():\n',
        "        if False:\n",
        "tests/unit/test_egress_spec.py::test_what_contradicts_itself_is_named",
    ),
    Mutant(
        "no partitions are not a window",
        "core/windows.py",
        "    if partitions is not None and not asked:\n",
        "    if False:\n",
        "tests/unit/test_windows.py::test_no_partitions_are_none",
    ),
    Mutant(
        "a loop of many hops",
        "runs/egress/loops.py",
        "            for other in others:\n",
        "            for other in others[:0]:\n",
        "tests/unit/test_egress_runs.py::test_a_loop_of_two_hops_is_refused",
    ),
    Mutant(
        "every root that files were sent from counts",
        "core/ledger.py",
        "        self.roots |= {claim.root} if claim.root else set()\n",
        "",
        "tests/unit/test_egress_runs.py::test_no_detour_leads_to_another_fixed_part",
    ),
    Mutant(
        "a sender that is alive is not released",
        "runs/egress/release.py",
        "    if is_alive(claim.sender, claim.attempt):\n",
        "    if False:\n",
        "tests/unit/test_egress_runs.py::test_a_sender_that_is_alive_is_not_released",
    ),
    Mutant(
        "what a lake holds of a topic that left it is sent",
        "runs/egress/lake_source.py",
        "    topics = spec.source.topics or tuple(lake.topic_ids)\n",
        "    topics = spec.source.topics or source.topics\n",
        "tests/unit/test_egress_runs.py::test_what_a_lake_holds_of_a_topic_that_left_it_is_sent",
    ),
    Mutant(
        "a lake is sent up to its first unseen offset",
        "runs/egress/lake_source.py",
        "            spans = [r for r in spans if r.start < progress.cursor]\n",
        "",
        "tests/unit/test_egress_runs.py::test_a_lake_is_sent_up_to_its_first_unseen_offset",
    ),
    Mutant(
        "late ranges are excluded where the order must hold",
        "runs/egress/lake_source.py",
        "if not (in_order and r in behind)",
        "if True",
        "tests/unit/test_egress_runs.py::test_what_lies_below_what_was_sent_is_refused",
    ),
    Mutant(
        "late ranges are looked for behind the claim",
        "runs/egress/send.py",
        "    if late and in_order and claim.supersedes is None:\n",
        "    if False:\n",
        "tests/unit/test_egress_runs.py::test_what_becomes_late_before_it_is_claimed",
    ),
    Mutant(
        "a partition of a lake has one sender",
        "core/ledger.py",
        "        if both and REPLAY not in (claim.lane, other.lane):\n",
        "        if False:\n",
        "tests/unit/test_claims.py::test_offsets_of_a_lake_are_one_plans",
    ),
    Mutant(
        "late ranges are reported as a broken order",
        "spark/readback.py",
        "sorted({*broken, *_behind(job, good)})",
        "broken",
        "tests/spark/test_egress_fidelity.py::"
        "test_a_range_that_was_filled_in_later_breaks_the_order_and_is_reported",
    ),
    Mutant(
        "a ledger that was rolled back sends nothing again",
        "runs/egress/planning.py",
        "    mirrored.restore(run.mirror, run.spec, ledger)\n",
        "",
        "tests/unit/test_egress_runs.py::test_a_ledger_that_was_rolled_back_sends_nothing_again",
    ),
    Mutant(
        "a lake that holds what was planned",
        "runs/egress/lake_source.py",
        "    if not lake.covers(window, plan.topics):",
        "    if False:",
        "tests/unit/test_egress_runs.py::test_a_lake_that_is_not_what_it_was_is_not_sent",
    ),
    Mutant(
        "a store that fails makes no broken file",
        "lake/sources.py",
        "reader(store, name, errors=reading)",
        "reader(store, name)",
        "tests/unit/test_sources.py::test_a_store_that_fails_makes_no_broken_file",
    ),
    Mutant(
        "a bad row is refused before the first record",
        "spark/preflight.py",
        "    if bad_files and job.quarantine is None:\n",
        "    if False:\n",
        f"{REFUSED}[a null value]",
    ),
    Mutant(
        "a header has a key",
        "spark/records.py",
        'F.exists("headers", lambda h: h["key"].isNull())',
        "F.lit(False)",
        f"{REFUSED}[a header without a key]",
    ),
    Mutant(
        "a partition is in range",
        "spark/records.py",
        "            (partition < 0) | (partition >= count),\n",
        "            F.lit(False),\n",
        f"{REFUSED}[a partition out of range]",
    ),
    Mutant(
        "a record fits",
        "spark/records.py",
        '            F.col("bytes") > limit,\n',
        "            F.lit(False),\n",
        f"{REFUSED}[a row too large for the producer]",
    ),
    Mutant(
        "rows are counted against the ledger",
        "spark/preflight.py",
        "    if wrong:\n        raise Refused(\n",
        "    if False:\n        raise Refused(\n",
        "tests/spark/test_egress_fidelity.py::test_a_lake_that_has_lost_rows_is_refused",
    ),
    Mutant(
        "a resume reads what the target holds",
        "spark/egress.py",
        "        if before is None or before.isEmpty():\n",
        "        if before is not None:\n",
        "tests/spark/test_egress_resume.py::test_of_a_prefix_the_rest_is_sent_in_order",
    ),
    Mutant(
        "only records of the plan count",
        "spark/readback.py",
        'found.where(header("tidegate-plan") == job.plan_id)',
        "found.where(F.lit(True))",
        "tests/spark/test_egress_resume.py::test_only_records_of_the_plan_count",
    ),
    Mutant(
        "transactions of others hide nothing",
        "spark/readback.py",
        '"kafka.isolation.level": "read_uncommitted"',
        '"kafka.isolation.level": "read_committed"',
        "tests/spark/test_egress_resume.py::test_an_open_transaction_of_others_hides_nothing",
    ),
    Mutant(
        "the log has lost nothing since the claim",
        "spark/readback.py",
        "            if first.get(tp) > since:\n",
        "            if False:\n",
        "tests/spark/test_egress_resume.py::test_a_log_that_has_lost_what_was_sent_is_refused",
    ),
    Mutant(
        "all is read back before the seal",
        "spark/readback.py",
        "    if lost or strange:\n",
        "    if False:\n",
        "tests/spark/test_egress_resume.py::test_the_read_back_sees_a_record_that_is_not_there",
    ),
    Mutant(
        "the content is read back too",
        "spark/readback.py",
        '    return [*IDENTITY, "topic", "key", "value", *_chosen(job)]\n',
        '    return [*IDENTITY, "topic", *chosen]\n',
        "tests/spark/test_egress_resume.py::test_a_record_of_the_plan_that_is_no_row",
    ),
    Mutant(
        "what compaction took has left a hole",
        "spark/readback.py",
        "min(n, until[topic][p] - job.target[topic].since[p] - there.get((topic, p), 0))",
        "n",
        "tests/spark/test_egress_resume.py::test_of_a_compacted_topic_what_is_gone_has_left_a_hole",
    ),
    Mutant(
        "rows are sent in their order",
        "spark/egress.py",
        '        rows = rows.sortWithinPartitions("topic", "partition", *by)\n',
        "",
        "tests/spark/test_egress.py::test_the_order_within_a_key_is_that_of_the_pipeline",
    ),
    Mutant(
        "a broken order is read from the topic",
        "spark/readback.py",
        "_broken_order(job, good, found) if found is not None and mixed else []",
        "list[str]()",
        "tests/spark/test_egress_resume.py::test_a_broken_order_is_read_from_the_topic",
    ),
    Mutant(
        "a strict order sends nothing behind",
        "spark/readback.py",
        "    if job.strict_order and (named :=",
        "    if False and (named :=",
        "tests/spark/test_egress_resume.py::test_strict_order_sends_nothing_behind",
    ),
    Mutant(
        "secrets among Spark settings",
        "pipelines/spec.py",
        "if secrets := secret_settings.secret_settings(conf):",
        "if False:",
        "tests/unit/test_secrets.py"
        "::test_a_secret_among_spark_settings_is_refused_when_the_file_is_read",
    ),
    Mutant(
        "secrets within the values of Spark settings",
        "pipelines/secret_settings.py",
        "return has_login(value) or any(",
        "return False and any(",
        "tests/unit/test_secrets.py"
        "::test_a_secret_among_spark_settings_is_refused_when_the_file_is_read",
    ),
    Mutant(
        "no mapping in a complaint",
        "pipelines/complaints.py",
        "if isinstance(value, dict | list | tuple | set | bytes) and value:",
        "if False:",
        "tests/unit/test_secrets.py::test_no_complaint_quotes_a_secret",
    ),
    Mutant(
        "an unknown protocol is not plaintext",
        "broker/settings.py",
        "if not isinstance(protocol, str) or protocol.upper() not in _PROTOCOLS:",
        "if False:",
        "tests/unit/test_kafka_settings.py::test_an_unknown_protocol_is_never_taken_for_plaintext",
    ),
    Mutant(
        "a login without SASL",
        "broker/settings.py",
        'elif not protocol.startswith("SASL") and key in given:',
        "elif False:",
        "tests/unit/test_kafka_settings.py"
        "::test_settings_that_the_protocol_would_ignore_are_refused",
    ),
    Mutant(
        "aliases in a pipeline file",
        "pipelines/yaml_reader.py",
        "if self.check_event(yaml.AliasEvent):",
        "if False:",
        "tests/unit/test_hostile_files.py::test_each_bad_value_is_a_complaint",
    ),
    Mutant(
        "one DAG for each bad file",
        "orchestration/factory.py",
        "if files.is_pipeline_name(name):",
        "if True:",
        "tests/dags/test_parsing.py::test_whatever_is_in_a_file_only_its_own_dag_suffers",
    ),
    Mutant(
        "a link that leaves the source's root",
        "lake/source_names.py",
        "if entry.is_symlink() and not _is_below(top, target := os.path.realpath(entry.path)):",
        "if False:",
        "tests/unit/test_source_names.py::test_a_link_that_leaves_the_root_is_refused",
    ),
    Mutant(
        "loops of links",
        "lake/source_names.py",
        "elif _identity(state) in above:",
        "elif False:",
        "tests/unit/test_egress_runs.py::test_a_bad_name_stops_no_other_file",
    ),
    Mutant(
        "names that cannot be used",
        "lake/source_names.py",
        "yield LeftOutFile(printable_name(each.file.name), reason) if reason else each",
        "yield each",
        "tests/unit/test_source_names.py",
    ),
    Mutant(
        "a moved container is no reboot",
        "runs/egress/sender.py",
        "        _is_outside_containers()\n        and sender",
        "        sender",
        "tests/unit/test_sender.py::test_a_container_that_was_moved_is_no_reboot",
    ),
    Mutant(
        "Airflow is asked about another boot",
        "runs/egress/sender.py",
        "return _ended_by_a_reboot(sender, here) if task is None else is_over(task)",
        "return _ended_by_a_reboot(sender, here) or (task is not None and is_over(task))",
        "tests/unit/test_sender.py::test_a_container_that_was_moved_is_no_reboot",
    ),
    Mutant(
        "hidden processes are not gone",
        "runs/egress/sender.py",
        " or not _sees_all_processes()",
        "",
        "tests/unit/test_sender.py::test_where_processes_are_hidden_nothing_is_proven_by_looking",
    ),
)


def red(mutant: Mutant) -> bool:
    """Run the mutant's test on a copy that has the mutant; tell whether it failed."""
    with tempfile.TemporaryDirectory(prefix="tidegate-mutant-") as directory:
        copy = Path(directory)
        for name in ("include", "tests", "spark_jobs", "dags", "plugins"):
            shutil.copytree(
                PROJECT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        shutil.copy(PROJECT / "pyproject.toml", copy)
        file = copy / "include/tidegate" / mutant.file
        text = file.read_text()
        if text.count(mutant.guard) != 1:
            raise SystemExit(f"{mutant.name}: its guard is not in {mutant.file} once; update tests")
        file.write_text(text.replace(mutant.guard, mutant.instead))
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-m", "", mutant.test],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy / "include")},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    if done.returncode not in (0, 1):
        raise SystemExit(f"{mutant.name}: pytest ended with {done.returncode}\n{done.stdout}")
    return done.returncode == 1


def main() -> int:
    chosen = [m for m in MUTANTS if not sys.argv[1:] or m.name in sys.argv[1:]]
    survivors = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for mutant, went_red in zip(chosen, pool.map(red, chosen), strict=True):
            color = "red  " if went_red else "GREEN"
            print(f"{color}  without {mutant.name}: {mutant.test}", flush=True)
            survivors += [] if went_red else [mutant.name]
    print(f"{len(survivors)} survived")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
