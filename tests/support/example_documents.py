"""A plan, its manifest and its commit, whose documents the contracts quote."""

from tidegate.core.entries import (
    Account,
    Commit,
    Reference,
)
from tidegate.core.files import LakeFile, Part
from tidegate.core.offsets import OffsetRange
from tidegate.core.partition import LeftOut
from tidegate.core.plan import Plan
from tidegate.lake.attempts import Attempt, HoleProof, Manifest

FLIGHTS_ID = "6f1c2f6e-0000-4000-8000-000000000002"

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"

PLAN_SHA = "c052522a65c58ea9101c9345428d08c743e076e88fb2db1142cc07e893a34fe6"

PLAN = Plan(
    pipeline="flights",
    kind="ingest",
    lane="live",
    window_date="2024-05-01",
    cluster_id=CLUSTER,
    isolation="read_committed",
    topics={"flights": FLIGHTS_ID, "a.b": "6f1c2f6e-0000-4000-8000-000000000001"},
    chunks=(
        (
            OffsetRange("a.b", 0, 0, 5),
            OffsetRange("a.b", 10, 1, 3),
            OffsetRange("flights", 2, 7, 9),
        ),
        (OffsetRange("flights", 2, 9, 12),),
    ),
    destination="file:///lake/flights",
    byte_settings={"compression": "zstd", "level": 1, "max_records_per_file": 1000},
    left_out=(
        LeftOut("flights", 3, "expired", {"start": 10, "end": 40}),
        LeftOut("gone", None, "no such topic"),
    ),
)

COMMIT = Commit(
    lane="live",
    plan_id="0123456789abcdef",
    plan_sha256="0123456789abcdef" * 4,
    chunk=1,
    attempt="feedfeedfeedfeed",
    cluster_id=CLUSTER,
    topic_ids={"flights": FLIGHTS_ID},
    accounts={"flights": {0: Account(0, 10, 8, 2), 11: Account(3, 5, 2, 0)}},
    manifest=Reference("_tidegate/manifests/x.json", "ab" * 32),
)

FILES = (
    LakeFile(
        "flights",
        (Part(0, 0, 9, 8),),
        True,
        900,
        "d1" * 32,
        "_tidegate/staging/s/1.parquet",
        "data/0.parquet",
    ),
    LakeFile(
        "flights",
        (Part(11, 3, 4, 2),),
        False,
        700,
        "d2" * 32,
        "_tidegate/staging/s/2.parquet",
        "data/1.parquet",
    ),
)

MANIFEST = Manifest(
    attempt=Attempt("0123456789abcdef", 1, "feedfeedfeedfeed"),
    files=FILES,
    largest=1234,
    accounts=COMMIT.accounts,
    proofs={"flights": {0: HoleProof(2, 1, 1)}},
    seen={
        "topic_ids": {"flights": FLIGHTS_ID},
        "log_starts": {"flights": {"0": 0, "11": 3}},
        "epochs": {"flights": {"0": 0, "11": 0}},
    },
    versions={"spark": "4.1.2", "connector": "4.1.2", "tidegate": "0.2.0"},
)
