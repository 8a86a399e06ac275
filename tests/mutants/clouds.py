"""Mutants of the kinds of buckets, and of cluster mode on Kubernetes."""

from mutants.mutant import Mutant

_KUBE = "tests/unit/launch/test_kube_cluster.py"
MUTANTS = (
    Mutant(
        "folders of a connector are no files",
        "MarkedBuckets.is_file",
        "listed.size > 0 or not any(",
        "True or not any(",
        "tests/integration/test_gcs_and_azure.py::test_folders_of_the_connector_are_no_files",
    ),
    Mutant(
        "names are those after a name, whatever the server lists",
        "ObjectStore.names",
        "> after",
        '!= ""',
        "tests/contracts/test_stores.py::test_names_of_a_large_directory",
    ),
    Mutant(
        "two ways to log in to Azure are refused",
        "_way_to_log_in",
        "    if len(ways) > 1:",
        "    if False:",
        "tests/unit/lake/test_azure_buckets.py::test_what_is_refused",
    ),
    Mutant(
        "no setting of Spark has a key of Azure",
        "_login_of_spark",
        '"SharedKey"}',
        "environ[way]}",
        "tests/unit/lake/test_azure_buckets.py::test_ways_to_log_in",
    ),
    Mutant(
        "plain HTTP to another server is permitted, or refused",
        "other_server",
        '    if scheme == "http" and not is_true(environ, permit):',
        "    if False:",
        "tests/unit/lake/test_azure_buckets.py::test_what_is_refused",
    ),
    Mutant(
        "Google's S3 is refused by name",
        "location",
        'endswith("googleapis.com")',
        'endswith("example.com")',
        "tests/unit/lake/test_s3_buckets.py::test_a_wrong_endpoint_is_refused",
    ),
    Mutant(
        "secrets of buckets are for the applications that use these",
        "give_secrets",
        "if each.name in used",
        "if True",
        "tests/unit/lake/test_azure_buckets.py::test_secrets_are_given_where_they_are_used",
    ),
    Mutant(
        "what obstore alone would follow is refused",
        "_way_to_log_in",
        "        if _OF_OBSTORE.fullmatch(name) and name not in (_KEY, _ENDPOINT):",
        "        if False:",
        "tests/unit/lake/test_azure_buckets.py::test_what_is_refused",
    ),
    Mutant(
        "a pod that is gone has not ended",
        "kube_cluster._ended",
        "        if (pod := client.pod(name)) is None:\n            return",
        "        if (pod := client.pod(name)) is None:\n            return None and",
        f"{_KUBE}::test_the_proof_of_an_end",
    ),
    Mutant(
        "a pod of the same name is another one",
        "kube_cluster._ended",
        "        if pod.uid != uid:",
        "        if False:",
        f"{_KUBE}::test_the_proof_of_an_end",
    ),
    Mutant(
        "an executor without its driver may send",
        "kube_cluster._ended",
        "running = [each for each in client.pods_of(attempt.name, EXECUTOR) if not each.has_ended]",
        "running = list[SparkPod]()",
        f"{_KUBE}::test_an_executor_may_still_send",
    ),
    Mutant(
        "a phase is no proof",
        "SparkPod.has_ended",
        "return self.codes is not None",
        'return self.codes is not None or self.phase == "Failed"',
        f"{_KUBE}::test_the_proof_of_an_end",
    ),
    Mutant(
        "the end of a driver is recorded before its pod may go",
        "kube_cluster._let_go",
        "    store.create(attempt.directory + ENDED, pod.uid.encode())",
        "    pass",
        f"{_KUBE}::test_the_proof_of_an_end",
    ),
    Mutant(
        "a job is withdrawn before its pod is looked for",
        "end_driver",
        "    withdraw_job(attempt, store)",
        "    pass",
        f"{_KUBE}::test_the_proof_of_an_end",
    ),
)
