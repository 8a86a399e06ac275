"""The environment of the Dockerfile's first stage, made here by its own commands."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tidegate.launch import jars

PROJECT = Path(__file__).parents[2]
INSIDE, SOURCE = "/opt/tidegate", "/tmp/source"
FILES = (PROJECT / "Dockerfile").read_text()


@dataclass(frozen=True)
class ImageEnvironment:
    """What the image has at /opt/tidegate, in `directory`."""

    directory: Path

    @property
    def variables(self) -> dict[str, str]:
        """The variables that the Dockerfile sets, with this machine's jars and programs."""
        (inside,) = re.findall(r"\bSPARK_HOME=(\S+)$", FILES, re.MULTILINE)
        spark = inside.replace(INSIDE, str(self.directory))
        places = [f"{self.directory}/.venv/bin", os.environ["PATH"], f"{spark}/bin"]
        return {
            "SPARK_HOME": spark,
            "TIDEGATE_CACHE": str(jars.cache_dir()),
            "PATH": os.pathsep.join(places),
        }


def build(directory: Path) -> ImageEnvironment:
    """Run the commands of the stage `builder` in a directory, with a umask of 077, which the
    project's files had, too.

    uv installs in pip's place, and the jars are those of this machine's cache.
    """
    stage = FILES[FILES.index(" AS builder") : FILES.index("FROM base\n")]
    made = ImageEnvironment(directory / "image")
    made.directory.mkdir(parents=True)
    here = {
        INSIDE: str(made.directory),
        SOURCE: str(directory / "source"),
        "pip install --no-cache-dir": f"{_uv()} pip install --quiet --python .venv",
        "pip uninstall --yes pip": f"{_uv()} pip uninstall --quiet --python .venv pip",
        "python -m venv": f"{sys.executable} -m venv",
    }
    stage = re.sub(r"^#.*\n", "", stage, flags=re.MULTILINE)
    for instruction, text in re.findall(r"^(COPY|RUN) ((?:.*\\\n)*.*)$", stage, re.MULTILINE):
        for there, place in here.items():
            text = text.replace(there, place)
        if instruction == "COPY":
            *sources, target = text.split()
            _copy(sources, made.directory / target)
            continue
        environ = {
            **{k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH")},
            **made.variables,
        }
        done = subprocess.run(
            ["bash", "-ec", text], cwd=made.directory, env=environ, text=True, umask=0o077,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{text}\n{done.stdout}"
    return made


def _uv() -> Path:
    return Path(sys.executable).with_name("uv")


def _copy(sources: list[str], target: Path) -> None:
    """Copy files into a directory, or a directory's content into one of another name."""
    for source in map(PROJECT.joinpath, sources):
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(source, target, ignore=ignored)
        else:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    for path in (target, *target.rglob("*")):
        path.chmod(path.stat().st_mode & 0o700)
