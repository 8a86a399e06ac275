"""Each guard of the code with the test that fails without it.

`.venv/bin/python tests/mutants [NAME…]` (`make test-mutants` for all) removes one guard at a time
from a copy of the sources, and runs its test there.
"""

from mutants import (
    broker,
    clouds,
    commands,
    core,
    count_proof,
    decoding,
    egress,
    files,
    guards,
    ingest,
    lake,
    orchestration,
    partitions,
    runs,
    settings,
    spark,
    times_and_keys,
    yarn,
)

MUTANTS = tuple(
    mutant
    for module in (
        core,
        settings,
        spark,
        files,
        lake,
        clouds,
        broker,
        runs,
        ingest,
        egress,
        guards,
        count_proof,
        decoding,
        partitions,
        commands,
        orchestration,
        times_and_keys,
        yarn,
    )
    for mutant in module.MUTANTS
)
