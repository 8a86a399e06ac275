"""Mutants of orchestration/ and ui/."""

from mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "a backfill's right to its pipeline",
        "orchestration/form_dags.py",
        '    rights.check(context, params["pipeline"])\n    spec = files.load_ingest',
        "    spec = files.load_ingest",
        "tests/dags/test_rights.py::test_every_step_of_a_form_asks",
    ),
    Mutant(
        "a re-ingest's right to its pipeline",
        "orchestration/form_dags.py",
        '    rights.check(context, params["pipeline"])\n    spec = files.load_named',
        '    if params["pipeline"] != "a":\n'
        '        rights.check(context, params["pipeline"])\n    spec = files.load_named',
        "tests/dags/test_rights.py::test_every_step_of_a_form_asks",
    ),
    Mutant(
        "a resend's right to its pipeline",
        "orchestration/form_dags.py",
        '    rights.check(context, params["pipeline"])\n    spec = files.load_named',
        '    if params["pipeline"] != "b":\n'
        '        rights.check(context, params["pipeline"])\n    spec = files.load_named',
        "tests/dags/test_rights.py::test_every_step_of_a_form_asks",
    ),
    Mutant(
        "a moved cursor's right to its pipeline",
        "orchestration/maintenance.py",
        'rights.check(context, params["pipeline"])',
        'context["dag_run"].triggering_user_name',
        "tests/dags/test_maintenance_dag.py::test_a_cursor_is_moved_by_the_form",
    ),
    Mutant(
        "a maintenance run fails with any of its steps",
        "orchestration/maintenance.py",
        "steps >> verdict()",
        "pass",
        "tests/dags/test_maintenance_dag.py::test_one_that_fails_stops_no_other",
    ),
    Mutant(
        "publish although stage has failed",
        "orchestration/factory.py",
        'rule = publish_sealed or "all_success"',
        'rule = "all_success"',
        "tests/dags/test_steps.py::test_which_steps_run",
    ),
    Mutant(
        "the driver runs where the task runs",
        "orchestration/tasks.py",
        'self._deploy_mode = "client"',
        "self._deploy_mode = None",
        "tests/dags/test_spark_task.py",
    ),
    Mutant(
        "one DAG for each bad file",
        "orchestration/factory.py",
        "if is_pipeline_name(name):",
        "if True:",
        "tests/dags/test_parsing.py::test_whatever_is_in_a_file_only_its_own_dag_suffers",
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
)
