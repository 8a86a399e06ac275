"""The jars that Spark needs besides its own, from where the Spark connection says.

`cache`: the pinned ones of Spark's minor version, which `tidegate jars` has fetched. A directory:
what is in it. `packages`: Spark fetches them, in its own version. `image`: they are among Spark's
own jars.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tidegate.core.locations import SCHEMES, Scheme, SparkLibrary
from tidegate.errors import ConfigurationError
from tidegate.launch import jars, spark_home
from tidegate.settings import spark_conf, spark_lines

CACHE, PACKAGES, IMAGE = "cache", "packages", "image"
OF_PODS = "image of the pods"
"""What `image` means where driver and executors are pods: this machine cannot look into it."""
KAFKA = SparkLibrary("spark-kafka", "spark-sql-kafka-0-10", "spark-sql-kafka-0-10")
TIMESTAMPS = Path(__file__).with_name("jars") / "source-timestamps.jar"
"""The only class of Tidegate: `SourceTimestamps.java` beside it, by `make jars-own`."""
_CONNECTOR = re.compile(r"spark-sql-kafka-0-10_(\d+\.\d+)-(\d+\.\d+)\b")


def lock_of(library: SparkLibrary, home: Path | None) -> str:
    """Return the lock with the jars of a library for a Spark. None is the installed one.

    Raises ConfigurationError if that Spark has no lock.
    """
    found = _lock(library, home)
    if not jars.is_lock(found):
        spark = f"Spark {found.rpartition('-')[2]}"
        raise ConfigurationError(f"jars: there is no {library.jar} for {spark} in {CACHE}")
    return found


def _lock(library: SparkLibrary, home: Path | None) -> str:
    line = spark_lines.line_of(spark_home.spark_version(home)[1]) if home else spark_lines.PINNED
    return library.lock if line == spark_lines.PINNED else f"{library.lock}-{line}"


def locks_of(home: Path) -> list[str]:
    """Return the locks that there are for a Spark. ConfigurationError if none has the connector."""
    others = [found for each in SCHEMES if jars.is_lock(found := _lock(each.library, home))]
    return [lock_of(KAFKA, home), *others]


def jar_files(source: str, library: SparkLibrary, home: Path | None) -> list[Path]:
    """Return a library's files, to be given to Spark. JarError if the cache lacks one."""
    if source == CACHE:
        return jars.lock_paths(lock_of(library, home))
    if source in (PACKAGES, IMAGE, OF_PODS):
        return []
    found = sorted(Path(source).glob("*.jar"))
    is_kafka = library == KAFKA
    return [jar for jar in found if bool(spark_conf.CONNECTOR.search(jar.name)) == is_kafka]


def package_coordinates(source: str, library: SparkLibrary, home: Path | None) -> str:
    """Return the coordinates that Spark is to fetch for a library; empty: none."""
    if source != PACKAGES:
        return ""
    scala, version = spark_home.spark_version(home or spark_home.home())
    return f"org.apache.spark:{library.artifact}_{scala}:{version}"


def refuse_lacking_bucket(source: str, scheme: Scheme, home: Path | None) -> None:
    """Raise ConfigurationError if Spark cannot open buckets of a scheme with the jars it has."""
    if home and spark_lines.is_partial(number := spark_home.spark_version(home)[1]):
        raise ConfigurationError(
            f"{home} is Spark {number}: a lake or files in {scheme.title} need Spark 4.0 or later"
        )
    refuse_missing(source, scheme.library, home)


def refuse_missing(source: str, library: SparkLibrary, home: Path | None) -> None:
    """Raise ConfigurationError if a source lacks the jars of a library."""
    if source == CACHE:
        lock_of(library, home)
    if source == PACKAGES and not library.has_package:
        raise ConfigurationError(
            f"jars: {PACKAGES}: Spark cannot fetch {library.artifact} so; write {CACHE}, {IMAGE} "
            "or a directory"
        )
    if source in (CACHE, PACKAGES, OF_PODS):
        return
    directory = (home or spark_home.home()) / "jars" if source == IMAGE else Path(source)
    if not any(directory.glob(f"{library.jar}*.jar")):
        raise ConfigurationError(f"jars: there is no {library.jar} in {directory}")


def connector_complaint(source: str, home: Path | None) -> str | None:
    """Return why a Spark cannot use the connector that a source has. None: it can."""
    if source == OF_PODS or not (spark := home or spark_home.find_spark()):
        return None  # reported where it is started
    scala, version = spark_home.spark_version(spark)
    if spark_lines.is_too_old(version):
        return f"{spark} is Spark {version}: {spark_lines.OLDEST} or later is needed"
    try:
        refuse_missing(source, KAFKA, home)
    except ConfigurationError as error:
        others = ", ".join(word for word in (CACHE, PACKAGES, IMAGE) if word != source)
        return f"{error}; write {others} or another directory"
    if source == PACKAGES:
        return None
    line = scala, spark_lines.line_of(version)
    wrong = sorted(set(_lines(source, spark, home)) - {line})
    if not wrong:
        return None
    has = " and ".join(f"{number} (Scala {of})" for of, number in wrong)
    return (
        f"jars: Kafka's connector there is of Spark {has}, and {spark} is Spark {version} (Scala "
        f"{scala}); write {PACKAGES}, or a directory with the connector of Spark {line[1]}"
    )


def _lines(source: str, spark: Path, home: Path | None) -> Iterable[tuple[str, str]]:
    """Return Scala's version and Spark's minor version of each connector of a source."""
    if source == CACHE:
        names = [jar.file for jar in jars.read_lock(lock_of(KAFKA, home))]
    else:
        directory = spark / "jars" if source == IMAGE else Path(source)
        names = [jar.name for jar in directory.glob("*.jar")]
    return [(match[1], match[2]) for name in names if (match := _CONNECTOR.match(name))]
