"""Set Tidegate up: check the machine, then fill `.venv` and the jar cache.

`python3 -m tidegate_local.bootstrap` runs with whatever `python3` there is, before anything is
installed: the standard library only, and nothing newer than Python 3.8 outside of what runs in
`.venv`. Repeating it is free.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import MappingProxyType
from typing import Iterator, Mapping, Sequence  # noqa: UP035

from tidegate_local import machine
from tidegate_local.machine import SetupError

ROOT = Path(__file__).resolve().parents[2]
RUN_JARS = """\
import sys
from tidegate import errors
from tidegate.launch import jars
try:
    [jars.{}(name) for name in jars.lock_names()]
except errors.TidegateError as error:
    sys.exit(str(error))
"""
"""What `.venv` runs with `lock_paths` or `ensure_jars`. Fails with one line if a jar is missing."""

# The build backend of those packages that come as source: they are built without isolation.
_BACKEND = ("setuptools", "wheel", "packaging")
_NO_NETWORK = re.compile(
    "NewConnectionError|NameResolutionError|ConnectTimeoutError|ProxyError|Network is unreachable"
    "|error sending request|dns error|tcp connect error"
)
_UV_SETTINGS = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
}
"""Where packages come from, in pip's configuration and in uv's environment."""


def main() -> int:
    try:
        set_up(ROOT)
    except SetupError as error:
        print(f"tidegate: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"tidegate: setup failed: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("tidegate: setup interrupted: run it again to go on", file=sys.stderr)
        return 130
    return 0


def set_up(root: Path) -> None:
    """Make `.venv` and the jar cache what the lock files say. Does nothing when they are."""
    machine.check_system()
    venv = Venv(root)
    if venv.is_current() and venv.has_jars():
        return
    with _locked(root):
        python = None if venv.has_packages() else machine.find_python(os.environ)
        machine.check_java(os.environ)
        if python:
            venv.install_packages(python)
        if not venv.is_current():
            venv.install_project()
        if not venv.has_jars():
            venv.fetch_jars()
        venv.archive_classes()


class Venv:
    """The project's `.venv`.

    The stamp says for which locked packages and for which pyproject.toml it is complete. It is
    written last. `installing` is there while packages are put in: found at the start of a run it
    means that one was killed, and a half-installed package looks like a whole one to pip.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / ".venv"
        self.python = self.home / "bin" / "python"
        self.log = self.home / "setup.log"
        self._lock = root / "requirements.txt"
        self._stamp = self.home / "tidegate-setup.json"
        self._installing = self.home / "installing"

    def is_current(self) -> bool:
        return self._stamped() == {"packages": self._packages(), "project": self._project()}

    def has_packages(self) -> bool:
        return self._stamped().get("packages") == self._packages() and bool(
            machine.probe(str(self.python))
        )

    def has_jars(self) -> bool:
        """Say whether all jars are there. They were checked when they were fetched."""
        try:
            return self._run_jars("lock_paths").returncode == 0
        except OSError:  # the Python that .venv was made with is gone: it is made again
            return False

    def install_packages(self, python: machine.Python) -> None:
        if not self._can_be_completed():
            self._refuse_under_running_processes()
            machine.check_disk(self.root)
            self._clear()
        self.home.mkdir(exist_ok=True)
        self._installing.touch()
        self._stamp.unlink(missing_ok=True)
        if not self.python.exists():
            with _step("environment with Python {}.{}".format(*python.version)):
                self._run([python.path, "-m", "venv", str(self.home)], "could not make .venv")
        lines = self._lock.read_text(encoding="utf-8")
        count = len(re.findall(r"^[\w.-]+==", lines, re.M))
        with _step(f"{count} locked packages, up to two minutes"):
            for name, packages in (("uv", ("uv",)), ("backend", _BACKEND)):
                part = self.home / f"{name}.lock"
                part.write_text(_only(packages, lines), encoding="utf-8")
            pip = [str(self.python), "-m", "pip", "install", "--no-input", "--retries", "2"]
            locked = ["--require-hashes", "--no-deps"]
            self._run([*pip, *locked, "-r", str(self.home / "uv.lock")], "pip failed")
            self._uv(*locked, "-r", str(self.home / "backend.lock"))
            # Where Python may not write byte code, each start would compile all that it imports.
            self._uv(*locked, "--compile-bytecode", "-r", str(self._lock))
        self._check_pyspark()
        self._write_stamp(packages=self._packages(), project="")
        self._installing.unlink()

    def install_project(self) -> None:
        with _step("Tidegate itself"):
            self._uv("--no-deps", "-e", str(self.root))
            sources = [str(self.python), "-m", "compileall", "-q", str(self.root / "include")]
            self._run(sources, "could not compile the sources")
        self._write_stamp(packages=self._packages(), project=self._project())

    def fetch_jars(self) -> None:
        with _step("jars"):
            run = self._run_jars("ensure_jars")
            if run.returncode != 0:
                raise SetupError(_last_line(run.stderr) or "the jars could not be fetched")

    def archive_classes(self) -> None:
        """Make Spark start in half the time. Without the archive it starts more slowly."""
        code = (
            "import sys; from tidegate.launch.spark_submit import ensure_archive; "
            "sys.exit(ensure_archive(print) is None)"
        )
        try:
            with _step("an archive of Spark's classes, about a minute, once"):
                self._run([str(self.python), "-c", code], "no archive")
        except SetupError as error:
            print(f"tidegate: {error}; Spark starts more slowly without it")

    def _refuse_under_running_processes(self) -> None:
        """Raise where something runs from the packages that would be exchanged below it."""
        ours = os.fsencode(str(self.home / "bin") + os.sep)
        running = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                argv = (process / "cmdline").read_bytes().split(b"\0")[:2]
            except OSError:  # it has ended meanwhile
                continue
            if int(process.name) != os.getpid() and any(word.startswith(ours) for word in argv):
                running.append(process.name)
        if running:
            raise SetupError(
                "the packages are to be exchanged, and processes run from {} (pid {}): stop them"
                " first, a local stack by `.venv/bin/tidegate local down`".format(
                    self.home, ", ".join(sorted(running, key=int)[:10])
                )
            )

    def _can_be_completed(self) -> bool:
        """Say whether pip may go on here: not after a kill, nor over other locked versions.

        (PySpark and its client share files, which an upgrade in place would delete.)
        """
        if self._installing.exists() or self._stamp.exists():
            return False
        found = machine.probe(str(self.python))
        return found is not None and found.version in machine.PYTHONS

    def _clear(self) -> None:
        for path in self.home.iterdir() if self.home.exists() else ():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path != self._installing:  # goes last: this run may be killed as well
                path.unlink()

    def _check_pyspark(self) -> None:
        code = (
            "from importlib.metadata import version as v; print(v('pyspark'), v('pyspark-client'))"
        )
        versions = (machine.output([str(self.python), "-c", code]) or "").split()
        if len(set(versions)) != 1:
            raise SetupError(
                f"pyspark and pyspark-client differ ({' and '.join(versions) or 'missing'}), and"
                " share their files: give both one version in pyproject.toml, then `make lock`"
            )

    def _uv(self, *arguments: str) -> None:
        """Let uv install from where pip would."""
        listed = machine.output([str(self.python), "-m", "pip", "config", "list"]) or ""
        # The environment's settings come first in pip's list, and win.
        pip = dict(reversed(re.findall(r"^[^=]*\.([a-z-]+)='(.*)'$", listed, re.M)))
        settings = {
            uv: pip[of_pip].replace("\\n", " ")
            for of_pip, uv in _UV_SETTINGS.items()
            if of_pip in pip
        }
        command = [str(self.home / "bin" / "uv"), "pip", "install", "--python", str(self.python),
                   "--no-build-isolation", "--index-strategy", "unsafe-best-match"]  # fmt: skip
        self._run([*command, *arguments], "uv failed", settings)

    def _run(
        self, command: Sequence[str], what: str, env: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Run a command into the log, with more environment. Reduce its failure to one line."""
        with self.log.open("ab") as log:
            start = log.tell()
            code = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**env, **machine.clean_env()},
            ).returncode
        if code == 0:
            return
        with self.log.open("rb") as log:
            log.seek(start)
            output = log.read().decode(errors="replace")
        if _NO_NETWORK.search(output):
            raise SetupError(
                "no network: packages cannot be fetched (or pip needs a proxy or index)"
            )
        if "No space left on device" in output:
            raise SetupError(f"the disk is full ({self.home}, or a cache, or TMPDIR): make room")
        errors = re.findall(r"^(?:ERROR|error): *(.*(?:\n +cause: .*)?)", output, re.M)
        reason = re.sub(r"\n +cause:", ":", errors[0]) if errors else _last_line(output)
        raise SetupError(f"{what}: {reason} (all of it is in {self.log})")

    def _run_jars(self, function: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.python), "-c", RUN_JARS.format(function)],
            capture_output=True,
            text=True,
            env=machine.clean_env(),
        )

    def _stamped(self) -> dict[str, str]:
        try:
            stamp = json.loads(self._stamp.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return {}
        return dict(stamp)

    def _write_stamp(self, **stamp: str) -> None:
        temporary = self._stamp.with_suffix(".new")
        temporary.write_text(json.dumps(stamp), encoding="utf-8")
        temporary.replace(self._stamp)

    def _packages(self) -> str:
        """Hash what the installed packages depend on: the lock, the Python, and the place."""
        try:
            python = (self.home / "pyvenv.cfg").read_bytes()
        except FileNotFoundError:
            python = b""
        return _sha256(self._lock.read_bytes(), python, os.fsencode(self.root))

    def _project(self) -> str:
        return _sha256((self.root / "pyproject.toml").read_bytes())


def _only(names: Sequence[str], lock: str) -> str:
    """Keep the entries of a lock that are about the given packages."""
    entries = re.split(r"^(?=\S)", lock, flags=re.M)
    return "".join(entry for entry in entries if entry.partition("==")[0] in names)


def _sha256(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2]


@contextlib.contextmanager
def _locked(root: Path) -> Iterator[None]:
    """Let one setup run at a time. The kernel lets go when this process ends."""
    import fcntl  # not everywhere, and a wrong system should hear so in words

    handle = os.open(str(root), os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("tidegate: waiting for another setup to end", flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def _step(what: str) -> Iterator[None]:
    print(f"tidegate: {what} … ", end="", flush=True)
    began = time.monotonic()
    try:
        yield
    except BaseException:
        print(flush=True)
        raise
    print(f"{time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
