"""The kinds of buckets: one module each."""

from __future__ import annotations

from tidegate.lake.buckets import Buckets


def buckets_of(url: str) -> Buckets:
    """Return the kind of the buckets of a URL."""
    match url.partition("://")[0]:
        case "s3":
            from tidegate.lake.s3_buckets import S3

            return S3()
        case "gs":
            from tidegate.lake.gcs_buckets import GoogleStorage

            return GoogleStorage()
        case "abfss":
            from tidegate.lake.azure_buckets import AzureBlobs

            return AzureBlobs()
    return Buckets()
