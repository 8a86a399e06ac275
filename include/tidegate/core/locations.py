"""Where lakes and sources of files may be: directories, and buckets by the scheme of their URL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class SparkLibrary(NamedTuple):
    """Jars that Spark does not contain: their lock, their artifact, and one jar to know them by.

    `has_package`: Spark can fetch them by coordinates of its own version.
    """

    lock: str
    artifact: str
    jar: str
    has_package: bool = True


@dataclass(frozen=True)
class Scheme:
    """The scheme of URLs of one kind of bucket.

    `hadoop_name` is the scheme by which Hadoop opens the same objects, with the jars of `library`.
    `synonyms` are schemes that other tools use for it. `is_atomic`: a file that Hadoop writes
    appears as a whole when it is closed, and renaming it would copy it. `access` says what to do
    where a request is not permitted. `secrets` are variables of the environment, each with the name
    of Hadoop's setting that takes it: the driver sets it while it runs, and no command line has it.
    It does so for the schemes that `IN_USE` names.
    """

    name: str
    title: str
    hadoop_name: str
    synonyms: frozenset[str]
    library: SparkLibrary
    access: str
    is_atomic: bool
    bucket: str = "bucket"
    form: re.Pattern[str] = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/|\Z)")
    secrets: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def example(self) -> str:
        """A URL of this scheme."""
        return f"{self.name}://{self.bucket}/data"


IN_USE = "tidegate.buckets"
"""Hadoop's setting with the schemes of an application's places whose secrets it needs."""
SCHEMES = (
    Scheme(
        "s3",
        "S3",
        hadoop_name="s3a",
        synonyms=frozenset({"s3a", "s3n", "S3"}),
        library=SparkLibrary("spark-s3", "spark-hadoop-cloud", "hadoop-aws"),
        access="check AWS_ACCESS_KEY_ID and what its owner may do",
        is_atomic=True,
    ),
    Scheme(
        "gs",
        "Google Cloud Storage",
        hadoop_name="gs",
        synonyms=frozenset({"gcs"}),
        library=SparkLibrary("spark-gcs", "gcs-connector", "gcs-connector", has_package=False),
        access="check GOOGLE_APPLICATION_CREDENTIALS and what its account may do",
        is_atomic=True,
    ),
    Scheme(
        "abfss",
        "Azure Blob Storage",
        hadoop_name="abfs",  # over TLS, too, unless a setting says otherwise
        synonyms=frozenset({"abfs", "az", "azure"}),
        library=SparkLibrary("spark-azure", "hadoop-azure", "hadoop-azure", has_package=False),
        access="check the AZURE_* variables and what their owner may do",
        is_atomic=False,
        bucket="container@account.dfs.core.windows.net",
        form=re.compile(r"[a-z0-9][a-z0-9-]*@[a-z0-9]+\.dfs\.core\.windows\.net(/|\Z)"),
        secrets={
            "AZURE_STORAGE_ACCOUNT_KEY": "fs.azure.account.key",
            "AZURE_CLIENT_SECRET": "fs.azure.account.oauth2.client.secret",
        },
    ),
)
_REFUSED = {
    "hdfs": "its create was not proven to have one winner",
    **dict.fromkeys(("wasb", "wasbs"), "its create has several winners; use abfss://"),
}
"""Schemes that cannot hold a ledger, and why."""


def find_scheme(url: str) -> Scheme | None:
    """Return the scheme of a bucket's URL, as users or as Spark write it. None for all else."""
    name = url.partition("://")[0]
    return next((each for each in SCHEMES if name in (each.name, each.hadoop_name)), None)


def schemes_of(places: Iterable[str]) -> list[Scheme]:
    """Return the schemes of places, each once."""
    found = map(find_scheme, places)
    return list(dict.fromkeys(scheme for scheme in found if scheme is not None))


def native_url(url: str) -> str:
    """Return a URL as Spark writes it."""
    scheme = find_scheme(url)
    if scheme is None:
        return url
    return url.replace(f"{scheme.name}://", f"{scheme.hadoop_name}://", 1)


def without_scheme(place: str) -> str:
    """Return what is behind the scheme of a URL: of a bucket, its name and a key. A path stays."""
    return re.sub(r"\A[a-z][a-z0-9+.-]*://(?:([^/@]*)@[^/]*)?", r"\1", place)


def location_complaint(path: str) -> str | None:
    """Return why an absolute path or a URL is none that Tidegate reads and writes. None if it is.

    Only its form is judged.
    """
    name, is_url, rest = path.partition("://")
    if not is_url:
        return None if path.startswith("/") else "neither an absolute path nor a URL"
    if name == "file":
        return None if rest.startswith("/") else "a file URL is file:///and/a/path"
    for scheme in SCHEMES:
        if name == scheme.name:
            return None if scheme.form.match(rest) else f"no bucket: {scheme.example}"
        if name in scheme.synonyms:
            return f"{name}:// is not supported; use {scheme.name}://"
    if name in _REFUSED:
        return f"{name}:// is not supported: {_REFUSED[name]}"
    examples = " or ".join(scheme.example for scheme in SCHEMES)
    return f"{name}:// is not supported; use a directory (/data, file:///data) or {examples}"


def unsafe_characters(url: str) -> list[str]:
    """Return the characters of a URL that obstore, Spark and pyarrow encode differently."""
    return sorted(set(re.findall(r"[\s%?#]", url)))
