"""What tests leave behind: every lake is checked by `tidegate_check`, which knows only the format.

A lake is a directory, or a prefix of the S3 server's bucket, with a ledger below it. A test that
damages one on purpose says what the checker finds: `@pytest.mark.leaves("file", "unknown")`.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from pyarrow import fs

from tidegate_check.lake import Checker, Difference, Stored
from tidegate_local.s3 import REGION, Server

LOG = "/_tidegate/log"
SERVERS = ("kafka", "s3", "secured", "cluster")
"""Beginnings of directories of servers: there is no lake in them."""


def below(directory: Path) -> Iterator[str]:
    """Yield the pipelines whose lakes lie below a directory. Links are not followed."""
    for at, directories, _ in os.walk(directory):
        if at == str(directory):
            directories[:] = [name for name in directories if not name.startswith(SERVERS)]
        if at.endswith(LOG):
            directories.clear()
            yield at.removesuffix(LOG)


def in_bucket(server: Server, bucket: str = "lakes") -> set[str]:
    """Return the pipelines whose lakes are in a bucket."""
    system = fs.S3FileSystem(
        endpoint_override=server.endpoint,
        region=REGION,
        access_key=server.access_key,
        secret_key=server.secret_key,
    )
    found = system.get_file_info(fs.FileSelector(bucket, recursive=True))
    paths = (info.path.partition(f"{LOG}/") for info in found)
    return {f"s3://{pipeline}" for pipeline, log, _ in paths if log}


def differences(pipelines: Iterable[str], server: Server | None = None) -> list[Difference]:
    """Return what the checker finds in these pipelines' directories."""
    with patch.dict(os.environ, server.environment if server else {}):
        return [
            each._replace(where=f"{pipeline}: {each.where}")
            for pipeline in pipelines
            for each in Checker(Stored(pipeline)).run()
        ]


def judge(item: pytest.Item, found: list[Difference]) -> None:
    """Fail unless exactly what a test says that it leaves was found."""
    expected = {name for mark in item.iter_markers("leaves") for name in mark.args}
    if {each.name for each in found} != expected:
        listed = "".join(f"\n  {each.name} {each.where}: {each.what}" for each in found[:20])
        pytest.fail(f"the lake that is left has other differences than {expected}:{listed}", False)
