"""Mutants of settings/, and of what contradicts each other in them."""

from mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "what was fetched is not kept",
        "CONSUMER_CACHES",
        '    "spark.kafka.consumer.fetchedData.cache.timeout": "0",\n',
        "",
        "tests/spark/test_memory.py",
    ),
    Mutant(
        "a producer setting that cannot start",
        "Whole.__call__",
        "not self.least <= int(value) <= self.most",
        "False",
        "tests/unit/spark/test_producer_settings.py::test_a_refused_setting_has_its_reason",
    ),
    Mutant(
        "a target is sent to only if it can be read back beside its connection",
        "refuse_options",
        "reading = source_disagreements(target.reading_options, options)",
        "reading = []",
        "tests/unit/runs/test_connections.py::test_options_that_contradict_the_connection",
    ),
    Mutant(
        "a look-up's time-out is not below that of a request",
        "source_disagreements",
        "if api and request and int(api) < int(request):",
        "if False:",
        "tests/unit/pipelines/test_ingest_options.py::test_what_a_consumer_refuses_together",
    ),
    Mutant(
        "records that were damaged on the way are not read",
        "source._checked",
        'if check_boolean(value) is None and value.lower() == "false":',
        "if False:",
        "tests/unit/settings/test_table.py::test_a_value_that_a_client_would_refuse",
    ),
    Mutant(
        "a time-out of the connection comes before Tidegate's own",
        "producer_settings.client_settings",
        "found = {**DEFAULTS, **shared, **given}",
        "found = {**shared, **DEFAULTS, **given}",
        "tests/unit/spark/test_producer_settings.py"
        "::test_a_timeout_of_the_connection_comes_before_our_own",
    ),
    Mutant(
        "a connection and a pipeline that contradict each other send nothing",
        "refuse_contradictions",
        "refuse_options(spec, kafka.connection, kafka.options)",
        "refuse_options(spec, kafka.connection, {})",
        "tests/unit/egress/test_egress_plan.py"
        "::test_a_timeout_of_the_connection_that_contradicts_the_pipeline",
    ),
    Mutant(
        "a decommissioned executor's tasks are not run again",
        "RUN_ONCE",
        '    "spark.decommission.enabled": "false",\n',
        "",
        "tests/unit/launch/test_spark_submit.py"
        "::test_what_a_task_has_sent_is_not_sent_again_by_spark",
    ),
    Mutant(
        "fetch failures of a decommissioned executor count",
        "RUN_ONCE",
        '    "spark.stage.ignoreDecommissionFetchFailure": "false",\n',
        "",
        "tests/unit/launch/test_spark_submit.py"
        "::test_what_a_task_has_sent_is_not_sent_again_by_spark",
    ),
    Mutant(
        "dates of Parquet are read in one calendar",
        "SAME_ROWS",
        '    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",\n',
        "",
        "tests/unit/spark/test_source_rows.py::test_what_changes_rows_is_set_and_refused",
    ),
    Mutant(
        "what values depend on is set in each session",
        "_pin",
        "            spark.conf.set(own, value)\n",
        "            pass\n",
        "tests/unit/spark/test_source_rows.py::test_what_changes_rows_is_set_and_refused",
    ),
    Mutant(
        "an egress has no legacy settings of Spark",
        "table.find_setting",
        "return next((replace(each, name=name) for each in groups), None)",
        "return None",
        "tests/unit/settings/test_table.py::test_an_egress_decides_more_of_spark",
    ),
)
