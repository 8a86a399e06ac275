"""The jars that PySpark does not contain, pinned with hashes by the lock files in this directory.

A lock is a flat list of lines `group:artifact:version[:classifier] sha256`. Nothing is resolved
beyond it. Ivy, which PySpark contains, fetches the jars from its default repository. Its cache is
not kept.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from tidegate.core.locations import SCHEMES
from tidegate.errors import ConfigurationError, JavaMissing, TidegateError
from tidegate.launch import environment, spark_home
from tidegate.launch.file_lock import hold_lock

OF_SPARK = ("spark-kafka", *(scheme.library.lock for scheme in SCHEMES))
OF_THE_BROKER = "kafka-broker"

_OPTIONS = {**dict.fromkeys(OF_SPARK, ""), OF_THE_BROKER: " --local"}
_OF_ANOTHER_SPARK = " --spark-home DIRECTORY"

_IVY_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="default"/>
  <timeout-constraints>
    <timeout-constraint name="patience" connectionTimeout="10000" readTimeout="60000"/>
  </timeout-constraints>
  <resolvers>
    <ibiblio name="default" m2compatible="true" usepoms="false" useMavenMetadata="false"
             timeoutConstraint="patience"/>
  </resolvers>
</ivysettings>
"""
_ADVICE = {
    "Server access error": "check the network, or Java's proxy settings, and try again",
    "Host ": "check the network, or Java's proxy settings, and try again",
    ": not found": "the place that jars come from does not have it",
}


class JarError(TidegateError):
    """A jar is missing, cannot be fetched, or is not the one that the lock names."""

    exit_code = 2
    fix = "Call `tidegate jars` where the registry of the jars can be reached."


@dataclass(frozen=True)
class Jar:
    """One line of a lock."""

    group: str
    artifact: str
    version: str
    sha256: str
    classifier: str = ""

    @property
    def file(self) -> str:
        return "-".join(filter(None, (self.artifact, self.version, self.classifier))) + ".jar"


def cache_dir() -> Path:
    """Return the directory that outlives checkouts: `$TIDEGATE_CACHE`, or the user's cache.

    ConfigurationError for a user without a home directory.
    """
    chosen, base = os.environ.get("TIDEGATE_CACHE"), os.environ.get("XDG_CACHE_HOME")
    try:
        if chosen:
            return Path(chosen).expanduser().absolute()
        return (Path(base) if base else Path.home() / ".cache") / "tidegate"
    except RuntimeError:  # pathlib's, for an uid without an entry in the user database
        raise ConfigurationError(
            f"user {os.getuid()} has no home directory, and so no cache of jars; set "
            "TIDEGATE_CACHE to the absolute path of a directory"
        ) from None


@contextmanager
def cache_errors() -> Iterator[None]:
    """Raise ConfigurationError if the cache may not be read or written."""
    try:
        yield
    except OSError as error:
        raise ConfigurationError(
            f"the cache {cache_dir()} cannot be used: {error.strerror or error}; correct it, or "
            "set TIDEGATE_CACHE to another directory"
        ) from None


def find_java() -> Path:
    """Return the `java` of JAVA_HOME, else the first on the PATH. Raises JavaMissing."""
    home = os.environ.get("JAVA_HOME")
    path = shutil.which("java", path=f"{home}/bin" if home else None)
    if not path:
        where = f"JAVA_HOME ({home})" if home else "the PATH"
        raise JavaMissing(f"no java in {where}: install Java 17 or 21, or set JAVA_HOME")
    return Path(path)


def lock_names() -> list[str]:
    """Return the names of the locks for the installed Spark and the local stack."""
    return sorted([*OF_SPARK, OF_THE_BROKER])


def is_lock(name: str) -> bool:
    """Return whether there is a lock of this name."""
    return _lock(name).is_file()


def read_lock(name: str) -> list[Jar]:
    """Read the lock `<name>.lock`."""
    lock = _lock(name)
    return parse_lock(lock.read_text(), source=lock.name)


def _lock(name: str) -> Path:
    return Path(__file__).with_name(f"{name}.lock")


def parse_lock(text: str, *, source: str) -> list[Jar]:
    """Parse the text of a lock. Raises JarError, naming `source`, for a wrong line."""
    jars = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        parts = words[0].split(":")
        if len(words) != 2 or len(parts) not in (3, 4) or len(words[1]) != 64:
            raise JarError(
                f"{source}, line {number}: not `group:artifact:version[:classifier] sha256`: {line}"
            )
        group, artifact, version, classifier = (*parts, "")[:4]
        jars.append(Jar(group, artifact, version, words[1], classifier))
    return jars


