"""Multipart uploads that killed attempts left open: no listing shows them, and they are paid for.

Spark's committer leaves an attempt's files as open uploads until its job commits. A large file is
copied as an upload, too. Aborting one is always safe: a process that still uses it fails and is
retried.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import datetime

from tidegate.core import layout
from tidegate.lake.attempts import Attempt
from tidegate.lake.bucket_kinds import buckets_of
from tidegate.lake.buckets import Upload
from tidegate.lake.store_protocol import Store

# Spark writes in the first two. Large files are copied into all but the first.
_WRITTEN = (layout.STAGING, layout.QUARANTINE, layout.PLACING, layout.DATA)
_ATTEMPT = re.compile(r"(_tidegate/(?:staging/[^/]+/\d+|quarantine/[^/]+)/[^/]+/)")
_STAGED = re.compile(rf"{layout.STAGING}([^/]+)/(\d+)/([^/]+)/")


def open_uploads(store: Store) -> list[Upload]:
    """Return the uploads of all attempts of a pipeline, oldest first."""
    return sorted(buckets_of(store.url).open_uploads(store.url, _WRITTEN))


def abort_uploads(
    store: Store, *, before: datetime, in_progress: Collection[str] = ()
) -> list[Upload]:
    """Abort the uploads that were started before a time; return them.

    Those of sealed attempts and of the attempt directories `in_progress` are kept.
    """
    due = [upload for upload in open_uploads(store) if upload.started < before]
    attempts = {attempt_of(upload) for upload in due} - set(in_progress)
    unsealed = {each for each in attempts if not _is_sealed(store, each)}
    due = [upload for upload in due if attempt_of(upload) in unsealed]
    if due:
        buckets_of(store.url).abort_uploads(store.url, due)
    return due


def attempt_of(upload: Upload) -> str:
    """Return the directory of the attempt that started an upload. Empty for a copy."""
    found = _ATTEMPT.match(upload.path)
    return found[1] if found else ""


def _is_sealed(store: Store, directory: str) -> bool:
    """Return whether the attempt of a directory has its manifest."""
    staged = _STAGED.fullmatch(directory)
    if staged is None:
        return False
    return store.size(Attempt(staged[1], int(staged[2]), staged[3]).manifest_path) is not None
