"""Mutants of cli/, doctor/, maintenance/ and tidegate_local/."""

from mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "the doctor's rivals have connections of their own",
        "doctor/lake.py",
        "[open_store(lake, pipeline) for _ in range(create_check.RIVALS)]",
        "[open_store(lake, pipeline)] * create_check.RIVALS",
        "tests/unit/doctor/test_doctor_lake.py::test_a_store_that_fails_some_races",
    ),
    Mutant(
        "a lake that cannot be made is a failure",
        "doctor/lake.py",
        "        refuse_unwritable(store)\n",
        "",
        "tests/unit/doctor/test_doctor_lake.py::test_a_lake_that_no_run_can_create",
    ),
    Mutant(
        "one demo at a time",
        "../tidegate_local/demo.py",
        '    with locked(home / "demo.lock", lambda: say("waiting for another demo to end")):\n',
        "    if True:\n",
        "tests/unit/local/test_local_setup.py::test_two_demos_at_once_are_one_after_the_other",
    ),
    Mutant(
        "no packages exchanged below what runs",
        "../tidegate_local/bootstrap.py",
        "            self._refuse_under_running_processes()\n",
        "",
        "tests/unit/local/test_bootstrap.py::test_a_changed_lock_waits_for_what_runs",
    ),
    Mutant(
        "what needs action decides the exit code",
        "cli/render.py",
        "code = worst(code, exit_code(result))",
        "code = exit_code(result)",
        "tests/contracts/test_command_output.py::test_what_needs_action_decides_the_exit_code",
    ),
    Mutant(
        "SIGTERM ends a run with what was kept",
        "cli/runs.py",
        "        raise _Terminated(number)\n",
        "        pass\n",
        "tests/unit/cli/test_run_output.py::test_a_run_that_is_ended",
    ),
    Mutant(
        "a closed terminal ends a run with what was kept",
        "cli/runs.py",
        "(signal.SIGTERM, signal.SIGHUP)",
        "(signal.SIGTERM,)",
        "tests/unit/cli/test_run_output.py::test_a_run_that_is_ended",
    ),
    Mutant(
        "nohup is heeded",
        "cli/runs.py",
        "if how is not signal.SIG_IGN",
        "",
        "tests/unit/cli/test_run_output.py::test_nohup_is_heeded",
    ),
    Mutant(
        "a run that is all done is continued by a new one",
        "cli/runs.py",
        "_command(run, again=kept.finished)",
        "_command(run, again=False)",
        "tests/unit/cli/test_run_output.py::test_a_run_that_excludes_a_partition",
    ),
    Mutant(
        "a checkpoint does not forget that copies may be late",
        "maintenance/checkpoint.py",
        "*recent_replacements(store, fold)",
        "",
        "tests/unit/lake/test_replaced_files.py::test_a_copy_that_lands_after_its_client_died",
    ),
    Mutant(
        "repair lists before it reads",
        "maintenance/repair.py",
        "    listed = store.objects(layout.DATA)\n    ledger = Ledger(store, spec.name)\n",
        "    ledger = Ledger(store, spec.name)\n    listed = store.objects(layout.DATA)\n",
        "tests/unit/maintenance/test_repair.py::test_a_commit_while_it_works_loses_nothing",
    ),
    Mutant(
        "repair looks again",
        "maintenance/repair.py",
        "    files |= _live_files(store, fold, fold.live.keys() - files.keys())\n",
        "",
        "tests/unit/maintenance/test_repair.py::test_a_run_that_plans_the_same_again_keeps_its_files",
    ),
)