def lock_paths(name: str) -> list[Path]:
    """Return a lock's files without hashing or fetching them. JarError if one is missing.

    ConfigurationError if the cache cannot be read.
    """
    directory = cache_dir() / "jars"
    files = [directory / jar.file for jar in read_lock(name)]
    with cache_errors():
        missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise JarError(
            f"{len(missing)} of the {len(files)} jars of {name} are not in {directory}"
            f" ({missing[0]}, …): run `tidegate jars{_OPTIONS.get(name, _OF_ANOTHER_SPARK)}`",
            missing=missing,
        )
    return files


def ensure_jars(name: str, spark: Path | None = None) -> list[Path]:
    """Return a lock's files, after fetching those that are missing or have another hash.

    Needs no network if all are valid. Of concurrent callers one fetches, and the others wait. Ivy
    is that of the installed PySpark, or of the Spark whose directory is given.
    """
    directory, jars = cache_dir() / "jars", read_lock(name)
    if any(not is_valid(directory / jar.file, jar) for jar in jars):
        directory.mkdir(parents=True, exist_ok=True)
        with hold_lock(directory / ".lock"):
            for unfinished in directory.glob(".fetch-*"):
                shutil.rmtree(unfinished)
            missing = [jar for jar in jars if not is_valid(directory / jar.file, jar)]
            _fetch(missing, directory, spark)
    return [directory / jar.file for jar in jars]


def is_valid(file: Path, jar: Jar) -> bool:
    """Say whether a file exists and has the hash of the lock."""
    return file.is_file() and _sha256(file) == jar.sha256


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _fetch(jars: Sequence[Jar], directory: Path, spark: Path | None) -> None:
    # One jar first: without a network that costs one timeout, not one for each jar.
    for batch in filter(None, (jars[:1], jars[1:])):
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=directory) as temporary:
            _run_ivy(batch, Path(temporary), spark)
            for jar in batch:
                fetched = Path(temporary) / jar.file
                if not is_valid(fetched, jar):
                    raise JarError(
                        f"{jar.file} was fetched but is not the one in the lock: expected SHA-256"
                        f" {jar.sha256}, got {_sha256(fetched)}: find out what serves it",
                        expected=jar.sha256,
                    )
                fetched.replace(directory / jar.file)


def _run_ivy(jars: Sequence[Jar], into: Path, spark: Path | None) -> None:
    """Fetch jars into a directory; raises JarError."""
    dependencies = "\n".join(
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)}"
        f' rev={quoteattr(jar.version)} conf="jars->default" transitive="false">'
        f'<artifact name={quoteattr(jar.artifact)} type="jar"'
        + (f" m:classifier={quoteattr(jar.classifier)}" if jar.classifier else "")
        + "/></dependency>"
        for jar in jars
    )
    settings, module = into / "settings.xml", into / "ivy.xml"
    settings.write_text(_IVY_SETTINGS)
    module.write_text(
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="tidegate" module="jars"/>'
        '<configurations><conf name="jars"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )
    # fmt: off
    run = subprocess.run(
        [
            find_java(), "-jar", _ivy_jar(spark), "-settings", settings, "-ivy", module,
            "-confs", "jars", "-cache", into / "cache",
            "-retrieve", into / "[artifact]-[revision](-[classifier]).[ext]",
        ],
        env={**os.environ, **environment.withheld_variables()},
        capture_output=True, text=True, check=False,
    )
    # fmt: on
    if run.returncode != 0 or not all((into / jar.file).is_file() for jar in jars):
        others = f" and {len(jars) - 1} more" if len(jars) > 1 else ""
        raise JarError(f"could not fetch {jars[0].file}{others}: {_cause(run)}")


def _ivy_jar(spark: Path | None) -> Path:
    home = spark or spark_home.find_spark()
    for jar in home.glob("jars/ivy-2*.jar") if home else ():
        return jar
    raise JarError("PySpark, which has Ivy, is not installed: pip install 'tidegate[spark]'")


def _cause(run: subprocess.CompletedProcess[str]) -> str:
    """Return the first line of Ivy's output that names the cause, with advice."""
    lines = [line.strip() for line in (run.stdout + run.stderr).splitlines()]
    for mark, advice in _ADVICE.items():
        for line in lines:
            if mark in line:
                return f"{line.strip(': ')}: {advice}"
    return f"Ivy ended with {run.returncode}: {next(filter(None, reversed(lines)), 'no output')}"
