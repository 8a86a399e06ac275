"""Multipart uploads that killed attempts left open: no listing shows them, and they are paid for.

Spark's committer leaves an attempt's files as open uploads until its job commits. A large file is
copied as an upload, too. Aborting one is always safe: a process that still uses it fails and is
retried.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from tidegate.core import layout
from tidegate.lake import s3_settings
from tidegate.lake.attempts import Attempt
from tidegate.lake.store_errors import as_lake_errors_of_s3
from tidegate.lake.store_protocol import Store

# Spark writes in the first two. Large files are copied into all but the first.
_WRITTEN = (layout.STAGING, layout.QUARANTINE, layout.PLACING, layout.DATA)
_ATTEMPT = re.compile(r"(_tidegate/(?:staging/[^/]+/\d+|quarantine/[^/]+)/[^/]+/)")
_STAGED = re.compile(rf"{layout.STAGING}([^/]+)/(\d+)/([^/]+)/")


@dataclass(frozen=True, order=True)
class Upload:
    """An open upload. `path` is that of the object to be."""

    started: datetime
    path: str
    id: str

    @property
    def attempt(self) -> str:
        """The directory of the attempt that started it. Empty for a copy."""
        found = _ATTEMPT.match(self.path)
        return found[1] if found else ""


def open_uploads(store: Store) -> list[Upload]:
    """Return the uploads of all attempts of a pipeline, oldest first; only S3 has any."""
    if not store.url.startswith("s3://"):
        return []
    bucket, prefix = s3_settings.bucket_and_prefix(store.url)
    found = []
    with as_lake_errors_of_s3(store.url):
        pages = s3_settings.s3_client().get_paginator("list_multipart_uploads")
        for below in _WRITTEN:
            for page in pages.paginate(Bucket=bucket, Prefix=prefix + below):
                found += [
                    Upload(each["Initiated"], each["Key"].removeprefix(prefix), each["UploadId"])
                    for each in page.get("Uploads", ())
                ]
    return sorted(found)


def abort(store: Store, *, before: datetime, in_progress: Collection[str] = ()) -> list[Upload]:
    """Abort the uploads that were started before a time; return them.

    Those of sealed attempts and of the attempt directories `in_progress` are kept.
    """
    due = [upload for upload in open_uploads(store) if upload.started < before]
    attempts = {upload.attempt for upload in due} - set(in_progress)
    unsealed = {each for each in attempts if not _is_sealed(store, each)}
    due = [upload for upload in due if upload.attempt in unsealed]
    if due:
        bucket, prefix = s3_settings.bucket_and_prefix(store.url)
        with as_lake_errors_of_s3(store.url):
            client = s3_settings.s3_client()
            for each in due:
                with suppress(client.exceptions.NoSuchUpload):
                    client.abort_multipart_upload(
                        Bucket=bucket, Key=prefix + each.path, UploadId=each.id
                    )
    return due


def _is_sealed(store: Store, directory: str) -> bool:
    """Return whether the attempt of a directory has its manifest."""
    staged = _STAGED.fullmatch(directory)
    if staged is None:
        return False
    return store.size(Attempt(staged[1], int(staged[2]), staged[3]).manifest_path) is not None
