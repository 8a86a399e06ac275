"""Somebody's own Airflow: an environment with the wheel of a clean clone, and its processes.

Nothing of the checkout is in their environment or among their files. Only the database's server is
of the tests' environment.
"""

import base64
import contextlib
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import psutil

from support import matrix
from support.matrix import AirflowRow
from support.process_list import descendants
from tidegate.launch import jars
from tidegate_local import airflow, health, postgres, processes, proxies
from tidegate_local.airflow_api import AirflowApi
from tidegate_local.ports import free_port

PROJECT = Path(__file__).parents[2]
CHECKOUT = tuple({str(PROJECT), sys.prefix, str(Path(sys.prefix).resolve())})
"""What no process of that Airflow may know: the project, and the environment of the tests."""
OF_THE_USER = ("psycopg2-binary", "asyncpg")
"""What an Airflow on Postgres needs beside Airflow."""
_FOREIGN = ("AIRFLOW", "TIDEGATE_", "SPARK_", "PYSPARK_", "PYTHON", "VIRTUAL_ENV", "AWS_")
_OF_MAKE = ("MAKE", "MFLAGS")


def names_checkout(text: str) -> list[str]:
    """Return the places of the checkout that a text names, alone or with something below them."""
    return [place for place in CHECKOUT if re.search(rf"{re.escape(place)}(?![\w.-])", text)]


