"""Buckets of S3: the settings of the environment for Spark and botocore, and what obstore lacks.

obstore reads the `AWS_*` variables by itself. Spark and botocore do so with the keys, which are
never read here. They have other names for endpoint and region.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from obstore.store import ObjectStore as Obstore

from tidegate.core.locations import without_scheme
from tidegate.core.plan import SourceFile
from tidegate.core.source_root import Root
from tidegate.core.wording import one_line
from tidegate.errors import ConfigurationError, LakeReadOnly, LakeUnavailable, SourceUnavailable
from tidegate.lake.buckets import Buckets, Upload, is_true, other_server
from tidegate.lake.parallel import AT_ONCE, in_parallel
from tidegate.lake.store_protocol import Found

if TYPE_CHECKING:
    from pyarrow import fs

PART = 64 * 1024 * 1024
"""Objects above this are copied in parts of this size. One request would be slow, and ends at 5 GB:
obstore waits 30 seconds for the answer."""
_MOST_PARTS = 10_000  # S3's own bound
_REGION = "us-east-1"  # obstore's default
_FOLDER_MARKERS = ("/", "_$folder$")


class S3(Buckets):
    """Buckets of S3, or of a store that speaks as S3 does."""

    def open(self, url: str) -> Obstore:
        location()
        return super().open(url)

    def spark_conf(self) -> Mapping[str, str]:
        return spark_conf()

    def arrow(self, url: str) -> tuple[fs.FileSystem, str]:
        from pyarrow import fs

        where = location()
        bucket, prefix = bucket_and_prefix(url)
        given = {"endpoint_override": where.endpoint} if where.endpoint else {}
        system = fs.S3FileSystem(
            region=where.region, force_virtual_addressing=not where.path_style, **given
        )
        return system, f"{bucket}/{prefix}".rstrip("/")

    def files(self, root: Root, store: Obstore) -> Iterator[Found]:
        """Yield all files below a root. obstore would end at a name that it cannot represent."""
        del store
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield from _list_files(root)
        except (BotoCoreError, ClientError) as error:
            answer = error.response if isinstance(error, ClientError) else {}
            raise SourceUnavailable(
                f"source {root.url} cannot be listed: {one_line(error)}",
                missing=answer.get("Error", {}).get("Code") == "NoSuchBucket",
            ) from error

    def copy(self, url: str, store: Obstore, source: str, target: str, size: int) -> None:
        if size > PART:
            copy_in_parts(url, source, target, size)
        else:
            super().copy(url, store, source, target, size)

    def open_uploads(self, url: str, below: Sequence[str]) -> list[Upload]:
        bucket, prefix = bucket_and_prefix(url)
        with _as_lake_errors(url):
            pages = s3_client().get_paginator("list_multipart_uploads")
            return [
                Upload(each["Initiated"], each["Key"].removeprefix(prefix), each["UploadId"])
                for directory in below
                for page in pages.paginate(Bucket=bucket, Prefix=prefix + directory)
                for each in page.get("Uploads", ())
            ]

    def abort_uploads(self, url: str, uploads: Sequence[Upload]) -> None:
        bucket, prefix = bucket_and_prefix(url)
        with _as_lake_errors(url):
            client = s3_client()
            for each in uploads:
                with suppress(client.exceptions.NoSuchUpload):
                    client.abort_multipart_upload(
                        Bucket=bucket, Key=prefix + each.path, UploadId=each.id
                    )


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
    endpoint = other_server(environ, "AWS_ALLOW_HTTP", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    if endpoint and (urlsplit(endpoint).hostname or "").endswith("googleapis.com"):
        raise ConfigurationError(
            f"AWS_ENDPOINT_URL={endpoint}: Google has no `If-None-Match` for S3's clients; use gs://"
        )
    return Location(
        endpoint,
        region=environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or _REGION,
        path_style=not is_true(environ, "AWS_VIRTUAL_HOSTED_STYLE_REQUEST"),
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


def copy_in_parts(url: str, source: str, target: str, size: int) -> None:
    """Copy an object below a URL in parts. It appears as a whole, or not at all.

    FileNotFoundError where there is no such object. A copy that is killed leaves an open upload.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    bucket, prefix = bucket_and_prefix(url)
    where = {"Bucket": bucket, "Key": prefix + target}
    origin = {"Bucket": bucket, "Key": prefix + source}
    client = s3_client()
    with _as_lake_errors(url), _missing(source):
        # A source that is replaced meanwhile must not be mixed with what it was.
        etag = client.head_object(**origin)["ETag"]
        upload = {**where, "UploadId": client.create_multipart_upload(**where)["UploadId"]}
        try:
            parts = _parts(client, upload, origin, etag, size)
            client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
        except BaseException:
            with suppress(BotoCoreError, ClientError):
                client.abort_multipart_upload(**upload)
            raise


def _parts(
    client: Any, upload: dict[str, str], origin: dict[str, str], etag: str, size: int
) -> list[dict[str, Any]]:
    length = max(PART, math.ceil(size / _MOST_PARTS))

    def part(number: int) -> dict[str, Any]:
        start = (number - 1) * length
        done = client.upload_part_copy(
            **upload,
            PartNumber=number,
            CopySource=origin,
            CopySourceIfMatch=etag,
            CopySourceRange=f"bytes={start}-{min(start + length, size) - 1}",
        )
        return {"PartNumber": number, "ETag": done["CopyPartResult"]["ETag"]}

    return list(in_parallel(part, range(1, math.ceil(size / length) + 1)))


@contextmanager
def _missing(source: str) -> Iterator[None]:
    from botocore.exceptions import ClientError

    try:
        yield
    except ClientError as error:
        if error.response["Error"].get("Code") in ("NoSuchKey", "404"):
            raise FileNotFoundError(source) from error
        raise


def _list_files(root: Root) -> Iterator[Found]:
    """Yield the files of a bucket. Markers of folders are no files."""
    bucket, _, prefix = without_scheme(root.url).partition("/")
    prefix = unquote(prefix).strip("/")
    prefix = f"{prefix}/" if prefix else ""
    wanted = prefix + (root.named or "")
    for page in s3_client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=wanted):
        for each in page.get("Contents", ()):
            name, size = each["Key"].removeprefix(prefix), each["Size"]
            if not name or (size == 0 and name.endswith(_FOLDER_MARKERS)):
                continue
            file = SourceFile(name, size, each.get("ETag", "").strip('"'))
            yield Found(file, each["LastModified"].timestamp())


@contextmanager
def _as_lake_errors(url: str) -> Iterator[None]:
    """Raise LakeReadOnly for what S3 does not permit botocore, LakeUnavailable for the rest."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        if error.response["ResponseMetadata"].get("HTTPStatusCode") == 403:
            raise LakeReadOnly(f"lake {url}: not permitted: {error}") from error
        raise LakeUnavailable(f"lake {url}: {error}") from error
    except BotoCoreError as error:
        raise LakeUnavailable(f"lake {url}: {error}") from error
