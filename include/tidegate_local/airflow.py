"""Run Airflow on the local stack: its settings, its three processes, its database's schema."""

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
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from tidegate.errors import Transient
from tidegate_local import postgres, processes, proxies, state_files
from tidegate_local.postgres import Postgres

PROJECT = Path(__file__).resolve().parents[2]
USER = "admin"
VERSION = version("apache-airflow")
SERVICES: Mapping[str, tuple[str, ...]] = {
    "api-server": ("api-server",),
    # Without --skip-serve-logs a log server would listen on every address of the machine.
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
}
_MARK = "TIDEGATE_STACK"
_OURS = ("AIRFLOW_", "TIDEGATE_", "PYSPARK_", "AWS_")
_log = logging.getLogger(__name__)


class AirflowFailed(Transient):
    """Airflow's database or one of its processes did not come up; the log is named."""


def environment(
    home: Path,
    *,
    database: Postgres,
    bootstrap: str,
    port: int,
    lake: str,
    s3: Mapping[str, str] | None = None,
    dags: Path = PROJECT / "dags",
    plugins: Path = PROJECT / "plugins",
) -> dict[str, str]:
    """Return all that Airflow's processes and tasks find in their environment.

    The caller's own is passed on, except what would lead to another Airflow, another Spark or,
    where `s3` says where that is, another S3.
    """
    foreign = (
        *("AIRFLOW__", "AIRFLOW_HOME", "AIRFLOW_CONFIG", "SPARK_HOME", "SPARK_CONF_DIR"),
        *("TIDEGATE_AIRFLOW_PORT", "TIDEGATE_KAFKA_PORT", _MARK),
        *(("AWS_",) if s3 else ()),
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
            "hostname_callable": "socket.gethostname",  # the default asks the DNS
            "simple_auth_manager_users": f"{USER}:admin",
            "simple_auth_manager_passwords_file": str(_password_file(home)),
            "execution_api_server_url": f"{url}/execution/",
        },
        "database": {
            "sql_alchemy_conn": database.url("psycopg2"),
            "sql_alchemy_conn_async": database.url("asyncpg"),
            "check_migrations": "False",  # `migrate` has just seen to it
        },
        "api": {"host": "127.0.0.1", "port": str(port), "base_url": url, "workers": "1"},
        "api_auth": {"jwt_secret": keys["jwt"]},
        "scheduler": {
            "scheduler_idle_sleep_time": "0.2",
            "task_instance_heartbeat_timeout": "60",
        },
        # On a machine that is all busy starting up, 5 s, the default, fails the tasks taken back.
        "workers": {"execution_api_timeout": "60"},
        "dag_processor": {
            "refresh_interval": "5",
            "min_file_process_interval": "10",
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
        **(s3 or {}),
        "PYSPARK_PYTHON": sys.executable,
        "PATH": os.pathsep.join([str(_bin()), inherited.get("PATH", os.defpath)]),
        **proxies.without_loopback(inherited),
    }


def fingerprint(env: Mapping[str, str]) -> str:
    """Return what tells whether running processes have these settings; it reveals none."""
    ours = {k: v for k, v in env.items() if k.startswith(_OURS)}
    return sha256(json.dumps([VERSION, ours], sort_keys=True).encode()).hexdigest()


def logs(home: Path) -> Path:
    """Return where the logs of tasks and DAG files are."""
    return home / "logs" / "airflow"


def password(home: Path) -> str:
    """Return the password of `USER`, made once and kept."""
    file = _password_file(home)
    with suppress(FileNotFoundError):
        return str(json.loads(file.read_text())[USER])
    state_files.write(file, {USER: secrets.token_urlsafe(12)})
    return password(home)


def migrated(database: Postgres) -> bool:
    """Tell whether the database has the schema of the installed Airflow."""
    return _stamp(database) == VERSION


def migrate(home: Path, *, database: Postgres, env: Mapping[str, str]) -> None:
    """Bring the database to the schema of the installed Airflow.

    The stamp lives in the database, so it goes where the tables go. A database without one was
    left half-made: it is made again, which Airflow's own migration could not do.
    """
    sweep("migrate", home)
    if not _stamp(database):
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
    """Start one of `SERVICES`, after ending what a killed one has left running."""
    sweep(name, home)
    if name == "scheduler":
        # It is dead: say so, and the new one takes back its tasks at once instead of waiting
        # until its heartbeat has grown old.
        database.sql(
            "UPDATE job SET state = 'failed' WHERE job_type = 'SchedulerJob' AND state = 'running'"
        )
    argv = [str(_bin() / "airflow"), *SERVICES[name]]
    processes.start(name, argv, home=home, env=_marked(env, name, home), cwd=home)


def stop(name: str, home: Path) -> bool:
    """End one of `SERVICES` with its tasks and what those have started.

    A scheduler that is asked nicely waits for its tasks as long as they like, and a task that is
    asked nicely reports that it failed. Killed, it is still running for Airflow, and the next
    scheduler lets it run again.
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
    """Kill every process that carries the mark of a service which itself is gone.

    Tasks have sessions of their own, and a killed scheduler leaves them without a parent: only
    what they inherit in their environment still tells whose they are.
    """
    mark = f"{_MARK}={_mark(name, home)}".encode()
    found = False
    while pids := [pid for pid in _pids() if _kill_if_marked(pid, mark)]:
        found = True
        _log.debug("killed %s, left behind by %s", pids, name)
        time.sleep(0.02)
    return found


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _kill_if_marked(pid: int, mark: bytes) -> bool:
    try:
        handle = os.pidfd_open(pid)  # before the look: the pid may get another owner
    except ProcessLookupError:
        return False
    try:
        if mark not in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    except OSError:  # gone, or not ours to look at
        return False
    finally:
        os.close(handle)
    return True


def _marked(env: Mapping[str, str], name: str, home: Path) -> dict[str, str]:
    # Airflow names its processes, by default in the place where the kernel shows the environment.
    return {**env, _MARK: _mark(name, home), "SPT_NOENV": "1"}


def _mark(name: str, home: Path) -> str:
    return f"{name}@{home}"


def _stamp(database: Postgres) -> str:
    return database.sql(
        "SELECT shobj_description(oid, 'pg_database') FROM pg_database"
        f" WHERE datname = '{postgres.DATABASE}'"
    )


def _bin() -> Path:
    return Path(sys.executable).parent


def _password_file(home: Path) -> Path:
    return home / "airflow" / "passwords.json"


def _keys(home: Path) -> dict[str, str]:
    """Return the keys that sign tokens and encrypt connections, made once and kept."""
    file = home / "airflow" / "keys.json"
    with suppress(FileNotFoundError):
        keys: dict[str, str] = json.loads(file.read_text())
        return keys
    fernet = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
    state_files.write(file, {"fernet": fernet, "jwt": secrets.token_hex(32)})
    return _keys(home)
