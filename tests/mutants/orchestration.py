"""Mutants of orchestration/ and ui/."""

from mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "an old Spark provider gets no argument that it does not know",
        "ends_with_the_task",
        '{"durable": False} if has_it else {}',
        '{"durable": False}',
        "tests/dags/test_compatibility.py::test_a_provider_that_leaves_nothing_is_not_asked_to",
    ),
    Mutant(
        "a backfill's right to its pipeline",
        "_backfill",
        '    rights.check_rights(context, params["pipeline"])\n'
        "    spec = pipeline_files.load_ingest",
        "    spec = pipeline_files.load_ingest",
        "tests/dags/test_rights.py::test_every_step_of_a_form_asks",
    ),
    Mutant(
        "a re-ingest's right to its pipeline",
        "form_dags._replay",
        '    rights.check_rights(context, params["pipeline"])\n'
        "    spec = pipeline_files.load_named",
        '    if params["pipeline"] != "a":\n'
        '        rights.check_rights(context, params["pipeline"])\n'
        "    spec = pipeline_files.load_named",
        "tests/dags/test_rights.py::test_every_step_of_a_form_asks",
    ),
    Mutant(
        "a resend's right to its pipeline",
        "form_dags._replay",
        '    rights.check_rights(context, params["pipeline"])\n'
        "    spec = pipeline_files.load_named",
        '    if params["pipeline"] != "b":\n'
        '        rights.check_rights(context, params["pipeline"])\n'
        "    spec = pipeline_files.load_named",
        "tests/dags/test_rights.py::test_every_step_of_a_form_asks",
    ),
    Mutant(
        "a moved cursor's right to its pipeline",
        "move_cursor",
        'rights.check_rights(context, params["pipeline"])',
        'context["dag_run"].triggering_user_name',
        "tests/dags/test_maintenance_dag.py::test_a_cursor_is_moved_by_the_form",
    ),
    Mutant(
        "a signature of an earlier run in a backfill's conf",
        "rights.check_rights",
        " if run.run_type == _BY_REQUEST else None",
        "",
        "tests/dags/test_rights.py::test_no_backfill_is_signed",
    ),
    Mutant(
        "an edge of a window is no free text",
        "_EDGE",
        '_EDGE = rf"^\\s*([0-9]+|{_OFFSETS}|{_TIME}|-[0-9]{{1,6}}[dhm])\\s*$"',
        '_EDGE = r"^\\s*(\\d+|\\{.*\\}|[0-9]{4}-.*Z)\\s*$"',
        "tests/dags/test_params.py::test_no_param_takes_a_path_a_setting_or_a_connection",
    ),
    Mutant(
        "a maintenance run fails with any of its steps",
        "maintenance_dag",
        "steps >> verdict()",
        "pass",
        "tests/dags/test_maintenance_dag.py::test_one_that_fails_stops_no_other",
    ),
    Mutant(
        "publish although stage has failed",
        "_steps",
        'rule = publish_rule or "all_success"',
        'rule = "all_success"',
        "tests/dags/test_steps.py::test_which_steps_run",
    ),
    Mutant(
        "the driver runs where the task runs",
        "ConnectedHook.__init__",
        'mode = None if spark.is_cluster else "client"',
        "mode = None",
        "tests/dags/test_spark_task.py",
    ),
    Mutant(
        "one DAG for each bad file",
        "factory.dag_id",
        "if is_pipeline_name(name):",
        "if True:",
        "tests/dags/test_parsing.py::test_whatever_is_in_a_file_only_its_own_dag_suffers",
    ),
    Mutant(
        "a wrong connection is shown when DAG files are parsed",
        "pipeline_dag",
        "        connections.refuse_wrong_kafka(spec)\n",
        "        pass\n",
        "tests/dags/test_parsing.py::test_a_wrong_connection_is_shown_by_its_pipelines_dag",
    ),
    Mutant(
        "a secrets backend that is away is no missing connection",
        "task_connection",
        "if failure := _failure(backend, connection_id):",
        "if False and (failure := _failure(backend, connection_id)):",
        "tests/dags/test_airflow_connections.py::test_in_a_task_an_outage_is_no_missing_connection",
    ),
    Mutant(
        "an error of the API server is no missing connection",
        "airflow_connections._failure",
        "(_ask_connection if is_api else backend.get_connection)",
        "(backend.get_connection)",
        "tests/dags/test_airflow_connections.py::test_in_a_task_an_outage_is_no_missing_connection",
    ),
    Mutant(
        "a signature that a request brings along",
        "triggers.signed",
        "        conf.pop(rights.KEY, None)\n",
        "",
        "tests/dags/test_rights.py::test_airflows_own_api_server_signs",
    ),
    Mutant(
        "the auth manager's word",
        "permit_user",
        "        await run_in_threadpool(may, request, user)\n",
        "",
        "tests/dags/test_rights.py::test_airflows_own_api_server_signs",
    ),
    Mutant(
        "tries are compared within one Airflow deployment",
        "tasks.task_ended",
        'if task["deployment"] != deployment.read_identity():',
        'if task.get("deployment", deployment.read_identity()) == "":',
        "tests/dags/test_deployment.py::test_a_task_has_ended_by_what_its_own_deployment_says",
    ),
    Mutant(
        "an outage is no missing identity",
        "_stored",
        "        if error.error.error is ErrorType.VARIABLE_NOT_FOUND:\n",
        "        if error:\n",
        "tests/dags/test_deployment.py::test_an_outage_makes_no_new_one",
    ),
    Mutant(
        "an identity is read back",
        "deployment.read_identity",
        "        known = _stored()\n    if",
        "        known = known or secrets.token_hex(8)\n    if",
        "tests/dags/test_deployment.py::test_of_two_that_make_it_at_once_both_use_what_is_stored",
    ),
    Mutant(
        "a form of another site does nothing",
        "refuse_foreign",
        "    if not is_own:",
        "    if False:",
        "tests/dags/test_page_actions.py::test_another_site_does_nothing",
    ),
    Mutant(
        "the page of a pipeline is for those who may read its DAG",
        "readable_look",
        "    if name not in pipelines:",
        "    if False:",
        "tests/dags/test_page_actions.py::test_who_may_not_see_a_dag_finds_no_trace",
    ),
    Mutant(
        "the page calls Airflow through the signatures of form DAGs",
        "SignTriggers.__call__",
        'scope["tidegate.airflow"] = self, dict(scope)',
        'scope["tidegate.airflow"] = self._app, dict(scope)',
        "tests/dags/test_page_actions.py::test_a_backfill_is_looked_at_before_it_is_done",
    ),
    Mutant(
        "a pipeline that waits for a broker is not asked for again",
        "_look_at_all",
        "                continue  # it still waits: nothing piles up",
        "                pass",
        "tests/dags/test_ui.py::test_the_page_waits_for_nobody",
    ),
    Mutant(
        "each complete hour is announced once",
        "announce_hours",
        "    since = next((found for each in newest if (found := _until(each.extra))), None)",
        "    since = None",
        "tests/dags/test_dag_options.py::test_each_hour_is_announced_once",
    ),
    Mutant(
        "an hour is complete a minute after its end",
        "hours_between",
        "(through.astimezone(UTC) - _CLOCKS)",
        "through.astimezone(UTC)",
        "tests/dags/test_dag_options.py::test_hours_between",
    ),
    Mutant(
        "a pipeline's file calls nothing but a notifier",
        "_make_notifier",
        "    if not isinstance(found, type) or not issubclass(found, BaseNotifier):",
        "    if False:",
        "tests/dags/test_dag_options.py::test_nobody_to_tell_stops_no_data",
    ),
    Mutant(
        "an argument that Airflow cannot keep is refused in the file",
        "_are_arguments",
        "    _is_plain(given)",
        "    pass",
        "tests/unit/pipelines/test_airflow_settings.py::test_what_is_refused",
    ),
)
