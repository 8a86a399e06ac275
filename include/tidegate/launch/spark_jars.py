"""The jars that Spark needs besides its own, from where the Spark connection says.

`cache`: the pinned ones, which `tidegate jars` has fetched. A directory: what is in it. `packages`:
Spark fetches them, in its own version. `image`: they are among Spark's own jars.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tidegate.errors import ConfigurationError
from tidegate.launch import jars, spark_home
from tidegate.settings import spark_conf

CACHE, PACKAGES, IMAGE = "cache", "packages", "image"
KAFKA, S3 = "spark-kafka", "spark-s3"
_ARTIFACTS = {KAFKA: "spark-sql-kafka-0-10", S3: "spark-hadoop-cloud"}
_NEEDED = {KAFKA: _ARTIFACTS[KAFKA], S3: "hadoop-aws"}
_CONNECTOR = re.compile(r"spark-sql-kafka-0-10_(\d+\.\d+)-(\d+\.\d+)\b")


def files(source: str, name: str) -> list[Path]:
    """Return the files to be given to Spark for KAFKA or S3; JarError if the cache lacks one."""
    if source == CACHE:
        return jars.paths(name)
    if source in (PACKAGES, IMAGE):
        return []
    found = sorted(Path(source).glob("*.jar"))
    return [jar for jar in found if bool(spark_conf.CONNECTOR.search(jar.name)) == (name == KAFKA)]


def packages(source: str, name: str, home: Path | None) -> str:
    """Return the coordinates that Spark is to fetch for KAFKA or S3; empty: none."""
    if source != PACKAGES:
        return ""
    scala, version = spark_home.version(home or spark_home.home())
    return f"org.apache.spark:{_ARTIFACTS[name]}_{scala}:{version}"


def refuse_missing(source: str, name: str, home: Path | None) -> None:
    """Raise ConfigurationError if a directory, or Spark, lacks the jars for KAFKA or S3."""
    if source in (CACHE, PACKAGES):
        return
    directory = (home or spark_home.home()) / "jars" if source == IMAGE else Path(source)
    if not any(directory.glob(f"{_NEEDED[name]}*.jar")):
        raise ConfigurationError(f"jars: there is no {_NEEDED[name]} in {directory}")


def complaint(source: str, home: Path | None) -> str | None:
    """Return why a Spark cannot use the connector that a source has; None: it can."""
    if not (spark := home or spark_home.find()):
        return None  # reported where it is started
    try:
        refuse_missing(source, KAFKA, home)
    except ConfigurationError as error:
        return f"{error}; write another directory, {CACHE}, {PACKAGES} or {IMAGE}"
    if source == PACKAGES:
        return None
    scala, version = spark_home.version(spark)
    line = scala, ".".join(version.split(".")[:2])
    wrong = sorted(set(_lines(source, spark)) - {line})
    if not wrong:
        return None
    has = " and ".join(f"{number} (Scala {of})" for of, number in wrong)
    return (
        f"jars: Kafka's connector there is of Spark {has}, and {spark} is Spark {version} (Scala "
        f"{scala}); write {PACKAGES}, or a directory with the connector of Spark {line[1]}"
    )


def _lines(source: str, spark: Path) -> Iterable[tuple[str, str]]:
    """Return Scala's version and Spark's minor version of each connector of a source."""
    if source == CACHE:
        names = [jar.file for jar in jars.read(KAFKA)]
    else:
        directory = spark / "jars" if source == IMAGE else Path(source)
        names = [jar.name for jar in directory.glob("*.jar")]
    return [(match[1], match[2]) for name in names if (match := _CONNECTOR.match(name))]
