"""What a machine must have before anything is installed: Linux, Java, Python, room on the disk.

The standard library only, and nothing newer than Python 3.8: any `python3` runs this.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Mapping, NamedTuple, Sequence  # noqa: UP035

PYTHONS = ((3, 12), (3, 11), (3, 13))
"""In the order in which they are looked for on the PATH."""
JAVAS = (17, 21)
DISK = 4 * 10**9
"""Bytes. An installation takes 1.6 GB, and its packages are unpacked beside it."""


class SetupError(Exception):
    """What is missing and what to do about it, in one line."""


class Python(NamedTuple):
    path: str
    version: tuple[int, int]
    can_make_venv: bool


def check_system() -> None:
    if not sys.platform.startswith("linux"):
        raise SetupError(f"this system is {sys.platform}: Linux is needed, a container will do")


def check_java(env: Mapping[str, str]) -> None:
    """Check the Java that Spark will find: that of JAVA_HOME, else the first on the PATH."""
    home = env.get("JAVA_HOME")
    where = "in JAVA_HOME, " + home if home else "on the PATH"
    java = shutil.which("java", path=home + "/bin" if home else env.get("PATH"))
    advice = "install Java 17 or 21, or set JAVA_HOME to one"
    if java is None:
        raise SetupError(f"no java {where}: {advice}")
    found = re.search(r'version "(?:1\.)?(\d+)', output([java, "-version"]) or "")
    if found is None:
        raise SetupError(f"{java} does not run: {advice}")
    if int(found.group(1)) not in JAVAS:
        raise SetupError(f"{java} is Java {found.group(1)}: {advice}")


def find_python(env: Mapping[str, str]) -> Python:
    """Find a Python that fits: the running one, else any on the PATH that really runs."""
    names = [f"python{major}.{minor}" for major, minor in PYTHONS]
    directories = env.get("PATH", "").split(os.pathsep)
    # Not only the first of a name: version managers put shims on the PATH that just complain.
    candidates = [
        path
        for name in names
        for path in (str(Path(directory, name)) for directory in directories)
        if os.access(path, os.X_OK)
    ]
    unfit = None
    for path in [sys.executable, *candidates]:
        python = probe(path)
        if python is None or python.version not in PYTHONS:
            continue
        if python.can_make_venv:
            return python
        unfit = unfit or python
    if unfit:
        name = "python{}.{}".format(*unfit.version)
        raise SetupError(f"{unfit.path} lacks venv or ensurepip: install {name}-venv")
    running = "{}.{}".format(*sys.version_info[:2])
    raise SetupError(
        f"this is Python {running}, and none of {', '.join(names)} on the PATH runs:"
        " install Python 3.11, 3.12 or 3.13"
    )


def check_disk(directory: Path) -> None:
    free = shutil.disk_usage(directory).free
    if free < DISK:
        raise SetupError(
            f"{free / 1e9:.1f} GB are free in {directory}, {DISK / 1e9:.0f} GB are needed:"
            " make room, or check out Tidegate on a bigger disk"
        )


def probe(path: str) -> Python | None:
    """Ask a Python for its real path and version. None if it does not run."""
    code = (
        "import sys, importlib.util as u;"
        "print(getattr(sys, '_base_executable', sys.executable), sys.version_info[0],"
        "sys.version_info[1], all(map(u.find_spec, ['venv', 'ensurepip'])), sep='\\n')"
    )
    try:
        real, major, minor, venv = (output([path, "-c", code]) or "").splitlines()[-4:]
        return Python(real, (int(major), int(minor)), venv == "True")
    except ValueError:
        return None


def output(command: Sequence[str]) -> str | None:
    """Return what a command prints, on either stream. None if it fails."""
    try:
        run = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=30,
            env=clean_env(),
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return run.stdout if run.returncode == 0 else None


def clean_env() -> dict[str, str]:
    """Return this environment without what would lead a Python to other packages."""
    misleading = {"PYTHONHOME", "PYTHONPATH", "PIP_USER", "PIP_TARGET", "PIP_PREFIX"}
    return {name: value for name, value in os.environ.items() if name not in misleading}
