"""Objects of the tests' bucket, by botocore: neither Tidegate nor Spark."""

import re

from tidegate_local.s3 import Server

BUCKET = "lakes"
JSON = {"format": "json", "columns": "k STRING, v STRING"}
"""A source of lines with these two keys."""


def key(url: str, name: str = "") -> str:
    """Return the key of an object below a URL of the bucket."""
    return f"{url.removeprefix(f's3://{BUCKET}/')}/{name}"


def keys(s3: Server, url: str, pattern: str = "") -> list[str]:
    """Return the keys of the objects below a URL, relative to it, that match a pattern."""
    prefix = key(url)
    pages = s3.client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
    names = [
        each["Key"].removeprefix(prefix) for page in pages for each in page.get("Contents", ())
    ]
    return sorted(name for name in names if re.search(pattern, name))


def content(s3: Server, url: str, name: str) -> bytes:
    return s3.client().get_object(Bucket=BUCKET, Key=key(url, name))["Body"].read()


def uploads(s3: Server, url: str) -> list[str]:
    """Return the keys, relative to a URL, of multipart uploads that are open below it."""
    found = s3.client().list_multipart_uploads(Bucket=BUCKET, Prefix=key(url))
    return [each["Key"].removeprefix(key(url)) for each in found.get("Uploads", ())]
