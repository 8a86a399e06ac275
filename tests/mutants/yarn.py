"""Guards of cluster mode on YARN."""

from mutants.mutant import Mutant

_TAKEOVER = "tests/unit/egress/test_takeover.py"
_CLUSTER = "tests/unit/launch/test_yarn_cluster.py"
_STATE = "tests/unit/launch/test_yarn_client.py"

MUTANTS = (
    Mutant(
        "a driver names itself before it reads its job",
        "receive_job",
        "    answers.create(DRIVER, json.dumps(place.to_json()))\n",
        "",
        "tests/unit/spark/test_received_job.py::test_a_driver_names_itself_before_it_reads",
    ),
    Mutant(
        "a second driver does not take the place of the first",
        "receive_job",
        "    if other := answers.read(DRIVER):",
        "    if other := None:",
        "tests/unit/spark/test_received_job.py",
    ),
    Mutant(
        "a job is withdrawn before its driver is looked for",
        "yarn_cluster.end_application",
        "    withdraw_job(attempt, store)\n",
        "",
        f"{_TAKEOVER}::test_a_driver_that_has_not_named_itself_never_starts",
    ),
    Mutant(
        "a release withdraws the job",
        "release.release_claim",
        "        engine.withdraw(application, attempt, store)\n",
        "        pass\n",
        f"{_TAKEOVER}::test_a_release_withdraws_the_job",
    ),
    Mutant(
        "an application is not ended while its submitter may run",
        "ProcessSenders.doubt",
        "if not has_ended(sender, claim.attempt, self.task_ended):",
        "    if False:\n",
        f"{_TAKEOVER}::test_while_its_submitter_may_run_nothing_is_ended",
    ),
    Mutant(
        "an engine that is not known has not ended an application",
        "SparkEngine.end",
        "return Unknown(_unknown(identity))",
        "return Ended()",
        f"{_TAKEOVER}::test_an_application_of_another_engine_is_never_known_to_have_ended",
    ),
    Mutant(
        "a claim of an engine that is not known is not released",
        "SparkEngine.running",
        "if (mode := cluster_modes.mode_of_identity(identity)) is None:",
        'if (mode := cluster_modes.mode_of_identity({"master": "yarn"})) is None:',
        f"{_TAKEOVER}::test_an_application_of_another_engine_is_never_known_to_have_ended",
    ),
    Mutant(
        "a state is no proof",
        "yarn_client.not_ended",
        "        return _still_there(driver, look_up or _page)\n",
        "        return None\n",
        _STATE,
    ),
    Mutant(
        "keys of S3 are kept from Spark's client",
        "_for_yarn",
        ', "TIDEGATE_UNSET": _KEPT_BY_YARN',
        "",
        f"{_CLUSTER}::test_keys_of_s3_are_kept_from_sparks_client",
    ),
    Mutant(
        "an error ends the application",
        "killed_on_error",
        "        application.kill(log)\n",
        "        pass\n",
        f"{_CLUSTER}::test_an_error_kills_the_application_and_stays_the_error",
    ),
)
