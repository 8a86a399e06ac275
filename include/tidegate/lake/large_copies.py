"""Copies within S3 of objects that one request cannot copy: it is slow, and ends at 5 GB.

obstore copies by one request only, and its client waits 30 seconds for the answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tidegate.lake import s3_settings
from tidegate.lake.parallel import in_parallel
from tidegate.lake.store_errors import as_lake_errors_of_s3

PART = 64 * 1024 * 1024
"""Objects above this are copied in parts of this size: each takes seconds, at any store."""
_MOST_PARTS = 10_000  # S3's own bound


def copy(url: str, source: str, target: str, size: int) -> None:
    """Copy an object below a URL in parts. It appears as a whole, or not at all.

    FileNotFoundError where there is no such object. A copy that is killed leaves an open upload.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    bucket, prefix = s3_settings.bucket_and_prefix(url)
    where = {"Bucket": bucket, "Key": prefix + target}
    origin = {"Bucket": bucket, "Key": prefix + source}
    client = s3_settings.s3_client()
    with as_lake_errors_of_s3(url), _missing(source):
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
