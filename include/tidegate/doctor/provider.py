"""The doctor's check of the class that Spark takes for the short name `kafka`, without a JVM."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tidegate.doctor.check import Line, failure, ok
from tidegate.launch import jars, spark_home, spark_jars
from tidegate.launch.spark_connection import LOCAL, SparkConnection

_SERVICES = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
# In the constants of a class file: a text of five bytes.
_SHORT_NAME = b"\x01\x00\x05kafka"
_CONNECTOR = "spark-sql-kafka-0-10"


def check_provider(conf: Mapping[str, str], spark: SparkConnection = LOCAL) -> Iterator[Line]:
    """Check that exactly one jar provides `kafka`: of the connection's, those in Spark that are
    named after Kafka, and `spark.jars` of the settings as far as they are on this machine.
    """
    own = _given(spark)
    given = list(_local(conf.get("spark.jars", "")))
    in_spark = _of_spark(spark.home or spark_home.find_spark())
    found = [(jar, name) for jar in (*own, *in_spark, *given) for name in providers(jar)]
    if missing := [str(jar) for jar in given if not jar.is_file()]:
        yield failure("provider", f"spark.jars: not there: {', '.join(missing)}", "correct it")
    if _CONNECTOR in conf.get("spark.jars.packages", ""):
        says = "spark.jars.packages names the connector, which Tidegate adds: Spark finds two"
        yield failure("provider", says, "take it out of spark.jars.packages")
    shown = "; ".join(f"{name} in {jar}" for jar, name in found)
    if spark.jars == spark_jars.PACKAGES and not found:
        yield ok("provider", "`kafka` is in what Spark fetches when an application starts")
    elif not found:
        says = "no jar provides Spark's data source `kafka`"
        command = f"tidegate jars{f' --spark-home {spark.home}' if spark.home else ''}"
        yield failure("provider", says, f"run `{command}`; the cache is {jars.cache_dir()}")
    elif len(found) > 1:
        says = f"{len(found)} jars provide Spark's data source `kafka`: {shown}"
        fix = "take all but the first away: Tidegate adds the connector of Spark's own version"
        yield failure("provider", says, fix)
    else:
        yield ok("provider", f"`kafka` is {shown}")


def providers(jar: Path) -> list[str]:
    """Return the classes in a jar that Spark's lookup by the short name `kafka` finds."""
    try:
        with zipfile.ZipFile(jar) as content:
            listed = content.read(_SERVICES).decode(errors="replace").splitlines()
            names = dict.fromkeys(line.partition("#")[0].strip() for line in listed)
            return [name for name in names if name and _SHORT_NAME in _class(content, name)]
    except (OSError, KeyError, zipfile.BadZipFile):
        return []  # no jar, or one without data sources. The check of the jars names it


def _class(content: zipfile.ZipFile, name: str) -> bytes:
    try:
        return content.read(f"{name.replace('.', '/')}.class")
    except KeyError:
        return b""


def _given(spark: SparkConnection) -> Iterable[Path]:
    if spark.jars == spark_jars.CACHE:
        locked = jars.read_lock(spark_jars.lock_of(spark_jars.KAFKA, spark.home))
        return [jars.cache_dir() / "jars" / jar.file for jar in locked]
    return spark_jars.jar_files(spark.jars, spark_jars.KAFKA, spark.home)


def _of_spark(home: Path | None) -> Iterable[Path]:
    return sorted(home.glob("jars/*kafka*.jar")) if home else ()


def _local(listed: str) -> Iterator[Path]:
    """Yield the files of `spark.jars` on this machine. A pattern that matches nothing is itself."""
    for each in filter(None, map(str.strip, listed.split(","))):
        url = urlsplit(each)
        if url.scheme in ("", "file", "local"):
            path = Path(unquote(url.path) if url.scheme else each).absolute()
            yield from sorted(Path("/").glob(str(path)[1:])) or [path]
