"""Start and stop the local stack: Kafka, Postgres and Airflow on the loopback address.

A stack with its lake in a bucket also has a server of it, and a home of its own. `up` starts what
is not running. Ports, keys and the login are chosen once and kept in the stack's home.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidegate.errors import ConfigurationError, TidegateError
from tidegate.launch import file_lock, jars
from tidegate.pipelines import pipeline_files
from tidegate_local import airflow, buckets, health, kafka, postgres, processes, state_files
from tidegate_local.airflow_api import AirflowApi
from tidegate_local.home import state_file
from tidegate_local.ports import free_port, is_free
from tidegate_local.postgres import Postgres

Say = Callable[[str], None]
_MIN_FREE = 1 << 30  # bytes of disk


class PortTaken(TidegateError):
    """A port that was given by a variable is in use."""

    exit_code = 2


class NoSpace(TidegateError):
    """The disk of the stack's home is nearly full."""

    exit_code = 2


@dataclass(frozen=True)
class Stack:
    """The addresses of the stack. Stored as `stack.json` in its home."""

    kafka: str
    airflow: str
    lake: str
    environment: str = ""
    """Hash of the settings with which Airflow's processes were started."""
    store: str = ""
    """The name of the kind of its buckets. Empty: the lake is a directory."""

    def api(self, home: Path) -> AirflowApi:
        return AirflowApi(self.airflow, user=airflow.USER, password=airflow.password(home))


