"""Mutants of runs/ and launch/."""

from mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "no run on a store that the doctor saw fail",
        "runs/run.py",
        "        ledger.refuse_unsafe_store()",
        "        pass",
        "tests/unit/doctor/test_doctor_lake.py::test_a_run_refuses_a_store_that_the_doctor_saw_fail",
    ),
    Mutant(
        "a boundary asks the lake too",
        "runs/boundaries.py",
        "for offset in (first, row) if",
        "for offset in (first,) if",
        "tests/unit/runs/test_boundaries.py",
    ),
    Mutant(
        "a boundary asks the lake after Kafka",
        "runs/boundaries.py",
        "    in_log = _first_in_log(topic, times)\n"
        "    # Read after Kafka: a record that expires in between is found in one of the two.\n"
        "    fold = Ledger(topic.store, topic.pipeline).fold\n",
        "    fold = Ledger(topic.store, topic.pipeline).fold\n"
        "    in_log = _first_in_log(topic, times)\n",
        "tests/unit/runs/test_boundaries.py::test_rows_that_are_committed_and_expire_meanwhile",
    ),
    Mutant(
        "no boundary while expired rows are staged",
        "runs/boundaries.py",
        "    complaints += _unknown(topic, fold, spans)\n",
        "",
        "tests/unit/runs/test_boundaries.py::test_rows_that_are_staged_and_expired",
    ),
    Mutant(
        "cursors that nobody decided about",
        "runs/variables.py",
        "if partition not in (None, p) and offset > highest.get(p, 0)",
        "if False",
        "tests/unit/maintenance/test_cursor.py::test_a_decision_about_one_partition_is_about_that_one",
    ),
    Mutant(
        "no master retries what a task sends",
        "launch/masters.py",
        "if tries and int(tries[2]) > 1 and",
        "if False and",
        "tests/unit/launch/test_spark_submit.py",
    ),
    Mutant(
        "a job that is refused for good is not retried",
        "launch/spark_submit.py",
        "if (refusal := read_refusal(read)) is None:",
        "if (refusal := read_refusal(read)) is None or True:",
        "tests/unit/launch/test_spark_submit.py",
    ),
    Mutant(
        "a refusal for good beats an outage",
        "launch/spark_submit.py",
        "except (StageFailed, BrokerUnreachable) as error:",
        "except StageFailed as error:",
        "tests/unit/launch/test_spark_submit.py::test_a_job_that_was_refused_for_good_is_not_retried",
    ),
    Mutant(
        "an application that will not end is killed",
        "launch/spark_submit.py",
        "        process.kill()\n",
        "        pass\n",
        "tests/unit/launch/test_spark_submit.py::test_an_application_that_will_not_end_is_killed",
    ),
    Mutant(
        "nothing is hidden that no file has",
        "launch/spark_output.py",
        "if self.path is None or not (",
        "if not (",
        "tests/unit/launch/test_spark_output.py",
    ),
    Mutant(
        "the JVM's death signal",
        "launch/spark-submit.sh",
        "--pdeathsig TERM",
        "--pdeathsig clear",
        "tests/spark/test_death.py::test_jvm_and_driver_die_with_the_process_that_started_them",
    ),
    Mutant(
        "Spark does not inherit what Airflow's variables hold",
        "launch/spark_home.py",
        "        **withheld(),  # the job file has what an application needs\n",
        "",
        "tests/unit/launch/test_spark_submit.py::test_what_airflows_variables_hold_is_not_inherited",
    ),
    Mutant(
        "Spark dumps no core",
        "launch/spark-submit.sh",
        "ulimit -c 0\n",
        "",
        "tests/unit/launch/test_spark_submit.py::test_no_core_dumps",
    ),
    Mutant(
        "a Spark connection with host and port is one of a standalone master",
        "runs/connections.py",
        'conn_type == "spark" and ("://" in host or not port)',
        'conn_type == "spark"',
        "tests/unit/runs/test_connections.py::test_a_spark_connection",
    ),
    Mutant(
        "a connection that cannot be parsed is not quoted",
        "runs/connections.py",
        "is not a connection in JSON or URI form",
        "is not a connection in JSON or URI form: {text}",
        "tests/unit/runs/test_connections.py::test_a_value_that_is_no_connection_is_not_quoted",
    ),
    Mutant(
        "a setting that the pipeline gives is shown as the pipeline's",
        "runs/client_options.py",
        "(derived | found).items()",
        "(found | derived).items()",
        "tests/unit/egress/test_egress_plan.py::test_explain_shows_settings_with_their_origins",
    ),
    Mutant(
        "a value of spark.conf that the table does not know is not kept",
        "runs/client_options.py",
        '({} if name in _SHOWN else {"value": None})',
        "{}",
        "tests/unit/egress/test_egress_plan.py::test_explain_shows_settings_with_their_origins",
    ),
    Mutant(
        "a DAG shows options that contradict its connection",
        "runs/connections.py",
        "_refuse_contradictions(spec, spec.kafka, client_settings.options_of(extra))",
        "pass",
        "tests/unit/runs/test_connections.py::test_options_that_contradict_the_connection",
    ),
    Mutant(
        "a time-out of the connection counts for the driver's admin client",
        "settings/source.py",
        '_OUTSIDE["request.timeout.ms"], **connection}',
        '_OUTSIDE["request.timeout.ms"]}',
        "tests/unit/runs/test_connections.py::test_options_that_contradict_the_connection",
    ),
)