def environ(**more: str) -> dict[str, str]:
    """Return this process's variables without those of a Python, an Airflow, a Spark or a lake.

    No value has a path of the checkout.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith(_FOREIGN + _OF_MAKE)}
    path = [each for each in kept["PATH"].split(os.pathsep) if not names_checkout(each)]
    kept = {k: v for k, v in kept.items() if not names_checkout(v)}
    return {**kept, "PATH": os.pathsep.join(path), **more}


@dataclass(frozen=True)
class Wheel:
    """The wheel of a clean clone that is gone, and the constraints beside it."""

    file: Path
    constraints: Path


def build_wheel(directory: Path) -> Wheel:
    """Clone what is committed, and run `make dist` in the clone; delete the clone."""
    clone = directory / "clone"
    _run("git", "clone", "--quiet", PROJECT, clone, env=environ())
    _run("make", "dist", cwd=clone, env=environ())
    (wheel,) = (clone / "dist").iterdir()
    shutil.copytree(clone / "docs/constraints", directory / "constraints")
    kept = Path(shutil.move(wheel, directory))
    shutil.rmtree(clone)
    return Wheel(kept, directory / "constraints")


def install(wheel: Wheel, row: AirflowRow, directory: Path) -> Path:
    """Install the wheel into an empty environment; return its Python. Raises matrix.Missing."""
    uv, own = Path(sys.executable).with_name("uv"), matrix.venv(directory, row.python)
    limits = wheel.constraints / f"airflow-{row.airflow}.txt"
    _run(
        uv, "pip", "install", "--quiet", "--python", own, f"{wheel.file}[airflow,spark]",
        "--constraint", limits, *OF_THE_USER, env=environ(),
    )  # fmt: skip
    _run(uv, "pip", "check", "--python", own, env=environ())
    return own


def versions(python: Path) -> dict[str, str]:
    """Return what an environment has, as the table of versions names it."""
    (site,) = python.parents[1].glob("lib/python3*/site-packages")
    has = {each.name: each.version for each in distributions(path=[str(site)])}
    made_of = (python.parents[1] / "pyvenv.cfg").read_text()
    release = (jars.find_java().resolve().parents[1] / "release").read_text()
    found = {
        "airflow": has["apache-airflow"],
        "provider": has["apache-airflow-providers-apache-spark"],
        "spark": has["pyspark"],
    }
    for name, pattern, text in (
        ("python", r"^version_info = (.*)", made_of),
        ("java", r'^JAVA_VERSION="(.*)"', release),
    ):
        (found[name],) = re.findall(pattern, text, re.M)
    return found


@dataclass
class OwnAirflow:
    """The processes of an Airflow, in an environment of its own, with a home of its own."""

    home: Path
    python: Path
    settings: Mapping[str, str]
    """More variables of its processes: what the user sets."""
    password: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    port: int = field(default_factory=free_port)

    @property
    def api(self) -> AirflowApi:
        return AirflowApi(f"http://127.0.0.1:{self.port}", user="admin", password=self.password)

    def up(self, expected: Sequence[str]) -> None:
        """Start it as its administrator would; wait until it has the DAGs that are expected."""
        database = postgres.start(self.home / "database")
        own, url = self.home / "airflow", f"http://127.0.0.1:{self.port}"
        own.mkdir(exist_ok=True)
        (own / "passwords.json").write_text(json.dumps({"admin": self.password}))
        sections = {
            "core": {
                "load_examples": "False",
                "fernet_key": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
                "execution_api_server_url": f"{url}/execution/",
                "simple_auth_manager_users": "admin:admin",
                "simple_auth_manager_passwords_file": str(own / "passwords.json"),
                "parallelism": "2",
            },
            "database": {
                "sql_alchemy_conn": database.url("psycopg2"),
                "sql_alchemy_conn_async": database.url("asyncpg"),
            },
            "api": {"host": "127.0.0.1", "port": str(self.port), "base_url": url, "workers": "1"},
            "api_auth": {"jwt_secret": secrets.token_hex(32)},
        }
        self._env = environ(
            HOME=str(self.home),
            AIRFLOW_HOME=str(own),
            **{
                f"AIRFLOW__{section}__{option}".upper(): value
                for section, options in sections.items()
                for option, value in options.items()
            },
            **proxies.without_loopback(),
        )
        self._env |= self.settings
        self.airflow("db", "migrate")
        since = datetime.now(UTC)
        for name, argv in airflow.SERVICES.items():
            env = airflow._marked(self._env, name, self.home)
            command = [self.bin / "airflow", *argv]
            processes.start(name, command, home=self.home, env=env, cwd=self.home)
        started = list(airflow.SERVICES)
        health.wait(self.api, self.home, started=started, since=since, expected=expected)

    def close(self) -> None:
        for name in airflow.SERVICES:
            airflow.stop(name, self.home)
        postgres.stop(self.home / "database")

    @property
    def bin(self) -> Path:
        return self.python.parent

    def airflow(self, *args: str) -> str:
        """Run a command of that Airflow in its home; return what it prints."""
        return _run(self.bin / "airflow", *args, env=self._env, cwd=self.home)

    def tidegate(self, *args: str) -> str:
        """Run a command of the wheel's there; return what it prints."""
        return _run(self.bin / "tidegate", *args, env=self._env, cwd=self.home)

    def processes(self) -> dict[int, str]:
        """Return of each process of that Airflow what Linux tells about it, by its id.

        Command line, environment, working directory, open files and mapped files, as one text.
        """
        services = [processes.find(name, home=self.home) for name in airflow.SERVICES]
        roots = [each.pid for each in services if each]
        assert len(roots) == len(services), "a service has ended"
        return {
            pid: text
            for root in roots
            for pid in (root, *descendants(root))
            if (text := _told_of(pid))
        }


def run_of(api: AirflowApi, dag_id: str, run_id: str, **conf: Any) -> dict[str, str]:
    """Run a DAG to its success; return the states of its tasks."""
    api.trigger(dag_id, run_id, conf=conf)
    api.unpause(dag_id)
    run = api.wait(dag_id, run_id, timeout=240)
    states = {task["task_id"]: task["state"] for task in api.tasks(dag_id, run_id)}
    if run["state"] != "success":
        logs = [line for task in states for line in api.log(dag_id, run_id, task, 1)]
        raise AssertionError(f"{dag_id}: {states}\n" + "\n".join(logs))
    return states


def _told_of(pid: int) -> str:
    """Return nothing for a process that has ended."""
    with contextlib.suppress(psutil.Error, OSError):
        process = psutil.Process(pid)
        variables = [f"{name}={value}" for name, value in process.environ().items()]
        files = [each.path for each in (*process.open_files(), *process.memory_maps())]
        return "\n".join([*process.cmdline(), *variables, process.cwd(), *files])
    return ""


def _run(*command: object, env: Mapping[str, str], cwd: Path | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        env=env, cwd=cwd or Path(env["HOME"]), stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=480, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
