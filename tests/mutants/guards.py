"""Mutants of what a unification of the states of work would lose: each loses or doubles rows."""

from mutants.mutant import Mutant

_LISTED = (
    'type("Listed", (), {"objects": lambda *_: [f for each in staged.values() for f in each]})()'
)
"""A store that still shows what was listed before the ledger was read."""

MUTANTS = (
    Mutant(
        "the judge is asked at each try",
        "Ledger.append",
        """self.refuse_unsafe_store()
        while True:
            verdict = judge(self.refresh(), entry)""",
        """self.refuse_unsafe_store()
        verdict = judge(self.refresh(), entry)
        while True:
            self.refresh()""",
        "tests/unit/lake/test_ledger.py::test_the_number_is_taken_between_judging_and_creating",
    ),
    Mutant(
        "a plan is over by a listing from after the ledger was read",
        "publish_unfinished",
        "if _is_over(store, ledger.fold, plan):",
        f"if _is_over({_LISTED}, ledger.fold, plan):",
        "tests/unit/lake/test_unfinished_plans.py"
        "::test_a_plan_that_is_sealed_and_skipped_while_others_are_published",
    ),
    Mutant(
        "the sweeper looks again before it gives up",
        "sweeping.sweep",
        "elif _may_be_given_up(store, fold, attempt) and (",
        "elif (attempt.done_path not in dict(files) or _may_be_given_up(store, fold, attempt))"
        " and (",
        "tests/unit/lake/test_finished_attempts.py"
        "::test_an_attempt_that_finishes_after_it_was_listed_is_kept",
    ),
    Mutant(
        "an attempt is given up before its files go",
        "sweeping.sweep",
        "outcome = ledger.append(Abandon(*attempt), run=run)",
        "outcome = Appended(fold.n)",
        "tests/unit/lake/test_sweeping.py::test_an_attempt_that_was_killed_is_given_up_first",
    ),
    Mutant(
        "no sealed attempt is given up as wrong",
        "sealing._give_up",
        "if opened.store.size(attempt.manifest_path) is not None:",
        "if False:",
        "tests/unit/ingest/test_finished_chunks.py::test_a_sealed_attempt_is_not_deleted_or_given_up",
    ),
    Mutant(
        "no sealed attempt is deleted as unfinished",
        "delete_unfinished_attempt",
        "if opened.store.size(attempt.manifest_path) is not None:",
        "if False:",
        "tests/unit/ingest/test_finished_chunks.py::test_a_sealed_attempt_is_not_deleted_or_given_up",
    ),
    Mutant(
        "a skipped chunk is not done",
        "standing_of",
        "fold.covered_part(",
        "fold.sent_part(",
        "tests/unit/lake/test_unfinished_plans.py::test_a_run_goes_on_with_a_chunk_that_is_skipped",
    ),
    Mutant(
        "a finished attempt of a skipped chunk is sealed",
        "gather_work",
        "chunks[attempt.chunk].standing is Standing.PENDING",
        "not fold.sent_part(plan.chunks[attempt.chunk], plan.topics)",
        "tests/unit/lake/test_unfinished_plans.py::test_a_finished_attempt_of_a_skipped_chunk",
    ),
    Mutant(
        "a chunk that is covered in part is not done",
        "PlannedChunk.is_done",
        "(Standing.COMMITTED, Standing.COVERED)",
        "(Standing.COMMITTED, Standing.COVERED, Standing.DEAD)",
        "tests/unit/ingest/test_finished_chunks.py::test_a_chunk_that_others_have_committed_in_part",
    ),
    Mutant(
        "a replay is done by its own commit alone",
        "standing_of",
        "if is_replay:",
        "if is_replay and _not_live(fold, topic_ids, window, replaces):",
        "tests/unit/ingest/test_ingest_runs.py::test_a_replay_is_finished_by_its_own_id",
    ),
    Mutant(
        "what a dead plan has sealed is published before the next generation",
        "ingest.planning._leave_plan",
        "committing.commit_sealed_chunks("
        "opened.store, ledger, plan, run=opened.run.run_id, not_placed=[])",
        "pass",
        "tests/unit/ingest/test_ingest_runs.py::test_a_forced_plan_publishes_first",
    ),
    Mutant(
        "a sealed chunk of a dead replay is brought to the judge",
        "gather_work",
        "if attempt.chunk < len(chunks) and attempt",
        """if attempt.chunk < len(chunks)
        and chunks[attempt.chunk].standing is not Standing.DEAD
        and attempt""",
        "tests/unit/ingest/test_finished_chunks.py::test_a_replay_that_others_were_quicker_than",
    ),
    Mutant(
        "the files of an attempt have the sizes of its manifest",
        "committing.commit",
        "if sizes.get(file.path) != file.size:",
        "if False:",
        "tests/unit/lake/test_committing.py::test_a_vanished_file_is_never_committed",
    ),
    Mutant(
        "a commit lists its files again, of several",
        "commit_sealed_chunks",
        "if len(sealed) == 1",
        "if True",
        "tests/unit/lake/test_committing.py::test_what_publishing_asks_of_the_store",
    ),
    Mutant(
        "an attempt that was superseded may have sent",
        "earlier_attempts",
        "if of == plan_id)",
        "if False)",
        "tests/unit/egress/test_marks.py::test_the_mark_of_an_attempt_that_was_superseded_stays",
    ),
    Mutant(
        "the marks of a plan that is not committed stay",
        "sweep_egress",
        """if n is None:
            continue
        won = ledger.commit(n).attempt == attempt.name""",
        """if n is None and attempt not in fold.barred:
            continue
        won = n is not None and ledger.commit(n).attempt == attempt.name""",
        "tests/unit/egress/test_marks.py::test_the_mark_of_an_attempt_that_was_superseded_stays",
    ),
    Mutant(
        "the driver has ended before its mark is read",
        "send._run_application",
        'if done is None and "application" in claim.sender:',
        "if False:",
        "tests/unit/egress/test_takeover.py::test_a_driver_that_died_while_sending_keeps_its_claim",
    ),
    Mutant(
        "a sealed delivery is that of the claim",
        "deliveries.sealed_delivery",
        "return read_delivery(store, Attempt(plan.id, 0, claim.attempt)) if claim else None",
        """held = [a for a in fold.barred if a[0] == plan.id]
    return next((d for a in held if (d := read_delivery(store, Attempt(*a)))), None)""",
        "tests/unit/egress/test_egress_claims.py::test_a_sealed_plan_is_not_sent_again",
    ),
    Mutant(
        "what is missing is looked for twice",
        "ingest.publish.publish",
        "left = chunks_to_commit(ledger.refresh(), plan)",
        "pass",
        "tests/unit/ingest/test_finished_chunks.py::test_a_publisher_that_another_one_has_overtaken",
    ),
    Mutant(
        "a replay has no marker",
        "plans.freeze_plan",
        "and plan.replay is None",
        "",
        "tests/unit/ingest/test_ingest_runs.py::test_a_replay_is_finished_by_its_own_id",
    ),
    Mutant(
        "an attempt that is not finished is pending, too",
        "pending_chunks",
        "for attempt in open_attempts(fold, attempts.staged_files(store))",
        "for attempt, files in open_attempts(fold, attempts.staged_files(store)).items()"
        " if attempt.done_path in dict(files)",
        "tests/unit/lake/test_unfinished_plans.py::test_chunks_that_may_still_be_committed",
    ),
    Mutant(
        "a manifest protects an attempt whose record is damaged",
        "_may_be_given_up",
        "and store.size(attempt.manifest_path) is None",
        "",
        "tests/unit/lake/test_finished_attempts.py"
        "::test_a_sealed_attempt_is_kept_although_its_record_is_damaged",
    ),
    Mutant(
        "a damaged plan stops no other",
        "load_unfinished",
        "except LakeDamaged",
        "except ZeroDivisionError",
        "tests/unit/lake/test_unfinished_plans.py::test_a_damaged_plan_stops_no_other",
    ),
    Mutant(
        "a damaged plan of a staged attempt stops no survey of what is pending",
        "pending_chunks",
        "except LakeDamaged",
        "except ZeroDivisionError",
        "tests/unit/lake/test_unfinished_plans.py::test_chunks_that_may_still_be_committed",
    ),
    Mutant(
        "the sweeper keeps what a damaged plan has staged",
        "_may_be_given_up",
        """except LakeDamaged:
        return False""",
        """except LakeDamaged:
        return True""",
        "tests/unit/lake/test_finished_attempts.py::test_what_a_damaged_plan_has_staged_is_kept",
    ),
    Mutant(
        "a finished attempt whose record is damaged is given up one day",
        "sweeping._is_finished",
        """except AttemptWrong:
        return False""",
        """except AttemptWrong:
        return True""",
        "tests/unit/lake/test_finished_attempts.py::test_a_record_that_makes_no_sense",
    ),
    Mutant(
        "an attempt of a newer release is not given up",
        "sweeping._is_finished",
        """except OtherFormat:
        return True""",
        """except OtherFormat:
        return False""",
        "tests/unit/lake/test_finished_attempts.py::test_what_a_newer_release_has_finished_is_kept",
    ),
    Mutant(
        "an attempt of no chunk is not sealed",
        "gather_work",
        "if attempt.chunk < len(chunks) and attempt",
        "if attempt",
        "tests/unit/lake/test_unfinished_plans.py::test_chunks_that_may_still_be_committed",
    ),
    Mutant(
        "a chunk that its plan does not have is not pending",
        "pending_chunks",
        "chunk < len(plan.chunks) and",
        "",
        "tests/unit/lake/test_unfinished_plans.py::test_chunks_that_may_still_be_committed",
    ),
    Mutant(
        "what was declared sent is not sent again",
        "sent_part",
        "+ _within(self.skipped, window, topic_ids)",
        "",
        "tests/unit/egress/test_lake_source.py::test_ranges_declared_sent_before_the_claim",
    ),
    Mutant(
        "a resend is no replay",
        "_judge_claim",
        "is_replay = claim.lane == REPLAY",
        "is_replay = claim.lane in (REPLAY, RESEND)",
        "tests/unit/core/test_claims.py::test_a_resend_is_of_other_content",
    ),
    Mutant(
        "the submitter is looked for before its driver is ended",
        "ProcessSenders.doubt",
        "if not has_ended(sender, claim.attempt, self.task_ended):",
        "if False:",
        "tests/unit/egress/test_takeover.py::test_while_its_submitter_may_run_nothing_is_ended",
    ),
    Mutant(
        "an abandoned attempt is not brought to the judge",
        "may_be_committed",
        "and attempt not in fold.barred",
        "",
        "tests/unit/lake/test_attempts.py::test_an_abandoned_attempt_does_not_count",
    ),
    Mutant(
        "offsets without a row are looked into",
        "attempts.check_attempt",
        "holes = accounting.find_holes(window, found)",
        "holes = {}",
        "tests/unit/lake/test_attempts.py",
    ),
    Mutant(
        "no plan is made while a sender may be alive",
        "egress.planning.plan",
        "if why := run.senders.doubt(claim, run.engine, store):",
        "if False:",
        "tests/unit/egress/test_egress_claims.py::test_a_sender_that_may_be_alive_stops_other_runs",
    ),
    Mutant(
        "a claim needs the proof of the sender's death",
        "claims.claim",
        "if open_claim and (why :=",
        "if False and (why :=",
        "tests/unit/egress/test_egress_claims.py",
    ),
    Mutant(
        "a plan with a decoder that is not known is refused",
        "format_of_records",
        'case "string":',
        "case _:",
        "tests/contracts/test_data_formats.py::test_a_name_that_is_not_known",
    ),
    Mutant(
        "a plan of files whose format is not known is refused",
        "format_of_files",
        'case "text":',
        "case _:",
        "tests/contracts/test_data_formats.py::test_a_name_that_is_not_known",
    ),
    Mutant(
        "a checkpoint has the newest gap",
        "checkpoint.fold_head",
        "form.write(getattr(fold.egress if name in _OF_EGRESS else fold, name))",
        'form.write(fold.gaps[:-1] if name == "gaps" else '
        "getattr(fold.egress if name in _OF_EGRESS else fold, name))",
        "tests/unit/lake/test_checkpoints.py",
    ),
)
