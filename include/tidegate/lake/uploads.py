"""Multipart uploads that killed attempts left open: no listing shows them, and they cost money.

Spark's committer leaves an attempt's files as open uploads until its job commits. Ending one is
never wrong, only a pity: an attempt that still lives then fails, and the next try writes anew.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

import botocore.exceptions

from tidegate.errors import LakeReadOnly, LakeUnavailable
from tidegate.lake import s3
from tidegate.lake.attempts import SEAL
from tidegate.lake.store import Store

_WRITTEN_BY_SPARK = ("_tidegate/staging/", "_tidegate/quarantine/")
_ATTEMPT = re.compile(r"(_tidegate/(?:staging/[^/]+/\d+|quarantine/[^/]+)/[^/]+/)")


@dataclass(frozen=True, order=True)
class Upload:
    """An open upload; `path` is what it would become."""

    begun: datetime
    path: str
    id: str

    @property
    def attempt(self) -> str:
        """The directory of the attempt that began it."""
        found = _ATTEMPT.match(self.path)
        return found[1] if found else ""


def left_open(store: Store) -> list[Upload]:
    """Return the uploads of all attempts of a pipeline, oldest first; only S3 has any."""
    if not store.url.startswith("s3://"):
        return []
    bucket, prefix = _place(store)
    found = []
    with _as_lake_errors(store):
        pages = s3.client().get_paginator("list_multipart_uploads")
        for below in _WRITTEN_BY_SPARK:
            for page in pages.paginate(Bucket=bucket, Prefix=prefix + below):
                found += [
                    Upload(each["Initiated"], each["Key"].removeprefix(prefix), each["UploadId"])
                    for each in page.get("Uploads", ())
                ]
    return sorted(found)


def end(store: Store, *, before: datetime, living: Collection[str] = ()) -> list[Upload]:
    """End the uploads that were begun before a moment; return them.

    Not those of sealed attempts, nor of the directories in `living`: somebody works there.
    """
    due = [upload for upload in left_open(store) if upload.begun < before]
    attempts = {upload.attempt for upload in due} - set(living)
    given_up = {each for each in attempts if store.size(each + SEAL) is None}
    due = [upload for upload in due if upload.attempt in given_up]
    if due:
        bucket, prefix = _place(store)
        with _as_lake_errors(store):
            client = s3.client()
            for each in due:
                with suppress(client.exceptions.NoSuchUpload):
                    client.abort_multipart_upload(
                        Bucket=bucket, Key=prefix + each.path, UploadId=each.id
                    )
    return due


def _place(store: Store) -> tuple[str, str]:
    """Return bucket, and what stands before a path in its keys."""
    url = urlsplit(store.url)
    return url.netloc, f"{url.path.strip('/')}/"


@contextmanager
def _as_lake_errors(store: Store) -> Iterator[None]:
    try:
        yield
    except botocore.exceptions.ClientError as error:
        if error.response["ResponseMetadata"].get("HTTPStatusCode") == 403:
            raise LakeReadOnly(f"lake {store.url}: not permitted: {error}") from error
        raise LakeUnavailable(f"lake {store.url}: {error}") from error
    except botocore.exceptions.BotoCoreError as error:
        raise LakeUnavailable(f"lake {store.url}: {error}") from error
