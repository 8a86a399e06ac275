"""S3 settings of the environment, translated for Spark and botocore.

obstore reads the `AWS_*` variables by itself. Spark and botocore do so with the keys, which are
never read here. They have other names for endpoint and region.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from tidegate.errors import ConfigurationError
from tidegate.lake.parallel import AT_ONCE

_REGION = "us-east-1"  # obstore's default


@dataclass(frozen=True)
class Location:
    """Where S3 is. Without an endpoint, at AWS."""

    endpoint: str | None
    region: str
    path_style: bool


def location(environ: Mapping[str, str] = os.environ) -> Location:
    """Read the environment as obstore does; ConfigurationError for an endpoint that it refuses,
    and without botocore, which not every call needs: it would be missing in the middle of a run.
    """
    if find_spec("botocore") is None:
        raise ConfigurationError("S3 needs botocore: pip install 'tidegate[s3]'")
    endpoint = environ.get("AWS_ENDPOINT_URL") or environ.get("AWS_ENDPOINT") or None
    if endpoint and urlsplit(endpoint).scheme not in ("http", "https"):
        raise ConfigurationError(f"AWS_ENDPOINT_URL={endpoint}: an endpoint is http(s)://host:port")
    if endpoint and endpoint.startswith("http:") and not _is_true(environ, "AWS_ALLOW_HTTP"):
        raise ConfigurationError(
            f"AWS_ENDPOINT_URL={endpoint}: the data would go there in clear; set"
            " AWS_ALLOW_HTTP=true if it may"
        )
    return Location(
        endpoint,
        region=environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or _REGION,
        path_style=not _is_true(environ, "AWS_VIRTUAL_HOSTED_STYLE_REQUEST"),
    )


def spark_conf(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the settings with which Spark reads and writes S3. None is secret.

    Spark's driver takes the keys from its own environment into the configuration that its tasks
    are sent. Files are written by the magic committer: they appear when the job commits, without
    a copy.
    """
    where = location(environ)
    s3a = {
        "endpoint.region": where.region,
        "path.style.access": str(where.path_style).lower(),
        "committer.name": "magic",
        # Saves a fifth of all requests: no other process writes to an attempt's directory.
        "committer.magic.track.commits.in.memory.enabled": "true",
        "performance.flags": "create,mkdir,delete",
    }
    if where.endpoint:
        s3a["endpoint"] = where.endpoint
    return {
        **{f"spark.hadoop.fs.s3a.{name}": value for name, value in s3a.items()},
        "spark.sql.sources.commitProtocolClass": (
            "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol"
        ),
        "spark.sql.parquet.output.committer.class": (
            "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter"
        ),
    }


def bucket_and_prefix(url: str) -> tuple[str, str]:
    """Return the bucket of a URL, and the prefix of the keys below it."""
    parts = urlsplit(url)
    return parts.netloc, f"{parts.path.strip('/')}/"


def s3_client(where: Location | None = None, **keys: str) -> Any:
    """Return botocore's client, for what obstore has no call for."""
    import botocore.config
    import botocore.session

    where = where or location()
    style = "path" if where.path_style else "virtual"
    return botocore.session.get_session().create_client(
        "s3",
        region_name=where.region,
        endpoint_url=where.endpoint,
        config=botocore.config.Config(
            s3={"addressing_style": style},
            # The default is to wait minutes for a server that does not answer.
            connect_timeout=5,
            read_timeout=300,
            max_pool_connections=AT_ONCE,
            retries={"mode": "standard", "max_attempts": 3},
        ),
        **keys,
    )


def _is_true(environ: Mapping[str, str], name: str) -> bool:
    return environ.get(name, "").lower() in ("1", "true", "on", "yes", "y")
