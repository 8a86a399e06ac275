"""Keep the jars that PySpark does not bring: named, pinned and hashed in the lock files here.

A lock is a flat list, `group:artifact:version sha256` a line; nothing is resolved beyond it.
Jars come through Ivy, which PySpark ships, so there is no Maven to install; Ivy's own place to
fetch from is used, and its own cache is thrown away: what counts is our directory and the hashes.
"""

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from tidegate.errors import TidegateError

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


class JarError(TidegateError):
    """A jar is missing, cannot be fetched, or is not the one that the lock names."""

    exit_code = 2


@dataclass(frozen=True)
class Jar:
    """One line of a lock."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.artifact}-{self.version}.jar"


def cache_dir() -> Path:
    """Return the directory that outlives checkouts: `$TIDEGATE_CACHE`, or the user's cache."""
    if chosen := os.environ.get("TIDEGATE_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tidegate"


def java() -> Path:
    """Return the `java` that runs jars: that of JAVA_HOME, else the first on the PATH."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else None)
    if not found:
        where = f"JAVA_HOME ({home})" if home else "the PATH"
        raise JarError(f"no java in {where}: install Java 17 or 21, or set JAVA_HOME")
    return Path(found)


def names() -> list[str]:
    """Return the names of all locks."""
    return sorted(lock.stem for lock in Path(__file__).parent.glob("*.lock"))


def read(name: str) -> list[Jar]:
    """Read the lock `<name>.lock`."""
    lock = Path(__file__).with_name(f"{name}.lock")
    return parse(lock.read_text(), source=lock.name)


def parse(text: str, *, source: str) -> list[Jar]:
    """Parse the text of a lock; `source` is what a complaint calls it."""
    jars = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2 or words[0].count(":") != 2 or len(words[1]) != 64:
            raise JarError(f"{source}, line {number}: not `group:artifact:version sha256`: {line}")
        group, artifact, version = words[0].split(":")
        jars.append(Jar(group, artifact, version, sha256=words[1]))
    return jars


def paths(name: str) -> list[Path]:
    """Return the files of a set that is here already; looks, but neither hashes nor fetches."""
    directory = cache_dir() / "jars"
    files = [directory / jar.file for jar in read(name)]
    if missing := [file.name for file in files if not file.is_file()]:
        raise JarError(
            f"{len(missing)} of the {len(files)} jars of {name} are not in {directory}"
            f" ({missing[0]}, …): run `make setup`",
            missing=missing,
        )
    return files


def ensure(name: str) -> list[Path]:
    """Return the files of a set, fetching those that are missing or not what the lock says.

    Without a network this succeeds when all are here and right. Callers may race: one fetches,
    the others wait and find everything.
    """
    directory, jars = cache_dir() / "jars", read(name)
    if any(not is_right(directory / jar.file, jar) for jar in jars):
        directory.mkdir(parents=True, exist_ok=True)
        with (directory / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for left_behind in directory.glob(".fetch-*"):
                shutil.rmtree(left_behind)
            _fetch([jar for jar in jars if not is_right(directory / jar.file, jar)], directory)
    return [directory / jar.file for jar in jars]


def is_right(file: Path, jar: Jar) -> bool:
    """Say whether a file is there and is the jar that the lock names."""
    return file.is_file() and _sha256(file) == jar.sha256


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _fetch(jars: Sequence[Jar], directory: Path) -> None:
    # One jar goes ahead: a dead network then costs one timeout, not one for each jar.
    for batch in filter(None, (jars[:1], jars[1:])):
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=directory) as temporary:
            _run_ivy(batch, Path(temporary))
            for jar in batch:
                fetched = Path(temporary) / jar.file
                if not is_right(fetched, jar):
                    raise JarError(
                        f"{jar.file} was fetched but is not the one in the lock: expected SHA-256"
                        f" {jar.sha256}, got {_sha256(fetched)}: find out what serves it",
                        expected=jar.sha256,
                    )
                fetched.replace(directory / jar.file)


def _run_ivy(jars: Sequence[Jar], into: Path) -> None:
    """Have Ivy put the files of `jars` into a directory."""
    dependencies = "\n".join(
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)}"
        f' rev={quoteattr(jar.version)} conf="jars->default" transitive="false"/>'
        for jar in jars
    )
    settings, module = into / "settings.xml", into / "ivy.xml"
    settings.write_text(_IVY_SETTINGS)
    module.write_text(
        '<ivy-module version="2.0"><info organisation="tidegate" module="jars"/>'
        '<configurations><conf name="jars"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )
    # fmt: off
    run = subprocess.run(
        [
            java(), "-jar", _ivy_jar(), "-settings", settings, "-ivy", module, "-confs", "jars",
            "-cache", into / "cache", "-retrieve", into / "[artifact]-[revision].[ext]",
        ],
        capture_output=True, text=True, check=False,
    )
    # fmt: on
    if run.returncode != 0 or not all((into / jar.file).is_file() for jar in jars):
        raise JarError(f"could not fetch {jars[0].file}{_others(jars)}: {_reason(run)}")


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec and spec.origin:
        for jar in Path(spec.origin).parent.glob("jars/ivy-2*.jar"):
            return jar
    raise JarError("PySpark's own Ivy is not installed: run `make setup`")


def _others(jars: Sequence[Jar]) -> str:
    return f" and {len(jars) - 1} more" if len(jars) > 1 else ""


def _reason(run: subprocess.CompletedProcess[str]) -> str:
    """Reduce Ivy's pages of output to the first line that says why."""
    lines = [line.strip() for line in (run.stdout + run.stderr).splitlines()]
    for mark, advice in (
        ("Server access error", "check the network, or Java's proxy settings, and try again"),
        ("Host ", "check the network, or Java's proxy settings, and try again"),
        (": not found", "the place that jars come from does not have it"),
    ):
        for line in lines:
            if mark in line:
                return f"{line.strip(': ')}: {advice}"
    return f"Ivy ended with {run.returncode}: {next(filter(None, reversed(lines)), 'no output')}"
