"""Run Airflow on the local stack: its settings, its three processes, the schema of its database."""

from __future__ import annotations

import base64
import json
import logging
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import psutil

import tidegate
from tidegate.errors import Transient
from tidegate_local import buckets, postgres, processes, proxies, state_files
from tidegate_local.home import IS_CHECKOUT, PROJECT
from tidegate_local.postgres import Postgres

DAGS = PROJECT / "dags" if IS_CHECKOUT else Path(tidegate.__file__).parent / "airflow/dag_files"
USER = "admin"
VERSION = version("apache-airflow")
SERVICES: Mapping[str, tuple[str, ...]] = {
    "api-server": ("api-server",),
    # Without --skip-serve-logs a log server would listen on every address of the machine.
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
}
_MARK = "TIDEGATE_STACK"
_STORES = tuple(kind.variables for kind in buckets.KINDS.values())
_OURS = ("AIRFLOW_", "TIDEGATE_", "PYSPARK_", "JAVA_HOME", *_STORES)
_log = logging.getLogger(__name__)


class AirflowFailed(Transient):
    """Airflow's database or one of its processes did not start. The message names the log."""


def environment(
    home: Path,
    *,
    database: Postgres,
    bootstrap: str,
    port: int,
    lake: str,
    store_variables: Mapping[str, str] | None = None,
    dags: Path = DAGS,
    plugins: Path = PROJECT / "plugins",
) -> dict[str, str]:
    """Return the environment of Airflow's processes and tasks.

    It has the caller's variables, except those of another Airflow, another Spark or, if
    `store_variables` has those of the stack's own, another store.
    """
    foreign = (
        *("AIRFLOW__", "AIRFLOW_HOME", "AIRFLOW_CONFIG", "SPARK_HOME", "SPARK_CONF_DIR"),
        *("TIDEGATE_AIRFLOW_PORT", "TIDEGATE_KAFKA_PORT", _MARK),
        *(_STORES if store_variables else ()),
    )
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
    keys = _keys(home)
    url = f"http://127.0.0.1:{port}"
    settings = {
        "core": {
            "executor": "LocalExecutor",
            "parallelism": "2",
            "load_examples": "False",
            "dags_folder": str(dags),
            "plugins_folder": str(plugins),
            "fernet_key": keys["fernet"],
            "sensitive_var_conn_names": "ssl_key_pem",
            "hostname_callable": "socket.gethostname",  # the default asks the DNS
            "simple_auth_manager_users": f"{USER}:admin",
            "simple_auth_manager_passwords_file": str(_password_file(home)),
            "execution_api_server_url": f"{url}/execution/",
        },
        "database": {
            "sql_alchemy_conn": database.url("psycopg2"),
            "sql_alchemy_conn_async": database.url("asyncpg"),
            "check_migrations": "False",  # `migrate` did it
        },
        "api": {"host": "127.0.0.1", "port": str(port), "base_url": url, "workers": "1"},
        "api_auth": {"jwt_secret": keys["jwt"]},
        "scheduler": {
            "scheduler_idle_sleep_time": "0.5",
            "task_instance_heartbeat_timeout": "60",
        },
        # On a machine that is busy starting up, the default, 5 s, fails the adopted tasks.
        "workers": {"execution_api_timeout": "60"},
        "dag_processor": {
            "refresh_interval": "5",
            "parsing_processes": "1",
            "dag_bundle_storage_path": str(home / "airflow" / "bundles"),  # default: shared /tmp
        },
        "logging": {
            "base_log_folder": str(logs(home)),
            "dag_processor_child_process_log_directory": str(logs(home) / "dags"),
        },
    }
    kafka = {"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap}}
    spark = {"conn_type": "spark", "host": "local[2]"}
    return {
        **inherited,
        **{
            f"AIRFLOW__{section.upper()}__{option.upper()}": value
            for section, options in settings.items()
            for option, value in options.items()
        },
        "AIRFLOW_HOME": str(home / "airflow"),
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(kafka),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(spark),
        "TIDEGATE_HOME": str(home),
        "TIDEGATE_LAKE": lake,
        **(store_variables or {}),
        "PYSPARK_PYTHON": sys.executable,
        "PATH": os.pathsep.join([str(_bin()), inherited.get("PATH", os.defpath)]),
        **proxies.without_loopback(inherited),
    }


def fingerprint(env: Mapping[str, str]) -> str:
    """Return a hash of the settings, by which running processes are compared with them."""
    ours = {k: v for k, v in env.items() if k.startswith(_OURS)}
    return sha256(json.dumps([VERSION, ours], sort_keys=True).encode()).hexdigest()


def logs(home: Path) -> Path:
    """Return the directory of the logs of tasks and DAG files."""
    return home / "logs" / "airflow"


def password(home: Path) -> str:
    """Return the password of `USER`, created once."""
    return str(_kept(_password_file(home), lambda: {USER: secrets.token_urlsafe(12)})[USER])


def migrated(database: Postgres) -> bool:
    """Return whether the database has the schema of the installed Airflow."""
    return _schema_version(database) == VERSION


def migrate(home: Path, *, database: Postgres, env: Mapping[str, str]) -> None:
    """Migrate the database to the schema of the installed Airflow.

    The version is stored in the database, with the tables. A database without one is unfinished and
    created again, since Airflow's own migration could not continue it.
    """
    sweep("migrate", home)
    if not _schema_version(database):
        postgres.recreate(database)
    log = home / "logs" / "migrate.log"
    with log.open("ab") as output:
        done = subprocess.run(
            [_bin() / "airflow", "db", "migrate"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=_marked(env, "migrate", home),
            check=False,
        )
    if done.returncode:
        raise AirflowFailed(f"airflow db migrate ended with {done.returncode}: see {log}")
    database.sql(f"COMMENT ON DATABASE {postgres.DATABASE} IS '{VERSION}'")


def start(name: str, home: Path, *, database: Postgres, env: Mapping[str, str]) -> None:
    """Start one of `SERVICES`, after killing the orphans of a killed one."""
    sweep(name, home)
    if name == "scheduler":
        # Mark the dead one: then the new one adopts its tasks at once, instead of waiting for a
        # heartbeat to time out.
        database.sql(
            "UPDATE job SET state = 'failed' WHERE job_type = 'SchedulerJob' AND state = 'running'"
        )
    argv = [str(_bin() / "airflow"), *SERVICES[name]]
    processes.start(name, argv, home=home, env=_marked(env, name, home), cwd=home)


def stop(name: str, home: Path) -> bool:
    """End one of `SERVICES` with its tasks and their descendants.

    After SIGTERM a scheduler waits for its tasks without limit, and a task reports that it failed.
    A killed task is still running for Airflow, and the next scheduler runs it again.
    """
    process = processes.find(name, home=home)
    deadline = time.monotonic() + 3.0
    if process is not None:
        processes.send(process, signal.SIGTERM)
    while processes.find(name, home=home) and time.monotonic() < deadline:
        time.sleep(0.02)
    left = sweep(name, home)
    processes.stop(name, home=home)
    return left or process is not None


def sweep(name: str, home: Path) -> bool:
    """Kill every process that carries the mark of a service which is itself gone.

    Tasks have sessions of their own, and a killed scheduler leaves them without a parent: only
    the environment that they inherit still shows where they belong.
    """
    found = False
    while pids := [pid for pid in psutil.pids() if _kill_if_marked(pid, _mark(name, home))]:
        found = True
        _log.debug("killed %s, left behind by %s", pids, name)
        time.sleep(0.02)
    return found


def _kill_if_marked(pid: int, mark: str) -> bool:
    try:
        return processes.send_if(
            pid, signal.SIGKILL, lambda: psutil.Process(pid).environ().get(_MARK) == mark
        )
    except (psutil.Error, OSError):  # gone, or another user's
        return False


def _marked(env: Mapping[str, str], name: str, home: Path) -> dict[str, str]:
    # By default Airflow overwrites the environment that the kernel shows with its process title.
    return {**env, _MARK: _mark(name, home), "SPT_NOENV": "1"}


def _mark(name: str, home: Path) -> str:
    return f"{name}@{home}"


def _schema_version(database: Postgres) -> str:
    return database.sql(
        "SELECT shobj_description(oid, 'pg_database') FROM pg_database"
        f" WHERE datname = '{postgres.DATABASE}'"
    )


def _bin() -> Path:
    return Path(sys.executable).parent


def _password_file(home: Path) -> Path:
    return home / "airflow" / "passwords.json"


def _keys(home: Path) -> dict[str, str]:
    """Return the keys that sign tokens and encrypt connections, created once."""
    return _kept(
        home / "airflow" / "keys.json",
        lambda: {
            "fernet": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            "jwt": secrets.token_hex(32),
        },
    )


def _kept(file: Path, create: Callable[[], dict[str, str]]) -> dict[str, str]:
    """Return a JSON document, created if it is missing."""
    if not file.exists():
        state_files.write(file, create())
    return state_files.read(file) or {}
