"""Mutants of settings/, and of what contradicts each other in them."""

from mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "what was fetched is not kept",
        "settings/spark_conf.py",
        '    "spark.kafka.consumer.fetchedData.cache.timeout": "0",\n',
        "",
        "tests/spark/test_memory.py",
    ),
    Mutant(
        "a producer setting that cannot start",
        "settings/setting.py",
        "not self.least <= int(value) <= self.most",
        "False",
        "tests/unit/spark/test_producer_settings.py::test_a_refused_setting_has_its_reason",
    ),
    Mutant(
        "a target is sent to only if it can be read back beside its connection",
        "runs/connections.py",
        "reading = disagreements(target.reading_options, options)",
        "reading = []",
        "tests/unit/runs/test_connections.py::test_options_that_contradict_the_connection",
    ),
    Mutant(
        "a look-up's time-out is not below that of a request",
        "settings/source.py",
        "if api and request and int(api) < int(request):",
        "if False:",
        "tests/unit/pipelines/test_ingest_options.py::test_what_a_consumer_refuses_together",
    ),
    Mutant(
        "records that were damaged on the way are not read",
        "settings/source.py",
        'if boolean(value) is None and value.lower() == "false":',
        "if False:",
        "tests/unit/settings/test_table.py::test_a_value_that_a_client_would_refuse",
    ),
    Mutant(
        "a time-out of the connection comes before Tidegate's own",
        "spark/producer_settings.py",
        "found = {**DEFAULTS, **shared, **given}",
        "found = {**shared, **DEFAULTS, **given}",
        "tests/unit/spark/test_producer_settings.py"
        "::test_a_timeout_of_the_connection_comes_before_our_own",
    ),
    Mutant(
        "a connection and a pipeline that contradict each other send nothing",
        "runs/connections.py",
        "_refuse_contradictions(spec, kafka.connection, kafka.options)",
        "_refuse_contradictions(spec, kafka.connection, {})",
        "tests/unit/egress/test_egress_plan.py"
        "::test_a_timeout_of_the_connection_that_contradicts_the_pipeline",
    ),
)
