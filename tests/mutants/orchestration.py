"""Mutants of orchestration/ and ui/."""

from mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "an old Spark provider gets no argument that it does not know",
        "orchestration/compatibility.py",
        '{"durable": False} if has_it and hasattr(airflow.sdk, "ResumableJobMixin") else {}',
        '{"durable": False}',
        "tests/dags/test_compatibility.py::test_a_provider_that_leaves_nothing_is_not_asked_to",
    ),
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
        "a signature of an earlier run in a backfill's conf",
        "orchestration/rights.py",
        " if run.run_type == _BY_REQUEST else None",
        "",
        "tests/dags/test_rights.py::test_no_backfill_is_signed",
    ),
    Mutant(
        "an edge of a window is no free text",
        "orchestration/form_dags.py",
        '_EDGE = rf"^\\s*([0-9]+|{_OFFSETS}|{_TIME})\\s*$"',
        '_EDGE = r"^\\s*(\\d+|\\{.*\\}|[0-9]{4}-.*Z)\\s*$"',
        "tests/dags/test_params.py::test_no_param_takes_a_path_a_setting_or_a_connection",
    ),
    Mutant(
        "the name of a pipeline is no path",
        "pipelines/files.py",
        "if Path(name).name != name or not path.is_file():",
        "if not path.is_file():",
        "tests/dags/test_params.py::test_a_pipelines_name_is_no_path",
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
        "orchestration/spark_hook.py",
        'mode = None if spark.is_cluster else "client"',
        "mode = None",
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
        "a wrong connection is shown when DAG files are parsed",
        "orchestration/factory.py",
        "        connections.refuse_wrong_kafka(spec)\n",
        "        pass\n",
        "tests/dags/test_parsing.py::test_a_wrong_connection_is_shown_by_its_pipelines_dag",
    ),
    Mutant(
        "a secrets backend that is away is no missing connection",
        "orchestration/connections.py",
        "if failure := _failure(backend, connection_id):",
        "if False and (failure := _failure(backend, connection_id)):",
        "tests/dags/test_airflow_connections.py::test_in_a_task_an_outage_is_no_missing_connection",
    ),
    Mutant(
        "an error of the API server is no missing connection",
        "orchestration/connections.py",
        "(_ask_api if is_api else backend.get_connection)",
        "(backend.get_connection)",
        "tests/dags/test_airflow_connections.py::test_in_a_task_an_outage_is_no_missing_connection",
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