def environment(home: Path) -> dict[str, str]:
    """Return the variables with which a terminal uses the stack of a home. None without a stack."""
    stack = read(home)
    if stack is None:
        return {}
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": stack.kafka}}
    return {"AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(connection), "TIDEGATE_LAKE": stack.lake}


def use_store(home: Path) -> None:
    """Set the variables of the stack's store in this process, in the place of those of another."""
    stack = read(home)
    if stack and (server := buckets.find(home, stack.store)):
        for name in [n for n in os.environ if n.startswith(buckets.KINDS[stack.store].variables)]:
            del os.environ[name]
        os.environ.update(server.environment)


def up(
    home: Path,
    *,
    say: Say,
    dags: Path = airflow.DAGS,
    expected: Collection[str] | None = None,
    store: str = "",
) -> Stack:
    """Start or restart what is not healthy. Return once the whole stack is.

    `expected` names the DAGs to wait for, by default those of all pipeline files. `store` puts
    the lake into a bucket of this kind, and is kept.
    """
    began = time.monotonic()
    home = home.resolve()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(home, say):
        _check_prerequisites(home)
        kept = read(home)
        if store and kept and kept.store != store:
            raise ConfigurationError(
                f"the stack in {home} has its lake in {kept.lake}: unset TIDEGATE_HOME, or name"
                " another directory"
            )
        server = None
        store = store or (kept.store if kept else "")
        if store:
            with _step(say, store, quiet=buckets.find(home, store) is not None):
                server = buckets.KINDS[store].start(home / store)
        stack = _choose(home, store)
        with ThreadPoolExecutor() as pool:
            broker = pool.submit(_start_kafka, home, stack, say)
            stack, started, since = _start_airflow(home, stack, dags, server, say)
            anything = broker.result() or bool(started)
        if expected is None:
            expected = [f"tidegate__{name}" for name in pipeline_files.pipeline_names()]
        health.wait(stack.api(home), home, started=started, since=since, expected=expected)
    seconds = f"{time.monotonic() - began:.1f} s"
    say(
        f"the stack is {'up' if anything else 'already up'} ({seconds}): Kafka {stack.kafka},"
        f" Airflow {stack.airflow}, DAGs {', '.join(sorted(expected))}"
    )
    return stack


def down(home: Path, *, say: Say = lambda _: None) -> bool:
    """End what `up` started, running tasks and their Spark included. False if nothing ran."""
    home = home.resolve()
    if not home.is_dir():
        return False
    with _locked(home, say), ThreadPoolExecutor() as pool:
        servers = [pool.submit(kafka.stop, home / "kafka")]
        servers += [pool.submit(kind.stop, home / name) for name, kind in buckets.KINDS.items()]
        services = [pool.submit(airflow.stop, name, home) for name in airflow.SERVICES]
        ended = [service.result() for service in services]
        ended += [airflow.sweep("migrate", home), postgres.stop(home)]
        ended += [server.result() for server in servers]
    return any(ended)


def status(home: Path) -> dict[str, Any]:
    """Return the services, addresses and DAGs. Takes no lock and changes nothing."""
    home = home.resolve()
    stack = read(home)
    database, broker = postgres.running(home), kafka.find(home / "kafka")
    store = stack.store if stack else ""
    server = buckets.find(home, store)
    found = {
        "kafka": broker,
        "postgres": database,
        **{name: processes.find(name, home=home) for name in airflow.SERVICES},
        **({store: server} if store else {}),
    }
    pids = {name: process.pid if process else None for name, process in found.items()}
    healthy = dict.fromkeys(pids, False)
    healthy["kafka"] = broker is not None and not is_free(_port_of(broker.bootstrap))
    healthy["postgres"] = database is not None
    if store:
        healthy[store] = server is not None and not is_free(_port_of(server.endpoint))
    dags: list[str] = []
    if stack and pids["api-server"]:
        with suppress(TidegateError):
            api = stack.api(home)
            beats = api.heartbeats()
            healthy["api-server"] = True
            healthy |= {name: name in beats and bool(pids[name]) for name in health.BEATING}
            dags = sorted(api.dags())
    return {
        "format": 1,
        "home": str(home),
        "up": all(healthy.values()),
        "services": {
            name: {"pid": pid, "healthy": healthy[name], "log": str(_log(home, name))}
            for name, pid in pids.items()
        },
        "kafka": stack and stack.kafka,
        "airflow": stack and stack.airflow,
        "user": airflow.USER,
        "lake": stack and stack.lake,
        "dags": dags,
        "logs": str(home / "logs"),
    }


def _check_prerequisites(home: Path) -> None:
    """Raise for a missing Java, missing jars and a full disk before anything starts."""
    jars.find_java()
    for lock in jars.lock_names():
        jars.lock_paths(lock)
    if (free := shutil.disk_usage(home).free) < _MIN_FREE:
        raise NoSpace(f"{home}: {free >> 20} MB are free, {_MIN_FREE >> 20} are needed", free=free)


def _choose(home: Path, store: str) -> Stack:
    """Choose addresses: those of variables, else those that were kept, else free ones."""
    kept = read(home)
    broker = kafka.find(home / "kafka")
    api_server = processes.find("api-server", home=home)
    kafka_port = _port(
        "TIDEGATE_KAFKA_PORT",
        kept=_port_of(kept.kafka) if kept else None,
        used=_port_of(broker.bootstrap) if broker else None,
    )
    airflow_port = _port(
        "TIDEGATE_AIRFLOW_PORT",
        kept=_port_of(kept.airflow) if kept else None,
        used=_port_of(kept.airflow) if kept and api_server else None,
    )
    lake = os.environ.get("TIDEGATE_LAKE") or str(home / "lake")
    if store:
        lake = buckets.KINDS[store].lake
    stack = Stack(
        kafka=f"127.0.0.1:{kafka_port}",
        airflow=f"http://127.0.0.1:{airflow_port}",
        lake=lake if "://" in lake else str(Path(lake).resolve()),
        environment=kept.environment if kept else "",
        store=store,
    )
    _write(home, stack)
    return stack


def _port(variable: str, *, kept: int | None, used: int | None) -> int:
    """Choose a port. `used` is the one on which the stack's own server listens now."""
    if named := os.environ.get(variable):
        if not named.isdigit() or not 0 < int(named) < 65536:
            raise ConfigurationError(f"{variable}={named}: a port is a number from 1 to 65535")
        if int(named) != used and not is_free(int(named)):
            raise PortTaken(
                f"{variable}={named}: something else listens on 127.0.0.1:{named};"
                f" end it, or unset {variable} and a free port is found",
                port=int(named),
            )
        return int(named)
    if used is not None:
        return used
    return kept if kept is not None and is_free(kept) else free_port()


def _start_kafka(home: Path, stack: Stack, say: Say) -> bool:
    running = kafka.find(home / "kafka")
    if running and running.bootstrap != stack.kafka:
        kafka.stop(home / "kafka")
        running = None
    with _step(say, f"Kafka at {stack.kafka}", quiet=running is not None):
        kafka.start(home / "kafka", port=_port_of(stack.kafka))
    return running is None


def _start_airflow(
    home: Path, stack: Stack, dags: Path, server: buckets.Server | None, say: Say
) -> tuple[Stack, list[str], datetime]:
    """Start Postgres and the missing processes of Airflow. Return which, and since when."""
    database = postgres.running(home)
    if database is None:
        for name in airflow.SERVICES:  # their connections are closed
            airflow.stop(name, home)
        with _step(say, "Postgres"):
            database = postgres.start(home)
    env = airflow.environment(
        home,
        database=database,
        bootstrap=stack.kafka,
        port=_port_of(stack.airflow),
        lake=stack.lake,
        store_variables=server.environment if server else {},
        dags=dags,
    )
    _migrate(home, database, env, say)
    stack_now = replace(stack, environment=airflow.fingerprint(env))
    running = [name for name in airflow.SERVICES if processes.find(name, home=home)]
    if running and stack_now != stack:
        say("the settings have changed: Airflow is started again")
        for name in running:
            airflow.stop(name, home)
        running = []
    _write(home, stack_now)
    airflow.password(home)
    since = datetime.now(UTC)
    started = [name for name in airflow.SERVICES if name not in running]
    if started:
        say(f"starting {', '.join(started)}")
    for name in started:
        airflow.start(name, home, database=database, env=env)
    return stack_now, started, since


def _migrate(home: Path, database: Postgres, env: dict[str, str], say: Say) -> None:
    if airflow.migrated(database):
        return
    for name in airflow.SERVICES:
        airflow.stop(name, home)
    with _step(say, f"tables of Airflow {airflow.VERSION}"):
        airflow.migrate(home, database=database, env=env)


def _log(home: Path, name: str) -> Path:
    return (home / name if name in ("kafka", *buckets.KINDS) else home) / "logs" / f"{name}.log"


def _port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def read(home: Path) -> Stack | None:
    content = state_files.read(state_file(home))
    if content is None:
        return None
    return Stack(**{key: value for key, value in content.items() if key != "format"})


def _write(home: Path, stack: Stack) -> None:
    state_files.write(state_file(home), {"format": 1, **asdict(stack)})


def _locked(home: Path, say: Say) -> AbstractContextManager[None]:
    wait = "waiting for another `tidegate local up` or `down` to end"
    return file_lock.hold_lock(home / "lock", lambda: say(wait))


@contextmanager
def _step(say: Say, what: str, *, quiet: bool = False) -> Iterator[None]:
    began = time.monotonic()
    yield
    if not quiet:
        say(f"{what} ({time.monotonic() - began:.1f} s)")
