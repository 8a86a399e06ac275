"""Create the lake's bucket, and see that objects can be put into it."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

import tenacity

from tidegate.errors import ConfigurationError, TidegateError
from tidegate.lake import s3_buckets
from tidegate_local import s3

_TIMEOUT = 90.0  # s: a gateway answers seconds before its server has volumes
_OBJECT = "_tidegate-compose"


class NoBucket(TidegateError):
    """The bucket could not be made, or takes no objects. The message has the last answer."""


def ensure(environ: Mapping[str, str], *, timeout: float = _TIMEOUT) -> str:
    """Create the bucket of `TIDEGATE_LAKE` if it is not there. Return a line about it.

    Retries for `timeout` seconds, until an object was put, read and deleted. Raises NoBucket, also
    if the server answers those who have no keys.
    """
    lake = environ.get("TIDEGATE_LAKE", "")
    if not lake.startswith("s3://"):
        raise ConfigurationError(f"TIDEGATE_LAKE={lake}: not a bucket, s3://bucket/prefix")
    from botocore.exceptions import BotoCoreError, ClientError

    bucket, _ = s3_buckets.bucket_and_prefix(lake)
    where = s3_buckets.location(environ)
    client = s3_buckets.s3_client(
        where,
        aws_access_key_id=environ["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environ["AWS_SECRET_ACCESS_KEY"],
    )
    try:
        for attempt in tenacity.Retrying(
            stop=tenacity.stop_after_delay(timeout), wait=tenacity.wait_fixed(1.0), reraise=True
        ):
            with attempt:
                _try(client, bucket)
    except (BotoCoreError, ClientError, NoBucket) as error:
        raise NoBucket(
            f"bucket {bucket!r} at {where.endpoint} takes no objects after {timeout:.0f} s: {error}"
        ) from None
    if is_open(f"{where.endpoint}/{bucket}"):
        raise NoBucket(f"the S3 server at {where.endpoint} answers without keys")
    return f"bucket {bucket!r} at {where.endpoint} takes objects"


def _try(client: Any, bucket: str) -> None:
    s3.create_bucket(client, bucket)
    client.put_object(Bucket=bucket, Key=_OBJECT, Body=b"tidegate")
    found = client.get_object(Bucket=bucket, Key=_OBJECT)["Body"].read()
    client.delete_object(Bucket=bucket, Key=_OBJECT)
    if found != b"tidegate":
        raise NoBucket(f"an object came back as {found!r}")


def is_open(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=10.0).close()
    except urllib.error.HTTPError:
        return False
    return True
